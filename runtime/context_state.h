/* SPDX-License-Identifier: MIT */
/* What a context holds. */
#ifndef FTJ_RUNTIME_CONTEXT_STATE_H
#define FTJ_RUNTIME_CONTEXT_STATE_H

#include <stdatomic.h>

#include "cache/memo.h"
#include "cache/store.h"
#include "runtime/backend.h"

struct ftj_context {
    struct ftj_log log;
    struct ftj_backend backend;
    struct ftj_compiler compiler;
    struct ftj_store *store; /* owned */
    struct ftj_memo *memo;   /* owned; holds every struct ftj_kernel */
    struct {
        atomic_uint_least64_t memory_hits;
        atomic_uint_least64_t disk_hits;
        atomic_uint_least64_t compiles;
        atomic_uint_least64_t compile_us;
        atomic_uint_least64_t damaged_entries;
        atomic_uint_least64_t dropped_writes;
    } stats;
};

#endif
