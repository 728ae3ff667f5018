/* SPDX-License-Identifier: MIT */
/* The host's side of an extend: inputs and references. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check/check_extend.h"
#include "tests/ref/ref_attention.h"

uint32_t extend_case_cached(const struct extend_case *c, uint32_t request)
{
    const uint32_t length = c->shape.attention.lengths[request];
    const uint32_t queries = c->shape.q_lens[request];
    if (!c->shape.has_new)
        return length;
    return queries < length ? length - queries : 0;
}

uint32_t extend_case_first(const struct extend_case *c, uint32_t request)
{
    const uint32_t length = c->shape.attention.lengths[request];
    const uint32_t queries = c->shape.q_lens[request];
    const uint32_t window = c->shape.attention.window;
    const uint32_t seen = queries < length ? length - queries + 1 : 1;
    return window && window < seen ? seen - window : 0;
}

bool extend_case_init(struct extend_case *c, struct check_row *row,
                      const struct extend_shape *shape)
{
    *c = (struct extend_case){.shape = *shape};
    c->shape.attention.sees_all = true;
    if (!attention_case_init(&c->attention, row, &c->shape.attention))
        return false;
    c->attention.desc.ops = FTJ_OP_EXTEND;
    c->attention.desc.short_queries = shape->short_queries;

    const uint32_t batch = shape->attention.batch;
    c->qo_indptr = check_alloc((batch + 1) * sizeof(*c->qo_indptr));
    c->qo_indptr[0] = EXTEND_SPARE_ROWS;
    for (uint32_t r = 0; r < batch; r++)
        c->qo_indptr[r + 1] = c->qo_indptr[r] + (int32_t)shape->q_lens[r];
    c->num_queries = (uint32_t)c->qo_indptr[batch] + EXTEND_SPARE_ROWS;

    const uint32_t gap = shape->attention.wide_strides ? 16 : 0;
    c->new_head_stride = shape->attention.head_dim + gap;
    c->new_token_stride = shape->attention.num_kv_heads * c->new_head_stride + gap;
    c->q_bytes = c->num_queries * (size_t)c->attention.q_batch_stride * sizeof(uint16_t);
    c->new_bytes = c->num_queries * (size_t)c->new_token_stride * sizeof(uint16_t);
    c->q = check_alloc(c->q_bytes);
    c->k_new = check_alloc(c->new_bytes);
    c->v_new = check_alloc(c->new_bytes);
    memset(c->q, CHECK_POISON_BYTE, c->q_bytes);
    memset(c->k_new, CHECK_POISON_BYTE, c->new_bytes);
    memset(c->v_new, CHECK_POISON_BYTE, c->new_bytes);
    return true;
}

void extend_case_finish(struct extend_case *c)
{
    attention_case_finish(&c->attention);
    free(c->qo_indptr);
    free(c->q);
    free(c->k_new);
    free(c->v_new);
    free(c->exact_o);
    free(c->exact_lse);
    free(c->bound_o);
    free(c->bound_lse);
    *c = (struct extend_case){0};
}

/* Of the rows of k_new and v_new, the one of a token that is not in the cache. */
static int64_t new_row(const struct extend_case *c, uint32_t request, uint32_t token, uint32_t head)
{
    const int64_t position =
        (int64_t)c->shape.attention.lengths[request] - (int64_t)c->shape.q_lens[request];
    return (c->qo_indptr[request] + (int64_t)token - position) * c->new_token_stride +
           head * c->new_head_stride;
}

void extend_case_put(struct extend_case *c, uint32_t request, uint32_t token, uint32_t head,
                     const float *k, const float *v)
{
    const struct attention_shape *shape = &c->shape.attention;
    if (token < extend_case_cached(c, request)) {
        const uint64_t slot = attention_case_slot(&c->attention, request, token);
        check_cache_encode(&c->attention.cache, CHECK_K, slot, head, k);
        check_cache_encode(&c->attention.cache, CHECK_V, slot, head, v);
        return;
    }
    const int64_t row = new_row(c, request, token, head);
    for (uint32_t d = 0; d < shape->head_dim; d++) {
        c->k_new[row + d] = ref_16bit_narrow(shape->dtype, k[d]);
        c->v_new[row + d] = ref_16bit_narrow(shape->dtype, v[d]);
    }
}

void extend_case_fill_random(struct extend_case *c, struct check_random *random)
{
    const struct attention_shape *shape = &c->shape.attention;
    float k[REF_MAX_HEAD_DIM];
    float v[REF_MAX_HEAD_DIM];
    for (uint32_t r = 0; r < shape->batch; r++) {
        for (int32_t i = c->qo_indptr[r]; i < c->qo_indptr[r + 1]; i++) {
            for (uint32_t h = 0; h < c->attention.num_q_heads; h++) {
                uint16_t *q =
                    c->q + i * c->attention.q_batch_stride + h * c->attention.q_head_stride;
                attention_random_row(random, shape->head_dim, shape->q_log2 - 1, shape->q_log2 + 1,
                                     k);
                for (uint32_t d = 0; d < shape->head_dim; d++)
                    q[d] = ref_16bit_narrow(shape->dtype, k[d]);
            }
        }
        const uint32_t end = c->shape.q_lens[r] ? shape->lengths[r] : 0;
        for (uint32_t j = extend_case_first(c, r); j < end; j++) {
            for (uint32_t h = 0; h < shape->num_kv_heads; h++) {
                attention_random_row(random, shape->head_dim, -4, 2, k);
                attention_random_row(random, shape->head_dim, -6, 6, v);
                extend_case_put(c, r, j, h, k, v);
            }
        }
    }
    for (uint32_t h = 0; c->attention.sinks && h < c->attention.num_q_heads; h++)
        c->attention.sinks[h] = 2 * check_random_gaussian(random);
}

/* What a kernel reads of one kv head of a request, as numbers. */
static void read_keys(const struct extend_case *c, uint32_t request, uint32_t head,
                      struct attention_keys *keys)
{
    const struct attention_shape *shape = &c->shape.attention;
    const uint32_t head_dim = shape->head_dim;
    const uint32_t first = extend_case_first(c, request);
    for (uint32_t j = first; j < shape->lengths[request]; j++) {
        double *k_row = keys->k + (size_t)j * head_dim;
        double *v_row = keys->v + (size_t)j * head_dim;
        if (j < extend_case_cached(c, request)) {
            const uint64_t slot = attention_case_slot(&c->attention, request, j);
            check_cache_decode(&c->attention.cache, CHECK_K, slot, head, k_row);
            check_cache_decode(&c->attention.cache, CHECK_V, slot, head, v_row);
            continue;
        }
        const int64_t row = new_row(c, request, j, head);
        for (uint32_t d = 0; d < head_dim; d++) {
            k_row[d] = (double)ref_16bit_widen(shape->dtype, c->k_new[row + d]);
            v_row[d] = (double)ref_16bit_widen(shape->dtype, c->v_new[row + d]);
        }
    }
    attention_keys_round(keys, shape, first, shape->lengths[request]);
}

/* One query head: the exact row, and how far one rounding may take a kernel. Raises the errors of
 * the naive reference. */
static void solve_row(struct extend_case *c, uint32_t request, uint32_t query, uint32_t q_head,
                      const struct attention_keys *keys, double *error_o, double *error_lse)
{
    const struct attention_shape *shape = &c->shape.attention;
    const uint32_t head_dim = shape->head_dim;
    const double roundoff = shape->dtype == FTJ_DTYPE_FP16 ? 0x1p-11 : 0x1p-8;
    const size_t token = (size_t)c->qo_indptr[request] + query;
    const size_t index = token * c->attention.num_q_heads + q_head;
    const uint16_t *bits =
        c->q + (int64_t)token * c->attention.q_batch_stride + q_head * c->attention.q_head_stride;
    double q[REF_MAX_HEAD_DIM];
    double naive_o[REF_MAX_HEAD_DIM];
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
        .position = (int64_t)shape->lengths[request] - c->shape.q_lens[request] + query,
        .window = shape->window,
        .sm_scale = shape->sm_scale != 0 ? (double)shape->sm_scale : 1 / sqrt(head_dim),
        .softcap = (double)shape->softcap,
        .has_sink = shape->has_sinks,
        .sink = shape->has_sinks ? (double)c->attention.sinks[q_head] : 0,
    };
    double *exact_o = c->exact_o + index * head_dim;
    double naive_lse = 0, largest = 0;
    ref_attention_exact(&ref, exact_o, &c->exact_lse[index]);
    ref_attention_naive(&ref, shape->dtype, naive_o, &naive_lse);
    for (uint32_t d = 0; d < head_dim; d++) {
        *error_o = fmax(*error_o, fabs(naive_o[d] - exact_o[d]));
        largest = fmax(largest, fabs(exact_o[d]));
    }
    c->bound_o[index] = roundoff * largest + (isinf(c->exact_lse[index]) ? 0 : 1e-6);
    if (isfinite(naive_lse))
        *error_lse = fmax(*error_lse, fabs(naive_lse - c->exact_lse[index]));
}

/* The bounds are those of attention_case_solve(): twice the largest error of the naive reference
 * among the rows of a kv head, and one rounding. A row that sees nothing is exactly 0. */
static void solve_head(struct extend_case *c, uint32_t request, uint32_t head,
                       struct attention_keys *keys)
{
    const uint32_t group = c->shape.attention.group;
    double error_o = 0, error_lse = 0;
    read_keys(c, request, head, keys);
    for (uint32_t i = 0; i < c->shape.q_lens[request]; i++) {
        for (uint32_t g = 0; g < group; g++)
            solve_row(c, request, i, head * group + g, keys, &error_o, &error_lse);
    }
    for (uint32_t i = 0; i < c->shape.q_lens[request]; i++) {
        const size_t token = (size_t)c->qo_indptr[request] + i;
        for (uint32_t g = 0; g < group; g++) {
            const size_t index = token * c->attention.num_q_heads + head * group + g;
            if (c->bound_o[index] > 0)
                c->bound_o[index] += 2 * error_o;
            c->bound_lse[index] = 2 * error_lse + 1e-3;
        }
    }
}

void extend_case_solve(struct extend_case *c)
{
    const struct attention_shape *shape = &c->shape.attention;
    const size_t rows = (size_t)c->num_queries * c->attention.num_q_heads;
    struct attention_keys keys;
    attention_keys_init(&keys, shape);
    free(c->exact_o);
    free(c->exact_lse);
    free(c->bound_o);
    free(c->bound_lse);
    c->exact_o = check_alloc(rows * shape->head_dim * sizeof(double));
    c->exact_lse = check_alloc(rows * sizeof(double));
    c->bound_o = check_alloc(rows * sizeof(double));
    c->bound_lse = check_alloc(rows * sizeof(double));
    for (uint32_t r = 0; r < shape->batch; r++) {
        for (uint32_t h = 0; h < shape->num_kv_heads && c->shape.q_lens[r]; h++)
            solve_head(c, r, h, &keys);
    }
    attention_keys_finish(&keys);
}

void *extend_case_random(struct check_row *row, const struct extend_shape *shape)
{
    struct extend_case *c = check_alloc(sizeof(*c));
    if (extend_case_init(c, row, shape)) {
        extend_case_fill_random(c, &row->random);
        extend_case_solve(c);
    }
    return c;
}

void extend_case_free(void *prepared)
{
    extend_case_finish(prepared);
    free(prepared);
}

void extend_describe(struct check_row *row, const struct extend_shape *shape)
{
    attention_shape_text(&shape->attention, row->shape, sizeof(row->shape));
    const size_t used = strlen(row->shape);
    snprintf(row->shape + used, sizeof(row->shape) - used, "%s", shape->has_new ? " new" : "");
}

void extend_case_run(struct check_row *row, void *prepared)
{
    struct extend_device device = {0};
    extend_case_check(prepared, row, &device);
    extend_device_finish(&device, row);
}
