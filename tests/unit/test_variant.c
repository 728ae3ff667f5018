/* SPDX-License-Identifier: MIT */
/* Which variant serves which device, and the words for why another does not. */
#include <criterion/criterion.h>
#include <string.h>

#include "codegen/source.h"

static struct ftj_problem problem_of(enum ftj_kernel_op op, ftj_kv_table table, ftj_kv_format k)
{
    ftj_attention_desc desc = {.num_q_heads = 32, .table = table};
    const ftj_kv_shape shape = {.k_format = k,
                                .v_format = FTJ_KV_NVFP4,
                                .num_kv_heads = 8,
                                .head_dim = 128,
                                .page_size = 64};
    struct ftj_problem problem;
    cr_assert_eq(ftj_kv_layout_init(&desc.kv, &shape), FTJ_OK);
    cr_assert_eq(ftj_desc_check(&desc, NULL), FTJ_OK);
    ftj_problem_init(&problem, op, &desc);
    return problem;
}

static struct ftj_device device_of(const char *target, const char *narrowed)
{
    struct ftj_device device;
    cr_assert_eq(ftj_device_of_target(target, NULL, &device), FTJ_OK);
    cr_assert_eq(ftj_features_narrow(&device.features, narrowed, NULL), FTJ_OK);
    return device;
}

static const struct ftj_variant *named(const char *name)
{
    for (size_t i = 0; i < ftj_num_variants; i++) {
        if (!strcmp(ftj_variants[i].name, name))
            return &ftj_variants[i];
    }
    cr_assert_fail("there is no variant %s", name);
    return NULL;
}

Test(variant, decode_is_the_best_that_the_device_has)
{
    static const struct {
        const char *target;
        const char *narrowed;
        const char *name; /* NULL: none */
    } rows[] = {
        {"sm_75", "", "attn_decode_sm75"},
        {"sm_80", "", "attn_decode_sm80"},
        {"sm_86", "", "attn_decode_sm80"},
        {"sm_89", "", "attn_decode_sm80"},
        {"sm_90", "", "attn_decode_sm90"},
        {"sm_90a", "", "attn_decode_sm90"},
        {"sm_90a", "-tma", "attn_decode_sm80"},
        {"sm_90a", "-fp8_convert", "attn_decode_sm80"},
        {"sm_90a", "-tma,-cp_async", "attn_decode_sm75"},
        {"sm_90a", "-mma_bf16", "attn_decode_sm75"},
        {"sm_120a", "", "attn_decode_sm90"},
        {"cpu", "-tma", "attn_decode_sm80"},
        {"cpu", "none", NULL},
    };
    const struct ftj_problem problem = problem_of(FTJ_KERNEL_DECODE, FTJ_TABLE_BLOCKS, FTJ_KV_FP8);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const struct ftj_device device = device_of(rows[i].target, rows[i].narrowed);
        struct ftj_config config;
        const struct ftj_variant *chosen = ftj_variant_select(&problem, &device, &config);
        cr_expect_str_eq(chosen ? chosen->name : "none", rows[i].name ? rows[i].name : "none",
                         "%s %s", rows[i].target, rows[i].narrowed);
    }
}

Test(variant, what_a_better_one_does_not_cover_goes_to_the_next)
{
    const struct ftj_device device = device_of("sm_90a", "");
    const struct ftj_problem problem = problem_of(FTJ_KERNEL_DECODE, FTJ_TABLE_SLOTS, FTJ_KV_FP8);
    struct ftj_config config;
    const struct ftj_variant *chosen = ftj_variant_select(&problem, &device, &config);
    cr_assert_not_null(chosen);
    cr_expect_str_eq(chosen->name, "attn_decode_sm80");
}

Test(variant, of_every_other_kernel_is_served_on_every_device)
{
    static const char *const targets[] = {"sm_75", "sm_80", "sm_90a", "sm_121a", "cpu"};
    for (size_t i = 0; i < sizeof(targets) / sizeof(*targets); i++) {
        const struct ftj_device device = device_of(targets[i], "");
        for (int op = 0; op < FTJ_NUM_KERNEL_OPS; op++) {
            const struct ftj_problem problem =
                problem_of((enum ftj_kernel_op)op, FTJ_TABLE_BLOCKS, FTJ_KV_16BIT);
            struct ftj_config config;
            const struct ftj_variant *chosen = ftj_variant_select(&problem, &device, &config);
            cr_assert_not_null(chosen, "kernel %d on %s", op, targets[i]);
            cr_expect_eq(chosen->op, problem.op);
            cr_expect_gt(config.num_threads, 0u);
            cr_expect_leq(config.smem_bytes, device.smem_bytes);
        }
    }
}

Test(variant, explanations_say_what_is_in_the_way)
{
    const struct ftj_problem decode = problem_of(FTJ_KERNEL_DECODE, FTJ_TABLE_BLOCKS, FTJ_KV_FP8);
    struct ftj_device tiny = device_of("sm_80", "");
    tiny.smem_bytes = 2048;
    const struct {
        const char *variant;
        struct ftj_device device;
        const char *why;
    } rows[] = {
        {"attn_decode_sm75", device_of("sm_75", ""), "fits"},
        {"attn_decode_sm80", device_of("sm_75", ""), "needs cp_async,mma_bf16, which sm_75 lacks"},
        {"attn_decode_sm80", device_of("sm_90a", "-cp_async"),
         "needs cp_async, which sm_90a lacks"},
        {"attn_decode_sm80", tiny,
         "not for this layout, or no tile fits 2048 bytes of shared memory"},
        {"kv_store", device_of("sm_75", ""), "is for another operation"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char why[256];
        ftj_variant_explain(named(rows[i].variant), &decode, &rows[i].device, why, sizeof(why));
        cr_expect_str_eq(why, rows[i].why, "%s", rows[i].variant);
    }
}
