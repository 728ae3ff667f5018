/* SPDX-License-Identifier: MIT */
/*
 * How long a call takes on its device.
 *
 * On a GPU many calls are captured into one graph and replayed, so that the host's launches are not
 * what is measured; on the CPU they are run one after the other.
 */
#ifndef FTJ_BENCH_TIMER_H
#define FTJ_BENCH_TIMER_H

#include "bench/bench_driver.h"
#include "bench/bench_stats.h"

#define BENCH_REPLAYS 11 /* timed; two more warm up */

/* One call, number `index` of a graph: it picks which of the rotated inputs is used. */
typedef ftj_status (*bench_call)(void *data, uint32_t index, struct CUstream_st *stream);

struct bench_timer {
    ftj_context *ctx;           /* borrowed */
    struct CUstream_st *stream; /* owned */
    struct bench_driver driver; /* closed on the CPU */
    struct CUevent_st *begin;
    struct CUevent_st *end;
    void *clock_library; /* libnvidia-ml, or NULL */
    void *clock_device;
    int (*clock_query)(void *device, int kind, unsigned *mhz);
    char driver_release[80]; /* "580.159", or "" */
};

FTJ_NODISCARD ftj_status bench_timer_init(struct bench_timer *timer, ftj_context *ctx);
void bench_timer_finish(struct bench_timer *timer); /* zeroed is fine */

/* Microseconds per call over `num_calls` calls. `mhz` (may be NULL) gets the SM clock at the end of
 * it, 0 when it cannot be asked. */
FTJ_NODISCARD ftj_status bench_time(struct bench_timer *timer, bench_call call, void *data,
                                    uint32_t num_calls, struct bench_stats *us, unsigned *mhz);

/* How many kernels one call launches; 1 on the CPU, which has no way to count. */
FTJ_NODISCARD ftj_status bench_count_launches(struct bench_timer *timer, bench_call call,
                                              void *data, uint32_t *launches);

#endif
