/* SPDX-License-Identifier: MIT */
/* What repeated measurements say. */
#ifndef FTJ_BENCH_STATS_H
#define FTJ_BENCH_STATS_H

#include <stddef.h>
#include <stdint.h>

struct bench_stats {
    double median;
    double low;  /* a quarter of the samples is at or below */
    double high; /* a quarter is at or above */
    size_t count;
};

/* Sorts `samples`; count must be 1 or more. */
struct bench_stats bench_stats_of(double *samples, size_t count);

/* Monotonic time in nanoseconds. */
uint64_t bench_now_ns(void);

#endif
