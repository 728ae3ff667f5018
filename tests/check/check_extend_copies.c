/* SPDX-License-Identifier: MIT */
/*
 * Extends over 16-bit rows, in every way that these lie: pages whose runs of rows are a tile of
 * keys, more than one, or a part of one, in every order, under windows that begin inside a run.
 * Even rows read every key from the cache, odd ones the same shape with the queries' own keys
 * beside it.
 */
#include "tests/check/check_extend.h"

#define NUM_HEAD_DIMS 3
#define NUM_PAGES     5
#define NUM_ORDERS    3
#define NUM_ROWS      (2 * NUM_HEAD_DIMS * NUM_PAGES * NUM_ORDERS)
#define NUM_QUICK     (2 * NUM_PAGES) /* on the CPU device: each size of page once */

static struct extend_shape shape_of(uint64_t row)
{
    static const uint32_t head_dims[NUM_HEAD_DIMS] = {128, 64, 256};
    static const uint32_t page_sizes[NUM_PAGES] = {64, 128, 32, 96, 784};
    static const uint32_t windows[4] = {0, 33, 130, 0};
    static const uint32_t groups[4] = {4, 1, 8, 6};
    static const uint32_t blocks[3] = {0, 1, 5};
    static const struct {
        uint32_t q_len;
        uint32_t length;
    } runs[] = {{40, 71}, {5, 3}, {1, 350}, {0, 9}, {230, 230}, {130, 257}};
    const uint32_t i = (uint32_t)(row / 2);
    struct extend_shape shape = {
        .attention = {.head_dim = head_dims[i % NUM_HEAD_DIMS],
                      .page_size = page_sizes[i % NUM_PAGES],
                      .order = (ftj_kv_order)((i + i / (NUM_HEAD_DIMS * NUM_PAGES)) % NUM_ORDERS),
                      .table = FTJ_TABLE_BLOCKS,
                      .dtype = i % 4 == 3 ? FTJ_DTYPE_FP16 : FTJ_DTYPE_BF16,
                      .window = windows[i % 4],
                      .group = groups[i / 2 % 4],
                      .num_kv_heads = 1 + i % 2,
                      .max_blocks = blocks[i % 3],
                      .wide_strides = i % 2,
                      .batch = sizeof(runs) / sizeof(*runs)},
        .has_new = row % 2,
    };
    for (uint32_t r = 0; r < shape.attention.batch; r++) {
        shape.q_lens[r] = runs[r].q_len;
        shape.attention.lengths[r] = runs[r].length;
    }
    return shape;
}

static uint64_t num_rows(const struct check_options *options)
{
    (void)options;
    return NUM_ROWS;
}

static uint64_t num_quick(const struct check_options *options)
{
    return options->kind == FTJ_DEVICE_CPU ? NUM_QUICK : NUM_ROWS;
}

static void describe(struct check_row *row)
{
    const struct extend_shape shape = shape_of(row->index);
    extend_describe(row, &shape);
}

static void *prepare(struct check_row *row)
{
    const struct extend_shape shape = shape_of(row->index);
    return extend_case_random(row, &shape);
}

const struct check_test check_extend_copies_test = {
    .name = "extend_copies",
    .op = FTJ_KERNEL_EXTEND,
    .num_rows = num_rows,
    .num_quick = num_quick,
    .prepare = prepare,
    .finish = extend_case_free,
    .run = extend_case_run,
    .describe = describe,
};
