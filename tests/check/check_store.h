/* SPDX-License-Identifier: MIT */
/* A store with its sources and the cache it must leave behind. */
#ifndef FTJ_TESTS_CHECK_STORE_H
#define FTJ_TESTS_CHECK_STORE_H

#include "ftjit/attention.h"
#include "tests/check/check_cache.h"

struct store_shape {
    ftj_kv_shape kv;
    ftj_dtype dtype;       /* of a 16-bit side */
    ftj_dtype store_dtype; /* of the source */
    uint64_t num_pages;
    uint32_t num_tokens;
    const int64_t *slots; /* [num_tokens] */
    bool slots_are_int64;
    int64_t k_pitch; /* elements from a token of K to the next; 0: dense, or by wide_k */
    bool wide_k;     /* K is a slice of a buffer three times as wide, with gaps between heads */
    bool wide_v;     /* likewise, with an odd gap */
    bool wide_cache;
};

struct store_source {
    uint8_t *values; /* owned; store_dtype, NaN where nothing was set */
    size_t bytes;
    size_t first; /* element where token 0, head 0 starts */
    int64_t token_stride;
    int64_t head_stride;
};

/* Zeroed is empty. */
struct store_case {
    struct store_shape shape;
    ftj_attention_desc desc;
    struct store_source sources[2]; /* by enum check_side */
    struct check_cache before;
    struct check_cache expected;
    uint32_t num_rejected; /* tokens with a slot past the last page */
};

bool store_case_init(struct store_case *c, struct check_row *row, const struct store_shape *shape);
void store_case_finish(struct store_case *c);

/* Give a source row its values (narrowed to the source's type) and expect their codes. */
void store_case_set(struct store_case *c, enum check_side side, uint32_t token, uint32_t head,
                    const float *values);
/* Store on the device; the whole cache, the guards and the count of rejected tokens must be right.
 * `got`, when not NULL, receives the cache and is the caller's. */
void store_case_run(const struct store_case *c, struct check_row *row, struct check_cache *got);

#endif
