/* SPDX-License-Identifier: MIT */
/*
 * ftj_attention_generic() against exact attention: queries of any request at any position, in each
 * element type. The oracle of other tests, so its own bound is tight: fp32 sums.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ftjit/memory.h"
#include "tests/check/check_attention.h"
#include "tests/ref/ref_attention.h"

#define QUERIES_PER_REQUEST 3
#define MAX_QUERIES         (ATTENTION_MAX_BATCH * QUERIES_PER_REQUEST)

struct generic_case {
    struct attention_case attention;
    ftj_dtype dtype; /* of Q and O */
    uint32_t num_queries;
    bool explicit_queries; /* else query i is request i, at its last key */
    int32_t requests[MAX_QUERIES];
    int32_t positions[MAX_QUERIES];
    float *q; /* [num_queries][num_q_heads][head_dim], as narrowed; owned */
};

static const struct {
    ftj_kv_format k, v;
    uint32_t head_dim, group, page_size;
    ftj_dtype dtype;
} shapes[] = {
    /* every format with fp32 queries; head_dims and pages that are no power of two among them */
    {FTJ_KV_16BIT, FTJ_KV_16BIT, 64, 1, 16, FTJ_DTYPE_FP32},
    {FTJ_KV_FP8, FTJ_KV_FP8, 96, 6, 1, FTJ_DTYPE_FP32},
    {FTJ_KV_NVFP4, FTJ_KV_NVFP4, 80, 3, 7, FTJ_DTYPE_FP32},
    {FTJ_KV_FP8, FTJ_KV_NVFP4, 128, 8, 64, FTJ_DTYPE_BF16},
    {FTJ_KV_16BIT, FTJ_KV_FP8, 32, 2, 784, FTJ_DTYPE_FP16},
    {FTJ_KV_NVFP4, FTJ_KV_16BIT, 192, 4, 16, FTJ_DTYPE_FP32},
    {FTJ_KV_NVFP4, FTJ_KV_FP8, 256, 12, 5, FTJ_DTYPE_BF16},
    {FTJ_KV_FP8, FTJ_KV_16BIT, 512, 1, 64, FTJ_DTYPE_FP16},
    {FTJ_KV_16BIT, FTJ_KV_NVFP4, 64, 24, 16, FTJ_DTYPE_FP32},
};

static uint64_t num_rows(const struct check_options *options)
{
    (void)options;
    return 2 * sizeof(shapes) / sizeof(*shapes);
}

static struct attention_shape shape_of(uint64_t index)
{
    const uint32_t i = (uint32_t)(index % (sizeof(shapes) / sizeof(*shapes)));
    const uint32_t turn = (uint32_t)index;
    return (struct attention_shape){
        .k_format = shapes[i].k,
        .v_format = shapes[i].v,
        .order = (ftj_kv_order)(turn % 3),
        .table = (turn / 2) % 2 ? FTJ_TABLE_SLOTS : FTJ_TABLE_BLOCKS,
        .dtype = shapes[i].dtype == FTJ_DTYPE_FP16 ? FTJ_DTYPE_FP16 : FTJ_DTYPE_BF16,
        .head_dim = shapes[i].head_dim,
        .group = shapes[i].group,
        .num_kv_heads = 1 + turn % 2,
        .page_size = shapes[i].page_size,
        .batch = 5,
        .lengths = {7, 0, 1, 40, 23},
        .window = turn % 4 == 1 ? 9 : 0,
        .softcap = turn % 5 == 2 ? 10.0f : 0,
        .has_sinks = turn % 3 == 1,
        .with_generic = true,
        .sees_all = true,
    };
}

static void describe(struct check_row *row)
{
    static const char *const names[] = {"", "bf16", "fp16", "fp32"};
    const struct attention_shape shape = shape_of(row->index);
    char text[128];
    attention_shape_text(&shape, text, sizeof(text));
    snprintf(row->shape, sizeof(row->shape), "%s q %s", text,
             names[shapes[row->index % (sizeof(shapes) / sizeof(*shapes))].dtype]);
}

static float narrowed(ftj_dtype dtype, float value)
{
    return dtype == FTJ_DTYPE_FP32 ? value : ref_16bit_widen(dtype, ref_16bit_narrow(dtype, value));
}

static void fill_queries(struct generic_case *c, struct check_random *random)
{
    const struct attention_case *attention = &c->attention;
    const size_t values = (size_t)attention->num_q_heads * attention->shape.head_dim * MAX_QUERIES;
    for (uint32_t r = 0; r < attention->shape.batch; r++) {
        const int32_t length = (int32_t)attention->shape.lengths[r];
        const int32_t positions[QUERIES_PER_REQUEST] = {length - 1, length / 2, 0};
        const uint32_t count = c->explicit_queries ? QUERIES_PER_REQUEST : 1;
        for (uint32_t i = 0; i < count; i++) {
            c->requests[c->num_queries] = (int32_t)r;
            c->positions[c->num_queries++] = positions[i];
        }
    }
    c->q = check_alloc(values * sizeof(*c->q));
    for (size_t i = 0; i < values; i++)
        c->q[i] = narrowed(c->dtype, check_random_gaussian(random));
}

static void *prepare(struct check_row *row)
{
    struct generic_case *c = check_alloc(sizeof(*c));
    const struct attention_shape shape = shape_of(row->index);
    c->dtype = shapes[row->index % (sizeof(shapes) / sizeof(*shapes))].dtype;
    c->explicit_queries = row->index % 4 != 3;
    if (attention_case_init(&c->attention, row, &shape)) {
        c->attention.desc.ops = FTJ_OP_GENERIC;
        c->attention.desc.generic_dtype = c->dtype;
        attention_case_fill_random(&c->attention, &row->random);
        fill_queries(c, &row->random);
    }
    return c;
}

static void finish(void *prepared)
{
    struct generic_case *c = prepared;
    attention_case_finish(&c->attention);
    free(c->q);
    free(c);
}

struct generic_memory {
    struct check_cache_memory cache;
    struct check_buffer q, o, lse, lengths, table, indptr, sinks, requests, positions;
};

static void memory_finish(struct generic_memory *memory, struct check_row *row)
{
    check_cache_memory_finish(&memory->cache, row);
    check_buffer_finish(&memory->q, row);
    check_buffer_finish(&memory->o, row);
    check_buffer_finish(&memory->lse, row);
    check_buffer_finish(&memory->lengths, row);
    check_buffer_finish(&memory->table, row);
    check_buffer_finish(&memory->indptr, row);
    check_buffer_finish(&memory->sinks, row);
    check_buffer_finish(&memory->requests, row);
    check_buffer_finish(&memory->positions, row);
}

static size_t num_values(const struct generic_case *c)
{
    return (size_t)c->num_queries * c->attention.num_q_heads * c->attention.shape.head_dim;
}

static bool init_q(const struct generic_case *c, struct check_row *row, struct check_buffer *q)
{
    const size_t count = num_values(c);
    if (c->dtype == FTJ_DTYPE_FP32)
        return check_buffer_init_with(q, row, "q", c->q, count * sizeof(float));
    uint16_t *narrow = check_alloc(count * sizeof(*narrow));
    for (size_t i = 0; i < count; i++)
        narrow[i] = ref_16bit_narrow(c->dtype, c->q[i]);
    const bool done = check_buffer_init_with(q, row, "q", narrow, count * sizeof(*narrow));
    free(narrow);
    return done;
}

static bool memory_init(const struct generic_case *c, struct check_row *row,
                        struct generic_memory *memory)
{
    const struct attention_case *attention = &c->attention;
    const size_t element = c->dtype == FTJ_DTYPE_FP32 ? 4 : 2;
    const size_t rows = (size_t)c->num_queries * attention->num_q_heads;
    const uint32_t batch = attention->shape.batch;
    return check_cache_upload(&attention->cache, row, &memory->cache) &&
           init_q(c, row, &memory->q) &&
           check_buffer_init(&memory->o, row, "o", num_values(c) * element) &&
           check_buffer_init(&memory->lse, row, "lse", rows * sizeof(float)) &&
           check_buffer_init_with(&memory->lengths, row, "lengths", attention->lengths,
                                  batch * sizeof(int32_t)) &&
           check_buffer_init_with(&memory->table, row, "the table", attention->table,
                                  attention->table_bytes) &&
           (!attention->indptr ||
            check_buffer_init_with(&memory->indptr, row, "indptr", attention->indptr,
                                   (batch + 1) * sizeof(int32_t))) &&
           (!attention->sinks ||
            check_buffer_init_with(&memory->sinks, row, "sinks", attention->sinks,
                                   attention->num_q_heads * sizeof(float))) &&
           check_buffer_init_with(&memory->requests, row, "q_requests", c->requests,
                                  c->num_queries * sizeof(int32_t)) &&
           check_buffer_init_with(&memory->positions, row, "q_positions", c->positions,
                                  c->num_queries * sizeof(int32_t));
}

static bool launch(const struct generic_case *c, struct check_row *row, ftj_attention *attn,
                   const struct generic_memory *memory)
{
    ftj_generic_args args = {
        .cache = memory->cache.view,
        .requests = {.batch = c->attention.shape.batch},
        .q = memory->q.device,
        .o = memory->o.device,
        .lse = memory->lse.device,
        .sinks = memory->sinks.device,
        .num_queries = c->num_queries,
        .q_requests = c->explicit_queries ? memory->requests.device : NULL,
        .q_positions = c->explicit_queries ? memory->positions.device : NULL,
    };
    if (c->attention.shape.table == FTJ_TABLE_SLOTS) {
        args.requests.indptr = memory->indptr.device;
        args.requests.indices = memory->table.device;
    } else {
        args.requests.lengths = memory->lengths.device;
        args.requests.block_table = memory->table.device;
        args.requests.block_table_stride = c->attention.table_stride;
    }
    return check_ok(row, ftj_attention_generic(attn, &args, NULL), "ftj_attention_generic") &&
           check_ok(row, ftj_stream_synchronize(row->ctx, NULL), "ftj_stream_synchronize");
}

/* One query head against the reference. */
static void check_query(const struct generic_case *c, struct check_row *row, uint32_t query,
                        uint32_t q_head, const double *k, const double *v, const void *o,
                        const float *lse)
{
    const struct attention_shape *shape = &c->attention.shape;
    const size_t index = (size_t)query * c->attention.num_q_heads + q_head;
    const uint32_t length = shape->lengths[c->requests[query]];
    double q[REF_MAX_HEAD_DIM], exact[REF_MAX_HEAD_DIM], exact_lse, largest = 0;
    for (uint32_t d = 0; d < shape->head_dim; d++)
        q[d] = (double)c->q[index * shape->head_dim + d];
    for (size_t i = 0; i < (size_t)length * shape->head_dim; i++)
        largest = fmax(largest, fabs(v[i]));
    const struct ref_attention ref = {
        .q = q,
        .k = k,
        .v = v,
        .head_dim = shape->head_dim,
        .num_keys = length,
        .position = c->positions[query],
        .window = shape->window,
        .sm_scale = 1 / sqrt(shape->head_dim),
        .softcap = (double)shape->softcap,
        .has_sink = shape->has_sinks,
        .sink = shape->has_sinks ? (double)c->attention.sinks[q_head] : 0,
    };
    ref_attention_exact(&ref, exact, &exact_lse);
    const double ulp = c->dtype == FTJ_DTYPE_FP16   ? 0x1p-11
                       : c->dtype == FTJ_DTYPE_BF16 ? 0x1p-8
                                                    : 0;
    for (uint32_t d = 0; d < shape->head_dim; d++) {
        const size_t at = index * shape->head_dim + d;
        const double got = c->dtype == FTJ_DTYPE_FP32
                               ? (double)((const float *)o)[at]
                               : (double)ref_16bit_widen(c->dtype, ((const uint16_t *)o)[at]);
        if (!(fabs(got - exact[d]) <= 2e-5 * largest + ulp * fabs(exact[d])))
            check_fail(row,
                       "o of query %u (request %d, position %d) head %u [%u]: got %.8g, "
                       "exact %.8g",
                       query, c->requests[query], c->positions[query], q_head, d, got, exact[d]);
    }
    const double got_lse = (double)lse[index];
    if (isinf(exact_lse) ? got_lse != exact_lse
                         : !(fabs(got_lse - exact_lse) <= 1e-5 * (1 + fabs(exact_lse))))
        check_fail(row, "lse of query %u head %u: got %.8g, exact %.8g", query, q_head, got_lse,
                   exact_lse);
}

static void check(const struct generic_case *c, struct check_row *row, const void *o,
                  const float *lse)
{
    const struct attention_shape *shape = &c->attention.shape;
    double *k = check_alloc(64 * REF_MAX_HEAD_DIM * sizeof(*k));
    double *v = check_alloc(64 * REF_MAX_HEAD_DIM * sizeof(*v));
    for (uint32_t query = 0; query < c->num_queries; query++) {
        const uint32_t request = (uint32_t)c->requests[query];
        for (uint32_t h = 0; h < shape->num_kv_heads; h++) {
            for (uint32_t j = 0; j < shape->lengths[request]; j++) {
                const uint64_t slot = attention_case_slot(&c->attention, request, j);
                check_cache_decode(&c->attention.cache, CHECK_K, slot, h, k + j * shape->head_dim);
                check_cache_decode(&c->attention.cache, CHECK_V, slot, h, v + j * shape->head_dim);
            }
            for (uint32_t g = 0; g < shape->group; g++)
                check_query(c, row, query, h * shape->group + g, k, v, o, lse);
        }
    }
    free(k);
    free(v);
}

static void run(struct check_row *row, void *prepared)
{
    const struct generic_case *c = prepared;
    struct generic_memory memory = {0};
    ftj_attention *attn = NULL;
    void *o = NULL;
    float *lse = NULL;
    if (row->outcome != CHECK_PASSED ||
        !check_ok(row, ftj_attention_create(row->ctx, &c->attention.desc, &attn),
                  "ftj_attention_create") ||
        !memory_init(c, row, &memory) || !launch(c, row, attn, &memory))
        goto cleanup;
    o = check_alloc(memory.o.bytes);
    lse = check_alloc(memory.lse.bytes);
    if (check_buffer_read(&memory.o, row, o) && check_buffer_read(&memory.lse, row, lse))
        check(c, row, o, lse);

cleanup:
    memory_finish(&memory, row);
    ftj_attention_destroy(attn);
    free(o);
    free(lse);
}

static bool has_fp8(uint64_t index)
{
    const struct attention_shape shape = shape_of(index);
    return shape.k_format != FTJ_KV_16BIT || shape.v_format != FTJ_KV_16BIT;
}

const struct check_test check_generic_test = {
    .name = "generic",
    .op = FTJ_KERNEL_GENERIC,
    .num_rows = num_rows,
    .num_quick = num_rows,
    .prepare = prepare,
    .finish = finish,
    .run = run,
    .describe = describe,
    .has_fp8 = has_fp8,
};
