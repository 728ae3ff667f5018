/* SPDX-License-Identifier: MIT */
/* What must hold of tuned numbers whatever they are; tests/golden/source/tuned.txt has the numbers
 * themselves. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "codegen/variant.h"
#include "tests/compile/matrix_rows.h"

static const char *const targets[] = {"sm_75",  "sm_80",   "sm_86",   "sm_89",
                                      "sm_90a", "sm_100a", "sm_120a", "cpu"};
#define NUM_TARGETS (sizeof(targets) / sizeof(*targets))

/* One kernel on one device. */
struct tuned {
    char name[160];
    struct ftj_problem problem;
    struct ftj_device device;
    const struct ftj_variant *variant;
    struct ftj_config config;
};

/* Kernel `index` of all there are: of each operation, of every seventh problem of the whole compile
 * matrix, on each target. */
static bool tuned_at(size_t index, struct tuned *tuned)
{
    const enum ftj_kernel_op op = (enum ftj_kernel_op)(index % FTJ_NUM_KERNEL_OPS);
    index /= FTJ_NUM_KERNEL_OPS;
    const char *target = targets[index % NUM_TARGETS];
    const size_t row_index = index / NUM_TARGETS * 7;
    if (row_index >= matrix_num_rows(true))
        return false;

    const struct matrix_row row = matrix_row_at(true, row_index);
    char name[128];
    ftj_attention_desc desc;
    matrix_row_text(&row, name, sizeof(name));
    snprintf(tuned->name, sizeof(tuned->name), "kernel %d of %s on %s", (int)op, name, target);
    cr_assert_eq(ftj_device_of_target(target, NULL, &tuned->device), FTJ_OK);
    cr_assert_eq(matrix_row_desc(&row, &desc), FTJ_OK);
    if (!ftj_desc_needs(&desc, op))
        desc.short_queries = 2;
    ftj_problem_init(&tuned->problem, op, &desc);
    tuned->variant = ftj_variant_select(&tuned->problem, &tuned->device, &tuned->config);
    cr_assert_not_null(tuned->variant, "%s", tuned->name);
    return true;
}

Test(tune, a_block_fits_its_device)
{
    struct tuned tuned;
    for (size_t i = 0; tuned_at(i, &tuned); i++) {
        const struct ftj_config *config = &tuned.config;
        cr_expect(config->num_threads >= 32 && config->num_threads <= 1024 &&
                      config->num_threads % 32 == 0,
                  "%s: %u threads", tuned.name, config->num_threads);
        cr_expect_leq(config->smem_bytes, tuned.device.smem_bytes, "%s", tuned.name);
        cr_expect_geq(config->min_blocks, 1u, "%s", tuned.name);
        /* What min_blocks promises the compiler has to be there. 1 KiB a block is the driver's. */
        cr_expect_leq(config->min_blocks * (config->smem_bytes + 1024),
                      tuned.device.smem_per_sm_bytes + 1024, "%s: %u blocks of %u bytes",
                      tuned.name, config->min_blocks, config->smem_bytes);
        const uint32_t registers =
            tuned.device.registers_per_sm / (config->min_blocks * config->num_threads);
        cr_expect_geq(registers, 32u, "%s: %u registers", tuned.name, registers);
    }
}

Test(tune, decode_tiles_are_whole_tiles_of_the_instruction)
{
    struct tuned tuned;
    for (size_t i = 0; tuned_at(i, &tuned); i++) {
        const struct ftj_config *config = &tuned.config;
        if (tuned.problem.op != FTJ_KERNEL_DECODE)
            continue;
        cr_expect(config->tile_tokens > 0 && config->tile_tokens % 16 == 0, "%s: tile %u",
                  tuned.name, config->tile_tokens);
        cr_expect_geq(config->num_stages, 1u, "%s", tuned.name);
        /* Columns go in as many rounds as they must, each as full as the others. */
        const uint32_t queries = tuned.problem.run_queries ? tuned.problem.run_queries : 1;
        const uint32_t all = (tuned.problem.group * queries + 7) / 8;
        cr_assert(config->n_tiles >= 1 && config->n_tiles <= all, "%s", tuned.name);
        const uint32_t rounds = (all + config->n_tiles - 1) / config->n_tiles;
        cr_expect_eq(config->n_tiles, (all + rounds - 1) / rounds, "%s", tuned.name);
    }
}

Test(tune, of_store_merge_and_oracle_does_not_ask_the_device)
{
    static const struct {
        enum ftj_kernel_op op;
        uint32_t head_dim;
        ftj_dtype io_dtype;
        uint32_t num_threads, min_blocks, num_warps, rows_per_block, smem_bytes;
    } rows[] = {
        {FTJ_KERNEL_STORE, 32, 0, 256, 5, 8, 128, 0},
        {FTJ_KERNEL_STORE, 64, 0, 256, 5, 8, 64, 0},
        {FTJ_KERNEL_STORE, 80, 0, 256, 5, 8, 32, 0},
        {FTJ_KERNEL_STORE, 128, 0, 256, 5, 8, 32, 0},
        {FTJ_KERNEL_STORE, 512, 0, 256, 5, 8, 8, 0},
        {FTJ_KERNEL_STORE, 128, FTJ_DTYPE_FP32, 256, 3, 8, 32, 0},
        {FTJ_KERNEL_MERGE, 32, 0, 256, 1, 8, 8, 0},
        {FTJ_KERNEL_MERGE, 512, 0, 256, 1, 8, 8, 0},
        {FTJ_KERNEL_GENERIC, 128, 0, 128, 1, 4, 4, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows) * NUM_TARGETS; i++) {
        const size_t r = i / NUM_TARGETS;
        const struct matrix_row row = {.k_format = FTJ_KV_FP8,
                                       .v_format = FTJ_KV_NVFP4,
                                       .head_dim = rows[r].head_dim,
                                       .group = 4,
                                       .page_size = 64,
                                       .io_dtype = rows[r].io_dtype};
        ftj_attention_desc desc;
        struct ftj_problem problem;
        struct ftj_device device;
        struct ftj_config config = {0};
        cr_assert_eq(ftj_device_of_target(targets[i % NUM_TARGETS], NULL, &device), FTJ_OK);
        cr_assert_eq(matrix_row_desc(&row, &desc), FTJ_OK);
        ftj_problem_init(&problem, rows[r].op, &desc);
        cr_assert_not_null(ftj_variant_select(&problem, &device, &config));
        cr_expect_eq(config.num_threads, rows[r].num_threads, "row %zu", r);
        cr_expect_eq(config.min_blocks, rows[r].min_blocks, "row %zu", r);
        cr_expect_eq(config.num_warps, rows[r].num_warps, "row %zu", r);
        cr_expect_eq(config.rows_per_block, rows[r].rows_per_block, "row %zu", r);
        cr_expect_eq(config.smem_bytes, rows[r].smem_bytes, "row %zu", r);
    }
}

/* A decode's on Hopper, over a cache of this shape. */
static struct ftj_config config_of_decode(ftj_attention_desc *desc, const ftj_kv_shape *shape)
{
    struct ftj_problem problem;
    struct ftj_device device;
    struct ftj_config config = {0};
    cr_assert_eq(ftj_device_of_target("sm_90a", NULL, &device), FTJ_OK);
    cr_assert_eq(ftj_kv_layout_init(&desc->kv, shape), FTJ_OK);
    ftj_problem_init(&problem, FTJ_KERNEL_DECODE, desc);
    cr_assert_not_null(ftj_variant_select(&problem, &device, &config));
    return config;
}

Test(tune, kv_heads_lie_side_by_side_where_it_pays)
{
    static const struct {
        ftj_kv_format format;
        ftj_kv_order order;
        uint32_t page_size, head_dim, group, kv_heads, window;
        uint32_t unit_heads, warps; /* these of an SM */
    } rows[] = {
        {FTJ_KV_NVFP4, FTJ_KV_NHD, 64, 128, 4, 8, 0, 8, 16},
        {FTJ_KV_NVFP4, FTJ_KV_NHD, 8, 128, 4, 8, 0, 4, 16},
        {FTJ_KV_NVFP4, FTJ_KV_PACKED, 1, 128, 4, 8, 0, 8, 16},
        {FTJ_KV_FP8, FTJ_KV_PACKED, 1, 128, 4, 8, 0, 4, 16},
        {FTJ_KV_FP8, FTJ_KV_NHD, 1, 128, 4, 8, 0, 8, 16},
        {FTJ_KV_16BIT, FTJ_KV_PACKED, 1, 128, 4, 8, 0, 4, 8},
        {FTJ_KV_NVFP4, FTJ_KV_PACKED, 64, 128, 4, 8, 0, 1, 16},
        {FTJ_KV_FP8, FTJ_KV_HND, 64, 128, 4, 8, 0, 1, 8},
        {FTJ_KV_FP8, FTJ_KV_PACKED, 1, 128, 4, 6, 0, 2, 12},
        {FTJ_KV_FP8, FTJ_KV_PACKED, 1, 128, 4, 3, 0, 1, 12},
        /* parts of 24 KB with four */
        {FTJ_KV_NVFP4, FTJ_KV_PACKED, 1, 128, 12, 8, 0, 2, 8},
        {FTJ_KV_FP8, FTJ_KV_PACKED, 1, 256, 6, 4, 0, 2, 8},
        /* windows */
        {FTJ_KV_FP8, FTJ_KV_PACKED, 1, 64, 8, 8, 128, 1, 16},
        {FTJ_KV_FP8, FTJ_KV_PACKED, 1, 64, 8, 8, FTJ_FEW_KEYS, 8, 16},
        /* pages smaller than a tile */
        {FTJ_KV_16BIT, FTJ_KV_PACKED, 16, 128, 4, 8, 0, 2, 8},
        {FTJ_KV_NVFP4, FTJ_KV_PACKED, 16, 128, 4, 8, 0, 1, 16},
        {FTJ_KV_FP8, FTJ_KV_PACKED, 16, 128, 4, 7, 0, 1, 8},
        {FTJ_KV_FP8, FTJ_KV_PACKED, 16, 128, 40, 2, 0, 2, 8},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        ftj_attention_desc desc = {.num_q_heads = rows[i].group * rows[i].kv_heads,
                                   .dtype = FTJ_DTYPE_BF16,
                                   .window = rows[i].window};
        const ftj_kv_shape shape = {.k_format = rows[i].format,
                                    .v_format = rows[i].format,
                                    .order = rows[i].order,
                                    .num_kv_heads = rows[i].kv_heads,
                                    .head_dim = rows[i].head_dim,
                                    .page_size = rows[i].page_size};
        const struct ftj_config config = config_of_decode(&desc, &shape);
        cr_expect_eq(config.unit_heads, rows[i].unit_heads, "row %zu: %u", i, config.unit_heads);
        cr_expect_eq(config.min_blocks * config.num_warps, rows[i].warps, "row %zu: %u warps", i,
                     config.min_blocks * config.num_warps);
    }
}

/* More query heads than a warp holds are two halves, which count as kv heads; of 128 dims four
 * warps attend to both together. */
Test(tune, a_large_group_is_two_halves)
{
    static const struct {
        ftj_kv_order order;
        uint32_t page_size, head_dim, group, parts, tiles;
        bool is_together;
    } rows[] = {
        {FTJ_KV_PACKED, 64, 128, 32, 1, 4, false}, {FTJ_KV_PACKED, 64, 128, 40, 2, 3, true},
        {FTJ_KV_HND, 64, 128, 64, 2, 4, true},     {FTJ_KV_PACKED, 16, 128, 34, 2, 3, true},
        {FTJ_KV_PACKED, 64, 64, 64, 2, 4, false},  {FTJ_KV_PACKED, 64, 256, 24, 2, 2, false},
        {FTJ_KV_PACKED, 64, 128, 41, 1, 3, false}, {FTJ_KV_NHD, 64, 128, 64, 1, 4, false},
        {FTJ_KV_PACKED, 1, 128, 64, 1, 4, false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        ftj_attention_desc desc = {.num_q_heads = 2 * rows[i].group, .dtype = FTJ_DTYPE_BF16};
        const ftj_kv_shape shape = {.k_format = FTJ_KV_FP8,
                                    .v_format = FTJ_KV_FP8,
                                    .order = rows[i].order,
                                    .num_kv_heads = 2,
                                    .head_dim = rows[i].head_dim,
                                    .page_size = rows[i].page_size};
        const struct ftj_config config = config_of_decode(&desc, &shape);
        cr_expect_eq(config.group_parts, rows[i].parts, "row %zu: %u", i, config.group_parts);
        cr_expect_eq(config.n_tiles, rows[i].tiles, "row %zu: %u tiles", i, config.n_tiles);
        if (rows[i].parts > 1)
            cr_expect_eq(config.unit_heads, rows[i].parts, "row %zu", i);
        cr_expect_eq(strcmp(config.variant, "attn_decode_group_sm90") == 0, rows[i].is_together,
                     "row %zu: %s", i, config.variant);
        const uint32_t beside = config.num_threads - 32 * config.num_warps;
        cr_expect_eq(beside, rows[i].is_together ? 128u : 0u, "row %zu: %u threads beside", i,
                     beside);
    }
}

/* The four rows of V that lanes read at a time, 16 apart, are to cover all banks once: 128 bytes,
 * which rows of codes divide. */
Test(tune, rows_of_v_of_a_large_group_lie_apart)
{
    static const struct {
        ftj_kv_format v_format;
        uint32_t shift;
    } rows[] = {{FTJ_KV_16BIT, 0}, {FTJ_KV_FP8, 32}, {FTJ_KV_NVFP4, 16}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        ftj_attention_desc desc = {.num_q_heads = 64, .dtype = FTJ_DTYPE_BF16};
        const ftj_kv_shape shape = {.k_format = FTJ_KV_FP8,
                                    .v_format = rows[i].v_format,
                                    .num_kv_heads = 1,
                                    .head_dim = 128,
                                    .page_size = 64};
        const struct ftj_config config = config_of_decode(&desc, &shape);
        cr_expect_str_eq(config.variant, "attn_decode_group_sm90");
        cr_expect_eq(config.value_shift, rows[i].shift, "row %zu: %u", i, config.value_shift);
    }
}

Test(tune, is_a_pure_function)
{
    struct tuned first, between, again;
    for (size_t i = 0; i < 5 * NUM_TARGETS; i++) {
        cr_assert(tuned_at(i, &first) && tuned_at(i + 7, &between) && tuned_at(i, &again));
        cr_expect_eq(first.variant, again.variant);
        cr_expect_eq(memcmp(&first.config, &again.config, sizeof(first.config)), 0, "%s",
                     first.name);
    }
}
