/* SPDX-License-Identifier: MIT */
/* One host thread's share of a launch: the fibres that are the threads of the block it runs. */
#ifndef FTJ_RUNTIME_CPU_WORKER_H
#define FTJ_RUNTIME_CPU_WORKER_H

#include "base/log.h"
#include "templates/block/cpu_runtime.h"

#define FTJ_CPU_MAX_THREADS 1024

struct ftj_cpu_worker;

/* Stacks and fibres; NULL when there is no memory. The caller frees it with
 * ftj_cpu_worker_destroy(). */
struct ftj_cpu_worker *ftj_cpu_worker_create(void);
void ftj_cpu_worker_destroy(struct ftj_cpu_worker *worker); /* NULL is fine */

/* Make ready for blocks of one kernel: num_threads is a multiple of 32 up to FTJ_CPU_MAX_THREADS.
 * `entry` and `params` are borrowed until the next call. */
FTJ_NODISCARD ftj_status ftj_cpu_worker_prepare(struct ftj_cpu_worker *worker,
                                                const ftj_cpu_entry *entry, const void *params,
                                                uint32_t num_threads, uint32_t smem_bytes);

/* Run one block to its end. False: it failed, ftj_cpu_worker_failure() says how, and the worker is
 * only good for destruction. */
bool ftj_cpu_worker_run(struct ftj_cpu_worker *worker, uint32_t block_index, uint32_t num_blocks);
const char *ftj_cpu_worker_failure(const struct ftj_cpu_worker *worker);

#endif
