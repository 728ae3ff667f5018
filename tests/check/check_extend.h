/* SPDX-License-Identifier: MIT */
/* An extend with its inputs and references, and the same on a device. The cache, the tables and
 * what a decode of the same requests would need are an attention_case. */
#ifndef FTJ_TESTS_CHECK_EXTEND_H
#define FTJ_TESTS_CHECK_EXTEND_H

#include "tests/check/check_attention.h"

/* Query rows before the first request's and after the last's, which nobody may touch. */
#define EXTEND_SPARE_ROWS 2

struct extend_shape {
    struct attention_shape attention; /* lengths count the queries' own tokens */
    uint32_t q_lens[ATTENTION_MAX_BATCH];
    bool has_new; /* the queries' own keys are given beside the cache, and are not in it */
    uint32_t short_queries; /* of the descriptor */
};

/* Zeroed is empty. Arrays are owned. */
struct extend_case {
    struct extend_shape shape;
    struct attention_case attention;
    uint32_t num_queries; /* spare rows included */
    int32_t *qo_indptr;   /* [batch + 1] */
    size_t q_bytes;       /* of q, and of o; strides are the attention's */
    uint16_t *q;          /* [num_queries][num_q_heads][head_dim] */
    int64_t new_head_stride;
    int64_t new_token_stride;
    size_t new_bytes;
    uint16_t *k_new; /* [num_queries][num_kv_heads][head_dim] */
    uint16_t *v_new;
    double *exact_o; /* [num_queries][num_q_heads][head_dim], as are the next three without dims */
    double *exact_lse;
    double *bound_o;
    double *bound_lse;
};

struct extend_result {
    uint16_t *o; /* [num_queries][num_q_heads][head_dim], owned */
    float *lse;  /* [num_queries][num_q_heads], owned */
};

bool extend_case_init(struct extend_case *c, struct check_row *row,
                      const struct extend_shape *shape);
void extend_case_finish(struct extend_case *c);

/* First key that any query of a request sees, and the first that is not in the cache. */
uint32_t extend_case_first(const struct extend_case *c, uint32_t request);
uint32_t extend_case_cached(const struct extend_case *c, uint32_t request);

/* Put the key and value of one token where the case says they are; values of 16 bits. */
void extend_case_put(struct extend_case *c, uint32_t request, uint32_t token, uint32_t head,
                     const float *k, const float *v);
/* Everything random, tokens that nobody sees left poison; and the references. */
void extend_case_fill_random(struct extend_case *c, struct check_random *random);
void extend_case_solve(struct extend_case *c);

struct extend_device {
    struct attention_device attention;
    struct check_buffer q, o, lse, qo_indptr, k_new, v_new;
    ftj_extend_args args;
};

bool extend_device_init(struct extend_device *device, struct check_row *row,
                        const struct extend_case *c);
void extend_device_finish(struct extend_device *device, struct check_row *row);

/* Other lengths and runs, [batch] each and none longer than before, in place on both sides; and
 * their references. */
bool extend_case_change(struct extend_case *c, struct check_row *row, struct extend_device *device,
                        const uint32_t *lengths, const uint32_t *q_lens);

/* The two halves of a call that is launched otherwise: poison O, LSE and the workspace; then, when
 * the device is idle, read the result. Gaps and spare rows must still be poison. */
bool extend_poison(struct extend_device *device, struct check_row *row);
bool extend_read(struct extend_device *device, struct check_row *row, const struct extend_case *c,
                 struct extend_result *result);
/* Poison, extend on the default stream, read. */
bool extend_run(struct extend_device *device, struct check_row *row, const struct extend_case *c,
                struct extend_result *result);
void extend_result_finish(struct extend_result *result);
void extend_check(const struct extend_case *c, struct check_row *row,
                  const struct extend_result *result);

/* Table, type, window, soft-cap and the like, another mix for each `i`. */
void extend_rotate_options(struct attention_shape *shape, uint32_t i);

/* What rows of random inputs have in common: describe(), prepare(), finish() and run(); and in
 * run(), one call against the references, and the same call again. False: it did not get to an end.
 */
void *extend_case_random(struct check_row *row, const struct extend_shape *shape);
void extend_case_free(void *prepared);
void extend_describe(struct check_row *row, const struct extend_shape *shape);
void extend_case_run(struct check_row *row, void *prepared);
bool extend_case_check(const struct extend_case *c, struct check_row *row,
                       struct extend_device *device);

#endif
