/* SPDX-License-Identifier: MIT */
/* Reading a bundle. Nothing in it is believed before its digest was compared. */
#include "cache/bundle.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/little_endian.h"
#include "cache/bundle_format.h"

#define MAX_INDEX_BYTES ((uint64_t)1 << 28) /* 3 million entries: more is no bundle of ours */

struct ftj_bundle {
    int fd;
    char *path;
    uint8_t *index; /* the records; owned */
    size_t count;
    char digest[65];
};

ftj_status ftj_pins_init(struct ftj_pins *pins, const char *list, const char *origin,
                         const struct ftj_log *log)
{
    struct ftj_pins parsed = {.count = 0};
    for (const char *at = list ? list : ""; *at;) {
        const size_t size = strspn(at, "0123456789abcdefABCDEF");
        if (size != 64 || (at[size] != ',' && at[size] != '\0') ||
            parsed.count == FTJ_BUNDLE_MAX_PINS)
            return ftj_fail(log, FTJ_E_INVALID,
                            "%s \"%s\" is not known; it must be up to %d SHA-256 digests of 64 hex "
                            "digits, separated by commas",
                            origin, list, FTJ_BUNDLE_MAX_PINS);
        for (size_t i = 0; i < size; i++)
            parsed.hex[parsed.count][i] = (char)tolower((unsigned char)at[i]);
        parsed.count++;
        at += size + (at[size] == ',');
    }
    *pins = parsed;
    return FTJ_OK;
}

static bool read_at(int fd, void *data, size_t size, uint64_t offset)
{
    uint8_t *at = data;
    while (size > 0) {
        const ssize_t part = pread(fd, at, size, (off_t)offset);
        if (part < 0 && errno == EINTR)
            continue;
        if (part <= 0)
            return false;
        at += part;
        size -= (size_t)part;
        offset += (uint64_t)part;
    }
    return true;
}

static ftj_status damaged(struct ftj_reason *reason, const char *what)
{
    snprintf(reason->text, sizeof(reason->text), "%s", what);
    return FTJ_E_DAMAGED;
}

/* Entries follow each other from the index to the file's end without a gap, so that no byte of the
 * file is anybody's but a digest's. */
static bool is_index_whole(const uint8_t *index, size_t count, uint64_t file_bytes)
{
    uint64_t end = FTJ_BUNDLE_HEADER_BYTES + (uint64_t)count * FTJ_RECORD_BYTES;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *record = index + i * FTJ_RECORD_BYTES;
        const uint64_t size = ftj_get_u64(record + FTJ_RECORD_AT_SIZE);
        if (ftj_get_u64(record + FTJ_RECORD_AT_OFFSET) != end || size > file_bytes - end ||
            record[FTJ_RECORD_AT_TARGET + 15] != 0)
            return false;
        if (i > 0 && memcmp(record - FTJ_RECORD_BYTES, record, FTJ_RECORD_KEY_BYTES) >= 0)
            return false;
        end += size;
    }
    return end == file_bytes;
}

static ftj_status read_index(struct ftj_bundle *bundle, uint64_t file_bytes,
                             struct ftj_reason *reason)
{
    uint8_t header[FTJ_BUNDLE_HEADER_BYTES];
    if (file_bytes < sizeof(header) || !read_at(bundle->fd, header, sizeof(header), 0) ||
        memcmp(header, FTJ_BUNDLE_MAGIC, 8) != 0)
        return damaged(reason, "is no bundle");
    if (ftj_get_u32(header + FTJ_BUNDLE_AT_VERSION) != FTJ_BUNDLE_VERSION)
        return damaged(reason, "is of another version");
    if (ftj_get_u64(header + FTJ_BUNDLE_AT_FILE_BYTES) != file_bytes)
        return damaged(reason, "is not as long as its header says");
    const uint64_t count = ftj_get_u32(header + FTJ_BUNDLE_AT_COUNT);
    const uint64_t index_bytes = count * FTJ_RECORD_BYTES;
    if (index_bytes > file_bytes - sizeof(header) || index_bytes > MAX_INDEX_BYTES)
        return damaged(reason, "has an index that does not fit");

    bundle->count = (size_t)count;
    bundle->index = malloc(index_bytes > 0 ? (size_t)index_bytes : 1);
    if (!bundle->index)
        return ftj_fail(NULL, FTJ_E_NO_MEMORY, "no memory for a bundle's index of %llu bytes",
                        (unsigned long long)index_bytes);
    if (!read_at(bundle->fd, bundle->index, (size_t)index_bytes, sizeof(header)))
        return damaged(reason, "cannot be read");

    struct ftj_sha256 hash;
    uint8_t digest[FTJ_SHA256_BYTES];
    ftj_sha256_init(&hash);
    ftj_sha256_update(&hash, header, FTJ_BUNDLE_AT_DIGEST);
    ftj_sha256_update(&hash, bundle->index, (size_t)index_bytes);
    ftj_sha256_final(&hash, digest);
    ftj_sha256_text(digest, bundle->digest);
    if (memcmp(digest, header + FTJ_BUNDLE_AT_DIGEST, sizeof(digest)) != 0)
        return damaged(reason, "has an index that fails its checks");
    if (ftj_get_u64(header + FTJ_BUNDLE_AT_RESERVED) != 0 ||
        !is_index_whole(bundle->index, bundle->count, file_bytes))
        return damaged(reason, "has an index that makes no sense");
    return FTJ_OK;
}

static ftj_status check_pins(const struct ftj_bundle *bundle, const struct ftj_pins *pins,
                             struct ftj_reason *reason)
{
    for (size_t i = 0; i < pins->count; i++) {
        if (!strcmp(pins->hex[i], bundle->digest))
            return FTJ_OK;
    }
    if (pins->count == 0)
        return FTJ_OK;
    snprintf(reason->text, sizeof(reason->text), "has the digest %s, which is not pinned",
             bundle->digest);
    return FTJ_E_DAMAGED;
}

static ftj_status open_file(struct ftj_bundle *bundle, const char *path,
                            const struct ftj_owners *owners, const struct ftj_pins *pins,
                            struct ftj_reason *reason)
{
    struct stat info;
    struct ftj_reason why;
    /* O_NONBLOCK: a named pipe there must not stop us. A link is followed, as configuration volumes
     * are made of them: it is the file that has to be one to be trusted. */
    bundle->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (bundle->fd < 0 || fstat(bundle->fd, &info)) {
        const ftj_status status = errno == ENOENT ? FTJ_E_NOT_FOUND : FTJ_E_IO;
        ftj_reason_set(reason, errno, "cannot be opened");
        return status;
    }
    if (!S_ISREG(info.st_mode))
        return damaged(reason, "is not a regular file");
    if (pins->count == 0 && ftj_trust_check(owners, &info, &why)) {
        snprintf(reason->text, sizeof(reason->text), "cannot be trusted: %.400s", why.text);
        return FTJ_E_IO;
    }
    const ftj_status status = read_index(bundle, (uint64_t)info.st_size, reason);
    return status ? status : check_pins(bundle, pins, reason);
}

ftj_status ftj_bundle_open(const char *path, const struct ftj_owners *owners,
                           const struct ftj_pins *pins, struct ftj_bundle **out,
                           struct ftj_reason *reason)
{
    struct ftj_bundle *bundle = calloc(1, sizeof(*bundle));
    if (!bundle)
        return ftj_fail(NULL, FTJ_E_NO_MEMORY, "no memory for a bundle");
    bundle->fd = -1;
    bundle->path = strdup(path);
    const ftj_status status =
        bundle->path ? open_file(bundle, path, owners, pins, reason)
                     : ftj_fail(NULL, FTJ_E_NO_MEMORY, "no memory for a bundle's path");
    if (status) {
        ftj_bundle_close(bundle);
        return status;
    }
    *out = bundle;
    return FTJ_OK;
}

void ftj_bundle_close(struct ftj_bundle *bundle)
{
    if (!bundle)
        return;
    if (bundle->fd >= 0)
        close(bundle->fd);
    free(bundle->path);
    free(bundle->index);
    free(bundle);
}

const char *ftj_bundle_path(const struct ftj_bundle *bundle)
{
    return bundle->path;
}

const char *ftj_bundle_digest(const struct ftj_bundle *bundle)
{
    return bundle->digest;
}

size_t ftj_bundle_count(const struct ftj_bundle *bundle)
{
    return bundle->count;
}

static void put_hex(char *hex, const uint8_t *bytes, size_t size)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < size; i++) {
        hex[2 * i] = digits[bytes[i] >> 4];
        hex[2 * i + 1] = digits[bytes[i] & 15];
    }
    hex[2 * size] = '\0';
}

void ftj_bundle_get_record(const struct ftj_bundle *bundle, size_t index,
                           struct ftj_bundle_record *record)
{
    const uint8_t *at = bundle->index + index * FTJ_RECORD_BYTES;
    memcpy(record->target, at + FTJ_RECORD_AT_TARGET, sizeof(record->target));
    put_hex(record->hex, at + FTJ_RECORD_AT_STEM, 16);
    put_hex(record->compiler_hex, at + FTJ_RECORD_AT_COMPILER, 8);
    record->offset = ftj_get_u64(at + FTJ_RECORD_AT_OFFSET);
    record->size = ftj_get_u64(at + FTJ_RECORD_AT_SIZE);
    memcpy(record->sha256, at + FTJ_RECORD_AT_SHA256, sizeof(record->sha256));
}

/* The first record that is not before `key`. */
static size_t lower_bound(const struct ftj_bundle *bundle, const uint8_t *key)
{
    size_t low = 0;
    size_t high = bundle->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const uint8_t *record = bundle->index + middle * FTJ_RECORD_BYTES;
        if (memcmp(record, key, FTJ_RECORD_STEM_BYTES) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

size_t ftj_bundle_find(const struct ftj_bundle *bundle, const struct ftj_key *key, size_t *count)
{
    uint8_t wanted[FTJ_RECORD_KEY_BYTES];
    ftj_bundle_put_key(wanted, key->target, key->hex, "0000000000000000");
    const size_t first = lower_bound(bundle, wanted);
    size_t end = first;
    while (end < bundle->count &&
           memcmp(bundle->index + end * FTJ_RECORD_BYTES, wanted, FTJ_RECORD_STEM_BYTES) == 0)
        end++;
    *count = end - first;
    return first;
}

ftj_status ftj_bundle_read(const struct ftj_bundle *bundle, size_t index, struct ftj_bytes *file)
{
    struct ftj_bundle_record record;
    uint8_t digest[FTJ_SHA256_BYTES];
    ftj_bundle_get_record(bundle, index, &record);
    uint8_t *data = malloc(record.size > 0 ? (size_t)record.size : 1);
    if (!data)
        return ftj_fail(NULL, FTJ_E_NO_MEMORY, "no memory for a bundle's entry of %llu bytes",
                        (unsigned long long)record.size);
    if (!read_at(bundle->fd, data, (size_t)record.size, record.offset)) {
        free(data);
        return FTJ_E_DAMAGED;
    }
    ftj_sha256(data, (size_t)record.size, digest);
    if (memcmp(digest, record.sha256, sizeof(digest)) != 0) {
        free(data);
        return FTJ_E_DAMAGED;
    }
    *file = (struct ftj_bytes){.data = data, .size = (size_t)record.size};
    return FTJ_OK;
}
