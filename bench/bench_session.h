/* SPDX-License-Identifier: MIT */
/* What the rows of one run share: the device, its clock, and what its memory can do. */
#ifndef FTJ_BENCH_SESSION_H
#define FTJ_BENCH_SESSION_H

#include "bench/bench_shapes.h"
#include "bench/bench_states.h"
#include "ftjit/ftjit.h"

/* Kernels of the bench's own, compiled here, and a large buffer they run over. */
struct bench_ceiling {
    struct CUmod_st *module;
    struct CUmod_st *copy_module;
    struct CUfunc_st *read;
    struct CUfunc_st *copy;
    void *buffer; /* owned */
    uint64_t bytes;
    double read_gbs; /* streaming over all of the buffer */
    double copy_gbs; /* read and written bytes of a copy on the device, by a kernel or the driver */
};

struct bench_session {
    ftj_context *ctx; /* borrowed */
    ftj_device_info info;
    struct bench_timer timer;
    struct bench_ceiling ceiling;
    uint64_t seed;
};

/* Opens the clock and measures the ceilings. */
FTJ_NODISCARD ftj_status bench_session_init(struct bench_session *session, ftj_context *ctx,
                                            uint64_t seed);
void bench_session_finish(struct bench_session *session); /* zeroed is fine */

/* One row to run: a shape in a format and an order. */
struct bench_case {
    enum bench_op op;
    const struct bench_shape *shape;
    struct bench_format format;
    ftj_kv_order order;
    uint32_t page;
    bool is_fresh_beside; /* extend: the new tokens' keys lie in 16 bits beside the cache */
    unsigned states;      /* to time it in, 1 << enum bench_state */
};

/* What came of it. */
struct bench_row {
    struct bench_case run;
    const char *variant;  /* the kernel that did the work; static */
    uint32_t row_bytes_k; /* of the cache as it was allocated */
    uint32_t row_bytes_v;
    struct bench_timing timings[BENCH_NUM_STATES]; /* of one call */
    uint64_t bytes;       /* that a call reads (a store: and writes) of cache and rows */
    double flops;         /* of an extend */
    double same_size_gbs; /* a plain read of as many bytes; 0: not measured */
    double check_error;
    double check_bound;
    bool check_ok;
};

/* What an attention for a case is made from; refuses what no cache can be. Allocates nothing. */
FTJ_NODISCARD ftj_status bench_case_desc(const struct bench_case *run, ftj_attention_desc *desc);

/* Name of the variant that serves an operation; static. */
const char *bench_variant_name(const ftj_attention *attn, enum bench_op op);

/* Check, then time. FTJ_OK with `check_ok` false when the answers are wrong. */
FTJ_NODISCARD ftj_status bench_case_run(struct bench_session *session, const struct bench_case *run,
                                        struct bench_row *row);

/* The same for one operation, into a row that has its `run` and nothing else. */
FTJ_NODISCARD ftj_status bench_decode_run(struct bench_session *session,
                                          const struct bench_case *run, struct bench_row *row);
FTJ_NODISCARD ftj_status bench_extend_run(struct bench_session *session,
                                          const struct bench_case *run, struct bench_row *row);
FTJ_NODISCARD ftj_status bench_store_run(struct bench_session *session,
                                         const struct bench_case *run, struct bench_row *row);

/* Sets of inputs to rotate over, so that the L2 serves none of `bytes_per_call` again: `least` (2
 * or more) or more, within half of the device's memory when each takes `memory_per_set`. */
uint32_t bench_num_sets(const struct bench_session *session, uint64_t bytes_per_call,
                        uint64_t memory_per_set, uint32_t least);
/* Calls of one graph: every set, equally often. */
uint32_t bench_num_calls(const struct bench_session *session, uint32_t num_sets);

#endif
