/* SPDX-License-Identifier: MIT */
/*
 * What must not change an answer. Each row decodes a case, changes something that cannot matter,
 * and decodes again: the same bits where the same work is done, else the same within the bound.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check/check_attention.h"

enum invariant {
    PAGES_MOVE,      /* other pages, same content: the same bits */
    KEYS_OUTSIDE,    /* large finite keys before the window and past the end: the same bits */
    BLOCKS_CHANGE,   /* other max_blocks: within the bound */
    BATCH_GROWS,     /* a request decoded among others: within the bound */
    SLOTS_AS_BLOCKS, /* the same cache through slots: within the bound */
    NUM_INVARIANTS
};
static const char *const names[NUM_INVARIANTS] = {"pages move", "keys outside change",
                                                  "max_blocks changes", "batch shrinks",
                                                  "slots instead of blocks"};

static const struct {
    ftj_kv_format k, v;
} pairs[4] = {{FTJ_KV_16BIT, FTJ_KV_16BIT},
              {FTJ_KV_FP8, FTJ_KV_FP8},
              {FTJ_KV_NVFP4, FTJ_KV_NVFP4},
              {FTJ_KV_FP8, FTJ_KV_NVFP4}};

static uint64_t num_rows(const struct check_options *options)
{
    (void)options;
    return NUM_INVARIANTS * 4;
}

static struct attention_shape shape_of(uint64_t index)
{
    const uint32_t pair = (uint32_t)(index / NUM_INVARIANTS);
    return (struct attention_shape){
        .k_format = pairs[pair].k,
        .v_format = pairs[pair].v,
        .order = (ftj_kv_order)(pair % 3),
        .dtype = pair % 2 ? FTJ_DTYPE_FP16 : FTJ_DTYPE_BF16,
        .head_dim = pair % 2 ? 128 : 64,
        .num_kv_heads = 2,
        .group = 4,
        .page_size = 16,
        .window = 100,
        .batch = 4,
        .lengths = {37, 0, 290, 100},
    };
}

static void describe(struct check_row *row)
{
    const struct attention_shape shape = shape_of(row->index);
    char text[128];
    attention_shape_text(&shape, text, sizeof(text));
    snprintf(row->shape, sizeof(row->shape), "%s: %s", names[row->index % NUM_INVARIANTS], text);
}

/* Put the rows of `from` where `to` looks for them. */
static void copy_tokens(const struct attention_case *from, struct attention_case *to)
{
    struct ref_row stored;
    for (uint32_t r = 0; r < to->shape.batch; r++) {
        for (uint32_t j = attention_case_first(from, r); j < to->shape.lengths[r]; j++) {
            for (uint32_t h = 0; h < to->shape.num_kv_heads; h++) {
                for (int side = CHECK_K; side <= CHECK_V; side++) {
                    check_cache_get(&from->cache, (enum check_side)side,
                                    attention_case_slot(from, r, j), h, &stored);
                    check_cache_put(&to->cache, (enum check_side)side,
                                    attention_case_slot(to, r, j), h, &stored);
                }
            }
        }
    }
    memcpy(to->q, from->q, to->q_bytes);
}

/* Every row that holds poison now holds large finite values, as reused pages do. */
static void fill_unused(struct attention_case *c)
{
    struct check_cache full;
    float values[REF_MAX_HEAD_DIM];
    for (uint32_t d = 0; d < c->shape.head_dim; d++)
        values[d] = d % 2 ? 300.0f : -200.0f;
    check_cache_init(&full, &c->cache.layout, c->cache.dtype, c->cache.num_pages);
    for (uint64_t slot = 0; slot < full.num_pages * c->shape.page_size; slot++) {
        for (uint32_t h = 0; h < c->shape.num_kv_heads; h++) {
            check_cache_encode(&full, CHECK_K, slot, h, values);
            check_cache_encode(&full, CHECK_V, slot, h, values);
        }
    }
    struct ref_row stored;
    for (uint32_t r = 0; r < c->shape.batch; r++) {
        for (uint32_t j = attention_case_first(c, r); j < c->shape.lengths[r]; j++) {
            for (uint32_t h = 0; h < c->shape.num_kv_heads; h++) {
                for (int side = CHECK_K; side <= CHECK_V; side++) {
                    const uint64_t slot = attention_case_slot(c, r, j);
                    check_cache_get(&c->cache, (enum check_side)side, slot, h, &stored);
                    check_cache_put(&full, (enum check_side)side, slot, h, &stored);
                }
            }
        }
    }
    check_cache_finish(&c->cache);
    c->cache = full;
}

static bool decode_once(struct check_row *row, const struct attention_case *c,
                        struct attention_result *result)
{
    struct attention_device device = {0};
    const bool done =
        attention_device_init(&device, row, c) && attention_decode(&device, row, c, result);
    attention_device_finish(&device, row);
    return done;
}

static void run(struct check_row *row, void *prepared)
{
    (void)prepared;
    const enum invariant invariant = (enum invariant)(row->index % NUM_INVARIANTS);
    struct attention_shape shape = shape_of(row->index);
    struct attention_case before = {0};
    struct attention_case after = {0};
    struct attention_result first = {0};
    struct attention_result second = {0};
    if (!attention_case_init(&before, row, &shape))
        goto cleanup;
    attention_case_fill_random(&before, &row->random);
    attention_case_solve(&before);

    shape.max_blocks = invariant == BLOCKS_CHANGE ? 3 : 0;
    shape.batch = invariant == BATCH_GROWS ? 3 : shape.batch;
    shape.table = invariant == SLOTS_AS_BLOCKS ? FTJ_TABLE_SLOTS : FTJ_TABLE_BLOCKS;
    if (!attention_case_init(&after, row, &shape))
        goto cleanup;
    copy_tokens(&before, &after);
    attention_case_solve(&after);
    if (invariant == KEYS_OUTSIDE)
        fill_unused(&after);

    if (!decode_once(row, &before, &first) || !decode_once(row, &after, &second))
        goto cleanup;
    attention_check(&before, row, &first);
    attention_check(&after, row, &second);
    if (invariant == PAGES_MOVE || invariant == KEYS_OUTSIDE)
        attention_check_equal(&before, row, &first, &second, names[invariant]);

cleanup:
    attention_result_finish(&first);
    attention_result_finish(&second);
    attention_case_finish(&before);
    attention_case_finish(&after);
}

const struct check_test check_invariants_test = {
    .name = "invariants",
    .op = FTJ_KERNEL_DECODE,
    .num_rows = num_rows,
    .num_quick = num_rows,
    .run = run,
    .describe = describe,
};
