/* SPDX-License-Identifier: MIT */
/* The device's side of an extend: buffers, launch, comparison. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ftjit/memory.h"
#include "tests/check/check_extend.h"

#define LSE_POISON 7.0f
#define O_POISON   0xffffu

static void fill_args(struct extend_device *device, const struct extend_case *c)
{
    const struct attention_device *attention = &device->attention;
    device->args = (ftj_extend_args){
        .cache = attention->cache.view,
        .requests = attention->args.requests,
        .qo_indptr = device->qo_indptr.device,
        .num_queries = c->num_queries,
        .max_queries = c->shape.short_queries,
        .q = device->q.device,
        .q_token_stride = c->attention.q_batch_stride,
        .q_head_stride = c->attention.q_head_stride,
        .o = device->o.device,
        .o_token_stride = c->attention.q_batch_stride,
        .o_head_stride = c->attention.q_head_stride,
        .lse = device->lse.device,
        .sinks = attention->sinks.device,
        .k_new = device->k_new.device,
        .v_new = device->v_new.device,
        .k_new_token_stride = c->new_token_stride,
        .k_new_head_stride = c->new_head_stride,
        .v_new_token_stride = c->new_token_stride,
        .v_new_head_stride = c->new_head_stride,
        .workspace = attention->workspace.device,
        .workspace_bytes = attention->workspace.bytes,
    };
}

bool extend_device_init(struct extend_device *device, struct check_row *row,
                        const struct extend_case *c)
{
    *device = (struct extend_device){0};
    const size_t rows = (size_t)c->num_queries * c->attention.num_q_heads;
    const size_t indptr_bytes = (c->shape.attention.batch + 1) * sizeof(int32_t);
    if (!attention_device_init(&device->attention, row, &c->attention) ||
        !check_buffer_init_with(&device->qo_indptr, row, "qo_indptr", c->qo_indptr, indptr_bytes) ||
        !check_buffer_init_with(&device->q, row, "q", c->q, c->q_bytes) ||
        !check_buffer_init(&device->o, row, "o", c->q_bytes))
        return false;
    if (!c->shape.attention.no_lse &&
        !check_buffer_init(&device->lse, row, "lse", rows * sizeof(float)))
        return false;
    if (c->shape.has_new &&
        (!check_buffer_init_with(&device->k_new, row, "k_new", c->k_new, c->new_bytes) ||
         !check_buffer_init_with(&device->v_new, row, "v_new", c->v_new, c->new_bytes)))
        return false;
    fill_args(device, c);
    return true;
}

void extend_device_finish(struct extend_device *device, struct check_row *row)
{
    check_buffer_finish(&device->q, row);
    check_buffer_finish(&device->o, row);
    check_buffer_finish(&device->lse, row);
    check_buffer_finish(&device->qo_indptr, row);
    check_buffer_finish(&device->k_new, row);
    check_buffer_finish(&device->v_new, row);
    attention_device_finish(&device->attention, row);
    *device = (struct extend_device){0};
}

bool extend_poison(struct extend_device *device, struct check_row *row)
{
    const struct check_buffer *filled[] = {&device->o, &device->attention.workspace};
    for (int i = 0; i < 2; i++) {
        if (!check_ok(
                row,
                ftj_memory_fill(row->ctx, filled[i]->device, CHECK_POISON_BYTE, filled[i]->bytes),
                "ftj_memory_fill"))
            return false;
    }
    if (!device->lse.device)
        return true;
    float *lse = check_alloc(device->lse.bytes);
    for (size_t i = 0; i < device->lse.bytes / sizeof(float); i++)
        lse[i] = LSE_POISON;
    const bool written = check_buffer_write(&device->lse, row, lse);
    free(lse);
    return written;
}

/* Dense rows out of strided ones; what lies between rows, and rows that are no query's, must be as
 * they were. */
static void gather_rows(const struct extend_case *c, struct check_row *row, const uint16_t *strided,
                        uint16_t *dense)
{
    const struct attention_shape *shape = &c->shape.attention;
    const int64_t token_stride = c->attention.q_batch_stride;
    const int64_t head_stride = c->attention.q_head_stride;
    for (uint32_t t = 0; t < c->num_queries; t++) {
        const bool is_query =
            (int32_t)t >= c->qo_indptr[0] && (int32_t)t < c->qo_indptr[shape->batch];
        for (int64_t i = 0; i < token_stride; i++) {
            const int64_t head = i / head_stride, d = i % head_stride;
            const bool is_value = head < c->attention.num_q_heads && d < shape->head_dim;
            const uint16_t got = strided[t * token_stride + i];
            if (is_value)
                dense[(t * (int64_t)c->attention.num_q_heads + head) * shape->head_dim + d] = got;
            if (!(is_value && is_query) && got != O_POISON)
                check_fail(row, "o: row %u, element %lld is nobody's and was written", t,
                           (long long)i);
        }
    }
}

bool extend_read(struct extend_device *device, struct check_row *row, const struct extend_case *c,
                 struct extend_result *result)
{
    const size_t rows = (size_t)c->num_queries * c->attention.num_q_heads;
    *result = (struct extend_result){0};
    uint16_t *strided = check_alloc(c->q_bytes);
    bool read = check_buffer_read(&device->o, row, strided);
    result->o = check_alloc(rows * c->shape.attention.head_dim * sizeof(uint16_t));
    gather_rows(c, row, strided, result->o);
    free(strided);
    if (device->lse.device) {
        result->lse = check_alloc(device->lse.bytes);
        read = check_buffer_read(&device->lse, row, result->lse) && read;
    }
    return read;
}

bool extend_run(struct extend_device *device, struct check_row *row, const struct extend_case *c,
                struct extend_result *result)
{
    return extend_poison(device, row) &&
           check_ok(row, ftj_attention_extend(device->attention.attn, &device->args, NULL),
                    "ftj_attention_extend") &&
           check_ok(row, ftj_stream_synchronize(row->ctx, NULL), "ftj_stream_synchronize") &&
           extend_read(device, row, c, result);
}

bool extend_case_change(struct extend_case *c, struct check_row *row, struct extend_device *device,
                        const uint32_t *lengths, const uint32_t *q_lens)
{
    const uint32_t batch = c->shape.attention.batch;
    for (uint32_t r = 0; r < batch; r++) {
        c->shape.attention.lengths[r] = lengths[r];
        c->attention.lengths[r] = (int32_t)lengths[r];
        c->shape.q_lens[r] = q_lens[r];
        c->qo_indptr[r + 1] = c->qo_indptr[r] + (int32_t)q_lens[r];
    }
    extend_case_solve(c);
    return check_buffer_write(&device->qo_indptr, row, c->qo_indptr) &&
           check_buffer_write(&device->attention.lengths, row, c->attention.lengths);
}

void extend_result_finish(struct extend_result *result)
{
    free(result->o);
    free(result->lse);
    *result = (struct extend_result){0};
}

static void check_query(const struct extend_case *c, struct check_row *row, uint32_t request,
                        uint32_t query, const struct extend_result *result)
{
    const uint32_t head_dim = c->shape.attention.head_dim;
    const size_t token = (size_t)c->qo_indptr[request] + query;
    for (uint32_t h = 0; h < c->attention.num_q_heads; h++) {
        const size_t i = token * c->attention.num_q_heads + h;
        for (uint32_t d = 0; d < head_dim; d++) {
            const double exact = c->exact_o[i * head_dim + d];
            const double got =
                (double)ref_16bit_widen(c->shape.attention.dtype, result->o[i * head_dim + d]);
            if (!(fabs(got - exact) <= c->bound_o[i])) /* NaN fails too */
                check_fail(row,
                           "o of request %u query %u head %u [%u]: got %.7g, exact %.7g, bound "
                           "%.3g (%u queries, length %u)",
                           request, query, h, d, got, exact, c->bound_o[i],
                           c->shape.q_lens[request], c->shape.attention.lengths[request]);
        }
        if (!result->lse)
            continue;
        const double lse = (double)result->lse[i], exact = c->exact_lse[i];
        if (isinf(exact) ? lse != exact : !(fabs(lse - exact) <= c->bound_lse[i]))
            check_fail(row, "lse of request %u query %u head %u: got %.7g, exact %.7g", request,
                       query, h, lse, exact);
    }
}

void extend_check(const struct extend_case *c, struct check_row *row,
                  const struct extend_result *result)
{
    for (uint32_t r = 0; r < c->shape.attention.batch; r++) {
        for (uint32_t i = 0; i < c->shape.q_lens[r]; i++)
            check_query(c, row, r, i, result);
    }
}

bool extend_case_check(const struct extend_case *c, struct check_row *row,
                       struct extend_device *device)
{
    const size_t values =
        (size_t)c->num_queries * c->attention.num_q_heads * c->shape.attention.head_dim;
    struct extend_result first = {0};
    struct extend_result second = {0};
    bool ended = false;
    if (!c->exact_o) {
        check_fail(row, "the layout was refused: %s", ftj_last_error());
        return false;
    }
    if (extend_device_init(device, row, c) && extend_run(device, row, c, &first)) {
        extend_check(c, row, &first);
        ended = extend_run(device, row, c, &second);
        if (ended && memcmp(first.o, second.o, values * sizeof(*first.o)) != 0)
            check_fail(row, "the same call again gives another result");
        check_cache_compare(&c->attention.cache, row, &device->attention.cache);
    }
    extend_result_finish(&first);
    extend_result_finish(&second);
    return ended;
}
