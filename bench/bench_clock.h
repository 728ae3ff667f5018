/* SPDX-License-Identifier: MIT */
/* The mean SM clock over a stretch of a stream: under load a card is limited by power, and two
 * figures taken at different clocks do not compare. */
#ifndef FTJ_BENCH_CLOCK_H
#define FTJ_BENCH_CLOCK_H

#include "bench/bench_driver.h"
#include "ftjit/memory.h"

/* A note of one SM. */
struct bench_mark {
    uint64_t cycles;
    uint64_t ns; /* 0: there is none */
};

/* MHz between notes of `count` SMs at two times: the mean over those that have both, 0 when none
 * has. */
unsigned bench_clock_mean(const struct bench_mark *begin, const struct bench_mark *end,
                          size_t count);

/* Notes of every SM's cycle counter beside the time. A zeroed one knows no clock. */
struct bench_clock {
    ftj_context *ctx;                  /* borrowed */
    const struct bench_driver *driver; /* borrowed */
    struct CUmod_st *module;
    struct CUfunc_st *mark;
    void *marks; /* [2][BENCH_CLOCK_SMS] struct bench_mark; owned, on the device */
    unsigned num_sms;
};

#define BENCH_CLOCK_SMS 1024 /* SMs with a higher number are not looked at */

/* Leaves it zeroed where the driver takes no such kernel: then every clock is unknown. */
void bench_clock_init(struct bench_clock *clock, ftj_context *ctx,
                      const struct bench_driver *driver);
void bench_clock_finish(struct bench_clock *clock); /* zeroed is fine */

/* Note the counters in front of what is measured. The device waits a little first, so that the
 * host can queue all that follows: its own time is then no part of the measured one. */
FTJ_NODISCARD ftj_status bench_clock_begin(struct bench_clock *clock, struct CUstream_st *stream);
/* Note them behind it. */
FTJ_NODISCARD ftj_status bench_clock_end(struct bench_clock *clock, struct CUstream_st *stream);
/* MHz between the two, after the stream has been waited for; 0: unknown. */
unsigned bench_clock_mhz(const struct bench_clock *clock);

/* "580.159" from the management library, or "" where there is none. */
void bench_driver_release(char *text, unsigned size);

#endif
