/* SPDX-License-Identifier: MIT */
#include "codegen/elf_image.h"

#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define MACHINE_CUDA        190
#define OSABI_CUDA_V2       65 /* from CUDA 13 on: e_flags holds the SM number one byte further up */
#define MAX_PROGRAM_HEADERS 64
#define MAX_NOTES_BYTES     4096
#define MAX_BUILD_ID        32

static size_t round_up_4(size_t value)
{
    return (value + 3) & ~(size_t)3;
}

/* Walk one segment of notes. Each is a header, a name and a description, padded to 4 bytes. */
static bool find_build_id(const unsigned char *notes, size_t bytes, char *hex, size_t size)
{
    Elf64_Nhdr note;
    for (size_t at = 0; at + sizeof(note) <= bytes;) {
        memcpy(&note, notes + at, sizeof(note));
        const size_t name = at + sizeof(note);
        const size_t id = name + round_up_4(note.n_namesz);
        const size_t next = id + round_up_4(note.n_descsz);
        if (note.n_namesz > bytes || note.n_descsz > bytes || next > bytes)
            return false;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
            memcmp(notes + name, "GNU", 4) == 0) {
            if (note.n_descsz == 0 || note.n_descsz > MAX_BUILD_ID || size <= 2 * note.n_descsz)
                return false;
            for (size_t i = 0; i < note.n_descsz; i++)
                snprintf(hex + 2 * i, size - 2 * i, "%02x", notes[id + i]);
            return true;
        }
        at = next;
    }
    return false;
}

static bool read_at(FILE *file, uint64_t offset, void *data, size_t bytes)
{
    return offset <= INT64_MAX / 2 && fseek(file, (long)offset, SEEK_SET) == 0 &&
           fread(data, 1, bytes, file) == bytes;
}

bool ftj_elf_build_id(const char *path, char *hex, size_t size)
{
    FILE *file = fopen(path, "rbe");
    if (!file)
        return false;
    bool found = false;
    Elf64_Ehdr header;
    if (!read_at(file, 0, &header, sizeof(header)) ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_phentsize != sizeof(Elf64_Phdr))
        goto cleanup;

    for (unsigned int i = 0; i < header.e_phnum && i < MAX_PROGRAM_HEADERS && !found; i++) {
        Elf64_Phdr segment;
        unsigned char notes[MAX_NOTES_BYTES];
        if (!read_at(file, header.e_phoff + i * sizeof(segment), &segment, sizeof(segment)))
            break;
        if (segment.p_type != PT_NOTE || segment.p_filesz > sizeof(notes))
            continue;
        if (read_at(file, segment.p_offset, notes, segment.p_filesz))
            found = find_build_id(notes, segment.p_filesz, hex, size);
    }

cleanup:
    fclose(file);
    return found;
}

static bool contains(const unsigned char *data, size_t size, const char *symbol)
{
    const size_t length = strlen(symbol) + 1; /* a whole string of a string table */
    for (size_t i = 1; i + length <= size; i++) {
        if (data[i - 1] == 0 && memcmp(data + i, symbol, length) == 0)
            return true;
    }
    return false;
}

const char *ftj_elf_cubin_fault(const void *data, size_t size, unsigned int sm, const char *symbol)
{
    Elf64_Ehdr header;
    if (size < sizeof(header))
        return "it is empty or too short";
    memcpy(&header, data, sizeof(header));
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_machine != MACHINE_CUDA)
        return "it is not GPU machine code";
    const unsigned int shift = header.e_ident[EI_OSABI] == OSABI_CUDA_V2 ? 8 : 0;
    if ((header.e_flags >> shift & 0xffu) != sm)
        return "it is for another architecture";
    if (!contains(data, size, symbol))
        return "it does not hold the kernel";
    return NULL;
}
