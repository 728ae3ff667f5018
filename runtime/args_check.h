/* SPDX-License-Identifier: MIT */
/* What the calls' arguments have in common, checked and turned into parameters. */
#ifndef FTJ_RUNTIME_ARGS_CHECK_H
#define FTJ_RUNTIME_ARGS_CHECK_H

#include "runtime/attention_state.h"
#include "templates/block/params.h"

#define FTJ_VECTOR_BYTES    16u /* what kernels load at once: of a row of Q, O or 16-bit K and V */
#define FTJ_VECTOR_ELEMENTS 8
#define FTJ_MAX_CALL_ROWS   ((uint64_t)1 << 40) /* so that blocks can be counted; far fewer fit */

/* An argument the kernel will follow: where there, aligned, and memory of this device. */
struct ftj_pointer {
    const char *name;
    const void *address;
    size_t alignment;
    bool is_optional; /* NULL will do */
};
FTJ_NODISCARD ftj_status ftj_check_pointers(const struct ftj_attention *attn,
                                            const struct ftj_pointer *pointers, size_t count);

/* A stride between rows: 0, or at least head_dim, no more than there is memory for, and a multiple
 * of so many elements. */
struct ftj_stride {
    const char *name;
    int64_t elements;
};
FTJ_NODISCARD ftj_status ftj_check_strides(const struct ftj_attention *attn,
                                           const struct ftj_stride *strides, size_t count,
                                           int64_t multiple);
/* Of O: no head of a row may lie over another's. */
FTJ_NODISCARD ftj_status ftj_check_apart(const struct ftj_attention *attn,
                                         const struct ftj_stride *rows, uint64_t num_rows,
                                         const struct ftj_stride *heads);

uint64_t ftj_address(const void *pointer);
int64_t ftj_or_dense(int64_t stride, int64_t dense);

/* What a score is multiplied by before 2 is raised to it, or before it is capped. */
float ftj_score_scale(const struct ftj_attention *attn);

FTJ_NODISCARD ftj_status ftj_set_cache(const struct ftj_attention *attn, const ftj_kv_cache *cache,
                                       ftj_cache_params *params);
FTJ_NODISCARD ftj_status ftj_set_requests(const struct ftj_attention *attn,
                                          const ftj_requests *requests,
                                          ftj_requests_params *params);

#endif
