/* SPDX-License-Identifier: MIT */
/* What the calls' arguments have in common, checked and turned into parameters. */
#ifndef FTJ_RUNTIME_ARGS_CHECK_H
#define FTJ_RUNTIME_ARGS_CHECK_H

#include "runtime/attention_state.h"
#include "templates/block/params.h"

/* A pointer the kernel will follow: there, aligned, and memory of this device. */
FTJ_NODISCARD ftj_status ftj_check_argument(const struct ftj_attention *attn, const char *name,
                                            const void *pointer, size_t alignment);
/* The same, but NULL will do. */
FTJ_NODISCARD ftj_status ftj_check_optional(const struct ftj_attention *attn, const char *name,
                                            const void *pointer, size_t alignment);
FTJ_NODISCARD ftj_status ftj_check_stride(const struct ftj_attention *attn, const char *name,
                                          int64_t stride, int64_t least, int64_t multiple);

uint64_t ftj_address(const void *pointer);
int64_t ftj_or_dense(int64_t stride, int64_t dense);

FTJ_NODISCARD ftj_status ftj_set_cache(const struct ftj_attention *attn, const ftj_kv_cache *cache,
                                       ftj_cache_params *params);
FTJ_NODISCARD ftj_status ftj_set_requests(const struct ftj_attention *attn,
                                          const ftj_requests *requests,
                                          ftj_requests_params *params);

#endif
