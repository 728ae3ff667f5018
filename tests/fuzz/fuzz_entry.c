/* SPDX-License-Identifier: MIT */
/* The reader of cache entries and of the manifest in them. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/little_endian.h"
#include "cache/entry.h"
#include "cache/manifest.h"
#include "tests/fuzz/fuzz_target.h"

static struct ftj_key key_of(int index)
{
    static const char *const options[] = {"--gpu-architecture=sm_90a", "--fmad=false"};
    struct ftj_key key = {0};
    const struct ftj_key_input input = {
        .template_id = "kv_store",
        .source = "struct Config {};",
        .source_bytes = (size_t)(index * 5),
        .templates = "00112233",
        .options = options,
        .num_options = (size_t)index % 3,
        .target = "sm_90a",
        .output = "cubin",
        .compiler = index ? "nvrtc 13" : "",
    };
    if (ftj_key_init(&key, &input))
        abort();
    return key;
}

/* Every byte that is handed on is read, for a sanitizer to see, and ends here. */
static volatile unsigned sink;

static unsigned sum(const void *data, size_t size)
{
    unsigned total = 0;
    for (size_t i = 0; i < size; i++)
        total += ((const uint8_t *)data)[i];
    return total;
}

static unsigned read_entry(const uint8_t *data, size_t size)
{
    struct ftj_entry_view view;
    struct ftj_manifest manifest;
    unsigned total = 0;
    if (ftj_entry_view(data, size, &view))
        return 0;
    if (view.code_bytes == 0)
        abort();
    total += sum(view.code, view.code_bytes) + sum(view.log, view.log_bytes);
    if (ftj_manifest_parse(&manifest, view.manifest, view.manifest_bytes))
        return total;
    total += sum(manifest.source.data, manifest.source.size);
    struct ftj_key key = {0};
    struct ftj_entry entry = {0};
    if (!ftj_manifest_key(view.manifest, view.manifest_bytes, &key)) {
        const ftj_status status = ftj_entry_decode(&key, FTJ_MATCH_WHOLE, data, size, &entry);
        const bool is_own = !memcmp(view.target, key.target, sizeof(key.target)) &&
                            key.manifest.size == view.manifest_bytes &&
                            !memcmp(key.manifest.data, view.manifest, view.manifest_bytes);
        if ((status == FTJ_OK) != is_own)
            abort();
    }
    ftj_entry_finish(&entry);
    ftj_key_finish(&key);
    return total;
}

/* As it is, and with a checksum that is right: else nothing behind it would ever be reached. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sink = read_entry(data, size);
    struct ftj_entry entry = {0};
    struct ftj_key key = key_of(1);
    if (!ftj_entry_decode(&key, FTJ_MATCH_STEM, data, size, &entry))
        sink = sum(entry.code.data, entry.code.size);
    ftj_entry_finish(&entry);
    ftj_key_finish(&key);
    if (size < 16)
        return 0;
    uint8_t *sound = malloc(size);
    if (!sound)
        return 0;
    memcpy(sound, data, size);
    const XXH128_hash_t hash = XXH3_128bits(sound, size - 16);
    ftj_put_u64(sound + size - 16, hash.low64);
    ftj_put_u64(sound + size - 8, hash.high64);
    sink = read_entry(sound, size);
    free(sound);
    return 0;
}

size_t fuzz_seed(int index, uint8_t *data, size_t max)
{
    if (index >= 4)
        return 0;
    struct ftj_bytes file = {0};
    struct ftj_key key = key_of(index);
    const struct ftj_entry entry = {
        .code = {(uint8_t *)key.hex, 32},
        .log = {(uint8_t *)key.hex, (size_t)index},
        .facts = {.registers = 40},
    };
    if (ftj_entry_encode(&key, &entry, &file) || file.size > max)
        abort();
    const size_t size = file.size;
    memcpy(data, file.data, size);
    ftj_bytes_finish(&file);
    ftj_key_finish(&key);
    return size;
}
