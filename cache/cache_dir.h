/* SPDX-License-Identifier: MIT */
/*
 * Which folder is the cache, whether it may be trusted, and descriptors of the folders inside it.
 *
 * The cache holds code that will be run: a root that somebody else owns or may write to is refused.
 * Nothing is kept open between calls, so a root that is deleted meanwhile is made again. Any
 * thread.
 */
#ifndef FTJ_CACHE_CACHE_DIR_H
#define FTJ_CACHE_CACHE_DIR_H

#include "cache/trust.h"

/* A zeroed one has no root. */
struct ftj_cache_dir {
    char *root;               /* absolute; owned */
    const char *origin;       /* the setting or the variable that named it; static */
    struct ftj_owners owners; /* of what is in it, beside the effective user */
};

/* What write_tag() leaves in a root that was made here, so that backups pass it by. */
extern const char ftj_cache_tag[];

/* Choose the root: `setting`, else FTJIT_CACHE_DIR, XDG_CACHE_HOME/ftjit, HOME/.cache/ftjit. Looks
 * at no file. FTJ_E_NOT_FOUND: nothing names one; FTJ_E_IO: a relative one, and no working
 * directory. */
FTJ_NODISCARD ftj_status ftj_cache_dir_init(struct ftj_cache_dir *dir, const char *setting,
                                            struct ftj_reason *reason);
/* A root that was named: absolute, or below the working directory. */
FTJ_NODISCARD ftj_status ftj_cache_dir_init_at(struct ftj_cache_dir *dir, const char *path,
                                               const char *origin, struct ftj_reason *reason);
void ftj_cache_dir_finish(struct ftj_cache_dir *dir);

/* Open a folder of the cache, "v1/sm_90a/ab", or "" for the root. `create` makes what is missing,
 * with mode 0700 and, in a root made here, CACHEDIR.TAG. Each folder on the way, the root too, must
 * be one to be trusted; below the root no link is followed. The caller closes `fd`.
 * FTJ_E_NOT_FOUND: not there, and not to be created; FTJ_E_IO: `reason` says why it is no use. */
FTJ_NODISCARD ftj_status ftj_cache_dir_open(const struct ftj_cache_dir *dir, const char *folder,
                                            bool create, int *fd, struct ftj_reason *reason);

#endif
