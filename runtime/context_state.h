/* SPDX-License-Identifier: MIT */
/* What a context holds. */
#ifndef FTJ_RUNTIME_CONTEXT_STATE_H
#define FTJ_RUNTIME_CONTEXT_STATE_H

#include <stdatomic.h>

#include "base/fork.h"
#include "cache/lock.h"
#include "cache/memo.h"
#include "cache/store.h"
#include "runtime/backend.h"
#include "runtime/kernel_map.h"
#include "runtime/telemetry.h"

/* What a kernel that would have to be compiled comes to. */
enum ftj_seal {
    FTJ_SEAL_NONE,    /* compiled */
    FTJ_SEAL_COUNT,   /* compiled, counted, said */
    FTJ_SEAL_ERROR,   /* FTJ_E_SEALED */
    FTJ_SEAL_NOTHING, /* FTJ_E_SEALED, by FTJIT_NO_COMPILE */
};

struct ftj_context {
    struct ftj_log log;
    struct ftj_backend backend;
    struct ftj_compiler compiler;
    struct ftj_store *store;   /* owned */
    struct ftj_memo *memo;     /* owned; holds every struct ftj_kernel */
    struct ftj_kernel_map map; /* of the same kernels, by problem */
    struct ftj_locks *locks;   /* owned */
    struct ftj_telemetry telemetry;
    uint32_t fork_generation; /* of the process that opened it */
    atomic_int seal;          /* enum ftj_seal */
    struct {
        atomic_uint_least64_t memory_hits;
        atomic_uint_least64_t disk_hits;
        atomic_uint_least64_t compiles;
        atomic_uint_least64_t compile_us;
        atomic_uint_least64_t damaged_entries;
        atomic_uint_least64_t dropped_writes;
        atomic_uint_least64_t waits;
        atomic_uint_least64_t sealed_misses;
    } stats;
};

/* True in the process that opened the context, false in its forked children. */
static inline bool ftj_context_is_ours(const struct ftj_context *ctx)
{
    return ctx->fork_generation == ftj_fork_generation();
}

/* FTJ_E_INVALID where the context is not ours: every public call that uses the device asks. */
FTJ_NODISCARD ftj_status ftj_context_check(const struct ftj_context *ctx);

#endif
