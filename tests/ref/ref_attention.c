/* SPDX-License-Identifier: MIT */
/* Key by key, as the formula reads; no tiles, no splits, no base-2 exponent. */
#include "tests/ref/ref_attention.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "tests/ref/ref_codec.h"

void ref_visible_keys(const struct ref_attention *attn, uint32_t *first, uint32_t *end)
{
    int64_t last = attn->position + 1 < attn->num_keys ? attn->position + 1 : attn->num_keys;
    if (last < 0)
        last = 0;
    int64_t begin = attn->window ? attn->position - attn->window + 1 : 0;
    if (begin < 0)
        begin = 0;
    *end = (uint32_t)last;
    *first = (uint32_t)(begin < last ? begin : last);
}

static const double *key_row(const struct ref_attention *attn, uint32_t key)
{
    const int64_t stride = attn->k_stride ? attn->k_stride : attn->head_dim;
    return attn->k + (int64_t)key * stride;
}

static const double *value_row(const struct ref_attention *attn, uint32_t key)
{
    const int64_t stride = attn->v_stride ? attn->v_stride : attn->head_dim;
    return attn->v + (int64_t)key * stride;
}

static double exact_score(const struct ref_attention *attn, uint32_t key)
{
    const double *k = key_row(attn, key);
    double dot = 0.0;
    for (uint32_t d = 0; d < attn->head_dim; d++)
        dot += attn->q[d] * k[d];
    const double score = dot * attn->sm_scale;
    return attn->softcap != 0.0 ? attn->softcap * tanh(score / attn->softcap) : score;
}

void ref_attention_exact(const struct ref_attention *attn, double *o, double *lse)
{
    uint32_t first, end;
    ref_visible_keys(attn, &first, &end);
    double max = attn->has_sink ? attn->sink : -INFINITY;
    double sum = attn->has_sink ? 1.0 : 0.0;
    memset(o, 0, attn->head_dim * sizeof(*o));
    for (uint32_t key = first; key < end; key++) {
        const double score = exact_score(attn, key);
        const double *v = value_row(attn, key);
        if (score > max) {
            const double shrink = exp(max - score);
            for (uint32_t d = 0; d < attn->head_dim; d++)
                o[d] *= shrink;
            sum *= shrink;
            max = score;
        }
        /* A score of minus infinity weighs nothing, even when it is all there is. */
        const double p = score == -INFINITY ? 0.0 : exp(score - max);
        sum += p;
        for (uint32_t d = 0; d < attn->head_dim; d++)
            o[d] += p * v[d];
    }
    for (uint32_t d = 0; d < attn->head_dim && sum != 0.0; d++)
        o[d] /= sum;
    if (lse)
        *lse = sum != 0.0 ? max + log(sum) : -INFINITY;
}

/* Round to `bits` significant bits, ties to even, at any magnitude. */
static float round_significand(double value, uint32_t bits)
{
    if (isnan(value))
        return NAN;
    uint64_t pattern;
    memcpy(&pattern, &value, sizeof(pattern));
    const uint32_t dropped = 53 - bits;
    pattern += (UINT64_C(1) << (dropped - 1)) - 1 + (pattern >> dropped & 1);
    pattern &= ~((UINT64_C(1) << dropped) - 1);
    memcpy(&value, &pattern, sizeof(value));
    return (float)value;
}

static uint32_t significand_bits(ftj_dtype dtype)
{
    return dtype == FTJ_DTYPE_BF16 ? 8 : dtype == FTJ_DTYPE_FP16 ? 11 : 24;
}

/* Range and all: what storing in `dtype` keeps. */
static float round_to_dtype(float value, ftj_dtype dtype)
{
    return dtype == FTJ_DTYPE_FP32 ? value : ref_16bit_widen(dtype, ref_16bit_narrow(dtype, value));
}

static float naive_score(const struct ref_attention *attn, uint32_t bits, uint32_t key)
{
    const double *k = key_row(attn, key);
    float dot = 0.0f;
    for (uint32_t d = 0; d < attn->head_dim; d++)
        dot += round_significand(attn->q[d], bits) * round_significand(k[d], bits);
    const float score = dot * (float)attn->sm_scale;
    const float cap = (float)attn->softcap;
    return cap != 0.0f ? cap * tanhf(score / cap) : score;
}

void ref_attention_naive(const struct ref_attention *attn, ftj_dtype dtype, double *o, double *lse)
{
    assert(attn->head_dim <= REF_MAX_HEAD_DIM);
    const uint32_t bits = significand_bits(dtype);
    uint32_t first, end;
    ref_visible_keys(attn, &first, &end);
    float max = attn->has_sink ? (float)attn->sink : -INFINITY;
    for (uint32_t key = first; key < end; key++)
        max = fmaxf(max, naive_score(attn, bits, key));

    float sum = attn->has_sink ? expf((float)attn->sink - max) : 0.0f;
    float acc[REF_MAX_HEAD_DIM] = {0.0f};
    for (uint32_t key = first; key < end && max != -INFINITY; key++) {
        const double *v = value_row(attn, key);
        const float p = expf(naive_score(attn, bits, key) - max);
        const float p_operand = round_to_dtype(p, dtype);
        sum += p;
        for (uint32_t d = 0; d < attn->head_dim; d++)
            acc[d] += p_operand * round_significand(v[d], bits);
    }
    for (uint32_t d = 0; d < attn->head_dim; d++)
        o[d] = sum != 0.0f ? round_to_dtype(acc[d] / sum, dtype) : 0.0;
    if (lse)
        *lse = sum != 0.0f ? max + logf(sum) : -INFINITY;
}

void ref_state_merge(const double *o_a, double lse_a, const double *o_b, double lse_b,
                     uint32_t head_dim, double *o, double *lse)
{
    const double max = fmax(lse_a, lse_b);
    const double weight_a = lse_a == -INFINITY ? 0.0 : exp(lse_a - max);
    const double weight_b = lse_b == -INFINITY ? 0.0 : exp(lse_b - max);
    const double sum = weight_a + weight_b;
    for (uint32_t d = 0; d < head_dim; d++)
        o[d] = sum != 0.0 ? (weight_a * o_a[d] + weight_b * o_b[d]) / sum : 0.0;
    if (lse)
        *lse = sum != 0.0 ? max + log(sum) : -INFINITY;
}
