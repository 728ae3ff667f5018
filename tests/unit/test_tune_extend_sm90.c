/* SPDX-License-Identifier: MIT */
/* The tiles of the extend by wgmma: in the memory and the registers there are, not below the ladder
 * of part D.7 of the specification, and refused where the kernel could not be right. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/tune.h"

static void problem_init(struct ftj_problem *problem, const ftj_kv_shape *shape, ftj_dtype dtype)
{
    ftj_attention_desc desc = {.ops = FTJ_OP_EXTEND, .dtype = dtype};
    cr_assert_eq(ftj_kv_layout_init(&desc.kv, shape), FTJ_OK);
    ftj_problem_init(problem, FTJ_KERNEL_EXTEND, &desc);
}

static bool tune(const ftj_kv_shape *shape, ftj_dtype dtype, const char *target,
                 struct ftj_problem *problem, struct ftj_device *device, struct ftj_config *config)
{
    problem_init(problem, shape, dtype);
    cr_assert_eq(ftj_device_of_target(target, NULL, device), FTJ_OK);
    *config = (struct ftj_config){0};
    return ftj_tune_extend_sm90(problem, device, config);
}

/* A member of the generated Config. */
static uint32_t member(const struct ftj_text *text, const char *name)
{
    char pattern[64];
    snprintf(pattern, sizeof(pattern), " %s = ", name);
    const char *at = strstr(text->data, pattern);
    cr_assert_not_null(at, "%s is not written", name);
    return (uint32_t)strtoul(at + strlen(pattern), NULL, 10);
}

/* setmaxnreg gives consumers what the producer gave back of what the launch took. */
static void check_registers(const struct ftj_problem *problem, const struct ftj_device *device,
                            const struct ftj_config *config)
{
    struct ftj_text text = {0};
    ftj_write_extend_sm90(&text, problem, config, device);
    const uint32_t consumers = member(&text, "num_consumers");
    const uint32_t launched = device->registers_per_sm / config->num_threads / 8 * 8;
    const uint32_t of_producer = member(&text, "producer_registers");
    const uint32_t of_consumer = member(&text, "consumer_registers");
    cr_expect_eq(config->num_threads, 128 * (1 + consumers));
    cr_expect_leq(of_producer, launched);
    cr_expect_geq(of_consumer, launched);
    cr_expect_leq(of_producer + consumers * of_consumer, (1 + consumers) * launched);
    cr_expect(of_producer % 8 == 0 && of_consumer % 8 == 0 && of_consumer <= 256);
    ftj_text_finish(&text);
}

Test(tune_extend_sm90, has_tiles_that_fit)
{
    static const uint32_t head_dims[] = {64, 128, 256};
    for (size_t d = 0; d < 3; d++) {
        for (int k = FTJ_KV_16BIT; k <= FTJ_KV_NVFP4; k++) {
            for (int v = FTJ_KV_16BIT; v <= FTJ_KV_NVFP4; v++) {
                const ftj_kv_shape shape = {.k_format = (ftj_kv_format)k,
                                            .v_format = (ftj_kv_format)v,
                                            .num_kv_heads = 2,
                                            .head_dim = head_dims[d],
                                            .page_size = 64};
                struct ftj_problem problem;
                struct ftj_device device;
                struct ftj_config config;
                cr_assert(tune(&shape, FTJ_DTYPE_BF16, "sm_90a", &problem, &device, &config),
                          "d%u K %d V %d", head_dims[d], k, v);
                cr_expect_leq(config.smem_bytes, device.smem_bytes);
                cr_expect_geq(config.block_rows, 128);
                cr_expect_geq(config.tile_tokens, 64);
                cr_expect_geq(config.num_stages, 4, "two tiles of K and of V");
                check_registers(&problem, &device, &config);
            }
        }
    }
}

Test(tune_extend_sm90, leaves_to_others_what_it_is_not_for)
{
    static const struct {
        ftj_kv_shape shape;
        ftj_dtype dtype;
        const char *target;
    } rows[] = {
        /* no whole panels of 64 dims */
        {{.num_kv_heads = 1, .head_dim = 80, .page_size = 64}, FTJ_DTYPE_BF16, "sm_90a"},
        /* wider than the registers */
        {{.num_kv_heads = 1, .head_dim = 512, .page_size = 64}, FTJ_DTYPE_BF16, "sm_90a"},
        /* V's row scales on weights of fp16 */
        {{.k_format = FTJ_KV_FP8,
          .v_format = FTJ_KV_FP8,
          .num_kv_heads = 1,
          .head_dim = 128,
          .page_size = 64},
         FTJ_DTYPE_FP16,
         "sm_90a"},
        /* half the memory */
        {{.num_kv_heads = 1, .head_dim = 128, .page_size = 64}, FTJ_DTYPE_BF16, "sm_86"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct ftj_problem problem;
        struct ftj_device device;
        struct ftj_config config;
        cr_expect_not(
            tune(&rows[i].shape, rows[i].dtype, rows[i].target, &problem, &device, &config),
            "row %zu", i);
    }
}

Test(tune_extend_sm90, needs_whole_chunks_of_a_row)
{
    ftj_kv_shape shape = {.num_kv_heads = 1, .head_dim = 128, .page_size = 64};
    struct ftj_problem problem;
    struct ftj_device device;
    struct ftj_config config;
    problem_init(&problem, &shape, FTJ_DTYPE_BF16);
    cr_assert_eq(ftj_device_of_target("sm_90a", NULL, &device), FTJ_OK);
    cr_expect(ftj_tune_extend_sm90(&problem, &device, &config));
    problem.kv.k.codes.slot_stride_bytes += 8;
    cr_expect_not(ftj_tune_extend_sm90(&problem, &device, &config));
}

/* Runs of rows in a page, of a table of pages, in 16 bits; all that the tile takes of them. And
 * whole tiles of the rows beside codes, wherever those lie. */
Test(tune_extend_sm90, copies_runs_of_rows_by_tensor_copies)
{
    static const struct {
        uint32_t head_dim, page_size;
        ftj_kv_format v_format;
        ftj_kv_table table;
        uint32_t run;
    } rows[] = {
        {128, 64, FTJ_KV_16BIT, FTJ_TABLE_BLOCKS, 64},
        {128, 96, FTJ_KV_16BIT, FTJ_TABLE_BLOCKS, 32},
        {128, 16, FTJ_KV_16BIT, FTJ_TABLE_BLOCKS, 0},
        {128, 256, FTJ_KV_16BIT, FTJ_TABLE_BLOCKS, 64},
        {64, 256, FTJ_KV_16BIT, FTJ_TABLE_BLOCKS, 128},
        {128, 64, FTJ_KV_FP8, FTJ_TABLE_BLOCKS, 64},
        {64, 8, FTJ_KV_FP8, FTJ_TABLE_BLOCKS, 128},
        {256, 16, FTJ_KV_FP8, FTJ_TABLE_SLOTS, 64},
        {128, 64, FTJ_KV_16BIT, FTJ_TABLE_SLOTS, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const ftj_kv_shape shape = {.v_format = rows[i].v_format,
                                    .num_kv_heads = 2,
                                    .head_dim = rows[i].head_dim,
                                    .page_size = rows[i].page_size};
        struct ftj_problem problem;
        struct ftj_device device;
        struct ftj_config config = {0};
        problem_init(&problem, &shape, FTJ_DTYPE_BF16);
        problem.table = rows[i].table;
        cr_assert_eq(ftj_device_of_target("sm_90a", NULL, &device), FTJ_OK);
        cr_assert(ftj_tune_extend_sm90(&problem, &device, &config), "row %zu", i);
        cr_expect_eq(config.tensor_run, rows[i].run, "row %zu: %u", i, config.tensor_run);
        cr_expect_leq(config.smem_bytes, device.smem_bytes);
    }
}

static bool flag(const struct ftj_text *text, const char *name)
{
    char pattern[64];
    snprintf(pattern, sizeof(pattern), " %s = true;", name);
    return strstr(text->data, pattern);
}

/* A page of one head in one piece, when a producer warp brings all of it and no more. */
Test(tune_extend_sm90, copies_records_of_codes_whole)
{
    static const struct {
        uint32_t head_dim, page_size;
        ftj_kv_order order;
        bool is_whole;
        uint32_t code_rows;
    } rows[] = {
        {128, 64, FTJ_KV_PACKED, true, 64},   {128, 64, FTJ_KV_HND, false, 64},
        {128, 128, FTJ_KV_PACKED, false, 64}, {128, 16, FTJ_KV_PACKED, false, 64},
        {128, 1, FTJ_KV_PACKED, false, 32},   {256, 64, FTJ_KV_PACKED, false, 16},
        {256, 16, FTJ_KV_PACKED, true, 16},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const ftj_kv_shape shape = {.k_format = FTJ_KV_FP8,
                                    .v_format = FTJ_KV_NVFP4,
                                    .order = rows[i].order,
                                    .num_kv_heads = 2,
                                    .head_dim = rows[i].head_dim,
                                    .page_size = rows[i].page_size};
        struct ftj_problem problem;
        struct ftj_device device;
        struct ftj_config config;
        struct ftj_text text = {0};
        cr_assert(tune(&shape, FTJ_DTYPE_BF16, "sm_90a", &problem, &device, &config), "row %zu", i);
        ftj_write_extend_sm90(&text, &problem, &config, &device);
        cr_expect_eq(flag(&text, "has_records"), rows[i].is_whole, "row %zu", i);
        cr_expect_eq(member(&text, "code_rows"), rows[i].code_rows, "row %zu", i);
        cr_expect_leq(config.smem_bytes, device.smem_bytes);
        ftj_text_finish(&text);
    }
}
