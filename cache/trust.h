/* SPDX-License-Identifier: MIT */
/*
 * Whose files may be believed. What the cache holds will be run, so a folder, an entry or a bundle
 * counts only if nobody but its owner may write to it and its owner is one of those named here.
 */
#ifndef FTJ_CACHE_TRUST_H
#define FTJ_CACHE_TRUST_H

#include <sys/stat.h>

#include "base/log.h"

#define FTJ_MAX_OWNERS 16

/* Users beside the effective one. Zeroed: nobody else. */
struct ftj_owners {
    uid_t ids[FTJ_MAX_OWNERS];
    size_t count;
};

/* Why the system refused: "mkdir /dev/null/x: Not a directory". */
struct ftj_reason {
    char text[512];
};

/* What failed, and errno's text. */
void ftj_reason_set(struct ftj_reason *reason, int error, const char *format, ...) FTJ_PRINTF(3, 4);

/* root, and the numbers of `list`, separated by commas (NULL or "": none).
 * FTJ_E_INVALID: it is no such list, with a sentence that names `origin`. */
FTJ_NODISCARD ftj_status ftj_owners_init(struct ftj_owners *owners, const char *list,
                                         const char *origin, const struct ftj_log *log);

/* FTJ_E_IO: `reason` says whose it is, or that others may write to it. */
FTJ_NODISCARD ftj_status ftj_trust_check(const struct ftj_owners *owners, const struct stat *info,
                                         struct ftj_reason *reason);

#endif
