/* SPDX-License-Identifier: MIT */
#include <criterion/criterion.h>
#include <string.h>

#include "base/device.h"
#include "tests/unit/log_catcher.h"

struct expected {
    int major, minor;
    const char *target, *features;
    uint32_t smem_bytes, smem_per_sm_bytes;
};

#define UP_TO_80 "mma_f16,cp_async,mma_bf16"
#define UP_TO_89 UP_TO_80 ",fp8_convert"

/* clang-format off */
static const struct expected rows[] = {
    { 7, 5, "sm_75",   "mma_f16",                     65536,  65536},
    { 8, 0, "sm_80",   UP_TO_80,                     166912, 167936},
    { 8, 6, "sm_86",   UP_TO_80,                     101376, 102400},
    { 8, 7, "sm_87",   UP_TO_80,                     166912, 167936},
    { 8, 8, "sm_88",   UP_TO_80,                     101376, 102400},
    { 8, 9, "sm_89",   UP_TO_89,                     101376, 102400},
    { 9, 0, "sm_90a",  UP_TO_89 ",tma,wgmma",        232448, 233472},
    {10, 0, "sm_100a", UP_TO_89 ",tma,fp4_convert",  232448, 233472},
    {10, 3, "sm_103a", UP_TO_89 ",tma,fp4_convert",  232448, 233472},
    {11, 0, "sm_110a", UP_TO_89 ",tma,fp4_convert",  232448, 233472},
    {12, 0, "sm_120a", UP_TO_89 ",tma,fp4_convert",  101376, 102400},
    {12, 1, "sm_121a", UP_TO_89 ",tma,fp4_convert",  101376, 102400},
};
/* clang-format on */
#define NUM_ROWS (sizeof(rows) / sizeof(*rows))

static void expect_row(const struct ftj_device *device, const struct expected *row)
{
    char features[256];
    ftj_features_text(device->features, features, sizeof(features));
    cr_expect_eq(device->kind, FTJ_DEVICE_CUDA);
    cr_expect_str_eq(device->target, row->target);
    cr_expect_str_eq(features, row->features, "%s: %s", row->target, features);
    cr_expect_eq(device->probed, device->features, "%s", row->target);
    cr_expect_eq(device->capability_major, row->major, "%s", row->target);
    cr_expect_eq(device->capability_minor, row->minor, "%s", row->target);
    cr_expect_eq(device->smem_bytes, row->smem_bytes, "%s", row->target);
    cr_expect_eq(device->smem_per_sm_bytes, row->smem_per_sm_bytes, "%s", row->target);
    cr_expect_eq(device->registers_per_sm, 65536);
    cr_expect_gt(device->num_sms, 0);
}

Test(device, a_capability_has_one_exact_target)
{
    for (size_t i = 0; i < NUM_ROWS; i++) {
        struct ftj_device device;
        memset(&device, 0xa5, sizeof(device));
        ftj_device_from_capability(rows[i].major, rows[i].minor, &device);
        expect_row(&device, &rows[i]);
    }
}

Test(device, a_target_names_the_same_device)
{
    for (size_t i = 0; i < NUM_ROWS; i++) {
        struct ftj_device device;
        cr_assert_eq(ftj_device_of_target(rows[i].target, NULL, &device), FTJ_OK);
        expect_row(&device, &rows[i]);
        cr_assert_eq(ftj_device_of_target(rows[i].target + 3, NULL, &device), FTJ_OK);
        expect_row(&device, &rows[i]);
    }
}

Test(device, a_target_is_kept_as_written)
{
    struct ftj_device device;
    cr_assert_eq(ftj_device_of_target("sm_90", NULL, &device), FTJ_OK);
    cr_expect_str_eq(device.target, "sm_90");
    cr_expect(device.features & FTJ_HAS_TMA);
    cr_expect_not(device.features & FTJ_HAS_WGMMA, "only sm_90a has wgmma");
    cr_assert_eq(ftj_device_of_target("90", NULL, &device), FTJ_OK);
    cr_expect_str_eq(device.target, "sm_90");
    cr_assert_eq(ftj_device_of_target("sm_100f", NULL, &device), FTJ_OK);
    cr_expect_str_eq(device.target, "sm_100f");
    cr_expect(device.features & FTJ_HAS_FP4_CONVERT);
    cr_assert_eq(ftj_device_of_target("sm_120", NULL, &device), FTJ_OK);
    cr_expect_not(device.features & FTJ_HAS_FP4_CONVERT, "only sm_120a and sm_120f convert fp4");
}

Test(device, the_cpu_has_what_its_target_emulates)
{
    struct ftj_device device;
    char features[256];
    cr_assert_eq(ftj_device_of_target("cpu", NULL, &device), FTJ_OK);
    ftj_features_text(device.features, features, sizeof(features));
    cr_expect_eq(device.kind, FTJ_DEVICE_CPU);
    cr_expect_str_eq(device.target, "cpu");
    cr_expect_str_eq(features, UP_TO_89 ",tma,wgmma");
    cr_expect_eq(device.capability_major, 0);
}

Test(device, a_newer_capability_gets_the_nearest_older_features)
{
    struct ftj_device device;
    char features[256];
    ftj_device_from_capability(13, 0, &device);
    ftj_features_text(device.features, features, sizeof(features));
    cr_expect_str_eq(device.target, "sm_130");
    cr_expect_str_eq(features, UP_TO_89 ",tma");
    ftj_device_from_capability(10, 1, &device);
    cr_expect_str_eq(device.target, "sm_101");
    cr_expect_eq(device.smem_bytes, 232448);
}

Test(device, one_older_than_all_has_no_feature)
{
    struct ftj_device device;
    ftj_device_from_capability(7, 0, &device);
    cr_expect_str_eq(device.target, "sm_70");
    cr_expect_eq(device.features, 0);
}

Test(device, unknown_targets_are_refused_with_the_list)
{
    static const char *const targets[] = {"",       "sm_",    "sm_70",      "sm_89a",  "sm_90f",
                                          "sm_90b", "sm_9",   "sm_900",     "sm_90aa", "SM_90",
                                          "CPU",    "native", "compute_90", "sm_90 ",  "sm_1000"};
    for (size_t i = 0; i < sizeof(targets) / sizeof(*targets); i++) {
        struct log_catcher catcher = {0};
        const struct ftj_log log = {.write = catch_sentence, .data = &catcher};
        struct ftj_device device = {.ordinal = 42};
        cr_expect_eq(ftj_device_of_target(targets[i], &log, &device), FTJ_E_INVALID, "%s",
                     targets[i]);
        cr_expect_eq(device.ordinal, 42, "untouched on failure");
        cr_expect_neq(strstr(catcher.last, "sm_75, sm_80"), NULL, "%s", catcher.last);
        cr_expect_neq(strstr(catcher.last, "sm_121a, sm_121f, cpu"), NULL, "%s", catcher.last);
        cr_expect_eq(catcher.num_sentences, 1);
    }
}

Test(features, none_and_names_are_removed)
{
    struct narrowing {
        const char *names, *left;
    };
    static const struct narrowing narrowings[] = {
        {"", UP_TO_89},
        {"none", "none"},
        {"-fp8_convert", UP_TO_80},
        {"fp8_convert", UP_TO_80},
        {"-fp8_convert,-cp_async", "mma_f16,mma_bf16"},
        {"cp_async,-fp8_convert,", "mma_f16,mma_bf16"},
        {"-wgmma", UP_TO_89},
    };
    for (size_t i = 0; i < sizeof(narrowings) / sizeof(*narrowings); i++) {
        struct ftj_device device;
        char left[256];
        ftj_device_from_capability(8, 9, &device);
        cr_expect_eq(ftj_features_narrow(&device.features, narrowings[i].names, NULL), FTJ_OK);
        ftj_features_text(device.features, left, sizeof(left));
        cr_expect_str_eq(left, narrowings[i].left, "\"%s\"", narrowings[i].names);
    }
}

Test(features, an_unknown_name_changes_nothing_and_lists_the_known)
{
    static const char *const names[] = {
        "-cp_async,-warp",  "-", ",", "none,", "-none", "CP_ASYNC", "cp", "--cp_async",
        "cp_async, mma_f16"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        uint32_t features = FTJ_HAS_CP_ASYNC | FTJ_HAS_TMA;
        cr_expect_eq(ftj_features_narrow(&features, names[i], NULL), FTJ_E_INVALID, "%s", names[i]);
        cr_expect_eq(features, FTJ_HAS_CP_ASYNC | FTJ_HAS_TMA, "%s", names[i]);
        cr_expect_neq(strstr(ftj_last_error(), "mma_f16,cp_async"), NULL, "%s", ftj_last_error());
    }
}

Test(features, a_text_too_small_is_cut_and_terminated)
{
    char text[12];
    memset(text, 'x', sizeof(text));
    ftj_features_text(FTJ_HAS_MMA_F16 | FTJ_HAS_CP_ASYNC, text, sizeof(text));
    cr_expect_str_eq(text, "mma_f16,cp_");
}
