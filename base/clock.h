/* SPDX-License-Identifier: MIT */
/* Time that only goes forward. */
#ifndef FTJ_BASE_CLOCK_H
#define FTJ_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Microseconds since some moment before the process began. */
static inline uint64_t ftj_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

#endif
