/* SPDX-License-Identifier: MIT */
/* How fast this device reads and copies, measured in the same run as everything that is held
 * against it. */
#ifndef FTJ_BENCH_CEILING_H
#define FTJ_BENCH_CEILING_H

#include "bench/bench_session.h"

/* Fills session->ceiling; needs session's info and timer. */
FTJ_NODISCARD ftj_status bench_ceiling_init(struct bench_session *session);
void bench_ceiling_finish(struct bench_session *session); /* zeroed is fine */

/* GB/s of plain reads of `bytes` each, rotated over the buffer. */
FTJ_NODISCARD ftj_status bench_ceiling_read(struct bench_session *session, uint64_t bytes,
                                            double *gbs);

/* Compile a source of one kernel, ftj_ and `name`, for the session's GPU, and load it. */
FTJ_NODISCARD ftj_status bench_kernel_load(const struct bench_session *session, const char *name,
                                           const char *source, struct CUmod_st **module,
                                           struct CUfunc_st **function);

#endif
