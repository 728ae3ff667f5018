/* SPDX-License-Identifier: MIT */
/* Key by key, as the formula reads; no tiles, no splits, no base-2 exponent. */
#include "tests/ref/ref_attention.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
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

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
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

/* Dot products of `count` (1 to 4) rows, each summed in its own order: four sums at once take
 * little longer than one, whose every addition waits for the one before. */
#define ROWS_AT_ONCE 4

static void exact_scores(const struct ref_attention *attn, uint32_t key, uint32_t count,
                         double scores[ROWS_AT_ONCE])
{
    const double *k[ROWS_AT_ONCE];
    double dots[ROWS_AT_ONCE] = {0.0};
    for (uint32_t i = 0; i < ROWS_AT_ONCE; i++)
        k[i] = key_row(attn, i < count ? key + i : key);
    for (uint32_t d = 0; d < attn->head_dim; d++) {
        for (uint32_t i = 0; i < ROWS_AT_ONCE; i++)
            dots[i] += attn->q[d] * k[i][d];
    }
    for (uint32_t i = 0; i < count; i++) {
        const double score = dots[i] * attn->sm_scale;
        scores[i] = attn->softcap != 0.0 ? attn->softcap * tanh(score / attn->softcap) : score;
    }
}

void ref_attention_exact(const struct ref_attention *attn, double *o, double *lse)
{
    uint32_t first, end;
    ref_visible_keys(attn, &first, &end);
    double max = attn->has_sink ? attn->sink : -INFINITY;
    double sum = attn->has_sink ? 1.0 : 0.0;
    double scores[ROWS_AT_ONCE];
    memset(o, 0, attn->head_dim * sizeof(*o));
    for (uint32_t key = first; key < end; key++) {
        const uint32_t i = (key - first) % ROWS_AT_ONCE;
        if (i == 0)
            exact_scores(attn, key, least(end - key, ROWS_AT_ONCE), scores);
        const double score = scores[i];
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
    uint64_t pattern;
    memcpy(&pattern, &value, sizeof(pattern));
    const uint32_t dropped = 53 - bits;
    pattern += (UINT64_C(1) << (dropped - 1)) - 1 + (pattern >> dropped & 1);
    pattern &= ~((UINT64_C(1) << dropped) - 1);
    double rounded;
    memcpy(&rounded, &pattern, sizeof(rounded));
    return isnan(value) ? NAN : (float)rounded;
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

void ref_round_values(const double *values, size_t count, ftj_dtype dtype, float *rounded)
{
    const uint32_t bits = significand_bits(dtype);
    for (size_t i = 0; i < count; i++)
        rounded[i] = round_significand(values[i], bits);
}

/* A row of K or V as rounded: it is there already, or `storage` receives it. */
static const float *rounded_row(const struct ref_attention *attn, ftj_dtype dtype, const float *all,
                                const double *row, uint32_t key, float *storage)
{
    if (all)
        return all + (size_t)key * attn->head_dim;
    ref_round_values(row, attn->head_dim, dtype, storage);
    return storage;
}

/* As exact_scores(), of a query that is rounded. */
static void naive_scores(const struct ref_attention *attn, const float *q, ftj_dtype dtype,
                         uint32_t key, uint32_t count, float *scores)
{
    float storage[ROWS_AT_ONCE][REF_MAX_HEAD_DIM];
    const float *k[ROWS_AT_ONCE];
    float dots[ROWS_AT_ONCE] = {0.0f};
    for (uint32_t i = 0; i < count; i++)
        k[i] =
            rounded_row(attn, dtype, attn->k_rounded, key_row(attn, key + i), key + i, storage[i]);
    for (uint32_t i = count; i < ROWS_AT_ONCE; i++)
        k[i] = k[0];
    for (uint32_t d = 0; d < attn->head_dim; d++) {
        for (uint32_t i = 0; i < ROWS_AT_ONCE; i++)
            dots[i] += q[d] * k[i][d];
    }
    for (uint32_t i = 0; i < count; i++) {
        const float score = dots[i] * (float)attn->sm_scale;
        const float cap = (float)attn->softcap;
        scores[i] = cap != 0.0f ? cap * tanhf(score / cap) : score;
    }
}

/* `scores` of every visible key; the largest of them and the sink's. */
static float naive_max(const struct ref_attention *attn, ftj_dtype dtype, uint32_t first,
                       uint32_t end, float *scores)
{
    float q[REF_MAX_HEAD_DIM];
    float max = attn->has_sink ? (float)attn->sink : -INFINITY;
    ref_round_values(attn->q, attn->head_dim, dtype, q);
    for (uint32_t key = first; key < end; key += ROWS_AT_ONCE)
        naive_scores(attn, q, dtype, key, least(end - key, ROWS_AT_ONCE), scores + (key - first));
    for (uint32_t i = 0; i < end - first; i++)
        max = fmaxf(max, scores[i]);
    return max;
}

void ref_attention_naive(const struct ref_attention *attn, ftj_dtype dtype, double *o, double *lse)
{
    assert(attn->head_dim <= REF_MAX_HEAD_DIM);
    uint32_t first, end;
    ref_visible_keys(attn, &first, &end);
    float *scores = malloc((end - first + 1) * sizeof(*scores));
    if (!scores)
        abort();
    const float max = naive_max(attn, dtype, first, end, scores);

    float sum = attn->has_sink ? expf((float)attn->sink - max) : 0.0f;
    float acc[REF_MAX_HEAD_DIM] = {0.0f};
    float storage[REF_MAX_HEAD_DIM];
    for (uint32_t key = first; key < end && max != -INFINITY; key++) {
        const float *v =
            rounded_row(attn, dtype, attn->v_rounded, value_row(attn, key), key, storage);
        const float p = expf(scores[key - first] - max);
        const float p_operand = round_to_dtype(p, dtype);
        sum += p;
        for (uint32_t d = 0; d < attn->head_dim; d++)
            acc[d] += p_operand * v[d];
    }
    free(scores);
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
