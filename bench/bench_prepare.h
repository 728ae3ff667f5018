/* SPDX-License-Identifier: MIT */
/* Kernels of many rows, built side by side before the first is measured. */
#ifndef FTJ_BENCH_PREPARE_H
#define FTJ_BENCH_PREPARE_H

#include "bench/bench_session.h"

/* Leaves every kernel that `count` cases need with the context, as far as they can be built: what
 * fails here fails again, with its sentence, when the case is run. Uses as many threads as the
 * machine has cores, up to 16. */
void bench_prepare(ftj_context *ctx, const struct bench_case *const *cases, size_t count);

#endif
