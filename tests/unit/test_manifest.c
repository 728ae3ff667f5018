/* SPDX-License-Identifier: MIT */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "cache/manifest.h"

static const char *const options[] = {"--gpu-architecture=sm_90a", "--fmad=false"};

static struct ftj_key sample_key(void)
{
    struct ftj_key key = {0};
    cr_assert_eq(ftj_key_init(&key,
                              &(struct ftj_key_input){
                                  .template_id = "kv_store",
                                  .source = "a\0b",
                                  .source_bytes = 3,
                                  .templates = "0011",
                                  .options = options,
                                  .num_options = 2,
                                  .target = "sm_90a",
                                  .output = "cubin",
                                  .compiler = "nvrtc 13",
                              }),
                 FTJ_OK);
    return key;
}

Test(manifest, gives_back_what_went_into_the_key)
{
    struct ftj_key key = sample_key();
    struct ftj_manifest manifest;
    cr_assert_eq(ftj_manifest_parse(&manifest, key.manifest.data, key.manifest.size), FTJ_OK);
    cr_expect_eq(manifest.schema, FTJ_KEY_SCHEMA);
    cr_expect(ftj_slice_is(&manifest.template_id, "kv_store"));
    cr_expect(ftj_slice_is(&manifest.templates, "0011"));
    cr_expect(ftj_slice_is(&manifest.target, "sm_90a"));
    cr_expect(ftj_slice_is(&manifest.output, "cubin"));
    cr_expect(ftj_slice_is(&manifest.compiler, "nvrtc 13"));
    cr_expect_not(ftj_slice_is(&manifest.compiler, "nvrtc 1"));
    cr_expect_eq(manifest.num_options, 2);
    cr_expect(ftj_slice_is(&manifest.options[1], "--fmad=false"));
    cr_expect_eq(manifest.source.size, 3);
    cr_expect_arr_eq(manifest.source.data, "a\0b", 3);

    struct ftj_key again = {0};
    cr_assert_eq(ftj_manifest_key(key.manifest.data, key.manifest.size, &again), FTJ_OK);
    cr_expect_str_eq(again.hex, key.hex);
    cr_expect_str_eq(again.compiler_hex, key.compiler_hex);
    cr_expect_str_eq(again.target, key.target);
    cr_expect_eq(again.stem_bytes, key.stem_bytes);
    ftj_key_finish(&again);
    ftj_key_finish(&key);
}

Test(manifest, refuses_every_truncation_and_every_byte_more)
{
    struct ftj_key key = sample_key();
    struct ftj_manifest manifest;
    for (size_t size = 0; size < key.manifest.size; size++) {
        uint8_t *cut = malloc(size + 1); /* of its own, for a sanitizer to see its end */
        memcpy(cut, key.manifest.data, size);
        cr_expect_eq(ftj_manifest_parse(&manifest, cut, size), FTJ_E_DAMAGED, "%zu", size);
        free(cut);
    }
    uint8_t *more = calloc(1, key.manifest.size + 1);
    memcpy(more, key.manifest.data, key.manifest.size);
    cr_expect_eq(ftj_manifest_parse(&manifest, more, key.manifest.size + 1), FTJ_E_DAMAGED);
    free(more);
    ftj_key_finish(&key);
}

/* Whatever a flipped bit makes of it: no manifest, or one whose key is another. */
Test(manifest, no_flipped_bit_keeps_the_key)
{
    struct ftj_key key = sample_key();
    for (size_t bit = 0; bit < 8 * key.manifest.size; bit++) {
        struct ftj_key flipped = {0};
        key.manifest.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (!ftj_manifest_key(key.manifest.data, key.manifest.size, &flipped))
            cr_expect(strcmp(flipped.hex, key.hex) != 0 ||
                          strcmp(flipped.compiler_hex, key.compiler_hex) != 0,
                      "bit %zu", bit);
        ftj_key_finish(&flipped);
        key.manifest.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    ftj_key_finish(&key);
}
