/* SPDX-License-Identifier: MIT */
/* A decode with its inputs and references (the case, host only), and the same on a device. */
#ifndef FTJ_TESTS_CHECK_ATTENTION_H
#define FTJ_TESTS_CHECK_ATTENTION_H

#include "ftjit/attention.h"
#include "tests/check/check_cache.h"

#define ATTENTION_MAX_BATCH 130
/* In table entries that must not be read. */
#define ATTENTION_POISON_ID 2147480000

struct attention_shape {
    ftj_kv_format k_format;
    ftj_kv_format v_format;
    ftj_kv_order order;
    ftj_kv_table table;
    ftj_dtype dtype;
    uint32_t head_dim;
    uint32_t num_kv_heads;
    uint32_t group;
    uint32_t page_size;
    uint32_t batch;
    uint32_t lengths[ATTENTION_MAX_BATCH];
    uint32_t window;
    uint32_t max_blocks;
    float softcap;
    float sm_scale; /* 0: head_dim^-0.5 */
    float q_log2;   /* size of the queries; 0: about 1 */
    bool has_sinks;
    bool wide_strides; /* gaps in q, o and the cache's arrays */
    bool no_lse;
    bool with_generic; /* build ftj_attention_generic() as well */
    bool sees_all;     /* queries may stand anywhere: no token is left out for the window */
    /* Page ids [batch][pages_width] as they are; NULL: pages in a random order. */
    const int32_t *pages;
    uint32_t pages_width;
    uint64_t num_pages; /* with `pages` */
};

/* Zeroed is empty. Arrays are owned. */
struct attention_case {
    struct attention_shape shape;
    ftj_attention_desc desc;
    struct check_cache cache;
    uint32_t num_q_heads;
    int64_t q_head_stride; /* elements, of q and o */
    int64_t q_batch_stride;
    size_t q_bytes; /* of q, and of o */
    uint16_t *q;
    int32_t *lengths; /* [batch] */
    int32_t *table;   /* page ids [batch][table_stride], or slots */
    size_t table_bytes;
    int64_t table_stride;
    int32_t *indptr; /* [batch + 1]; TABLE_SLOTS only */
    float *sinks;    /* [num_q_heads], or NULL */
    double *exact_o; /* [batch][num_q_heads][head_dim] */
    double *exact_lse;
    double *bound_o;   /* [batch][num_q_heads]: the largest error that passes */
    double *bound_lse; /* [batch][num_kv_heads] */
};

/* Room for the keys of one kv head: as they decode, and as the naive reference rounds them. */
struct attention_keys {
    double *k; /* [num_keys][head_dim], as are all; owned */
    double *v;
    float *k_rounded;
    float *v_rounded;
};

struct attention_result {
    uint16_t *o; /* [batch][num_q_heads][head_dim], owned */
    float *lse;  /* [batch][num_q_heads], owned; NULL when not asked for */
};

/* Layout, tables and a poisoned cache; q, keys and values are the caller's to fill. Fails the row
 * when the layout is refused. */
bool attention_case_init(struct attention_case *c, struct check_row *row,
                         const struct attention_shape *shape);
void attention_case_finish(struct attention_case *c);

/* Slot of token j of a request. */
uint64_t attention_case_slot(const struct attention_case *c, uint32_t request, uint32_t j);
uint16_t *attention_case_q(const struct attention_case *c, uint32_t request, uint32_t q_head);
/* First token a request's query sees. */
uint32_t attention_case_first(const struct attention_case *c, uint32_t request);

/* A row whose magnitude, and whose blocks' magnitudes, differ from its neighbours'. */
void attention_random_row(struct check_random *random, uint32_t head_dim, float low_log2,
                          float high_log2, float *values);
/* Gains over several magnitudes per row and per block, so that every scale matters. Tokens that
 * are not seen stay poison. */
void attention_case_fill_random(struct attention_case *c, struct check_random *random);
void attention_keys_init(struct attention_keys *keys, const struct attention_shape *shape);
void attention_keys_finish(struct attention_keys *keys);
/* Round keys first .. end of k and v. */
void attention_keys_round(struct attention_keys *keys, const struct attention_shape *shape,
                          uint32_t first, uint32_t end);
/* The references, from what the cache decodes to. */
void attention_case_solve(struct attention_case *c);

/* The case on a device, ready to launch. Zeroed is empty. */
struct attention_device {
    ftj_attention *attn;
    struct check_cache_memory cache;
    struct check_buffer q, o, lse, lengths, table, indptr, sinks, workspace;
    ftj_decode_args args;
};

bool attention_device_init(struct attention_device *device, struct check_row *row,
                           const struct attention_case *c);
void attention_device_finish(struct attention_device *device, struct check_row *row);

/* The two halves of a call that is launched otherwise: poison O (NaN), LSE (7.0) and the workspace;
 * then, when the device is idle, read the result. Gaps between rows of O must still hold poison. */
bool attention_poison(struct attention_device *device, struct check_row *row);
bool attention_read(struct attention_device *device, struct check_row *row,
                    const struct attention_case *c, struct attention_result *result);
/* Poison, decode on the default stream, read. */
bool attention_decode(struct attention_device *device, struct check_row *row,
                      const struct attention_case *c, struct attention_result *result);
/* The same through ftj_attention_generic(), each query at its request's last key. Needs
 * with_generic, and no wide_strides. */
bool attention_generic(struct attention_device *device, struct check_row *row,
                       const struct attention_case *c, struct attention_result *result);
void attention_result_finish(struct attention_result *result);

/* Against the references. */
void attention_check(const struct attention_case *c, struct check_row *row,
                     const struct attention_result *result);
/* Bit for bit. */
void attention_check_equal(const struct attention_case *c, struct check_row *row,
                           const struct attention_result *expected,
                           const struct attention_result *got, const char *what);

/* "fp8+nvfp4 d128 g4 p64 packed" into text. */
void attention_shape_text(const struct attention_shape *shape, char *text, size_t size);

#endif
