/* SPDX-License-Identifier: MIT */
#include "cache/entry.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/little_endian.h"

/* docs/cache.md draws this. The first byte is no text, and a transfer that changes line ends or
 * drops the top bit changes the magic. */
static const uint8_t magic[8] = {0x89, 'F', 'T', 'K', '\r', '\n', 0x1a, '\n'};

enum { ENTRY_VERSION = 1, TRAILER_BYTES = 16 };

enum offset {
    AT_MAGIC = 0,
    AT_VERSION = 8,
    AT_MANIFEST_BYTES = 12,
    AT_CODE_BYTES = 16,
    AT_LOG_BYTES = 24,
    AT_REGISTERS = 32,
    AT_SMEM_BYTES = 36,
    AT_SPILL_BYTES = 40,
    AT_COMPILE_US = 44,
    AT_TARGET = 48,
    HEADER_BYTES = 64,
};

static void put_checksum(uint8_t *at, const void *data, size_t size)
{
    const XXH128_hash_t hash = XXH3_128bits(data, size);
    ftj_put_u64(at, hash.low64);
    ftj_put_u64(at + 8, hash.high64);
}

static void put_header(uint8_t *at, const struct ftj_key *key, const struct ftj_entry *entry)
{
    memcpy(at + AT_MAGIC, magic, sizeof(magic));
    ftj_put_u32(at + AT_VERSION, ENTRY_VERSION);
    ftj_put_u32(at + AT_MANIFEST_BYTES, (uint32_t)key->manifest.size);
    ftj_put_u64(at + AT_CODE_BYTES, entry->code.size);
    ftj_put_u64(at + AT_LOG_BYTES, entry->log.size);
    ftj_put_u32(at + AT_REGISTERS, entry->facts.registers);
    ftj_put_u32(at + AT_SMEM_BYTES, entry->facts.smem_bytes);
    ftj_put_u32(at + AT_SPILL_BYTES, entry->facts.spill_bytes);
    ftj_put_u32(at + AT_COMPILE_US, entry->facts.compile_us);
    memcpy(at + AT_TARGET, key->target, sizeof(key->target));
}

static uint8_t *put_bytes(uint8_t *at, const struct ftj_bytes *bytes)
{
    if (bytes->size > 0)
        memcpy(at, bytes->data, bytes->size);
    return at + bytes->size;
}

ftj_status ftj_entry_encode(const struct ftj_key *key, const struct ftj_entry *entry,
                            struct ftj_bytes *file)
{
    if (entry->code.size == 0)
        return ftj_fail(NULL, FTJ_E_INVALID, "the entry of %s has no machine code to be kept",
                        key->hex);
    if (key->manifest.size > UINT32_MAX)
        return ftj_fail(NULL, FTJ_E_INVALID,
                        "the manifest of %s has %zu bytes; it must be below "
                        "4 GiB",
                        key->hex, key->manifest.size);

    const size_t size = HEADER_BYTES + key->manifest.size + entry->code.size + entry->log.size;
    uint8_t *data = malloc(size + TRAILER_BYTES);
    if (!data)
        return ftj_fail(NULL, FTJ_E_NO_MEMORY, "no memory for a cache entry of %zu bytes", size);

    put_header(data, key, entry);
    uint8_t *at = put_bytes(data + HEADER_BYTES, &key->manifest);
    at = put_bytes(at, &entry->code);
    at = put_bytes(at, &entry->log);
    put_checksum(at, data, size);
    *file = (struct ftj_bytes){.data = data, .size = size + TRAILER_BYTES};
    return FTJ_OK;
}

/* The file is as long as its header says, no byte more: also sums that overflow end here. */
static bool sizes_fit(const uint8_t *data, size_t size)
{
    const uint64_t parts[] = {ftj_get_u32(data + AT_MANIFEST_BYTES),
                              ftj_get_u64(data + AT_CODE_BYTES), ftj_get_u64(data + AT_LOG_BYTES)};
    uint64_t left = size - HEADER_BYTES - TRAILER_BYTES;
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        if (parts[i] > left)
            return false;
        left -= parts[i];
    }
    return left == 0 && parts[1] > 0;
}

static bool is_sound(const uint8_t *data, size_t size)
{
    if (size < HEADER_BYTES + TRAILER_BYTES || memcmp(data, magic, sizeof(magic)) != 0 ||
        ftj_get_u32(data + AT_VERSION) != ENTRY_VERSION || !sizes_fit(data, size))
        return false;
    uint8_t checksum[TRAILER_BYTES];
    put_checksum(checksum, data, size - TRAILER_BYTES);
    return memcmp(checksum, data + size - TRAILER_BYTES, TRAILER_BYTES) == 0;
}

ftj_status ftj_entry_view(const void *file, size_t size, struct ftj_entry_view *view)
{
    const uint8_t *data = file;
    if (!is_sound(data, size))
        return FTJ_E_DAMAGED;
    *view = (struct ftj_entry_view){
        .manifest = data + HEADER_BYTES,
        .manifest_bytes = ftj_get_u32(data + AT_MANIFEST_BYTES),
        .code_bytes = (size_t)ftj_get_u64(data + AT_CODE_BYTES),
        .log_bytes = (size_t)ftj_get_u64(data + AT_LOG_BYTES),
        .facts = {.registers = ftj_get_u32(data + AT_REGISTERS),
                  .smem_bytes = ftj_get_u32(data + AT_SMEM_BYTES),
                  .spill_bytes = ftj_get_u32(data + AT_SPILL_BYTES),
                  .compile_us = ftj_get_u32(data + AT_COMPILE_US)},
    };
    view->code = view->manifest + view->manifest_bytes;
    view->log = view->code + view->code_bytes;
    memcpy(view->target, data + AT_TARGET, sizeof(view->target));
    return FTJ_OK;
}

/* The stem ends where the compiler's field begins, so that a manifest which has it at its head has
 * one field more, whatever that says. */
static bool is_of_key(const struct ftj_entry_view *view, const struct ftj_key *key,
                      enum ftj_match match)
{
    const size_t size = match == FTJ_MATCH_WHOLE ? key->manifest.size : key->stem_bytes;
    const bool fits =
        match == FTJ_MATCH_WHOLE ? view->manifest_bytes == size : view->manifest_bytes > size;
    return fits && memcmp(view->target, key->target, sizeof(key->target)) == 0 &&
           memcmp(view->manifest, key->manifest.data, size) == 0;
}

ftj_status ftj_entry_decode(const struct ftj_key *key, enum ftj_match match, const void *file,
                            size_t size, struct ftj_entry *entry)
{
    struct ftj_entry_view view;
    ftj_status status = ftj_entry_view(file, size, &view);
    if (status)
        return status;
    if (!is_of_key(&view, key, match))
        return FTJ_E_NOT_FOUND;

    struct ftj_entry decoded = {.facts = view.facts};
    status = ftj_bytes_copy(&decoded.code, view.code, view.code_bytes);
    if (!status)
        status = ftj_bytes_copy(&decoded.log, view.log, view.log_bytes);
    if (status) {
        ftj_entry_finish(&decoded);
        return status;
    }
    *entry = decoded;
    return FTJ_OK;
}

void ftj_entry_finish(struct ftj_entry *entry)
{
    ftj_bytes_finish(&entry->code);
    ftj_bytes_finish(&entry->log);
    *entry = (struct ftj_entry){0};
}
