/* SPDX-License-Identifier: MIT */
#include <criterion/criterion.h>
#include <string.h>

#include "cache/key.h"

static const char *const options[] = {"--gpu-architecture=sm_90a", "--std=c++17"};
static const char *const swapped[] = {"--std=c++17", "--gpu-architecture=sm_90a"};
static const char *const joined[] = {"--gpu-architecture=sm_90a--std=c++17"};

static const struct ftj_key_input base = {
    .template_id = "attn_decode",
    .source = "kernel",
    .source_bytes = 6,
    .templates = "00112233",
    .options = options,
    .num_options = 2,
    .target = "sm_90a",
    .output = "cubin",
    .compiler = "nvrtc 13.0.88",
};

static struct ftj_key make(const struct ftj_key_input *input)
{
    struct ftj_key key = {0};
    cr_assert_eq(ftj_key_init(&key, input), FTJ_OK, "%s", ftj_last_error());
    return key;
}

Test(key, is_pinned)
{
    /* A change here drops every user's cache: bump FTJ_KEY_SCHEMA and say so in CHANGELOG. */
    struct ftj_key key = make(&base);
    cr_expect_str_eq(key.hex, "651daa62b801d82192d58e7a8ccf9e11");
    cr_expect_str_eq(key.target, "sm_90a");
    ftj_key_finish(&key);
}

Test(key, manifest_is_pinned)
{
    static const char manifest[] = "\2\0\0\0"
                                   "\13\0\0\0attn_decode"
                                   "\10\0\0\00000112233"
                                   "\6\0\0\0sm_90a"
                                   "\5\0\0\0cubin"
                                   "\2\0\0\0"
                                   "\31\0\0\0--gpu-architecture=sm_90a"
                                   "\13\0\0\0--std=c++17"
                                   "\6\0\0\0kernel"
                                   "\15\0\0\0nvrtc 13.0.88";
    struct ftj_key key = make(&base);
    cr_assert_eq(key.manifest.size, sizeof(manifest) - 1);
    cr_expect_arr_eq(key.manifest.data, manifest, sizeof(manifest) - 1);
    cr_expect_eq(key.stem_bytes, sizeof(manifest) - 1 - 17);
    ftj_key_finish(&key);
}

Test(key, changes_with_every_input)
{
    struct ftj_key_input changed[9];
    for (size_t i = 0; i < 9; i++)
        changed[i] = base;
    changed[0].template_id = "attn_store";
    changed[1].source = "kerneL";
    changed[2].source_bytes = 5;
    changed[3].templates = "00112234";
    changed[4].options = swapped;
    changed[5].options = joined;
    changed[5].num_options = 1;
    changed[6].num_options = 1;
    changed[7].target = "sm_90";
    changed[8].output = "ptx";

    struct ftj_key original = make(&base);
    for (size_t i = 0; i < 9; i++) {
        struct ftj_key key = make(&changed[i]);
        cr_expect_str_neq(key.hex, original.hex, "row %zu", i);
        cr_expect_str_eq(key.compiler_hex, original.compiler_hex, "row %zu", i);
        ftj_key_finish(&key);
    }
    ftj_key_finish(&original);
}

Test(key, has_one_stem_for_all_compilers)
{
    static const char *const compilers[] = {"nvrtc 13.0", "nvrtc 12.9", ""};
    struct ftj_key original = make(&base);
    for (size_t i = 0; i < 3; i++) {
        struct ftj_key_input input = base;
        input.compiler = compilers[i];
        struct ftj_key key = make(&input);
        cr_expect_str_eq(key.hex, original.hex);
        cr_expect_str_neq(key.compiler_hex, original.compiler_hex, "%s", compilers[i]);
        cr_assert_eq(key.stem_bytes, original.stem_bytes);
        cr_expect_arr_eq(key.manifest.data, original.manifest.data, key.stem_bytes);
        cr_expect_neq(key.manifest.size, original.manifest.size);
        ftj_key_finish(&key);
    }
    ftj_key_finish(&original);
}

Test(key, fields_cannot_lend_each_other_bytes)
{
    struct ftj_key_input moved = base;
    moved.template_id = "attn_decod";
    moved.templates = "e00112233";
    struct ftj_key one = make(&base);
    struct ftj_key two = make(&moved);
    cr_expect_str_neq(one.hex, two.hex);
    ftj_key_finish(&one);
    ftj_key_finish(&two);
}

Test(key, is_the_same_for_equal_text_at_other_addresses)
{
    char source[] = "kernel";
    char option[] = "--gpu-architecture=sm_90a";
    const char *copied[] = {option, "--std=c++17"};
    struct ftj_key_input input = base;
    input.source = source;
    input.options = copied;
    struct ftj_key one = make(&base);
    struct ftj_key two = make(&input);
    cr_expect_str_eq(one.hex, two.hex);
    ftj_key_finish(&one);
    ftj_key_finish(&two);
}

Test(key, source_may_hold_any_byte)
{
    struct ftj_key_input input = base;
    input.source = "a\0b";
    input.source_bytes = 3;
    struct ftj_key one = make(&input);
    input.source = "a\0c";
    struct ftj_key two = make(&input);
    cr_expect_str_neq(one.hex, two.hex);
    ftj_key_finish(&one);
    ftj_key_finish(&two);
}

Test(key, refuses_a_target_that_is_no_folder_of_its_own)
{
    static const char *const targets[] = {
        "", ".", "..", "../sm_90", "a/b", "tmp", "sm_90 ", "sm_90aaaaaaaaaaa", "SM_90"};
    for (size_t i = 0; i < sizeof(targets) / sizeof(*targets); i++) {
        struct ftj_key_input input = base;
        struct ftj_key key = {.hex = "untouched"};
        input.target = targets[i];
        cr_expect_eq(ftj_key_init(&key, &input), FTJ_E_INVALID, "\"%s\"", targets[i]);
        cr_expect_str_eq(key.hex, "untouched");
        cr_expect_neq(strstr(ftj_last_error(), "target"), NULL);
    }
}

Test(key, a_zeroed_one_can_be_finished)
{
    struct ftj_key key = {0};
    ftj_key_finish(&key);
    cr_expect_null(key.manifest.data);
}
