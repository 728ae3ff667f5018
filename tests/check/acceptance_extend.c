/* SPDX-License-Identifier: MIT */
/* O13 .. O16 where runs of queries meet them, and chunks of a prefill against the whole of it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/attention_state.h"
#include "tests/check/acceptance.h"
#include "tests/check/check_extend.h"

static const ftj_kv_format formats[3] = {FTJ_KV_16BIT, FTJ_KV_FP8, FTJ_KV_NVFP4};

static double bf16_ulp(double value)
{
    int exponent = 0;
    frexp(value, &exponent);
    return value == 0 ? 0 : ldexp(1, exponent - 8);
}

static double o_of(const struct extend_case *c, const struct extend_result *result, uint32_t query,
                   uint32_t d)
{
    const size_t token = (size_t)c->qo_indptr[0] + query;
    return (double)ref_16bit_widen(c->shape.attention.dtype,
                                   result->o[token * c->shape.attention.head_dim + d]);
}

/* One request with one head: O of every element and LSE of each query. */
static void expect(struct check_row *row, const struct extend_case *c, const double *o,
                   const double *lse, double lse_tolerance)
{
    struct extend_device device = {0};
    struct extend_result result = {0};
    if (extend_device_init(&device, row, c) && extend_run(&device, row, c, &result)) {
        for (uint32_t i = 0; i < c->shape.q_lens[0]; i++) {
            for (uint32_t d = 0; d < c->shape.attention.head_dim; d++) {
                const double got = o_of(c, &result, i, d);
                if (!(fabs(got - o[i]) <= bf16_ulp(o[i]) + 1e-3))
                    check_fail(row, "o of query %u [%u]: got %.7g, expected %.7g", i, d, got, o[i]);
            }
            const double got = (double)result.lse[(size_t)c->qo_indptr[0] + i];
            if (!(fabs(got - lse[i]) <= lse_tolerance))
                check_fail(row, "lse of query %u: got %.7g, expected %.7g", i, got, lse[i]);
        }
    }
    extend_result_finish(&result);
    extend_device_finish(&device, row);
}

/* q = 0 and V row j all j % modulus: O is the mean of what a query sees. */
static void expect_mean(struct check_row *row, const struct extend_shape *shape, uint32_t modulus,
                        const double *o, const double *lse)
{
    struct extend_case c = {0};
    float k[REF_MAX_HEAD_DIM];
    float v[REF_MAX_HEAD_DIM];
    if (extend_case_init(&c, row, shape)) {
        memset(c.q, 0, c.q_bytes);
        for (uint32_t j = extend_case_first(&c, 0); j < shape->attention.lengths[0]; j++) {
            for (uint32_t d = 0; d < shape->attention.head_dim; d++)
                k[d] = (float)((j + d) % 5) - 2;
            acceptance_constant_row((float)(j % modulus), v);
            extend_case_put(&c, 0, j, 0, k, v);
        }
        expect(row, &c, o, lse, 1e-3);
    }
    extend_case_finish(&c);
}

void acceptance_o14_queries_are_the_tail(struct check_row *row)
{
    static const double o[2] = {1.5, 2}, lse[2] = {1.386294, 1.609438};
    for (int f = 0; f < 3; f++) {
        struct extend_shape shape = {.attention = acceptance_small_shape(formats[f], 5),
                                     .q_lens = {2}};
        expect_mean(row, &shape, 16, o, lse);
        shape.has_new = true;
        expect_mean(row, &shape, 16, o, lse);
    }
}

void acceptance_o15_window_hides_whole_tiles(struct check_row *row)
{
    static const double o[4] = {10.5, 9.5, 8.5, 7.5};
    static const double lse[4] = {2.079442, 2.079442, 2.079442, 2.079442};
    for (int f = 0; f < 3; f++) {
        struct extend_shape shape = {.attention = acceptance_small_shape(formats[f], 516),
                                     .q_lens = {4}};
        shape.attention.window = 8;
        expect_mean(row, &shape, 16, o, lse);
        shape.has_new = true;
        expect_mean(row, &shape, 16, o, lse);
    }
}

void acceptance_o13_extend_far_below_zero(struct check_row *row)
{
    static const float k[2][2] = {{-65536, 0}, {-65536, -1}};
    static const double o[2] = {1, 0.731059}, lse[2] = {-65536, -65535.686738};
    float values[2][REF_MAX_HEAD_DIM] = {{0}};
    float v[REF_MAX_HEAD_DIM];
    for (uint32_t blocks = 1; blocks <= 2; blocks++) {
        struct extend_shape shape = {.attention = acceptance_small_shape(FTJ_KV_16BIT, 2),
                                     .q_lens = {2}};
        struct extend_case c = {0};
        shape.attention.sm_scale = 1;
        shape.attention.max_blocks = blocks;
        if (extend_case_init(&c, row, &shape)) {
            memset(c.q, 0, c.q_bytes);
            for (uint32_t j = 0; j < 2; j++) {
                uint16_t *q = c.q + (c.qo_indptr[0] + (int64_t)j) * c.attention.q_batch_stride;
                q[0] = q[1] = ref_bf16_narrow(1);
                memcpy(values[j], k[j], sizeof(k[j]));
                acceptance_constant_row(j == 0, v);
                extend_case_put(&c, 0, j, 0, values[j], v);
            }
            expect(row, &c, o, lse, 0.02);
        }
        extend_case_finish(&c);
    }
}

/* ---- O16 --------------------------------------------------------------------------------------
 */

#define O16_DIM 128

static void fill_o16(struct extend_case *c)
{
    float k[O16_DIM];
    float v[O16_DIM];
    for (uint32_t j = 0; j < c->shape.attention.lengths[0]; j++) {
        for (int d = 0; d < O16_DIM; d++) {
            k[d] = ref_bf16_widen(ref_bf16_narrow(cosf(0.1f * (float)(j + 1) * (float)(d + 1))));
            v[d] = ref_bf16_widen(ref_bf16_narrow(sinf(0.05f * (float)(j + 2) * (float)(d + 1))));
        }
        extend_case_put(c, 0, j, 0, k, v);
    }
    for (int d = 0; d < O16_DIM; d++) {
        const uint16_t q = ref_bf16_narrow(cosf(0.07f * (float)(d + 1)));
        attention_case_q(&c->attention, 0, 0)[d] = q;
        for (uint32_t i = 0; i < c->shape.q_lens[0]; i++)
            c->q[(c->qo_indptr[0] + (int64_t)i) * c->attention.q_batch_stride + d] = q;
    }
}

static void compare_o16(struct check_row *row, const struct extend_case *c,
                        const struct attention_result *decode, const struct extend_result *extend)
{
    const uint32_t length = c->shape.attention.lengths[0];
    for (uint32_t d = 0; d < O16_DIM; d++) {
        const double exact = c->attention.exact_o[d];
        const double by_decode = (double)ref_bf16_widen(decode->o[d]);
        const double by_extend = o_of(c, extend, length - 1, d);
        if (!(fabs(by_decode - exact) <= 8e-3) || !(fabs(by_extend - exact) <= 8e-3) ||
            !(fabs(by_extend - by_decode) <= 4e-3))
            check_fail(row, "o[%u] at length %u: decode %.6g, extend %.6g, exact %.6g", d, length,
                       by_decode, by_extend, exact);
    }
}

void acceptance_o16_decode_and_extend_agree(struct check_row *row)
{
    static const uint32_t lengths[4] = {96, 97, 128, 192};
    for (int i = 0; i < 4; i++) {
        struct extend_shape shape = {.attention = acceptance_small_shape(FTJ_KV_FP8, lengths[i]),
                                     .q_lens = {lengths[i]}};
        struct extend_case c = {0};
        struct extend_device device = {0};
        struct attention_result decode = {0};
        struct extend_result extend = {0};
        shape.attention.head_dim = O16_DIM;
        if (extend_case_init(&c, row, &shape)) {
            c.attention.desc.ops |= FTJ_OP_DECODE;
            fill_o16(&c);
            attention_case_solve(&c.attention);
            if (extend_device_init(&device, row, &c) &&
                attention_decode(&device.attention, row, &c.attention, &decode) &&
                extend_run(&device, row, &c, &extend))
                compare_o16(row, &c, &decode, &extend);
        }
        attention_result_finish(&decode);
        extend_result_finish(&extend);
        extend_device_finish(&device, row);
        extend_case_finish(&c);
    }
}

/* ---- chunks -----------------------------------------------------------------------------------
 */

/* Queries begin .. end of the one request, as a call of their own. */
static bool run_chunk(struct check_row *row, struct extend_device *device,
                      const struct extend_case *c, uint32_t begin, uint32_t end,
                      struct extend_result *result)
{
    const int32_t first = c->qo_indptr[0];
    const int32_t indptr[2] = {first + (int32_t)begin, first + (int32_t)end};
    const int32_t length = (int32_t)(c->shape.attention.lengths[0] - c->shape.q_lens[0] + end);
    struct extend_case chunk = *c; /* borrows everything; indptr says which rows must be written */
    chunk.qo_indptr = (int32_t[2]){indptr[0], indptr[1]};
    return check_buffer_write(&device->qo_indptr, row, indptr) &&
           check_buffer_write(&device->attention.lengths, row, &length) &&
           extend_run(device, row, &chunk, result);
}

/* O's own, and p's where that is as coarse: where a kernel widens codes to the model's bf16. */
static uint32_t num_roundings(const struct extend_device *device)
{
    const struct ftj_kernel *extend = device->attention.attn->kernels[FTJ_KERNEL_EXTEND];
    return strcmp(extend->variant->name, "attn_extend_sm90") == 0 ? 2 : 1;
}

/* One head of one query: within so many roundings of its largest value. The splits of the keys
 * differ, and with them what p is rounded relative to. */
static void compare_head(struct check_row *row, const uint16_t *whole, const uint16_t *chunk,
                         uint32_t head_dim, uint32_t query, uint32_t roundings)
{
    double largest = 0;
    for (uint32_t d = 0; d < head_dim; d++)
        largest = fmax(largest, fabs((double)ref_bf16_widen(whole[d])));
    for (uint32_t d = 0; d < head_dim; d++) {
        const double a = (double)ref_bf16_widen(whole[d]);
        const double b = (double)ref_bf16_widen(chunk[d]);
        if (!(fabs(a - b) <= roundings * bf16_ulp(largest)))
            check_fail(row, "query %u [%u]: %.7g in one call, %.7g in a chunk (largest %.7g)",
                       query, d, a, b, largest);
    }
}

static void compare_chunk(struct check_row *row, const struct extend_case *c, uint32_t begin,
                          uint32_t end, const struct extend_result *whole,
                          const struct extend_result *chunk, uint32_t roundings)
{
    const uint32_t head_dim = c->shape.attention.head_dim;
    const uint32_t heads = c->attention.num_q_heads;
    for (uint32_t query = begin; query < end; query++) {
        for (uint32_t h = 0; h < heads; h++) {
            const size_t at = (((size_t)c->qo_indptr[0] + query) * heads + h) * head_dim;
            compare_head(row, whole->o + at, chunk->o + at, head_dim, query, roundings);
        }
    }
}

void acceptance_compare_chunks(struct check_row *row, const struct extend_shape *shape,
                               const uint32_t *sizes, size_t num_sizes)
{
    struct extend_case c = {0};
    struct extend_device device = {0};
    struct extend_result whole = {0};
    if (!extend_case_init(&c, row, shape))
        goto cleanup;
    extend_case_fill_random(&c, &row->random);
    if (!extend_device_init(&device, row, &c) || !extend_run(&device, row, &c, &whole))
        goto cleanup;
    for (size_t i = 0; i < num_sizes; i++) {
        for (uint32_t begin = 0; begin < shape->q_lens[0]; begin += sizes[i]) {
            const uint32_t left = shape->q_lens[0] - begin;
            const uint32_t end = begin + (left < sizes[i] ? left : sizes[i]);
            struct extend_result chunk = {0};
            if (run_chunk(row, &device, &c, begin, end, &chunk))
                compare_chunk(row, &c, begin, end, &whole, &chunk, num_roundings(&device));
            extend_result_finish(&chunk);
        }
    }

cleanup:
    extend_result_finish(&whole);
    extend_device_finish(&device, row);
    extend_case_finish(&c);
}

void acceptance_chunks_equal_the_whole(struct check_row *row)
{
    static const uint32_t sizes[3] = {64, 101, 250};
    struct extend_shape shape = {.attention = acceptance_small_shape(FTJ_KV_NVFP4, 300),
                                 .q_lens = {290}};
    shape.attention.head_dim = 128;
    shape.attention.group = 2;
    acceptance_compare_chunks(row, &shape, sizes, 3);
}

/* ---- refusals ---------------------------------------------------------------------------------
 */

void acceptance_extend_refusals(struct check_row *row)
{
    enum { NUM_BAD = 9 };
    struct extend_shape shape = {.attention = acceptance_small_shape(FTJ_KV_FP8, 5), .q_lens = {2}};
    struct extend_case c = {0};
    struct extend_device device = {0};
    shape.has_new = true;
    if (extend_case_init(&c, row, &shape) && extend_device_init(&device, row, &c)) {
        const ftj_extend_args good = device.args;
        ftj_extend_args bad[NUM_BAD] = {good, good, good, good, good, good, good, good, good};
        const char *const words[NUM_BAD] = {
            "q is NULL|device memory", "o is|aligned|16",    "qo_indptr is NULL",
            "v_new is NULL",           "k_new is NULL",      "workspace_bytes is",
            "q_head_stride is 60|8",   "num_queries is|fit", "v_new_token_stride is"};
        bad[0].q = NULL;
        bad[1].o = (uint8_t *)good.o + 2;
        bad[2].qo_indptr = NULL;
        bad[3].v_new = NULL;
        bad[4].k_new = NULL;
        bad[5].workspace_bytes = 64;
        bad[6].q_head_stride = 60;
        bad[7].num_queries = UINT32_MAX;
        bad[8].v_new_token_stride = -64;
        for (int i = 0; i < NUM_BAD; i++)
            check_refused(row, ftj_attention_extend(device.attention.attn, &bad[i], NULL),
                          FTJ_E_INVALID, words[i]);
        ftj_extend_args nothing = {.requests.batch = 0};
        check_ok(row, ftj_attention_extend(device.attention.attn, &nothing, NULL),
                 "an extend of no requests");
    }
    extend_device_finish(&device, row);
    extend_case_finish(&c);
}
