/* SPDX-License-Identifier: MIT */
/*
 * Decode against the references.
 *
 * Rows 0 .. 31: each of the four main format pairs meets every value of every axis. 32 .. 71: the
 * other five pairs do. From 72 on: the full matrix of main pair, head_dim, group, page size and
 * order, while the other options rotate.
 */
#include <stdlib.h>

#include "tests/check/check_attention.h"

static const struct {
    ftj_kv_format k;
    ftj_kv_format v;
} pairs[9] = {
    {FTJ_KV_16BIT, FTJ_KV_16BIT}, {FTJ_KV_FP8, FTJ_KV_FP8},     {FTJ_KV_NVFP4, FTJ_KV_NVFP4},
    {FTJ_KV_FP8, FTJ_KV_NVFP4},   {FTJ_KV_16BIT, FTJ_KV_FP8},   {FTJ_KV_16BIT, FTJ_KV_NVFP4},
    {FTJ_KV_FP8, FTJ_KV_16BIT},   {FTJ_KV_NVFP4, FTJ_KV_16BIT}, {FTJ_KV_NVFP4, FTJ_KV_FP8},
};
static const uint32_t head_dims[8] = {32, 64, 80, 96, 128, 192, 256, 512};
static const uint32_t groups[7] = {1, 4, 6, 7, 8, 12, 24};
static const uint32_t page_sizes[4] = {1, 16, 64, 784};

#define NUM_MAIN_PAIRS 4
#define NUM_COVERING   72
#define NUM_QUICK      47 /* all of the main pairs, three rows of each other one */
#define NUM_MATRIX     (NUM_MAIN_PAIRS * 8 * 7 * 4 * 3)

/* Options that are not axes of the matrix, turned over by numbers that share no period with them:
 * those that a kernel is compiled for by `cell`, the others by `i`. */
static void rotate_options(struct attention_shape *shape, uint32_t cell, uint32_t i)
{
    static const uint32_t windows[5] = {0, 33, 0, 1, 130};
    static const uint32_t blocks[4] = {0, 1, 0, 5};
    shape->table = (cell ^ (cell >> 2)) & 1 ? FTJ_TABLE_SLOTS : FTJ_TABLE_BLOCKS;
    shape->dtype = ((cell >> 1) ^ (cell >> 3)) & 1 ? FTJ_DTYPE_FP16 : FTJ_DTYPE_BF16;
    shape->softcap = cell % 4 == 3 ? 15.0f : 0;
    shape->num_kv_heads = 1 + (cell / 3) % 4;
    shape->wide_strides = ((cell >> 2) ^ cell) & 1;
    shape->window = windows[i % 5];
    shape->max_blocks = blocks[(i / 3) % 4];
    shape->sm_scale = i % 7 == 2 ? 0.05f : 0;
    shape->has_sinks = i % 3 == 1;
    shape->no_lse = i % 11 == 10;
}

/* Ragged: nothing, one key, around a tile, around a page, several pages of a large one. */
static void choose_lengths(struct attention_shape *shape, uint32_t i)
{
    static const uint32_t first[3][5] = {{0, 1, 17, 63, 0}, {65, 0, 0, 16, 1}, {31, 128, 2, 0, 5}};
    shape->batch = 3 + i % 3;
    for (uint32_t r = 0; r < shape->batch; r++)
        shape->lengths[r] = first[i % 3][r];
    if (i % 2)
        shape->lengths[shape->batch++] = 300 + i % 37;
    if (shape->page_size > 64)
        shape->lengths[shape->batch++] = shape->page_size + 1 + i % 50;
}

static struct attention_shape shape_of(uint64_t index)
{
    struct attention_shape shape = {0};
    uint32_t turn = (uint32_t)index;
    uint32_t cell;
    if (index < NUM_COVERING) {
        uint32_t pair = turn % NUM_MAIN_PAIRS;
        uint32_t i = turn / NUM_MAIN_PAIRS;
        if (turn >= 8 * NUM_MAIN_PAIRS) {
            const uint32_t rest = turn - 8 * NUM_MAIN_PAIRS;
            pair = NUM_MAIN_PAIRS + rest % 5;
            i = (rest / 5 * 3 + pair) % 8;
        }
        shape.k_format = pairs[pair].k;
        shape.v_format = pairs[pair].v;
        shape.head_dim = head_dims[i];
        shape.group = groups[(i + pair) % 7];
        shape.page_size = page_sizes[(i + i / 4 + pair) % 4];
        shape.order = (ftj_kv_order)((i + pair) % 3);
        cell = turn = i + 3 * pair;
    } else {
        uint32_t rest = (uint32_t)(index - NUM_COVERING);
        const uint32_t pair = rest % NUM_MAIN_PAIRS;
        rest /= NUM_MAIN_PAIRS;
        shape.k_format = pairs[pair].k;
        shape.v_format = pairs[pair].v;
        shape.order = (ftj_kv_order)(rest % 3);
        rest /= 3;
        shape.page_size = page_sizes[rest % 4];
        rest /= 4;
        shape.group = groups[rest % 7];
        shape.head_dim = head_dims[rest / 7 % 8];
        /* Groups of one cell share kernels where they have as many tiles of heads. */
        const uint32_t cell_index = rest / 7 * 4 * 3 * NUM_MAIN_PAIRS +
                                    (uint32_t)(index - NUM_COVERING) % (4 * 3 * NUM_MAIN_PAIRS);
        cell = cell_index * 2654435761u >> 7;
        turn = (uint32_t)(index * 2654435761u >> 7);
    }
    rotate_options(&shape, cell, turn);
    choose_lengths(&shape, turn);
    return shape;
}

static uint64_t num_rows(const struct check_options *options)
{
    (void)options;
    return NUM_COVERING + NUM_MATRIX;
}

static uint64_t num_quick(const struct check_options *options)
{
    (void)options;
    return NUM_QUICK;
}

static void describe(struct check_row *row)
{
    const struct attention_shape shape = shape_of(row->index);
    attention_shape_text(&shape, row->shape, sizeof(row->shape));
}

static void *prepare(struct check_row *row)
{
    const struct attention_shape shape = shape_of(row->index);
    struct attention_case *c = check_alloc(sizeof(*c));
    if (attention_case_init(c, row, &shape)) {
        attention_case_fill_random(c, &row->random);
        attention_case_solve(c);
    }
    return c;
}

static void finish(void *prepared)
{
    attention_case_finish(prepared);
    free(prepared);
}

static void run(struct check_row *row, void *prepared)
{
    const struct attention_case *c = prepared;
    struct attention_device device = {0};
    struct attention_result first = {0};
    struct attention_result second = {0};
    if (!c->exact_o) {
        check_fail(row, "the layout was refused: %s", ftj_last_error());
        return;
    }
    if (attention_device_init(&device, row, c) && attention_decode(&device, row, c, &first)) {
        attention_check(c, row, &first);
        if (attention_decode(&device, row, c, &second))
            attention_check_equal(c, row, &first, &second, "the same call again");
        check_cache_compare(&c->cache, row, &device.cache);
    }
    attention_result_finish(&first);
    attention_result_finish(&second);
    attention_device_finish(&device, row);
}

/* Every head_dim and both formats, but not every row: a tier more is a compile more. */
static bool has_fp8(uint64_t index)
{
    const struct attention_shape shape = shape_of(index);
    if (index < NUM_COVERING && index % 3 == 0)
        return false;
    return shape.k_format != FTJ_KV_16BIT || shape.v_format != FTJ_KV_16BIT;
}

const struct check_test check_decode_test = {
    .name = "decode",
    .op = FTJ_KERNEL_DECODE,
    .num_rows = num_rows,
    .num_quick = num_quick,
    .prepare = prepare,
    .finish = finish,
    .run = run,
    .describe = describe,
    .has_fp8 = has_fp8,
    .rows_on_every_tier = NUM_COVERING,
};
