/* SPDX-License-Identifier: MIT */
/* The extend's tiles as numbers, and against the ladder of part D.7 of the specification. */
#include <criterion/criterion.h>

#include "codegen/tune.h"

struct expected {
    uint32_t head_dim;
    const char *target;
    ftj_kv_format format;
    uint32_t rows, tokens, stages, warps, new_tokens;
};

/* clang-format off */
static const struct expected rows[] = {
    { 64, "sm_90a", FTJ_KV_16BIT, 128, 64, 2, 4, 64},
    {128, "sm_90a", FTJ_KV_16BIT, 128, 64, 2, 4, 64},
    {128, "sm_90a", FTJ_KV_FP8,   128, 64, 2, 4, 64},
    {128, "sm_90a", FTJ_KV_NVFP4, 128, 64, 2, 4, 64},
    {256, "sm_90a", FTJ_KV_16BIT, 128, 64, 2, 8, 64},
    {256, "sm_90a", FTJ_KV_NVFP4, 128, 64, 2, 8, 64},
    {384, "sm_90a", FTJ_KV_16BIT,  64, 64, 1, 8, 64},
    {512, "sm_90a", FTJ_KV_16BIT,  64, 32, 2, 8, 32},
    {512, "sm_90a", FTJ_KV_FP8,    64, 64, 2, 8, 32},
    {128, "sm_80",  FTJ_KV_16BIT, 128, 32, 2, 4, 32},
    {128, "sm_80",  FTJ_KV_FP8,   128, 64, 2, 4, 32},
    {256, "sm_80",  FTJ_KV_16BIT, 128, 32, 2, 8, 32},
    {512, "sm_80",  FTJ_KV_16BIT,  32, 32, 1, 4, 32},
    { 64, "sm_86",  FTJ_KV_16BIT, 128, 32, 2, 4, 32},
    {128, "sm_86",  FTJ_KV_16BIT, 128, 64, 1, 8, 64},
    {128, "sm_89",  FTJ_KV_FP8,   128, 64, 2, 8, 32},
    {256, "sm_89",  FTJ_KV_16BIT,  64, 32, 1, 4, 32},
    {128, "sm_75",  FTJ_KV_16BIT, 128, 32, 1, 8, 32},
    {128, "sm_75",  FTJ_KV_NVFP4, 128, 64, 2, 8, 16},
    {512, "sm_75",  FTJ_KV_16BIT,  16, 16, 1, 2, 16},
};
/* clang-format on */

static void describe(uint32_t head_dim, const char *target, ftj_kv_format format, ftj_dtype dtype,
                     struct ftj_device *device, struct ftj_problem *problem)
{
    const ftj_kv_shape shape = {.k_format = format,
                                .v_format = format,
                                .num_kv_heads = 1,
                                .head_dim = head_dim,
                                .page_size = 64};
    ftj_attention_desc desc = {.ops = FTJ_OP_EXTEND, .dtype = dtype};
    cr_assert_eq(ftj_kv_layout_init(&desc.kv, &shape), FTJ_OK);
    cr_assert_eq(ftj_device_of_target(target, NULL, device), FTJ_OK);
    *problem = (struct ftj_problem){0};
    ftj_problem_init(problem, FTJ_KERNEL_EXTEND, &desc);
}

static bool tune(uint32_t head_dim, const char *target, ftj_kv_format format,
                 struct ftj_device *device, struct ftj_config *config)
{
    struct ftj_problem problem;
    describe(head_dim, target, format, FTJ_DTYPE_BF16, device, &problem);
    *config = (struct ftj_config){0};
    return ftj_tune_extend(&problem, device, config);
}

static bool tune_sm80(uint32_t head_dim, const char *target, ftj_kv_format format, ftj_dtype dtype,
                      struct ftj_device *device, struct ftj_config *config)
{
    struct ftj_problem problem;
    describe(head_dim, target, format, dtype, device, &problem);
    *config = (struct ftj_config){0};
    return ftj_tune_extend_sm80(&problem, device, config);
}

Test(tune_extend, has_these_tiles)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct ftj_device device = {0};
        struct ftj_config config = {0};
        const struct expected *row = &rows[i];
        cr_assert(tune(row->head_dim, row->target, row->format, &device, &config), "row %zu", i);
        cr_expect_eq(config.block_rows, row->rows, "row %zu: %u rows", i, config.block_rows);
        cr_expect_eq(config.tile_tokens, row->tokens, "row %zu: %u tokens", i, config.tile_tokens);
        cr_expect_eq(config.num_stages, row->stages, "row %zu: %u stages", i, config.num_stages);
        cr_expect_eq(config.num_warps, row->warps, "row %zu: %u warps", i, config.num_warps);
        cr_expect_eq(config.new_tokens, row->new_tokens, "row %zu: %u new tokens", i,
                     config.new_tokens);
    }
}

/* select_extend_tile() of the specification. */
static void ladder(uint32_t head_dim, uint32_t smem_bytes, uint32_t kv_bytes, uint32_t *m,
                   uint32_t *n)
{
    static const uint32_t wide[3][2] = {{128, 64}, {64, 64}, {64, 32}};
    static const uint32_t widest[2][2] = {{32, 64}, {16, 16}};
    const bool is_widest = head_dim > 256;
    const uint32_t last = is_widest ? 1 : 2;
    const double budget = 0.8 * smem_bytes;
    *m = 128, *n = 64;
    for (uint32_t i = 0; head_dim > 128 && i <= last; i++) {
        *m = is_widest ? widest[i][0] : wide[i][0];
        *n = is_widest ? widest[i][1] : wide[i][1];
        if ((2 * *m + 2 * *n * kv_bytes) * head_dim <= budget)
            return;
    }
}

Test(tune_extend, is_never_below_the_ladder)
{
    static const uint32_t head_dims[] = {64, 128, 256, 512};
    static const char *const targets[] = {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_120a"};
    for (size_t t = 0; t < 5; t++) {
        for (size_t d = 0; d < 4; d++) {
            for (int format = FTJ_KV_16BIT; format <= FTJ_KV_NVFP4; format++) {
                struct ftj_device device = {0};
                struct ftj_config config = {0};
                uint32_t m, n;
                cr_assert(tune(head_dims[d], targets[t], (ftj_kv_format)format, &device, &config));
                ladder(head_dims[d], device.smem_bytes, format == FTJ_KV_FP8 ? 1 : 2, &m, &n);
                cr_expect_geq(config.block_rows, m, "%s d%u: %u rows, ladder %u", targets[t],
                              head_dims[d], config.block_rows, m);
                cr_expect_geq(config.tile_tokens * config.num_stages, n,
                              "%s d%u: %u tokens, ladder %u", targets[t], head_dims[d],
                              config.tile_tokens * config.num_stages, n);
            }
        }
    }
}

Test(tune_extend, stays_within_the_memory)
{
    static const char *const targets[] = {"sm_75", "sm_80", "sm_86", "sm_90a", "cpu"};
    for (size_t t = 0; t < 5; t++) {
        for (uint32_t head_dim = 32; head_dim <= 512; head_dim += 16) {
            for (int format = FTJ_KV_16BIT; format <= FTJ_KV_NVFP4; format++) {
                struct ftj_device device = {0};
                struct ftj_config config = {0};
                cr_assert(tune(head_dim, targets[t], (ftj_kv_format)format, &device, &config),
                          "%s d%u has no tile", targets[t], head_dim);
                cr_expect_leq(config.smem_bytes, device.smem_bytes);
                cr_expect_leq(config.min_blocks * (config.smem_bytes + 1024),
                              device.smem_per_sm_bytes);
                cr_expect_geq(config.part_dims * 2, head_dim);
                cr_expect_geq(config.new_tokens, 16);
            }
        }
    }
}

Test(tune_extend, widens_e2m1_where_a_block_has_the_memory)
{
    static const struct {
        uint32_t head_dim;
        const char *target;
        ftj_kv_format format;
        ftj_dtype dtype;
        bool widens;
    } cases[] = {
        {128, "sm_90a", FTJ_KV_NVFP4, FTJ_DTYPE_BF16, true},
        {128, "sm_100a", FTJ_KV_NVFP4, FTJ_DTYPE_BF16, true},
        {80, "sm_90a", FTJ_KV_NVFP4, FTJ_DTYPE_BF16, true},
        {64, "sm_90a", FTJ_KV_NVFP4, FTJ_DTYPE_BF16, false},
        {144, "sm_90a", FTJ_KV_NVFP4, FTJ_DTYPE_BF16, false},
        {128, "sm_90a", FTJ_KV_16BIT, FTJ_DTYPE_BF16, false},
        {128, "sm_90a", FTJ_KV_FP8, FTJ_DTYPE_BF16, false},
        {128, "sm_90a", FTJ_KV_NVFP4, FTJ_DTYPE_FP16, false}, /* no range for V's scales */
        {128, "sm_80", FTJ_KV_NVFP4, FTJ_DTYPE_BF16, true},
        {128, "sm_86", FTJ_KV_NVFP4, FTJ_DTYPE_BF16, false}, /* no memory for both */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct ftj_device device = {0};
        struct ftj_config config = {0};
        cr_assert(tune_sm80(cases[i].head_dim, cases[i].target, cases[i].format, cases[i].dtype,
                            &device, &config));
        cr_expect_eq(config.widens, cases[i].widens, "case %zu", i);
        cr_expect_eq(config.block_rows, cases[i].widens ? 256 : 128, "case %zu: %u rows", i,
                     config.block_rows);
        cr_expect_leq(config.min_blocks * (config.smem_bytes + 1024), device.smem_per_sm_bytes);
        cr_expect_leq(config.smem_bytes, device.smem_bytes);
    }
}
