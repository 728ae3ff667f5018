/* SPDX-License-Identifier: MIT */
#include "runtime/cpu/cpu_module.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/cpu/cpu_file.h"

struct ftj_cpu_module {
    void *library;
    const ftj_cpu_entry *entry;
    int file; /* open as long as the library is: its number is the library's name */
};

/* The loader trusts an image to be whole, and faults where a segment lies past the end of its file:
 * the one damage that must be found before. The rest is the cache's checksum to find. */
static bool is_whole(const struct ftj_bytes *code)
{
    ElfW(Ehdr) header;
    if (code->size < sizeof(header))
        return false;
    memcpy(&header, code->data, sizeof(header));
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) || header.e_phentsize != sizeof(ElfW(Phdr)) ||
        header.e_phoff > code->size ||
        (code->size - header.e_phoff) / sizeof(ElfW(Phdr)) < header.e_phnum)
        return false;
    for (unsigned i = 0; i < header.e_phnum; i++) {
        ElfW(Phdr) segment;
        memcpy(&segment, code->data + header.e_phoff + i * sizeof(segment), sizeof(segment));
        if (segment.p_offset > code->size || segment.p_filesz > code->size - segment.p_offset)
            return false;
    }
    return true;
}

/* The loader knows libraries by name, and would hand out one that was never unloaded: take numbers
 * until there is one that names nothing. */
static bool take_fresh_name(int *file, char *path, size_t size)
{
    for (;;) {
        snprintf(path, size, "/proc/self/fd/%d", *file);
        void *other = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
        if (!other)
            return true;
        dlclose(other);
        const int next = fcntl(*file, F_DUPFD_CLOEXEC, *file + 1);
        if (next < 0)
            return false;
        close(*file);
        *file = next;
    }
}

static ftj_status load(struct ftj_cpu_module *module, const struct ftj_log *log)
{
    char path[64];
    if (!take_fresh_name(&module->file, path, sizeof(path)))
        return ftj_fail(log, FTJ_E_IO, "no file number is left to load a kernel from");

    module->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!module->library) {
        const char *why = dlerror();
        return ftj_fail(log, FTJ_E_DAMAGED, "the loader refused a kernel's shared object: %s",
                        why ? why : "no reason given");
    }
    module->entry = dlsym(module->library, FTJ_CPU_SYMBOL);
    if (!module->entry) {
        return ftj_fail(log, FTJ_E_DAMAGED, "a kernel's shared object lacks the symbol %s",
                        FTJ_CPU_SYMBOL);
    }
    if (module->entry->abi != FTJ_CPU_ABI) {
        return ftj_fail(log, FTJ_E_DAMAGED,
                        "a kernel's shared object is of version %u; this library runs version %u",
                        module->entry->abi, FTJ_CPU_ABI);
    }
    return FTJ_OK;
}

ftj_status ftj_cpu_module_create(const struct ftj_bytes *code, const struct ftj_log *log,
                                 struct ftj_cpu_module **out)
{
    if (!is_whole(code)) {
        return ftj_fail(log, FTJ_E_DAMAGED, "%zu bytes of code are no whole shared object",
                        code->size);
    }
    struct ftj_cpu_module *module = calloc(1, sizeof(*module));
    if (!module)
        return ftj_fail(log, FTJ_E_NO_MEMORY, "no memory for a kernel");

    ftj_status status = FTJ_OK;
    module->file = ftj_cpu_file_open();
    if (module->file < 0 || !ftj_cpu_file_write(module->file, code->data, code->size)) {
        status =
            ftj_fail(log, FTJ_E_IO, "a kernel of %zu bytes cannot be put in a file to load: %s",
                     code->size, strerror(errno));
        goto cleanup;
    }
    status = load(module, log);

cleanup:
    if (status)
        ftj_cpu_module_destroy(module);
    else
        *out = module;
    return status;
}

void ftj_cpu_module_destroy(struct ftj_cpu_module *module)
{
    if (!module)
        return;
    if (module->library)
        dlclose(module->library);
    if (module->file >= 0)
        close(module->file);
    free(module);
}

const ftj_cpu_entry *ftj_cpu_module_entry(const struct ftj_cpu_module *module)
{
    return module->entry;
}
