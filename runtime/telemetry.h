/* SPDX-License-Identifier: MIT */
/* Two files a context may write for whoever runs it: what it missed, and what it did. */
#ifndef FTJ_RUNTIME_TELEMETRY_H
#define FTJ_RUNTIME_TELEMETRY_H

#include "codegen/problem.h"
#include "ftjit/context.h"

/* A zeroed one writes nothing. */
struct ftj_telemetry {
    char *record_path; /* owned */
    char *stats_path;  /* owned */
};

FTJ_NODISCARD ftj_status ftj_telemetry_init(struct ftj_telemetry *telemetry,
                                            const ftj_settings *settings);
void ftj_telemetry_finish(struct ftj_telemetry *telemetry);

/* Append the line of a problem that no cache had, for `ftjit warm --from`. Never fails: a file that
 * cannot be written is a warning. Any thread, any number of processes. */
void ftj_telemetry_miss(const struct ftj_telemetry *telemetry, const struct ftj_log *log,
                        const struct ftj_problem *problem, const struct ftj_device *device);

/* Append the counters, as one line of JSON. */
void ftj_telemetry_stats(const struct ftj_telemetry *telemetry, const struct ftj_log *log,
                         const struct ftj_device *device, const ftj_stats *stats);

#endif
