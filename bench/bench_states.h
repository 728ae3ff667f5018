/* SPDX-License-Identifier: MIT */
/* A card that has rested is faster than one that has worked for a while: both are measured. */
#ifndef FTJ_BENCH_STATES_H
#define FTJ_BENCH_STATES_H

#include "bench/bench_timer.h"

enum bench_state {
    BENCH_RESTED,    /* after 60 ms without work */
    BENCH_SUSTAINED, /* back to back for more than 0.4 s */
    BENCH_NUM_STATES
};

struct bench_timing {
    struct bench_stats us; /* per call; count 0: not measured */
    unsigned mhz;          /* median over the samples of the mean SM clock; 0: unknown */
};

/* What to time. */
struct bench_task {
    bench_call call;
    void *data;
    uint32_t num_calls; /* of one replay: one sample of the rested state */
    unsigned states;    /* 1 << enum bench_state */
    bool rest_each;     /* rest before every replay, for calls of milliseconds; else before the
                           first of them only: together they take less than a rest */
};

/* Fills the timings of the states asked for. On the CPU, which does not tire, a state is a name. */
FTJ_NODISCARD ftj_status bench_states_time(struct bench_timer *timer, const struct bench_task *task,
                                           struct bench_timing timings[BENCH_NUM_STATES]);

const char *bench_state_name(enum bench_state state); /* "rested", "sustained"; static */

#endif
