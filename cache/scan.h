/* SPDX-License-Identifier: MIT */
/* Every file of a root that is ours, and no other. */
#ifndef FTJ_CACHE_SCAN_H
#define FTJ_CACHE_SCAN_H

#include "cache/cache_dir.h"

/* A file that has the name of an entry, or that of a temporary (then target and shard are ""). */
struct ftj_found {
    const char *target; /* "sm_90a" */
    const char *shard;  /* "ab" */
    const char *name;
    int folder; /* open, for the call */
    struct stat info;
};

/* Visit entries, and temporaries if `with_temporaries`, in no order; `visit` may remove what it is
 * shown, and ends the scan with any status but FTJ_OK, which is returned. Links are not followed.
 * FTJ_E_NOT_FOUND: there is no root; FTJ_E_IO: `reason` says why it is no use. */
FTJ_NODISCARD ftj_status ftj_scan(const struct ftj_cache_dir *dir, bool with_temporaries,
                                  ftj_status (*visit)(void *data, const struct ftj_found *found),
                                  void *data, struct ftj_reason *reason);

/* The name of an entry, of this version or of an older one. */
bool ftj_scan_is_entry(const char *name);

/* Remove what is ours, and folders that are empty then. `num_files` gets how many entries and
 * temporaries went. As ftj_scan(). */
FTJ_NODISCARD ftj_status ftj_cache_clear(const struct ftj_cache_dir *dir, size_t *num_files,
                                         struct ftj_reason *reason);

#endif
