/* SPDX-License-Identifier: MIT */
/* What a context tells its caller about each kernel it had to get. */
#ifndef FTJIT_KERNEL_EVENT_H
#define FTJIT_KERNEL_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "ftjit/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Where a kernel came from. */
typedef enum ftj_kernel_tier {
    FTJ_TIER_NONE = 0,     ///< nowhere: it could not be had, see the event's status
    FTJ_TIER_ROOT = 1,     ///< the writable cache
    FTJ_TIER_SHARED = 2,   ///< a root that is only read
    FTJ_TIER_BUNDLE = 3,   ///< a bundle
    FTJ_TIER_COMPILER = 4, ///< it was compiled now
} ftj_kernel_tier;

/** Why a kernel was not simply read from a cache. */
typedef enum ftj_miss_cause {
    FTJ_MISS_NONE = 0,    ///< it was
    FTJ_MISS_ABSENT = 1,  ///< no cache had it
    FTJ_MISS_DAMAGED = 2, ///< one had it, but it failed its checks or the driver refused it
} ftj_miss_cause;

/** What became of one request. Borrowed for the call, with its texts. */
typedef struct ftj_kernel_event {
    const char *kernel;   ///< "attn_decode_sm80"
    const char *target;   ///< what it is compiled for: "sm_90a", "cpu"
    const char *key;      ///< 32 hex digits: its name in the cache, for `ftjit cache show`
    ftj_status status;    ///< FTJ_OK, or why there is no kernel
    ftj_kernel_tier tier; ///< FTJ_TIER_NONE after a failure
    ftj_miss_cause cause;
    bool has_waited;     ///< for another process that was compiling it, or for its turn
    uint32_t compile_us; ///< of the compile, in microseconds; 0 where there was none
} ftj_kernel_event;

/**
 * Receives an event for each kernel that was not in this process's memory.
 *
 * Called once for each request that had to look further than memory, successful or not, at its end,
 * on the thread that asked: inside ftj_attention_create() and its like. No lock of the library is
 * held, so that it may take its time and call the library, also for the same context; only
 * ftj_context_destroy() must not be called. After a failure ftj_last_error() is its sentence, and
 * stays so unless this call replaces it by one of its own. Requests on several threads are several
 * calls at the same time. Of threads that want one kernel at once, the one that gets it has the
 * event.
 *
 * A hit in memory is no event: it costs less than such a call would. ftj_stats.memory_hits counts
 * those. Neither is a problem that no kernel covers (FTJ_E_UNSUPPORTED).
 *
 * @param data  ftj_settings.on_kernel_data.
 * @param event Borrowed for the call.
 */
typedef void (*ftj_kernel_event_fn)(void *data, const ftj_kernel_event *event);

/** A word for a tier: "none", "root", "shared", "bundle", "compiler". Static. Any thread. */
FTJ_API const char *ftj_kernel_tier_name(ftj_kernel_tier tier);

#ifdef __cplusplus
}
#endif

#endif
