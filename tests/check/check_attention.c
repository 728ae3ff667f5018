/* SPDX-License-Identifier: MIT */
/* The device's side of a decode: buffers, launch, comparison. */
#include "tests/check/check_attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ftjit/memory.h"

/* What LSE holds before a call: a row that is left unwritten shows. */
#define LSE_POISON 7.0f

static void fill_args(struct attention_device *device, const struct attention_case *c)
{
    device->args = (ftj_decode_args){
        .cache = device->cache.view,
        .requests = {.batch = c->shape.batch},
        .q = device->q.device,
        .q_batch_stride = c->q_batch_stride,
        .q_head_stride = c->q_head_stride,
        .o = device->o.device,
        .o_batch_stride = c->q_batch_stride,
        .o_head_stride = c->q_head_stride,
        .lse = device->lse.device,
        .sinks = device->sinks.device,
        .workspace = device->workspace.device,
        .workspace_bytes = device->workspace.bytes,
    };
    ftj_requests *requests = &device->args.requests;
    if (c->shape.table == FTJ_TABLE_SLOTS) {
        requests->indptr = device->indptr.device;
        requests->indices = device->table.device;
    } else {
        requests->lengths = device->lengths.device;
        requests->block_table = device->table.device;
        requests->block_table_stride = c->table_stride;
    }
}

static bool init_tables(struct attention_device *device, struct check_row *row,
                        const struct attention_case *c)
{
    const uint32_t batch = c->shape.batch;
    if (!check_buffer_init_with(&device->table, row, "the table", c->table, c->table_bytes))
        return false;
    if (c->shape.table == FTJ_TABLE_SLOTS)
        return check_buffer_init_with(&device->indptr, row, "indptr", c->indptr,
                                      (batch + 1) * sizeof(int32_t));
    return check_buffer_init_with(&device->lengths, row, "lengths", c->lengths,
                                  batch * sizeof(int32_t));
}

bool attention_device_init(struct attention_device *device, struct check_row *row,
                           const struct attention_case *c)
{
    *device = (struct attention_device){0};
    const size_t lse_bytes = (size_t)c->shape.batch * c->num_q_heads * sizeof(float);
    if (!check_ok(row, ftj_attention_create(row->ctx, &c->desc, &device->attn),
                  "ftj_attention_create"))
        return false;
    if (!check_cache_upload(&c->cache, row, &device->cache) || !init_tables(device, row, c) ||
        !check_buffer_init_with(&device->q, row, "q", c->q, c->q_bytes) ||
        !check_buffer_init(&device->o, row, "o", c->q_bytes))
        return false;
    if (!c->shape.no_lse && !check_buffer_init(&device->lse, row, "lse", lse_bytes))
        return false;
    if (c->sinks && !check_buffer_init_with(&device->sinks, row, "sinks", c->sinks,
                                            c->num_q_heads * sizeof(float)))
        return false;
    if (!check_buffer_init(&device->workspace, row, "the workspace",
                           ftj_attention_workspace_bytes(device->attn)))
        return false;
    fill_args(device, c);
    return true;
}

void attention_device_finish(struct attention_device *device, struct check_row *row)
{
    check_cache_memory_finish(&device->cache, row);
    check_buffer_finish(&device->q, row);
    check_buffer_finish(&device->o, row);
    check_buffer_finish(&device->lse, row);
    check_buffer_finish(&device->lengths, row);
    check_buffer_finish(&device->table, row);
    check_buffer_finish(&device->indptr, row);
    check_buffer_finish(&device->sinks, row);
    check_buffer_finish(&device->workspace, row);
    ftj_attention_destroy(device->attn);
    *device = (struct attention_device){0};
}

bool attention_poison(struct attention_device *device, struct check_row *row)
{
    if (!check_ok(row,
                  ftj_memory_fill(row->ctx, device->o.device, CHECK_POISON_BYTE, device->o.bytes),
                  "ftj_memory_fill"))
        return false;
    if (device->workspace.bytes &&
        !check_ok(row,
                  ftj_memory_fill(row->ctx, device->workspace.device, CHECK_POISON_BYTE,
                                  device->workspace.bytes),
                  "ftj_memory_fill"))
        return false;
    if (!device->lse.device)
        return true;
    const size_t count = device->lse.bytes / sizeof(float);
    float *lse = check_alloc(device->lse.bytes);
    for (size_t i = 0; i < count; i++)
        lse[i] = LSE_POISON;
    const bool written = check_buffer_write(&device->lse, row, lse);
    free(lse);
    return written;
}

/* Dense rows out of strided ones; what lies between rows must be as it was. */
static void gather_rows(const struct attention_case *c, struct check_row *row,
                        const uint16_t *strided, uint16_t *dense)
{
    const uint16_t poison = 0xffff;
    for (uint32_t r = 0; r < c->shape.batch; r++) {
        const uint16_t *request = strided + r * c->q_batch_stride;
        for (int64_t i = 0; i < c->q_batch_stride; i++) {
            const int64_t head = i / c->q_head_stride;
            const int64_t d = i % c->q_head_stride;
            const bool is_value = head < c->num_q_heads && d < c->shape.head_dim;
            if (is_value)
                dense[(r * (int64_t)c->num_q_heads + head) * c->shape.head_dim + d] = request[i];
            else if (request[i] != poison)
                check_fail(row, "o: request %u, element %lld between the rows was written", r,
                           (long long)i);
        }
    }
}

bool attention_read(struct attention_device *device, struct check_row *row,
                    const struct attention_case *c, struct attention_result *result)
{
    const size_t rows = (size_t)c->shape.batch * c->num_q_heads;
    *result = (struct attention_result){0};
    if (!check_ok(row, ftj_stream_synchronize(row->ctx, NULL), "ftj_stream_synchronize"))
        return false;
    uint16_t *strided = check_alloc(c->q_bytes);
    bool read = check_buffer_read(&device->o, row, strided);
    result->o = check_alloc(rows * c->shape.head_dim * sizeof(uint16_t));
    gather_rows(c, row, strided, result->o);
    free(strided);
    if (device->lse.device) {
        result->lse = check_alloc(device->lse.bytes);
        read = check_buffer_read(&device->lse, row, result->lse) && read;
    }
    return read;
}

bool attention_decode(struct attention_device *device, struct check_row *row,
                      const struct attention_case *c, struct attention_result *result)
{
    return attention_poison(device, row) &&
           check_ok(row, ftj_attention_decode(device->attn, &device->args, NULL),
                    "ftj_attention_decode") &&
           attention_read(device, row, c, result);
}

bool attention_generic(struct attention_device *device, struct check_row *row,
                       const struct attention_case *c, struct attention_result *result)
{
    const ftj_generic_args args = {
        .cache = device->args.cache,
        .requests = device->args.requests,
        .q = device->args.q,
        .o = device->args.o,
        .lse = device->args.lse,
        .sinks = device->args.sinks,
        .num_queries = c->shape.batch,
    };
    return attention_poison(device, row) &&
           check_ok(row, ftj_attention_generic(device->attn, &args, NULL),
                    "ftj_attention_generic") &&
           attention_read(device, row, c, result);
}

void attention_result_finish(struct attention_result *result)
{
    free(result->o);
    free(result->lse);
    *result = (struct attention_result){0};
}

static void check_lse(const struct attention_case *c, struct check_row *row, size_t index,
                      double bound, float got)
{
    const double exact = c->exact_lse[index];
    const bool right = isinf(exact) ? (double)got == exact : fabs((double)got - exact) <= bound;
    if (!right)
        check_fail(row, "lse[%zu][%zu]: got %.7g, exact %.7g, bound %.3g", index / c->num_q_heads,
                   index % c->num_q_heads, (double)got, exact, bound);
}

void attention_check(const struct attention_case *c, struct check_row *row,
                     const struct attention_result *result)
{
    const uint32_t head_dim = c->shape.head_dim;
    const size_t rows = (size_t)c->shape.batch * c->num_q_heads;
    for (size_t i = 0; i < rows; i++) {
        for (uint32_t d = 0; d < head_dim; d++) {
            const double exact = c->exact_o[i * head_dim + d];
            const double got = (double)ref_16bit_widen(c->shape.dtype, result->o[i * head_dim + d]);
            if (!(fabs(got - exact) <= c->bound_o[i])) /* NaN fails too */
                check_fail(row, "o[%zu][%zu][%u]: got %.7g, exact %.7g, bound %.3g (length %d)",
                           i / c->num_q_heads, i % c->num_q_heads, d, got, exact, c->bound_o[i],
                           c->lengths[i / c->num_q_heads]);
        }
        if (result->lse)
            check_lse(c, row, i, c->bound_lse[i / c->shape.group], result->lse[i]);
    }
}

void attention_check_equal(const struct attention_case *c, struct check_row *row,
                           const struct attention_result *expected,
                           const struct attention_result *got, const char *what)
{
    const size_t rows = (size_t)c->shape.batch * c->num_q_heads;
    const size_t values = rows * c->shape.head_dim;
    for (size_t i = 0; i < values; i++) {
        if (expected->o[i] != got->o[i]) {
            check_fail(row, "%s: o[%zu][%zu][%zu] is %04x, was %04x", what,
                       i / c->shape.head_dim / c->num_q_heads,
                       i / c->shape.head_dim % c->num_q_heads, i % c->shape.head_dim, got->o[i],
                       expected->o[i]);
            return;
        }
    }
    if (expected->lse && got->lse && memcmp(expected->lse, got->lse, rows * sizeof(float)) != 0)
        check_fail(row, "%s: lse differs", what);
}
