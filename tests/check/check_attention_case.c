/* SPDX-License-Identifier: MIT */
/* The host's side of a decode: layout, tables, inputs, references. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check/check_attention.h"
#include "tests/ref/ref_attention.h"

/* Entries before and after the ones in use, so that an offset that is dropped shows. */
#define INDPTR_FIRST 3
#define TABLE_SPARE  3

void attention_shape_text(const struct attention_shape *shape, char *text, size_t size)
{
    const char *k = ftj_kv_format_name(shape->k_format);
    const char *v = ftj_kv_format_name(shape->v_format);
    const bool same = shape->k_format == shape->v_format;
    snprintf(text, size, "%s%s%s d%u g%u h%u p%u %s %s %s%s%s%s%s", k, same ? "" : "+",
             same ? "" : v, shape->head_dim, shape->group, shape->num_kv_heads, shape->page_size,
             ftj_kv_order_name(shape->order), shape->table == FTJ_TABLE_SLOTS ? "slots" : "blocks",
             shape->dtype == FTJ_DTYPE_FP16 ? "fp16" : "bf16", shape->window ? " window" : "",
             shape->has_sinks ? " sinks" : "", shape->softcap > 0 ? " softcap" : "",
             shape->wide_strides ? " strided" : "");
}

static uint32_t pages_of(const struct attention_shape *shape, uint32_t request)
{
    return (shape->lengths[request] + shape->page_size - 1) / shape->page_size;
}

uint32_t attention_case_first(const struct attention_case *c, uint32_t request)
{
    const uint32_t length = c->shape.lengths[request];
    const uint32_t window = c->shape.window;
    return window && window < length && !c->shape.sees_all ? length - window : 0;
}

uint64_t attention_case_slot(const struct attention_case *c, uint32_t request, uint32_t j)
{
    if (c->shape.table == FTJ_TABLE_SLOTS)
        return (uint64_t)c->table[c->indptr[request] + (int32_t)j];
    const uint32_t page_size = c->shape.page_size;
    const int64_t entry = (int64_t)request * c->table_stride + j / page_size;
    return (uint64_t)c->table[entry] * page_size + j % page_size;
}

uint16_t *attention_case_q(const struct attention_case *c, uint32_t request, uint32_t q_head)
{
    return c->q + request * c->q_batch_stride + q_head * c->q_head_stride;
}

static void fill_poison_ids(int32_t *table, size_t count)
{
    for (size_t i = 0; i < count; i++)
        table[i] = ATTENTION_POISON_ID;
}

static void init_block_table(struct attention_case *c, struct check_row *row, uint64_t num_pages)
{
    const struct attention_shape *shape = &c->shape;
    uint32_t width = shape->pages_width;
    for (uint32_t r = 0; r < shape->batch; r++)
        width = pages_of(shape, r) > width ? pages_of(shape, r) : width;
    c->table_stride = width + TABLE_SPARE;
    c->table_bytes = shape->batch * (size_t)c->table_stride * sizeof(int32_t);
    c->table = check_alloc(c->table_bytes);
    fill_poison_ids(c->table, shape->batch * (size_t)c->table_stride);

    uint32_t *order = check_alloc(num_pages * sizeof(*order));
    check_random_permutation(&row->random, order, (uint32_t)num_pages);
    uint32_t next = 0;
    for (uint32_t r = 0; r < shape->batch; r++) {
        const uint32_t first_page = attention_case_first(c, r) / shape->page_size;
        for (uint32_t p = 0; p < pages_of(shape, r); p++) {
            int32_t *entry = &c->table[r * c->table_stride + p];
            if (shape->pages)
                *entry = shape->pages[r * shape->pages_width + p];
            else if (p >= first_page)
                *entry = (int32_t)order[next++];
        }
    }
    free(order);
}

static void init_slot_table(struct attention_case *c, struct check_row *row, uint64_t num_pages)
{
    const struct attention_shape *shape = &c->shape;
    const uint32_t num_slots = (uint32_t)num_pages * shape->page_size;
    c->indptr = check_alloc((shape->batch + 1) * sizeof(*c->indptr));
    c->indptr[0] = INDPTR_FIRST;
    for (uint32_t r = 0; r < shape->batch; r++)
        c->indptr[r + 1] = c->indptr[r] + (int32_t)shape->lengths[r];
    const size_t entries = (size_t)c->indptr[shape->batch] + TABLE_SPARE;
    c->table_bytes = entries * sizeof(int32_t);
    c->table = check_alloc(c->table_bytes);
    fill_poison_ids(c->table, entries);

    uint32_t *order = check_alloc(num_slots * sizeof(*order));
    check_random_permutation(&row->random, order, num_slots);
    for (int32_t i = INDPTR_FIRST; i < c->indptr[shape->batch]; i++)
        c->table[i] = (int32_t)order[i - INDPTR_FIRST];
    free(order);
}

static void init_strides(struct attention_case *c)
{
    const struct attention_shape *shape = &c->shape;
    const uint32_t gap = shape->wide_strides ? 8 : 0; /* 16 bytes */
    c->q_head_stride = shape->head_dim + gap;
    c->q_batch_stride = c->num_q_heads * c->q_head_stride + 2 * gap;
    c->q_bytes = shape->batch * (size_t)c->q_batch_stride * sizeof(uint16_t);
}

static void init_desc(struct attention_case *c)
{
    const struct attention_shape *shape = &c->shape;
    c->desc = (ftj_attention_desc){
        .ops = FTJ_OP_DECODE | (shape->with_generic ? FTJ_OP_GENERIC : 0),
        .kv = c->cache.layout,
        .table = shape->table,
        .num_q_heads = c->num_q_heads,
        .dtype = shape->dtype,
        .sm_scale = shape->sm_scale,
        .softcap = shape->softcap,
        .window = shape->window,
        .max_blocks = shape->max_blocks,
    };
}

bool attention_case_init(struct attention_case *c, struct check_row *row,
                         const struct attention_shape *shape)
{
    *c = (struct attention_case){.shape = *shape};
    c->num_q_heads = shape->num_kv_heads * shape->group;
    ftj_kv_layout layout = {0};
    const ftj_kv_shape kv = {.k_format = shape->k_format,
                             .v_format = shape->v_format,
                             .order = shape->order,
                             .num_kv_heads = shape->num_kv_heads,
                             .head_dim = shape->head_dim,
                             .page_size = shape->page_size};
    if (!check_ok(row, ftj_kv_layout_init(&layout, &kv), "ftj_kv_layout_init"))
        return false;
    if (shape->wide_strides)
        check_layout_widen(&layout);

    uint64_t num_pages = 2; /* pages nobody owns are poison */
    for (uint32_t r = 0; r < shape->batch; r++)
        num_pages += pages_of(shape, r);
    if (shape->pages)
        num_pages = shape->num_pages;
    check_cache_init(&c->cache, &layout, shape->dtype, num_pages);
    init_strides(c);
    init_desc(c);
    c->q = check_alloc(c->q_bytes);
    memset(c->q, CHECK_POISON_BYTE, c->q_bytes);
    c->lengths = check_alloc(shape->batch * sizeof(*c->lengths));
    for (uint32_t r = 0; r < shape->batch; r++)
        c->lengths[r] = (int32_t)shape->lengths[r];
    if (shape->table == FTJ_TABLE_SLOTS)
        init_slot_table(c, row, num_pages);
    else
        init_block_table(c, row, num_pages);
    if (shape->has_sinks)
        c->sinks = check_alloc(c->num_q_heads * sizeof(*c->sinks));
    return true;
}

void attention_case_finish(struct attention_case *c)
{
    check_cache_finish(&c->cache);
    free(c->q);
    free(c->lengths);
    free(c->table);
    free(c->indptr);
    free(c->sinks);
    free(c->exact_o);
    free(c->exact_lse);
    free(c->bound_o);
    free(c->bound_lse);
    *c = (struct attention_case){0};
}

void attention_random_row(struct check_random *random, uint32_t head_dim, float low_log2,
                          float high_log2, float *values)
{
    const float gain = exp2f(check_random_uniform(random, low_log2, high_log2));
    float block_gain = 1;
    for (uint32_t d = 0; d < head_dim; d++) {
        if (d % 16 == 0)
            block_gain = exp2f(check_random_uniform(random, -2, 1));
        values[d] = gain * block_gain * check_random_gaussian(random);
    }
}

void attention_case_fill_random(struct attention_case *c, struct check_random *random)
{
    const struct attention_shape *shape = &c->shape;
    float values[REF_MAX_HEAD_DIM];
    for (uint32_t r = 0; r < shape->batch; r++) {
        for (uint32_t h = 0; h < c->num_q_heads; h++) {
            attention_random_row(random, shape->head_dim, shape->q_log2 - 1, shape->q_log2 + 1,
                                 values);
            uint16_t *q = attention_case_q(c, r, h);
            for (uint32_t d = 0; d < shape->head_dim; d++)
                q[d] = ref_16bit_narrow(shape->dtype, values[d]);
        }
        for (uint32_t j = attention_case_first(c, r); j < shape->lengths[r]; j++) {
            const uint64_t slot = attention_case_slot(c, r, j);
            for (uint32_t h = 0; h < shape->num_kv_heads; h++) {
                attention_random_row(random, shape->head_dim, -4, 2, values);
                check_cache_encode(&c->cache, CHECK_K, slot, h, values);
                attention_random_row(random, shape->head_dim, -6, 6, values);
                check_cache_encode(&c->cache, CHECK_V, slot, h, values);
            }
        }
    }
    for (uint32_t h = 0; c->sinks && h < c->num_q_heads; h++)
        c->sinks[h] = 2 * check_random_gaussian(random);
}

void attention_keys_init(struct attention_keys *keys, const struct attention_shape *shape)
{
    size_t longest = 0;
    for (uint32_t r = 0; r < shape->batch; r++)
        longest = shape->lengths[r] > longest ? shape->lengths[r] : longest;
    const size_t values = longest * shape->head_dim;
    keys->k = check_alloc(values * sizeof(*keys->k));
    keys->v = check_alloc(values * sizeof(*keys->v));
    keys->k_rounded = check_alloc(values * sizeof(*keys->k_rounded));
    keys->v_rounded = check_alloc(values * sizeof(*keys->v_rounded));
}

void attention_keys_finish(struct attention_keys *keys)
{
    free(keys->k);
    free(keys->v);
    free(keys->k_rounded);
    free(keys->v_rounded);
    *keys = (struct attention_keys){0};
}

void attention_keys_round(struct attention_keys *keys, const struct attention_shape *shape,
                          uint32_t first, uint32_t end)
{
    const size_t at = (size_t)first * shape->head_dim;
    const size_t values = (size_t)(end - first) * shape->head_dim;
    ref_round_values(keys->k + at, values, shape->dtype, keys->k_rounded + at);
    ref_round_values(keys->v + at, values, shape->dtype, keys->v_rounded + at);
}

/* What a query of a request sees, decoded. */
static void read_keys(const struct attention_case *c, uint32_t request, uint32_t kv_head,
                      struct attention_keys *keys)
{
    const uint32_t head_dim = c->shape.head_dim;
    const uint32_t first = attention_case_first(c, request);
    for (uint32_t j = first; j < c->shape.lengths[request]; j++) {
        const uint64_t slot = attention_case_slot(c, request, j);
        check_cache_decode(&c->cache, CHECK_K, slot, kv_head, keys->k + (size_t)j * head_dim);
        check_cache_decode(&c->cache, CHECK_V, slot, kv_head, keys->v + (size_t)j * head_dim);
    }
    attention_keys_round(keys, &c->shape, first, c->shape.lengths[request]);
}

/*
 * One kv head of one request: exact results, and how far a fair kernel may be from them.
 *
 * A row of O may be off by twice the naive reference's largest error in these heads, plus its
 * roundings to 16 bits (half a last place of 1 each, relative) of the row's largest exact value,
 * plus 1e-6. The roundings are O's and, where V has row scales, that of p times V's row scale (spec
 * D.3): the naive reference of few keys, whose p are 1 or nearly so, does not show the latter.
 */
static void solve_head(struct attention_case *c, uint32_t request, uint32_t kv_head,
                       struct attention_keys *keys)
{
    const struct attention_shape *shape = &c->shape;
    const uint32_t head_dim = shape->head_dim;
    double q[REF_MAX_HEAD_DIM];
    double naive_o[REF_MAX_HEAD_DIM];
    const double roundoff = shape->dtype == FTJ_DTYPE_FP16 ? 0x1p-11 : 0x1p-8;
    const double roundings = shape->v_format == FTJ_KV_16BIT ? 1 : 2;
    double error_o = 0, error_lse = 0;

    read_keys(c, request, kv_head, keys);
    for (uint32_t g = 0; g < shape->group; g++) {
        const uint32_t q_head = kv_head * shape->group + g;
        const size_t index = (size_t)request * c->num_q_heads + q_head;
        const uint16_t *bits = attention_case_q(c, request, q_head);
        for (uint32_t d = 0; d < head_dim; d++)
            q[d] = (double)ref_16bit_widen(shape->dtype, bits[d]);
        const struct ref_attention ref = {
            .q = q,
            .k = keys->k,
            .v = keys->v,
            .k_rounded = keys->k_rounded,
            .v_rounded = keys->v_rounded,
            .head_dim = head_dim,
            .num_keys = shape->lengths[request],
            .position = (int64_t)shape->lengths[request] - 1,
            .window = shape->window,
            .sm_scale = shape->sm_scale != 0 ? (double)shape->sm_scale : 1 / sqrt(head_dim),
            .softcap = (double)shape->softcap,
            .has_sink = shape->has_sinks,
            .sink = shape->has_sinks ? (double)c->sinks[q_head] : 0,
        };
        double *exact_o = c->exact_o + index * head_dim;
        double naive_lse = 0, largest = 0;
        ref_attention_exact(&ref, exact_o, &c->exact_lse[index]);
        ref_attention_naive(&ref, shape->dtype, naive_o, &naive_lse);
        for (uint32_t d = 0; d < head_dim; d++) {
            error_o = fmax(error_o, fabs(naive_o[d] - exact_o[d]));
            largest = fmax(largest, fabs(exact_o[d]));
        }
        c->bound_o[index] = roundings * roundoff * largest + 1e-6;
        if (isfinite(naive_lse))
            error_lse = fmax(error_lse, fabs(naive_lse - c->exact_lse[index]));
    }
    for (uint32_t g = 0; g < shape->group; g++)
        c->bound_o[request * c->num_q_heads + kv_head * shape->group + g] += 2 * error_o;
    c->bound_lse[request * shape->num_kv_heads + kv_head] = 2 * error_lse + 1e-3;
}

void attention_case_solve(struct attention_case *c)
{
    const struct attention_shape *shape = &c->shape;
    const size_t rows = (size_t)shape->batch * c->num_q_heads;
    struct attention_keys keys;
    attention_keys_init(&keys, shape);
    c->exact_o = check_alloc(rows * shape->head_dim * sizeof(double));
    c->exact_lse = check_alloc(rows * sizeof(double));
    c->bound_o = check_alloc(rows * sizeof(double));
    c->bound_lse = check_alloc((size_t)shape->batch * shape->num_kv_heads * sizeof(double));
    for (uint32_t r = 0; r < shape->batch; r++) {
        for (uint32_t h = 0; h < shape->num_kv_heads; h++)
            solve_head(c, r, h, &keys);
    }
    attention_keys_finish(&keys);
}
