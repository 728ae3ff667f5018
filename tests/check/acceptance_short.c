/* SPDX-License-Identifier: MIT */
/* O16 for short runs of queries, which decode's kernels serve: the same numbers as a decode and as
 * an extend's own kernels; and other lengths and runs in place. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/attention_state.h"
#include "tests/check/acceptance.h"
#include "tests/check/check_extend.h"

#define SHORT_QUERIES 8

static const ftj_kv_format formats[3] = {FTJ_KV_16BIT, FTJ_KV_FP8, FTJ_KV_NVFP4};

static struct extend_shape shape_of(ftj_kv_format format, uint32_t length, uint32_t queries)
{
    struct extend_shape shape = {.attention = acceptance_small_shape(format, length),
                                 .q_lens = {queries},
                                 .short_queries = SHORT_QUERIES};
    shape.attention.head_dim = 128;
    shape.attention.group = 2;
    return shape;
}

/* Where the case says the values of one query and head are, of dense rows. */
static size_t row_of(const struct extend_case *c, uint32_t query, uint32_t head)
{
    return ((size_t)c->qo_indptr[0] + query) * c->attention.num_q_heads + head;
}

/* O's own rounding, which is bf16's, may be to either side. */
static void compare_rows(struct check_row *row, const struct extend_case *c, const uint16_t *a,
                         const uint16_t *b, double largest, const char *what)
{
    for (uint32_t d = 0; d < c->shape.attention.head_dim; d++) {
        const double one = (double)ref_16bit_widen(c->shape.attention.dtype, a[d]);
        const double two = (double)ref_16bit_widen(c->shape.attention.dtype, b[d]);
        if (!(fabs(one - two) <= 4e-3 * largest + ldexp(fabs(one), -7)))
            check_fail(row, "o[%u] at length %u: %.6g through decode's kernels, %.6g by %s", d,
                       c->shape.attention.lengths[0], one, two, what);
    }
}

static double largest_of(const struct extend_case *c)
{
    const size_t from = row_of(c, 0, 0), to = row_of(c, c->shape.q_lens[0], 0);
    const uint32_t head_dim = c->shape.attention.head_dim;
    double largest = 0;
    for (size_t i = from * head_dim; i < to * head_dim; i++)
        largest = fmax(largest, fabs(c->exact_o[i]));
    return largest;
}

static void compare_sides(struct check_row *row, const struct extend_case *c,
                          const struct attention_result *decode, const struct extend_result *brief,
                          const struct extend_result *extend)
{
    const uint32_t head_dim = c->shape.attention.head_dim;
    const uint32_t last = c->shape.q_lens[0] - 1;
    const double largest = largest_of(c);
    for (uint32_t h = 0; h < c->attention.num_q_heads; h++) {
        compare_rows(row, c, brief->o + row_of(c, last, h) * head_dim, decode->o + h * head_dim,
                     largest, "a decode");
        for (uint32_t i = 0; i <= last; i++)
            compare_rows(row, c, brief->o + row_of(c, i, h) * head_dim,
                         extend->o + row_of(c, i, h) * head_dim, largest, "an extend's");
    }
}

/* The last query of a run stands where a decode's does. */
void acceptance_o16_short_runs_agree(struct check_row *row)
{
    static const uint32_t queries[3] = {1, 2, SHORT_QUERIES};
    static const uint32_t lengths[3] = {96, 97, 400};
    for (int i = 0; i < 9; i++) {
        const struct extend_shape shape = shape_of(formats[i / 3], lengths[i % 3], queries[i % 3]);
        struct extend_case c = {0};
        struct extend_device device = {0};
        struct attention_result decode = {0};
        struct extend_result brief = {0};
        struct extend_result extend = {0};
        if (extend_case_init(&c, row, &shape)) {
            c.attention.desc.ops |= FTJ_OP_DECODE;
            extend_case_fill_random(&c, &row->random);
            extend_case_solve(&c);
            const size_t last = (size_t)c.qo_indptr[1] - 1;
            memcpy(c.attention.q, c.q + last * (size_t)c.attention.q_batch_stride,
                   c.attention.q_bytes);
            if (extend_device_init(&device, row, &c) &&
                attention_decode(&device.attention, row, &c.attention, &decode) &&
                extend_run(&device, row, &c, &brief)) {
                if (!device.attention.attn->short_runs.kernel)
                    check_fail(row, "no kernel of a decode takes %u queries", SHORT_QUERIES);
                extend_check(&c, row, &brief);
                device.args.max_queries = SHORT_QUERIES + 1;
                if (extend_run(&device, row, &c, &extend))
                    compare_sides(row, &c, &decode, &brief, &extend);
            }
        }
        attention_result_finish(&decode);
        extend_result_finish(&brief);
        extend_result_finish(&extend);
        extend_device_finish(&device, row);
        extend_case_finish(&c);
    }
}

/* What a replayed graph meets: the same call, with other lengths and runs where its pointers lead.
 */
void acceptance_o20_other_runs_in_place(struct check_row *row)
{
    static const struct {
        uint32_t length;
        uint32_t queries;
    } steps[4] = {{300, 8}, {65, 3}, {1, 1}, {299, 0}};
    const struct extend_shape shape = shape_of(FTJ_KV_FP8, 300, SHORT_QUERIES);
    struct extend_case c = {0};
    struct extend_device device = {0};
    if (extend_case_init(&c, row, &shape)) {
        extend_case_fill_random(&c, &row->random);
        if (extend_device_init(&device, row, &c)) {
            for (int i = 0; i < 4; i++) {
                struct extend_result result = {0};
                if (extend_case_change(&c, row, &device, &steps[i].length, &steps[i].queries) &&
                    extend_run(&device, row, &c, &result))
                    extend_check(&c, row, &result);
                extend_result_finish(&result);
            }
        }
    }
    extend_device_finish(&device, row);
    extend_case_finish(&c);
}
