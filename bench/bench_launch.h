/* SPDX-License-Identifier: MIT */
/* What a call costs on the host, and how long the first launch of a process takes. */
#ifndef FTJ_BENCH_LAUNCH_H
#define FTJ_BENCH_LAUNCH_H

#include "bench/bench_session.h"

/* Host time of one call, the queue kept short. */
struct bench_launch {
    double decode_ns;
    uint32_t decode_launches; /* kernels one call launches */
    double store_ns;
    uint32_t store_launches;
    double bare_ns; /* cuLaunchKernel of an empty kernel; 0 on the CPU */
};

/* `session` needs no ceilings: bench_timer_init() on its timer is enough. */
FTJ_NODISCARD ftj_status bench_launch_run(struct bench_session *session,
                                          const struct bench_format *format,
                                          struct bench_launch *out);

/* From nothing to the first launch, in this process; meant for a fresh one. */
struct bench_start {
    double driver_ms;    /* cuInit and the device's context, alone; 0 on the CPU */
    double context_ms;   /* ftj_context_create() after it */
    double attention_ms; /* ftj_attention_create(): store, then decode */
    double launch_ms;    /* the first decode, to its end on the device */
    ftj_stats stats;
    double store_compile_ms; /* the process's first, with the compiler's own start; 0: cached */
    double decode_compile_ms;
    double combine_compile_ms;
};

FTJ_NODISCARD ftj_status bench_start_run(const ftj_settings *settings,
                                         const struct bench_format *format,
                                         struct bench_start *out);

#endif
