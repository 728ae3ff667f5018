/* SPDX-License-Identifier: MIT */
/* What a context tells whoever runs it: two files, of what it missed and of what it did, and a call
 * for each kernel it had to get. */
#ifndef FTJ_RUNTIME_TELEMETRY_H
#define FTJ_RUNTIME_TELEMETRY_H

#include "codegen/problem.h"
#include "ftjit/context.h"

/* A zeroed one tells nothing. */
struct ftj_telemetry {
    char *record_path; /* owned */
    char *stats_path;  /* owned */
    ftj_kernel_event_fn on_kernel;
    void *on_kernel_data;
};

FTJ_NODISCARD ftj_status ftj_telemetry_init(struct ftj_telemetry *telemetry,
                                            const ftj_settings *settings);
void ftj_telemetry_finish(struct ftj_telemetry *telemetry);

/* Append the line of a problem that no cache had, for `ftjit warm --from`. Never fails: a file that
 * cannot be written is a warning. Any thread, any number of processes. */
void ftj_telemetry_miss(const struct ftj_telemetry *telemetry, const struct ftj_log *log,
                        const struct ftj_problem *problem, const struct ftj_device *device);

/* Nothing that the callee may want may be held. */
void ftj_telemetry_event(const struct ftj_telemetry *telemetry, const ftj_kernel_event *event);

/* The rest of a sentence that begins with the kernel. */
const char *ftj_telemetry_cause(ftj_miss_cause cause);

/* Append the counters, as one line of JSON. */
void ftj_telemetry_stats(const struct ftj_telemetry *telemetry, const struct ftj_log *log,
                         const struct ftj_device *device, const ftj_stats *stats);

#endif
