/* SPDX-License-Identifier: MIT */
/* One host thread's share of a launch: the fibres that are the threads of the block it runs, or of
 * the two blocks of a cluster, which run side by side. */
#ifndef FTJ_RUNTIME_CPU_WORKER_H
#define FTJ_RUNTIME_CPU_WORKER_H

#include "base/log.h"
#include "templates/block/cpu_runtime.h"

#define FTJ_CPU_MAX_THREADS 1024 /* of a block, or of both of a cluster */
#define FTJ_CPU_MAX_CLUSTER 2

struct ftj_cpu_worker;

/* Stacks and fibres; NULL when there is no memory. The caller frees it with
 * ftj_cpu_worker_destroy(). */
struct ftj_cpu_worker *ftj_cpu_worker_create(void);
void ftj_cpu_worker_destroy(struct ftj_cpu_worker *worker); /* NULL is fine */

/* Make ready for blocks of one kernel, cluster_blocks at a time: num_threads of a block is a
 * multiple of 32, and those of a cluster are FTJ_CPU_MAX_THREADS at the most. `entry` and `params`
 * are borrowed until the next call. */
FTJ_NODISCARD ftj_status ftj_cpu_worker_prepare(struct ftj_cpu_worker *worker,
                                                const ftj_cpu_entry *entry, const void *params,
                                                uint32_t num_threads, uint32_t smem_bytes,
                                                uint32_t cluster_blocks);

/* Run one block, or the cluster that begins with it, to its end. False: it failed,
 * ftj_cpu_worker_failure() says how and in which block, and the worker is only good for
 * destruction. */
bool ftj_cpu_worker_run(struct ftj_cpu_worker *worker, uint32_t first_block, uint32_t num_blocks);
const char *ftj_cpu_worker_failure(const struct ftj_cpu_worker *worker, uint32_t *block);

#endif
