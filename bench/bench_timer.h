/* SPDX-License-Identifier: MIT */
/*
 * How long a call takes on its device.
 *
 * On a GPU many calls are captured into one graph and replayed, so that the host's launches are not
 * what is measured; on the CPU they are run one after the other.
 */
#ifndef FTJ_BENCH_TIMER_H
#define FTJ_BENCH_TIMER_H

#include "bench/bench_clock.h"
#include "bench/bench_stats.h"

/* One call, number `index` of a graph: it picks which of the rotated inputs is used. */
typedef ftj_status (*bench_call)(void *data, uint32_t index, struct CUstream_st *stream);

struct bench_timer {
    ftj_context *ctx;           /* borrowed */
    struct CUstream_st *stream; /* owned */
    struct bench_driver driver; /* closed on the CPU */
    struct bench_clock clock;   /* zeroed on the CPU */
    struct CUevent_st *begin;
    struct CUevent_st *end;
    char driver_release[80]; /* "580.159", or "" */
};

/* `timer` is borrowed by parts of its own: it must stay where it is. */
FTJ_NODISCARD ftj_status bench_timer_init(struct bench_timer *timer, ftj_context *ctx);
void bench_timer_finish(struct bench_timer *timer); /* zeroed is fine */

/* What can be replayed: calls 0 .. num_calls - 1, one after the other. */
struct bench_replay {
    struct bench_timer *timer; /* borrowed */
    bench_call call;
    void *data; /* borrowed */
    uint32_t num_calls;
    struct CUgraph_st *graph; /* owned; NULL on the CPU */
    struct CUgraphExec_st *exec;
};

FTJ_NODISCARD ftj_status bench_replay_init(struct bench_replay *replay, struct bench_timer *timer,
                                           bench_call call, void *data, uint32_t num_calls);
void bench_replay_finish(struct bench_replay *replay); /* zeroed is fine */

/* Microseconds that `times` replays take, back to back. `mhz` (may be NULL) gets the mean SM clock
 * while they ran, 0 when it is unknown. */
FTJ_NODISCARD ftj_status bench_replay_run(struct bench_replay *replay, uint32_t times, double *us,
                                          unsigned *mhz);

/* Microseconds per call over `num_calls` calls, after two replays to warm up, without a rest. */
FTJ_NODISCARD ftj_status bench_time(struct bench_timer *timer, bench_call call, void *data,
                                    uint32_t num_calls, struct bench_stats *us);

/* How many kernels one call launches; 1 on the CPU, which has no way to count. */
FTJ_NODISCARD ftj_status bench_count_launches(struct bench_timer *timer, bench_call call,
                                              void *data, uint32_t *launches);

#endif
