/* SPDX-License-Identifier: MIT */
/* Median and quartiles: a mean would let one preempted replay speak for all. */
#include "bench/bench_stats.h"

#include <stdlib.h>
#include <time.h>

static int compare(const void *left, const void *right)
{
    const double a = *(const double *)left;
    const double b = *(const double *)right;
    return (a > b) - (a < b);
}

struct bench_stats bench_stats_of(double *samples, size_t count)
{
    qsort(samples, count, sizeof(*samples), compare);
    const double upper = samples[count / 2];
    const double lower = samples[(count - 1) / 2];
    return (struct bench_stats){
        .median = (lower + upper) / 2,
        .low = samples[count / 4],
        .high = samples[count - 1 - count / 4],
        .count = count,
    };
}

uint64_t bench_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
