/* SPDX-License-Identifier: MIT */
/* The SM clock, from the management library where there is one: under decode the card is limited by
 * power, and two figures taken at different clocks do not compare. */
#ifndef FTJ_BENCH_CLOCK_H
#define FTJ_BENCH_CLOCK_H

#include "bench/bench_timer.h"

void bench_clock_open(struct bench_timer *timer); /* leaves the members zero where it cannot */
void bench_clock_close(struct bench_timer *timer);
unsigned bench_clock_mhz(const struct bench_timer *timer); /* 0: unknown */

#endif
