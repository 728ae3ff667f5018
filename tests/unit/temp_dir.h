/* SPDX-License-Identifier: MIT */
/* A directory of a test's own, and what is in it. Used by the race programs too. */
#ifndef TEMP_DIR_H
#define TEMP_DIR_H

#include <stddef.h>

/* Make one under TMPDIR or /tmp. */
void temp_dir_init(char path[256]);

/* Remove it with everything in it, whatever its mode. */
void temp_dir_finish(const char *path);

/* How many files (not folders) under `path` have a name that ends with `ending`; "" is every name.
 * `first`, if not NULL, receives the path of one of them. */
size_t temp_dir_count(const char *path, const char *ending, char first[512]);

#endif
