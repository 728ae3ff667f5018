/* SPDX-License-Identifier: MIT */
/* Where the partial results of a decode lie in the caller's workspace. */
#ifndef FTJ_RUNTIME_WORKSPACE_H
#define FTJ_RUNTIME_WORKSPACE_H

#include "runtime/attention_state.h"

struct ftj_workspace {
    size_t partial_out;   /* float [2 * blocks][unit_heads][unit_columns][head_dim] */
    size_t partial_state; /* float2 [2 * blocks][unit_heads][unit_columns] */
    size_t bytes;
};

/* Where the partial results of an extend lie. */
struct ftj_extend_workspace {
    size_t partial_out;   /* float [2 * blocks][block_rows][head_dim] */
    size_t partial_state; /* float2 [2 * blocks][block_rows] */
    size_t splits;        /* uint32 [blocks][8] */
    size_t bytes;
};

struct ftj_extend_workspace ftj_extend_workspace_plan(const struct ftj_attention *attn);

/* A block leaves at most two partial results: of the segment it starts in and
 * of the one it ends in. */
struct ftj_workspace ftj_workspace_plan(const struct ftj_attention *attn,
                                        const struct ftj_decode_plan *decode);

#endif
