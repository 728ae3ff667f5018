/* SPDX-License-Identifier: MIT */
/* Making a bundle. All of it is held in memory until it is saved. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/little_endian.h"
#include "cache/bundle.h"
#include "cache/bundle_format.h"
#include "cache/entry_file.h"

struct item {
    uint8_t key[FTJ_RECORD_KEY_BYTES];
    struct ftj_bytes file; /* owned */
};

struct ftj_bundle_writer {
    struct item *items; /* owned */
    size_t count;
    size_t capacity;
};

ftj_status ftj_bundle_writer_create(struct ftj_bundle_writer **out)
{
    struct ftj_bundle_writer *writer = calloc(1, sizeof(*writer));
    if (!writer)
        return ftj_fail(NULL, FTJ_E_NO_MEMORY, "no memory for a bundle");
    *out = writer;
    return FTJ_OK;
}

void ftj_bundle_writer_destroy(struct ftj_bundle_writer *writer)
{
    if (!writer)
        return;
    for (size_t i = 0; i < writer->count; i++)
        ftj_bytes_finish(&writer->items[i].file);
    free(writer->items);
    free(writer);
}

static uint8_t nibble(char digit)
{
    return (uint8_t)(digit >= 'a' ? digit - 'a' + 10 : digit - '0');
}

static void put_binary(uint8_t *at, const char *hex, size_t size)
{
    for (size_t i = 0; i < size; i++)
        at[i] = (uint8_t)(nibble(hex[2 * i]) << 4 | nibble(hex[2 * i + 1]));
}

void ftj_bundle_put_key(uint8_t *at, const char target[16], const char *hex,
                        const char *compiler_hex)
{
    memcpy(at + FTJ_RECORD_AT_TARGET, target, 16);
    put_binary(at + FTJ_RECORD_AT_STEM, hex, 16);
    put_binary(at + FTJ_RECORD_AT_COMPILER, compiler_hex, 8);
}

static ftj_status grow(struct ftj_bundle_writer *writer)
{
    if (writer->count < writer->capacity)
        return FTJ_OK;
    const size_t capacity = writer->capacity ? 2 * writer->capacity : 64;
    struct item *grown = realloc(writer->items, capacity * sizeof(*grown));
    if (!grown)
        return ftj_fail(NULL, FTJ_E_NO_MEMORY, "no memory for a bundle of %zu entries", capacity);
    writer->items = grown;
    writer->capacity = capacity;
    return FTJ_OK;
}

ftj_status ftj_bundle_writer_put(struct ftj_bundle_writer *writer, const struct ftj_key *key,
                                 const struct ftj_entry *entry)
{
    ftj_status status = grow(writer);
    if (status)
        return status;
    struct ftj_entry lasting = {.code = entry->code, .facts = entry->facts};
    lasting.facts.compile_us = 0;
    struct item *item = &writer->items[writer->count];
    *item = (struct item){{0}, {0}};
    ftj_bundle_put_key(item->key, key->target, key->hex, key->compiler_hex);
    status = ftj_entry_encode(key, &lasting, &item->file);
    if (!status)
        writer->count++;
    return status;
}

static int compare_items(const void *a, const void *b)
{
    const struct item *one = a;
    const struct item *two = b;
    return memcmp(one->key, two->key, sizeof(one->key));
}

static void sort_items(struct ftj_bundle_writer *writer)
{
    if (writer->count == 0)
        return;
    qsort(writer->items, writer->count, sizeof(*writer->items), compare_items);
    size_t kept = 1;
    for (size_t i = 1; i < writer->count; i++) {
        if (compare_items(&writer->items[kept - 1], &writer->items[i]) == 0)
            ftj_bytes_finish(&writer->items[i].file);
        else
            writer->items[kept++] = writer->items[i];
    }
    writer->count = kept;
}

/* Everything before the entries, `bytes` of it. */
static void write_head(const struct ftj_bundle_writer *writer, uint8_t *head, size_t bytes,
                       uint64_t file_bytes)
{
    memcpy(head, FTJ_BUNDLE_MAGIC, 8);
    ftj_put_u32(head + FTJ_BUNDLE_AT_VERSION, FTJ_BUNDLE_VERSION);
    ftj_put_u32(head + FTJ_BUNDLE_AT_COUNT, (uint32_t)writer->count);
    ftj_put_u64(head + FTJ_BUNDLE_AT_FILE_BYTES, file_bytes);
    ftj_put_u64(head + FTJ_BUNDLE_AT_RESERVED, 0);

    uint64_t offset = bytes;
    for (size_t i = 0; i < writer->count; i++) {
        const struct item *item = &writer->items[i];
        uint8_t *record = head + FTJ_BUNDLE_HEADER_BYTES + i * FTJ_RECORD_BYTES;
        memcpy(record, item->key, sizeof(item->key));
        ftj_put_u64(record + FTJ_RECORD_AT_OFFSET, offset);
        ftj_put_u64(record + FTJ_RECORD_AT_SIZE, item->file.size);
        ftj_sha256(item->file.data, item->file.size, record + FTJ_RECORD_AT_SHA256);
        offset += item->file.size;
    }
    struct ftj_sha256 hash;
    ftj_sha256_init(&hash);
    ftj_sha256_update(&hash, head, FTJ_BUNDLE_AT_DIGEST);
    ftj_sha256_update(&hash, head + FTJ_BUNDLE_HEADER_BYTES, bytes - FTJ_BUNDLE_HEADER_BYTES);
    ftj_sha256_final(&hash, head + FTJ_BUNDLE_AT_DIGEST);
}

/* The whole file. */
static ftj_status assemble(struct ftj_bundle_writer *writer, struct ftj_bytes *file)
{
    sort_items(writer);
    const size_t head_bytes = FTJ_BUNDLE_HEADER_BYTES + writer->count * FTJ_RECORD_BYTES;
    size_t size = head_bytes;
    for (size_t i = 0; i < writer->count; i++)
        size += writer->items[i].file.size;
    uint8_t *data = malloc(size);
    if (!data)
        return ftj_fail(NULL, FTJ_E_NO_MEMORY, "no memory for a bundle of %zu bytes", size);
    write_head(writer, data, head_bytes, size);
    uint8_t *at = data + head_bytes;
    for (size_t i = 0; i < writer->count; i++) {
        memcpy(at, writer->items[i].file.data, writer->items[i].file.size);
        at += writer->items[i].file.size;
    }
    *file = (struct ftj_bytes){.data = data, .size = size};
    return FTJ_OK;
}

/* The folder that `path` is in, and its name there. */
static const char *split(const char *path, char *folder, size_t size)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        snprintf(folder, size, ".");
    else
        snprintf(folder, size, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    return slash ? slash + 1 : path;
}

ftj_status ftj_bundle_writer_save(struct ftj_bundle_writer *writer, const char *path,
                                  char digest[65])
{
    struct ftj_bytes file = {0};
    struct ftj_reason reason;
    char folder[4096];
    const char *name = split(path, folder, sizeof(folder));
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        ftj_reason_set(&reason, errno, "open %s", folder);
        return ftj_fail(NULL, FTJ_E_IO, "bundle %s cannot be written: %s", path, reason.text);
    }
    ftj_status status = assemble(writer, &file);
    if (status)
        goto cleanup;
    status = ftj_publish_at(fd, fd, name, &file, &reason);
    if (status) {
        status = ftj_fail(NULL, status, "bundle %s cannot be written: %s", path, reason.text);
        goto cleanup;
    }
    /* For everyone to read, unlike a cache: it is made to be handed on. Where a file system has no
     * such modes, it is as its mount says. */
    const bool is_changed = fchmodat(fd, name, 0644, 0) == 0;
    (void)is_changed;
    ftj_sha256_text(file.data + FTJ_BUNDLE_AT_DIGEST, digest);

cleanup:
    ftj_bytes_finish(&file);
    close(fd);
    return status;
}
