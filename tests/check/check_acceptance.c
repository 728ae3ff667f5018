/* SPDX-License-Identifier: MIT */
/* The list of acceptance cases, and what they share. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/attention_state.h"
#include "tests/check/acceptance.h"

static const struct {
    const char *name;
    void (*run)(struct check_row *row);
} cases[] = {
    {"O01 K and V have different row pitches", acceptance_o01_different_row_pitches},
    {"O02 padding slot -1", acceptance_o02_padding_slot},
    {"O03 all-zero and vanishing rows", acceptance_o03_zero_and_vanishing_rows},
    {"O04 E4M3 bytes", acceptance_o04_e4m3_bytes},
    {"O05 nvfp4 bytes", acceptance_o05_nvfp4_bytes},
    {"O06 cache offsets past 2^31", acceptance_o06_offsets_past_2_31},
    {"O07 stale NaN after the end of the sequence", acceptance_o07_stale_nan_after_the_end},
    {"O08 a request with no keys inside a batch", acceptance_o08_request_with_no_keys},
    {"O09 every split writes every row, empty merges", acceptance_o09_every_split_count},
    {"O10 LSE base and sign", acceptance_o10_lse_base_and_sign},
    {"O11 more than 65,535 requests", acceptance_o11_more_than_65535_requests},
    {"O12 odd geometry", acceptance_o12_odd_geometry},
    {"O13 every score far below zero", acceptance_o13_scores_far_below_zero},
    {"O13 extend: every score far below zero", acceptance_o13_extend_far_below_zero},
    {"O14 queries are the tail of the sequence", acceptance_o14_queries_are_the_tail},
    {"O15 a window counts the query's own key", acceptance_o15_window_counts_itself},
    {"O15 extend: a window hides whole tiles", acceptance_o15_window_hides_whole_tiles},
    {"O16 decode and extend agree", acceptance_o16_decode_and_extend_agree},
    {"O16 short runs agree with both", acceptance_o16_short_runs_agree},
    {"O20 extend: other lengths and runs in place", acceptance_o20_other_runs_in_place},
    {"extend: chunks equal the whole", acceptance_chunks_equal_the_whole},
    {"extend: large logits", acceptance_extend_of_large_logits},
    {"extend: logits that rise past every sum", acceptance_extend_of_rising_logits},
    {"extend: queries of any size", acceptance_extend_of_any_queries},
    {"extend: values of any size", acceptance_extend_of_any_values},
    {"extend: windows that begin inside a warp's rows", acceptance_extend_of_staggered_windows},
    {"extend: what parts of a unit are relative to", acceptance_extend_of_parts},
    {"extend: units of two blocks that widen codes together", acceptance_extend_of_pairs},
    {"extend: the same, of which one is done again", acceptance_extend_of_uneven_pairs},
    {"extend: first keys far from all others", acceptance_extend_of_sinks},
    {"extend: what is refused", acceptance_extend_refusals},
    {"decode: warps that share keys or lines", acceptance_shared_keys},
    {"decode: kv heads of many query heads", acceptance_large_groups},
    {"decode: more requests than a warp has lanes", acceptance_many_requests},
    {"O20 lengths change in place between calls", acceptance_o20_other_lengths_in_place},
    {"T13 K scale applied once", acceptance_t13_k_scale_once},
    {"T14 p unscaled in the denominator", acceptance_t14_denominator_unscaled},
    {"T21 unwritten slots are exactly zero", acceptance_t21_unwritten_slots},
    {"T33 a group of 24", acceptance_t33_group_of_24},
};

void acceptance_constant_row(float value, float *row)
{
    for (uint32_t d = 0; d < REF_MAX_HEAD_DIM; d++)
        row[d] = value;
}

void acceptance_fill_mean(struct attention_case *c, acceptance_value value)
{
    float k[REF_MAX_HEAD_DIM];
    float v[REF_MAX_HEAD_DIM];
    for (uint32_t r = 0; r < c->shape.batch; r++) {
        for (uint32_t h = 0; h < c->num_q_heads; h++) {
            for (uint32_t d = 0; d < c->shape.head_dim; d++)
                attention_case_q(c, r, h)[d] = 0;
        }
        for (uint32_t j = attention_case_first(c, r); j < c->shape.lengths[r]; j++) {
            for (uint32_t h = 0; h < c->shape.num_kv_heads; h++) {
                for (uint32_t d = 0; d < c->shape.head_dim; d++)
                    k[d] = (float)((j + d) % 5) - 2;
                acceptance_constant_row(value(r, h, j), v);
                check_cache_encode(&c->cache, CHECK_K, attention_case_slot(c, r, j), h, k);
                check_cache_encode(&c->cache, CHECK_V, attention_case_slot(c, r, j), h, v);
            }
        }
    }
}

static double bf16_ulp(double value)
{
    int exponent = 0;
    frexp(value, &exponent);
    return value == 0 ? 0 : ldexp(1, exponent - 8);
}

void acceptance_compare(struct check_row *row, const struct attention_case *c,
                        const struct attention_result *result, const double *o, const double *lse,
                        double lse_tolerance)
{
    const uint32_t head_dim = c->shape.head_dim;
    const size_t rows = (size_t)c->shape.batch * c->num_q_heads;
    for (size_t i = 0; i < rows; i++) {
        /* No visible key: exactly 0, not nearly. */
        const double tolerance = isinf(lse[i]) ? 0 : bf16_ulp(o[i]) + 1e-3;
        for (uint32_t d = 0; d < head_dim; d++) {
            const double got = (double)ref_16bit_widen(c->shape.dtype, result->o[i * head_dim + d]);
            if (!(fabs(got - o[i]) <= tolerance))
                check_fail(row, "o of request %zu head %zu [%u]: got %.7g, expected %.7g",
                           i / c->num_q_heads, i % c->num_q_heads, d, got, o[i]);
        }
        const double got = (double)result->lse[i];
        if (isinf(lse[i]) ? got != lse[i] : !(fabs(got - lse[i]) <= lse_tolerance))
            check_fail(row, "lse of request %zu head %zu: got %.7g, expected %.7g",
                       i / c->num_q_heads, i % c->num_q_heads, got, lse[i]);
    }
}

void acceptance_expect(struct check_row *row, const struct attention_case *c, const double *o,
                       const double *lse, double lse_tolerance)
{
    struct attention_device device = {0};
    struct attention_result result = {0};
    if (attention_device_init(&device, row, c) && attention_decode(&device, row, c, &result))
        acceptance_compare(row, c, &result, o, lse, lse_tolerance);
    attention_result_finish(&result);
    attention_device_finish(&device, row);
}

struct attention_shape acceptance_small_shape(ftj_kv_format format, uint32_t length)
{
    return (struct attention_shape){
        .k_format = format,
        .v_format = format,
        .dtype = FTJ_DTYPE_BF16,
        .head_dim = 64,
        .num_kv_heads = 1,
        .group = 1,
        .page_size = 16,
        .batch = 1,
        .lengths = {length},
    };
}

void acceptance_decode_random_by(struct check_row *row, const struct attention_shape *shape,
                                 const char *variant)
{
    struct attention_case c = {0};
    struct attention_device device = {0};
    struct attention_result result = {0};
    if (attention_case_init(&c, row, shape)) {
        attention_case_fill_random(&c, &row->random);
        attention_case_solve(&c);
        if (attention_device_init(&device, row, &c)) {
            const char *used = device.attn->kernels[FTJ_KERNEL_DECODE]->variant->name;
            if (variant && strcmp(row->tier->variant, variant) == 0 && strcmp(used, variant) != 0)
                check_fail(row, "a group of %u runs through %s", shape->group, used);
            if (attention_decode(&device, row, &c, &result))
                attention_check(&c, row, &result);
        }
    }
    attention_result_finish(&result);
    attention_device_finish(&device, row);
    attention_case_finish(&c);
}

void acceptance_decode_random(struct check_row *row, const struct attention_shape *shape)
{
    acceptance_decode_random_by(row, shape, NULL);
}

void acceptance_expect_mean(struct check_row *row, const struct attention_shape *shape,
                            acceptance_value value, const double *o, const double *lse)
{
    struct attention_case c = {0};
    if (attention_case_init(&c, row, shape)) {
        acceptance_fill_mean(&c, value);
        acceptance_expect(row, &c, o, lse, 1e-3);
    }
    attention_case_finish(&c);
}

void acceptance_expect_pair(struct check_row *row, const struct attention_shape *shape,
                            const float q[2], const float k[2][2], const float v[2], double o,
                            double lse, double lse_tolerance)
{
    struct attention_case c = {0};
    float values[REF_MAX_HEAD_DIM] = {0};
    if (attention_case_init(&c, row, shape)) {
        memset(c.q, 0, c.q_bytes);
        for (int d = 0; d < 2; d++)
            c.q[d] = ref_bf16_narrow(q[d]);
        for (uint32_t j = 0; j < 2; j++) {
            acceptance_constant_row(0, values);
            memcpy(values, k[j], sizeof(k[j]));
            check_cache_encode(&c.cache, CHECK_K, attention_case_slot(&c, 0, j), 0, values);
            acceptance_constant_row(v[j], values);
            check_cache_encode(&c.cache, CHECK_V, attention_case_slot(&c, 0, j), 0, values);
        }
        acceptance_expect(row, &c, &o, &lse, lse_tolerance);
    }
    attention_case_finish(&c);
}

static uint64_t num_rows(const struct check_options *options)
{
    (void)options;
    return sizeof(cases) / sizeof(*cases);
}

static void describe(struct check_row *row)
{
    snprintf(row->shape, sizeof(row->shape), "%s", cases[row->index].name);
}

static void run(struct check_row *row, void *prepared)
{
    (void)prepared;
    cases[row->index].run(row);
}

const struct check_test check_acceptance_test = {
    .name = "acceptance",
    .op = FTJ_KERNEL_DECODE,
    .num_rows = num_rows,
    .num_quick = num_rows,
    .run = run,
    .describe = describe,
};
