/* SPDX-License-Identifier: MIT */
/* Seeing to a list of kernels: from the cache, or compiled into it. */
#ifndef FTJ_CLI_WARM_RUN_H
#define FTJ_CLI_WARM_RUN_H

#include "cache/lock.h"
#include "cache/store.h"
#include "cli/cli_progress.h"
#include "cli/warm_list.h"

struct warm_result {
    size_t num_hit;
    size_t num_compiled;
    size_t num_failed;
    uint64_t compile_us; /* of all compiles together */
    double seconds;
};

/* With `num_threads` at a time, and no more than the locks allow this node. Each failure is said on
 * standard error and the others go on. Entries are kept in the list if `keeps_entries`. What was
 * saved stays saved when the process is stopped. */
void warm_run(struct warm_list *list, struct ftj_store *store, struct ftj_locks *locks,
              uint32_t num_threads, bool keeps_entries, struct warm_result *result);

#endif
