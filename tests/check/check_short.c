/* SPDX-License-Identifier: MIT */
/*
 * Short runs of queries through decode's kernels, against the references.
 *
 * Rows 0 .. 31: each of four format pairs meets every head_dim, the other axes turning. Then the
 * matrix of pair, head_dim and order.
 */
#include <stdio.h>
#include <string.h>

#include "codegen/tune.h"
#include "runtime/attention_state.h"
#include "tests/check/check_extend.h"

static const struct {
    ftj_kv_format k;
    ftj_kv_format v;
} pairs[4] = {
    {FTJ_KV_16BIT, FTJ_KV_16BIT},
    {FTJ_KV_FP8, FTJ_KV_FP8},
    {FTJ_KV_NVFP4, FTJ_KV_NVFP4},
    {FTJ_KV_FP8, FTJ_KV_NVFP4},
};
static const uint32_t head_dims[8] = {128, 64, 256, 80, 512, 32, 192, 96};
static const uint32_t groups[7] = {4, 8, 1, 6, 7, 3, 12};
static const uint32_t page_sizes[4] = {64, 1, 16, 784};

#define NUM_PAIRS    4
#define NUM_COVERING (NUM_PAIRS * 8)
#define NUM_MATRIX   (NUM_PAIRS * 8 * 3)
#define NUM_QUICK    16 /* on the CPU device */

/* As many queries as decode's kernels take, from 2 to 8; a smaller group where they take none. */
static void choose_queries(struct extend_shape *shape, uint32_t i)
{
    static const uint32_t wanted[5] = {8, 4, 2, 3, 5};
    struct attention_shape *attention = &shape->attention;
    const ftj_kv_shape kv = {.k_format = attention->k_format,
                             .v_format = attention->v_format,
                             .head_dim = attention->head_dim};
    for (shape->short_queries = wanted[i % 5];
         !ftj_runs_pay(&kv, attention->group, shape->short_queries); shape->short_queries--) {
        if (shape->short_queries > 2)
            continue;
        attention->group = 3;
        shape->short_queries = 5;
    }
}

/* Ragged: a run whose keys end in two tiles, no query, no key, more queries than keys, one query,
 * and a run that is sometimes longer than was said. */
static void choose_lengths(struct extend_shape *shape, uint32_t i)
{
    const uint32_t most = shape->short_queries;
    const bool exceeds = i % 3 == 1;
    const uint32_t q_lens[6] = {most, 0, 1, most, 1, exceeds ? 2 * most + 1 : most - 1};
    const uint32_t lengths[6] = {65 + i % 5, 9, 0, 2 + i % 3, 128, 300 + i % 37};
    struct attention_shape *attention = &shape->attention;
    attention->batch = 6;
    memcpy(shape->q_lens, q_lens, sizeof(q_lens));
    memcpy(attention->lengths, lengths, sizeof(lengths));
    if (attention->page_size > 64) {
        shape->q_lens[attention->batch] = most;
        attention->lengths[attention->batch++] = attention->page_size + i % 5;
    }
}

static struct extend_shape shape_of(uint64_t index)
{
    struct extend_shape shape = {0};
    uint32_t turn = (uint32_t)index;
    const uint32_t pair = turn % NUM_PAIRS;
    if (index < NUM_COVERING) {
        const uint32_t i = turn / NUM_PAIRS;
        shape.attention.head_dim = head_dims[i];
        shape.attention.group = groups[(i + pair) % 7];
        shape.attention.page_size = page_sizes[(i + i / 4 + pair) % 4];
        shape.attention.order = (ftj_kv_order)((i + pair) % 3);
        turn = i + 3 * pair;
    } else {
        uint32_t rest = (turn - NUM_COVERING) / NUM_PAIRS;
        shape.attention.order = (ftj_kv_order)(rest % 3);
        shape.attention.head_dim = head_dims[rest / 3];
        turn = turn * 2654435761u >> 7;
        shape.attention.group = groups[turn % 7];
        shape.attention.page_size = page_sizes[turn % 4];
    }
    shape.attention.k_format = pairs[pair].k;
    shape.attention.v_format = pairs[pair].v;
    extend_rotate_options(&shape.attention, turn);
    choose_queries(&shape, turn);
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
    return options->kind == FTJ_DEVICE_CPU ? NUM_QUICK : NUM_COVERING;
}

static void describe(struct check_row *row)
{
    const struct extend_shape shape = shape_of(row->index);
    attention_shape_text(&shape.attention, row->shape, sizeof(row->shape));
    const size_t used = strlen(row->shape);
    snprintf(row->shape + used, sizeof(row->shape) - used, " %u queries", shape.short_queries);
}

static void *prepare(struct check_row *row)
{
    const struct extend_shape shape = shape_of(row->index);
    return extend_case_random(row, &shape);
}

static void run(struct check_row *row, void *prepared)
{
    const struct extend_case *c = prepared;
    struct extend_device device = {0};
    if (extend_case_check(c, row, &device)) {
        if (!device.attention.attn->short_runs.kernel)
            check_fail(row, "runs of %u queries went through no kernel of a decode",
                       c->shape.short_queries);
    }
    extend_device_finish(&device, row);
}

static bool has_fp8(uint64_t index)
{
    return index % NUM_PAIRS != 0 && index % 3 == 0;
}

const struct check_test check_short_test = {
    .name = "short",
    .op = FTJ_KERNEL_DECODE,
    .num_rows = num_rows,
    .num_quick = num_quick,
    .prepare = prepare,
    .finish = extend_case_free,
    .run = run,
    .describe = describe,
    .has_fp8 = has_fp8,
    .rows_on_every_tier = NUM_COVERING,
};
