/* SPDX-License-Identifier: MIT */
/* The reader of bundles, through a file in memory. */
#define _GNU_SOURCE /* memfd_create() */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/little_endian.h"
#include "cache/bundle.h"
#include "cache/bundle_format.h"
#include "cache/manifest.h"
#include "tests/fuzz/fuzz_target.h"

#define MAX_READS 64

static struct ftj_key key_of(int index)
{
    char source[12];
    struct ftj_key key = {0};
    snprintf(source, sizeof(source), "%d", index);
    const struct ftj_key_input input = {
        .template_id = "t",
        .source = source,
        .source_bytes = strlen(source),
        .templates = "00",
        .target = index % 2 ? "sm_90a" : "cpu",
        .output = "cubin",
        .compiler = "c",
    };
    if (ftj_key_init(&key, &input))
        abort();
    return key;
}

static void use(const struct ftj_bundle *bundle)
{
    const size_t count = ftj_bundle_count(bundle);
    for (size_t i = 0; i < count && i < MAX_READS; i++) {
        struct ftj_bytes file = {0};
        struct ftj_entry_view view;
        struct ftj_key key = {0};
        struct ftj_bundle_record record;
        ftj_bundle_get_record(bundle, i, &record);
        if (!ftj_bundle_read(bundle, i, &file)) {
            uint8_t digest[FTJ_SHA256_BYTES];
            ftj_sha256(file.data, file.size, digest);
            if (memcmp(digest, record.sha256, sizeof(digest)) != 0 || file.size != record.size)
                abort();
            if (!ftj_entry_view(file.data, file.size, &view))
                (void)!ftj_manifest_key(view.manifest, view.manifest_bytes, &key);
        }
        ftj_key_finish(&key);
        ftj_bytes_finish(&file);
    }
    struct ftj_key key = key_of(1);
    size_t found = 0;
    const size_t first = ftj_bundle_find(bundle, &key, &found);
    if (first > count || found > count - first)
        abort();
    ftj_key_finish(&key);
}

static void read_bundle(int fd)
{
    static const struct ftj_owners owners = {.count = 0};
    static const struct ftj_pins pins = {.count = 0};
    char path[64];
    struct ftj_reason reason;
    struct ftj_bundle *bundle = NULL;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (ftj_bundle_open(path, &owners, &pins, &bundle, &reason))
        return;
    use(bundle);
    ftj_bundle_close(bundle);
}

/* A digest that is right for what the header says, else nothing behind it would be reached. */
static void mend(int fd, const uint8_t *data, size_t size)
{
    if (size < FTJ_BUNDLE_HEADER_BYTES)
        return;
    uint8_t header[FTJ_BUNDLE_HEADER_BYTES];
    memcpy(header, data, sizeof(header));
    ftj_put_u64(header + FTJ_BUNDLE_AT_FILE_BYTES, size);
    const uint64_t index_bytes =
        (uint64_t)ftj_get_u32(header + FTJ_BUNDLE_AT_COUNT) * FTJ_RECORD_BYTES;
    if (index_bytes > size - sizeof(header))
        return;
    struct ftj_sha256 hash;
    ftj_sha256_init(&hash);
    ftj_sha256_update(&hash, header, FTJ_BUNDLE_AT_DIGEST);
    ftj_sha256_update(&hash, data + sizeof(header), (size_t)index_bytes);
    ftj_sha256_final(&hash, header + FTJ_BUNDLE_AT_DIGEST);
    if (pwrite(fd, header, sizeof(header), 0) != (ssize_t)sizeof(header))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const int fd = memfd_create("bundle", MFD_CLOEXEC);
    if (fd < 0 || fchmod(fd, 0600) || write(fd, data, size) != (ssize_t)size)
        abort();
    read_bundle(fd);
    mend(fd, data, size);
    read_bundle(fd);
    close(fd);
    return 0;
}

size_t fuzz_seed(int index, uint8_t *data, size_t max)
{
    if (index >= 4)
        return 0;
    char path[] = "/tmp/ftjit_fuzz_XXXXXX";
    char digest[65];
    struct ftj_bundle_writer *writer = NULL;
    const int fd = mkstemp(path);
    if (fd < 0 || ftj_bundle_writer_create(&writer))
        abort();
    for (int i = 0; i < index; i++) {
        struct ftj_key key = key_of(i);
        const struct ftj_entry entry = {.code = {(uint8_t *)key.hex, 32}};
        if (ftj_bundle_writer_put(writer, &key, &entry))
            abort();
        ftj_key_finish(&key);
    }
    if (ftj_bundle_writer_save(writer, path, digest))
        abort();
    ftj_bundle_writer_destroy(writer);
    close(fd);
    FILE *file = fopen(path, "rb");
    const size_t size = file ? fread(data, 1, max, file) : 0;
    if (file)
        fclose(file);
    unlink(path);
    return size;
}
