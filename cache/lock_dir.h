/* SPDX-License-Identifier: MIT */
/* Where the lock files are. */
#ifndef FTJ_CACHE_LOCK_DIR_H
#define FTJ_CACHE_LOCK_DIR_H

#include <stdbool.h>
#include <stddef.h>

/* Open the folder of lock files, making it if it is not there; the caller closes `fd`. `path` gets
 * its name. False: there is none that could be trusted, and `why` says so. */
bool ftj_lock_dir_open(char *path, size_t path_size, int *fd, char *why, size_t why_size);

#endif
