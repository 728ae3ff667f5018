/* SPDX-License-Identifier: MIT */
/* How large a root is, and making it smaller. */
#ifndef FTJ_CACHE_GC_H
#define FTJ_CACHE_GC_H

#include "cache/cache_dir.h"

#define FTJ_DEFAULT_MAX_BYTES ((uint64_t)1 << 30)

/* A limit: `text`, given by `origin`; NULL: FTJIT_CACHE_MAX_BYTES, else the default. A number of
 * bytes, or with K, M or G behind it of 1024 to that power. FTJ_E_INVALID: it is none. */
FTJ_NODISCARD ftj_status ftj_gc_cap(const char *text, const char *origin, const struct ftj_log *log,
                                    uint64_t *max_bytes);

/* What a collection found and did. */
struct ftj_gc_result {
    uint64_t bytes_before;
    uint64_t bytes_after;
    size_t num_entries; /* left */
    size_t num_evicted;
    size_t num_swept; /* temporaries of processes that are gone */
};

/* `pending` bytes were published: bring the root's counter forward by them, and collect if it has
 * passed `max_bytes`. Cheap, and never an error: `pending` is 0 afterwards, or as it was where they
 * cannot be counted now, and then goes with the next call. True: a collection ran, and `result` is
 * filled. */
bool ftj_gc_count(const struct ftj_cache_dir *dir, uint64_t max_bytes, uint64_t *pending,
                  struct ftj_gc_result *result);

/* Sweep temporaries; if entries hold more than `max_bytes`, remove those that were used longest ago
 * until four fifths of that are left. Entries younger than `min_age_seconds` stay, and other
 * users'. FTJ_E_NOT_FOUND: there is no root; FTJ_E_IO: `reason` says why it is no use, or that
 * another process is at it; FTJ_E_NO_MEMORY. */
FTJ_NODISCARD ftj_status ftj_gc_run(const struct ftj_cache_dir *dir, uint64_t max_bytes,
                                    uint64_t min_age_seconds, struct ftj_gc_result *result,
                                    struct ftj_reason *reason);

#endif
