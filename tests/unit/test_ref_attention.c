/* SPDX-License-Identifier: MIT */
/* The reference attention against answers worked out by hand. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "tests/ref/ref_attention.h"
#include "tests/ref/ref_codec.h"

enum { max_keys = 600, head_dim = 32 };

/* Rows of the request under test; zero unless a test says otherwise. */
static double q[head_dim];
static double k[max_keys * head_dim];
static double v[max_keys * head_dim];

static struct ref_attention decode_over(uint32_t num_keys)
{
    return (struct ref_attention){
        .q = q,
        .k = k,
        .v = v,
        .head_dim = head_dim,
        .num_keys = num_keys,
        .position = (int64_t)num_keys - 1,
        .sm_scale = 1.0,
    };
}

static void fill_row(double *rows, uint32_t row, double value)
{
    for (uint32_t d = 0; d < head_dim; d++)
        rows[row * head_dim + d] = value;
}

static double uniform(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(int64_t)*state * 0x1p-63;
}

static void fill_random(uint64_t seed)
{
    for (uint32_t d = 0; d < head_dim; d++)
        q[d] = uniform(&seed);
    for (uint32_t i = 0; i < max_keys * head_dim; i++) {
        k[i] = uniform(&seed);
        v[i] = uniform(&seed);
    }
}

static void expect_exact(const struct ref_attention *attn, double wanted_o, double wanted_lse,
                         double tolerance)
{
    double o[head_dim], lse;
    ref_attention_exact(attn, o, &lse);
    for (uint32_t d = 0; d < head_dim; d++)
        cr_expect(fabs(o[d] - wanted_o) <= tolerance, "o[%u] is %.9f, not %.9f", d, o[d], wanted_o);
    cr_expect(lse == wanted_lse || fabs(lse - wanted_lse) <= tolerance, "lse is %.9f, not %.9f",
              lse, wanted_lse);
}

Test(ref_attention, two_keys_weigh_by_their_scores_O10_T13)
{
    q[0] = 1;
    k[0] = 1;
    k[head_dim] = 2;
    fill_row(v, 0, 1);
    fill_row(v, 1, 3);
    const struct ref_attention attn = decode_over(2);
    expect_exact(&attn, 2.462117, 2.313262, 1e-6);
    fill_row(v, 0, 0);
    fill_row(v, 1, 1);
    expect_exact(&attn, 1 / (1 + exp(-1)), 2.313262, 1e-6);
}

Test(ref_attention, scores_far_below_zero_are_scores_all_the_same_O13)
{
    q[0] = q[1] = 1;
    k[0] = k[head_dim] = -65536;
    k[head_dim + 1] = -1;
    fill_row(v, 0, 1);
    const struct ref_attention attn = decode_over(2);
    expect_exact(&attn, 0.731059, -65535.686738, 1e-6);
}

Test(ref_attention, no_visible_key_gives_zero_and_minus_infinity_O08)
{
    fill_row(v, 0, 7);
    struct ref_attention attn = decode_over(0);
    expect_exact(&attn, 0, -INFINITY, 0);
    attn = decode_over(3);
    attn.position = -1;
    expect_exact(&attn, 0, -INFINITY, 0);
    attn = decode_over(3);
    attn.position = 9;
    attn.window = 7; /* keys 3 to 9, and there are only 0 to 2 */
    expect_exact(&attn, 0, -INFINITY, 0);

    double o[head_dim], lse;
    ref_attention_naive(&attn, FTJ_DTYPE_FP16, o, &lse);
    cr_expect(o[0] == 0 && lse == -INFINITY);
    attn.has_sink = true;
    attn.sink = -1.25;
    expect_exact(&attn, 0, -1.25, 0);
    ref_attention_naive(&attn, FTJ_DTYPE_FP16, o, &lse);
    cr_expect(o[0] == 0 && lse == -1.25);
}

Test(ref_attention, a_zero_query_averages_what_it_sees_T14_O15)
{
    for (uint32_t key = 0; key < 67; key++)
        fill_row(v, key, key + 1);
    struct ref_attention attn = decode_over(67);
    expect_exact(&attn, 34.0, log(67), 1e-12);
    attn.window = 8;
    expect_exact(&attn, 63.5, log(8), 1e-12);
    attn.position = 9; /* keys 2 to 9: a causal query in the middle */
    expect_exact(&attn, 6.5, log(8), 1e-12);
    attn.window = 67;
    expect_exact(&attn, 5.5, log(10), 1e-12);

    attn = decode_over(1);
    attn.has_sink = true;
    expect_exact(&attn, 0.5, log(2), 1e-12);
}

Test(ref_attention, a_sink_is_a_logit_of_its_own)
{
    q[0] = 2;
    k[0] = 3;
    fill_row(v, 0, 1);
    struct ref_attention attn = decode_over(1);
    attn.sm_scale = 0.5; /* a score of 3 */
    attn.softcap = 1.5;  /* 1.5 tanh(2) */
    attn.has_sink = true;
    attn.sink = 40; /* neither scaled nor capped, and above every score */
    const double score = 1.5 * tanh(2.0);
    expect_exact(&attn, exp(score - 40) / (1 + exp(score - 40)), 40, 1e-12);
    attn.sink = -40;
    expect_exact(&attn, 1 / (1 + exp(-40 - score)), score, 1e-12);
}

Test(ref_attention, a_softcap_bends_every_score)
{
    q[0] = 1;
    k[0] = 10;
    k[head_dim] = -10;
    fill_row(v, 0, 1);
    struct ref_attention attn = decode_over(2);
    attn.softcap = 2;
    const double score = 2 * tanh(5.0);
    expect_exact(&attn, 1 / (1 + exp(-2 * score)), log(2 * cosh(score)), 1e-12);
}

Test(ref_attention, rows_are_found_by_their_stride)
{
    fill_random(3);
    struct ref_attention attn = decode_over(max_keys / 3);
    attn.k_stride = 3 * head_dim;
    attn.v_stride = 2 * head_dim;
    double wanted[head_dim], got[head_dim], lse;
    static double k_dense[max_keys * head_dim], v_dense[max_keys * head_dim];
    for (uint32_t key = 0; key < max_keys / 3; key++) {
        memcpy(k_dense + key * head_dim, k + 3 * key * head_dim, head_dim * sizeof(*k));
        memcpy(v_dense + key * head_dim, v + 2 * key * head_dim, head_dim * sizeof(*v));
    }
    ref_attention_exact(&attn, got, &lse);
    attn.k = k_dense;
    attn.v = v_dense;
    attn.k_stride = attn.v_stride = 0;
    ref_attention_exact(&attn, wanted, &lse);
    cr_expect_arr_eq(got, wanted, sizeof(wanted));
}

Test(ref_attention, merging_two_halves_gives_the_whole_O09)
{
    fill_random(4);
    double o_a[head_dim], o_b[head_dim], whole[head_dim], lse_a, lse_b, lse_whole, lse;
    for (uint32_t cut = 0; cut <= 100; cut += 20) {
        struct ref_attention attn = decode_over(100);
        ref_attention_exact(&attn, whole, &lse_whole);
        attn = decode_over(cut);
        ref_attention_exact(&attn, o_a, &lse_a);
        attn = decode_over(100 - cut);
        attn.k += cut * head_dim;
        attn.v += cut * head_dim;
        ref_attention_exact(&attn, o_b, &lse_b);
        ref_state_merge(o_a, lse_a, o_b, lse_b, head_dim, o_a, &lse);
        cr_expect(fabs(lse - lse_whole) < 1e-13);
        for (uint32_t d = 0; d < head_dim; d++)
            cr_expect(fabs(o_a[d] - whole[d]) < 1e-13);
    }
    const double zero = 0, other = 2.5;
    double o;
    ref_state_merge(&zero, -INFINITY, &zero, -INFINITY, 1, &o, &lse);
    cr_expect(o == 0 && lse == -INFINITY);
    ref_state_merge(&zero, -INFINITY, &other, 0.75, 1, &o, &lse);
    cr_expect(o == 2.5 && lse == 0.75);
}

/* Largest |naive - exact| of o over a random request. */
static double naive_error(ftj_dtype dtype, double v_gain)
{
    fill_random(5);
    for (uint32_t i = 0; i < max_keys * head_dim; i++)
        v[i] *= v_gain;
    const struct ref_attention attn = decode_over(max_keys);
    double naive[head_dim], exact[head_dim], lse_naive, lse_exact, error = 0;
    ref_attention_naive(&attn, dtype, naive, &lse_naive);
    ref_attention_exact(&attn, exact, &lse_exact);
    cr_expect(fabs(lse_naive - lse_exact) < 0.02);
    for (uint32_t d = 0; d < head_dim; d++)
        error = fmax(error, fabs(naive[d] - exact[d]));
    return error;
}

Test(ref_attention, naive_loses_what_its_type_loses_and_no_more)
{
    const double bf16 = naive_error(FTJ_DTYPE_BF16, 1);
    const double fp16 = naive_error(FTJ_DTYPE_FP16, 1);
    const double fp32 = naive_error(FTJ_DTYPE_FP32, 1);
    cr_expect(bf16 > 1e-5 && bf16 < 2e-3, "bf16 %g", bf16);
    cr_expect(fp16 > 1e-6 && fp16 < 2e-4, "fp16 %g", fp16);
    cr_expect(fp32 > 0 && fp32 < 1e-6, "fp32 %g", fp32);
}

Test(ref_attention, naive_keeps_operands_past_the_range_of_fp16)
{
    /* V up to 100 000 averages to a few thousand: the operand must not become infinite. */
    const double error = naive_error(FTJ_DTYPE_FP16, 1e5);
    cr_expect(error < 20, "error %g", error);
}

Test(ref_attention, naive_takes_rows_that_are_rounded_already)
{
    static float k_rounded[max_keys * head_dim], v_rounded[max_keys * head_dim];
    const ftj_dtype dtypes[] = {FTJ_DTYPE_BF16, FTJ_DTYPE_FP16, FTJ_DTYPE_FP32};
    double o[2][head_dim], lse[2];
    fill_random(6);
    for (int i = 0; i < 3; i++) {
        struct ref_attention attn = decode_over(max_keys - 1); /* no multiple of four */
        ref_attention_naive(&attn, dtypes[i], o[0], &lse[0]);
        ref_round_values(k, max_keys * head_dim, dtypes[i], k_rounded);
        ref_round_values(v, max_keys * head_dim, dtypes[i], v_rounded);
        attn.k_rounded = k_rounded;
        attn.v_rounded = v_rounded;
        ref_attention_naive(&attn, dtypes[i], o[1], &lse[1]);
        cr_expect(memcmp(o[0], o[1], sizeof(o[0])) == 0 && lse[0] == lse[1], "type %d", i);
    }
}
