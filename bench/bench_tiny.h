/* SPDX-License-Identifier: MIT */
/* The smallest sensible call of each kind, for timing everything but the kernel. */
#ifndef FTJ_BENCH_TINY_H
#define FTJ_BENCH_TINY_H

#include "bench/bench_pool.h"
#include "bench/bench_shapes.h"

/* One request of sixteen keys, one token to store. A zeroed one is empty. */
struct bench_tiny {
    ftj_context *ctx; /* borrowed */
    ftj_attention *attn;
    struct bench_pool pool;
    void *memory; /* rows, slots, table, length, q and o, one after the other */
    void *workspace;
    ftj_store_args store;
    ftj_decode_args decode;
};

/* Attention of the main workloads' geometry, for some of FTJ_OP_*; no memory yet. */
FTJ_NODISCARD ftj_status bench_tiny_attention(struct bench_tiny *tiny, ftj_context *ctx,
                                              const struct bench_format *format, uint32_t ops);
/* Its inputs: zeros, which cost a call what any values do. */
FTJ_NODISCARD ftj_status bench_tiny_inputs(struct bench_tiny *tiny);
void bench_tiny_finish(struct bench_tiny *tiny); /* zeroed is fine */

#endif
