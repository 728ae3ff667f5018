/* SPDX-License-Identifier: MIT */
/*
 * Attention of one query, twice: exact, and with the roundings a kernel is allowed.
 *
 * A kernel passes when max |got - exact| <= 2 * max |naive - exact| + atol: tight where the format
 * is good, honest where it is not.
 */
#ifndef FTJ_TESTS_REF_ATTENTION_H
#define FTJ_TESTS_REF_ATTENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ftjit/attention.h"

/* One query head and the *decoded* rows of its kv head, in the request's own order. Borrowed. */
struct ref_attention {
    const double *q; /* [head_dim] */
    const double *k; /* [num_keys][head_dim], rows `k_stride` doubles apart */
    const double *v;
    int64_t k_stride; /* doubles; 0: head_dim */
    int64_t v_stride;
    /* Both of ref_round_values() with the dtype of ref_attention_naive(), dense, so that the
     * queries of a kv head share them; NULL: rounded at each call. */
    const float *k_rounded;
    const float *v_rounded;
    uint32_t head_dim; /* at most REF_MAX_HEAD_DIM */
    uint32_t num_keys;
    int64_t position; /* of the query; it sees keys j <= position. A decode's: num_keys - 1 */
    uint32_t window;  /* visible keys, its own included; 0: all */
    double sm_scale;
    double softcap; /* 0: off */
    bool has_sink;
    double sink; /* a natural logit, neither scaled nor capped */
};

/* First visible key and one past the last; equal when there is none. */
void ref_visible_keys(const struct ref_attention *attn, uint32_t *first, uint32_t *end);

/* In double. No visible key: o = 0 and lse = -inf (with a sink: lse = sink). `o` [head_dim] and
 * `lse` (natural log; may be NULL) are written. */
void ref_attention_exact(const struct ref_attention *attn, double *o, double *lse);

/* In fp32, rounding where a kernel may: q, K and V to the significand of `dtype` (a kernel keeps
 * its operands in range by scaling, so no range is lost here), p to `dtype` before P V but not in
 * the denominator, o to `dtype`. FP32 is the generic kernel's arithmetic: nothing is rounded twice.
 */
void ref_attention_naive(const struct ref_attention *attn, ftj_dtype dtype, double *o, double *lse);

/* What ref_attention_naive() makes of q, K and V. */
void ref_round_values(const double *values, size_t count, ftj_dtype dtype, float *rounded);

/* The state over the keys of both, from two states over disjoint keys. `o` may be o_a or o_b. */
void ref_state_merge(const double *o_a, double lse_a, const double *o_b, double lse_b,
                     uint32_t head_dim, double *o, double *lse);

#endif
