/* SPDX-License-Identifier: MIT */
/* What the rows of one run share: the device, its clock, and what its memory can do. */
#ifndef FTJ_BENCH_SESSION_H
#define FTJ_BENCH_SESSION_H

#include "bench/bench_shapes.h"
#include "bench/bench_timer.h"
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
    const struct bench_shape *shape;
    struct bench_format format;
    ftj_kv_order order;
    uint32_t page;
};

/* What came of it. */
struct bench_row {
    enum bench_op op;
    struct bench_case run;
    uint32_t row_bytes_k; /* of the cache as it was allocated */
    uint32_t row_bytes_v;
    struct bench_stats us;
    unsigned mhz; /* SM clock under load, 0 unknown */
    double gbs;
    double ceiling_share;
    double same_size_gbs; /* a plain read of as many bytes; 0: not measured */
    double check_error;
    double check_bound;
    bool check_ok;
};

/* Lay out a case's cache; refuses what no cache can be, before anything is allocated. */
FTJ_NODISCARD ftj_status bench_case_layout(const struct bench_case *run, ftj_kv_layout *layout);

/* Check, then time. FTJ_OK with `check_ok` false when the answers are wrong. */
FTJ_NODISCARD ftj_status bench_decode_run(struct bench_session *session,
                                          const struct bench_case *run, struct bench_row *row);
FTJ_NODISCARD ftj_status bench_store_run(struct bench_session *session,
                                         const struct bench_case *run, struct bench_row *row);

/* Sets of inputs to rotate over, so that the L2 serves none of `bytes_per_call` again: 2 or more,
 * within half of the device's memory when each takes `memory_per_set`. */
uint32_t bench_num_sets(const struct bench_session *session, uint64_t bytes_per_call,
                        uint64_t memory_per_set);
/* Calls of one graph: every set, equally often. */
uint32_t bench_num_calls(const struct bench_session *session, uint32_t num_sets);

#endif
