/* SPDX-License-Identifier: MIT */
/* The blocks of a launch, dealt out to host threads. */
#ifndef FTJ_RUNTIME_CPU_GRID_H
#define FTJ_RUNTIME_CPU_GRID_H

#include "base/log.h"
#include "templates/block/cpu_runtime.h"

struct ftj_cpu_pool;

/* Workers that are kept between launches; NULL when there is no memory. */
struct ftj_cpu_pool *ftj_cpu_pool_create(void);
void ftj_cpu_pool_destroy(struct ftj_cpu_pool *pool); /* NULL is fine; no launch is running */

struct ftj_cpu_grid {
    const ftj_cpu_entry *entry;
    const void *params;
    uint32_t num_blocks;
    uint32_t num_threads;    /* per block */
    uint32_t smem_bytes;     /* per block */
    uint32_t cluster_blocks; /* 1, or 2 that run together, of which num_blocks is a multiple */
};

/* Run every block; returns when all have ended or one has failed (FTJ_E_LAUNCH). Any thread. */
FTJ_NODISCARD ftj_status ftj_cpu_grid_run(struct ftj_cpu_pool *pool,
                                          const struct ftj_cpu_grid *grid,
                                          const struct ftj_log *log);

#endif
