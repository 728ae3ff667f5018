/* SPDX-License-Identifier: MIT */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "cache/entry.h"

static const char *const options[] = {"-O3"};

static struct ftj_key key_of(const char *source)
{
    const struct ftj_key_input input = {
        .template_id = "t",
        .source = source,
        .source_bytes = strlen(source),
        .templates = "00",
        .options = options,
        .num_options = 1,
        .target = "sm_90a",
        .output = "cubin",
        .compiler = "c",
    };
    struct ftj_key key = {0};
    cr_assert_eq(ftj_key_init(&key, &input), FTJ_OK);
    return key;
}

/* The bytes are the test's own, borrowed by the entry. */
static const struct ftj_entry sample = {
    .code = {(uint8_t *)"\x7f"
                        "ELF code",
             9},
    .log = {(uint8_t *)"a log", 5},
    .facts = {.registers = 255, .smem_bytes = 0x12345678, .spill_bytes = 16, .compile_us = 93000},
};

static struct ftj_bytes encode(const struct ftj_key *key, const struct ftj_entry *entry)
{
    struct ftj_bytes file = {0};
    cr_assert_eq(ftj_entry_encode(key, entry, &file), FTJ_OK);
    return file;
}

Test(entry, decodes_to_what_was_encoded)
{
    struct ftj_key key = key_of("kernel");
    struct ftj_bytes file = encode(&key, &sample);
    struct ftj_entry entry = {0};
    cr_assert_eq(ftj_entry_decode(&key, FTJ_MATCH_WHOLE, file.data, file.size, &entry), FTJ_OK);
    cr_expect_eq(entry.code.size, 9);
    cr_expect_arr_eq(entry.code.data, sample.code.data, 9);
    cr_expect_eq(entry.log.size, 5);
    cr_expect_arr_eq(entry.log.data, "a log", 5);
    cr_expect_eq(entry.facts.registers, 255);
    cr_expect_eq(entry.facts.smem_bytes, 0x12345678);
    cr_expect_eq(entry.facts.spill_bytes, 16);
    cr_expect_eq(entry.facts.compile_us, 93000);
    ftj_entry_finish(&entry);
    ftj_bytes_finish(&file);
    ftj_key_finish(&key);
}

Test(entry, bytes_are_where_the_document_says)
{
    struct ftj_key key = key_of("kernel");
    struct ftj_bytes file = encode(&key, &sample);
    const size_t manifest = key.manifest.size;
    cr_assert_eq(file.size, 64 + manifest + 9 + 5 + 16);
    cr_expect_arr_eq(file.data,
                     "\x89"
                     "FTK\r\n\x1a\n\1\0\0\0",
                     12);
    cr_expect_eq(file.data[12], manifest);
    cr_expect_arr_eq(file.data + 16, "\11\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0", 16);
    cr_expect_arr_eq(file.data + 32, "\xff\0\0\0\x78\x56\x34\x12\x10\0\0\0\x48\x6b\1\0", 16);
    cr_expect_arr_eq(file.data + 48, "sm_90a\0\0\0\0\0\0\0\0\0\0", 16);
    cr_expect_arr_eq(file.data + 64, key.manifest.data, manifest);
    cr_expect_arr_eq(file.data + 64 + manifest,
                     "\x7f"
                     "ELF codea log",
                     14);

    const XXH128_hash_t hash = XXH3_128bits(file.data, file.size - 16);
    for (int i = 0; i < 8; i++) {
        cr_expect_eq(file.data[file.size - 16 + i], hash.low64 >> 8 * i & 0xff);
        cr_expect_eq(file.data[file.size - 8 + i], hash.high64 >> 8 * i & 0xff);
    }
    ftj_bytes_finish(&file);
    ftj_key_finish(&key);
}

Test(entry, every_single_bit_flip_is_seen)
{
    struct ftj_key key = key_of("kernel");
    struct ftj_bytes file = encode(&key, &sample);
    for (size_t bit = 0; bit < 8 * file.size; bit++) {
        struct ftj_entry entry = {0};
        file.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        cr_expect_eq(ftj_entry_decode(&key, FTJ_MATCH_WHOLE, file.data, file.size, &entry),
                     FTJ_E_DAMAGED, "bit %zu of byte %zu", bit % 8, bit / 8);
        cr_expect_null(entry.code.data);
        file.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    ftj_bytes_finish(&file);
    ftj_key_finish(&key);
}

Test(entry, every_truncation_and_a_longer_file_are_seen)
{
    struct ftj_key key = key_of("kernel");
    struct ftj_bytes file = encode(&key, &sample);
    struct ftj_entry entry = {0};
    for (size_t size = 0; size < file.size; size++) {
        /* A copy of just that size: sanitizers see a read past it. */
        uint8_t *cut = malloc(size > 0 ? size : 1);
        memcpy(cut, file.data, size);
        cr_expect_eq(ftj_entry_decode(&key, FTJ_MATCH_WHOLE, cut, size, &entry), FTJ_E_DAMAGED,
                     "%zu bytes", size);
        free(cut);
    }
    uint8_t *longer = calloc(1, file.size + 1);
    memcpy(longer, file.data, file.size);
    cr_expect_eq(ftj_entry_decode(&key, FTJ_MATCH_WHOLE, longer, file.size + 1, &entry),
                 FTJ_E_DAMAGED);
    free(longer);
    ftj_bytes_finish(&file);
    ftj_key_finish(&key);
}

/* Lengths that lie, under a checksum that is right: damage never looks so, malice may. */
Test(entry, lying_lengths_are_seen_before_they_are_used)
{
    struct ftj_key key = key_of("kernel");
    struct ftj_bytes file = encode(&key, &sample);
    static const uint8_t at[] = {12, 16, 24};
    static const uint8_t num_bytes[] = {4, 8, 8};
    static const uint8_t fills[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    for (size_t field = 0; field < sizeof(at); field++) {
        for (size_t fill = 0; fill < sizeof(fills); fill++) {
            uint8_t *lying = malloc(file.size);
            struct ftj_entry entry = {0};
            memcpy(lying, file.data, file.size);
            memset(lying + at[field], fills[fill], num_bytes[field]);
            const XXH128_hash_t hash = XXH3_128bits(lying, file.size - 16);
            memcpy(lying + file.size - 16, &hash.low64, 8);
            memcpy(lying + file.size - 8, &hash.high64, 8);
            cr_expect_eq(ftj_entry_decode(&key, FTJ_MATCH_WHOLE, lying, file.size, &entry),
                         FTJ_E_DAMAGED, "field at %u filled with %02x", at[field], fills[fill]);
            free(lying);
        }
    }
    ftj_bytes_finish(&file);
    ftj_key_finish(&key);
}

Test(entry, one_without_code_is_damaged_however_sound)
{
    struct ftj_key key = key_of("kernel");
    struct ftj_bytes file = encode(&key, &sample);
    struct ftj_entry entry = {0};
    file.data[24] += file.data[16]; /* all of it is log now */
    file.data[16] = 0;
    const XXH128_hash_t hash = XXH3_128bits(file.data, file.size - 16);
    memcpy(file.data + file.size - 16, &hash.low64, 8);
    memcpy(file.data + file.size - 8, &hash.high64, 8);
    cr_expect_eq(ftj_entry_decode(&key, FTJ_MATCH_WHOLE, file.data, file.size, &entry),
                 FTJ_E_DAMAGED);
    ftj_bytes_finish(&file);
    ftj_key_finish(&key);
}

Test(entry, another_key_is_told_from_damage)
{
    struct ftj_key key = key_of("kernel");
    struct ftj_key other = key_of("kerneL");
    struct ftj_key shorter = key_of("k");
    struct ftj_bytes file = encode(&key, &sample);
    struct ftj_entry entry = {0};
    cr_expect_eq(ftj_entry_decode(&other, FTJ_MATCH_WHOLE, file.data, file.size, &entry),
                 FTJ_E_NOT_FOUND);
    cr_expect_eq(ftj_entry_decode(&shorter, FTJ_MATCH_WHOLE, file.data, file.size, &entry),
                 FTJ_E_NOT_FOUND);
    cr_expect_null(entry.code.data);
    ftj_bytes_finish(&file);
    ftj_key_finish(&key);
    ftj_key_finish(&other);
    ftj_key_finish(&shorter);
}

Test(entry, the_log_may_be_empty_and_the_code_may_not)
{
    struct ftj_key key = key_of("kernel");
    struct ftj_entry entry = sample;
    entry.log = (struct ftj_bytes){0};
    struct ftj_bytes file = encode(&key, &entry);
    struct ftj_entry decoded = {0};
    cr_expect_eq(ftj_entry_decode(&key, FTJ_MATCH_WHOLE, file.data, file.size, &decoded), FTJ_OK);
    cr_expect_eq(decoded.log.size, 0);
    ftj_entry_finish(&decoded);
    ftj_bytes_finish(&file);

    entry.code = (struct ftj_bytes){0};
    cr_expect_eq(ftj_entry_encode(&key, &entry, &file), FTJ_E_INVALID);
    cr_expect_null(file.data);
    ftj_key_finish(&key);
}
