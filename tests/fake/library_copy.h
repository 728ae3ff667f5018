/* SPDX-License-Identifier: MIT */
/* Copies of shared libraries, whole or with a symbol taken away. */
#ifndef FTJ_TESTS_LIBRARY_COPY_H
#define FTJ_TESTS_LIBRARY_COPY_H

/* Copy a library. `without`: a symbol that the copy must not export, or NULL. False: a file could
 * not be read or written, or there was no such symbol. */
int library_copy(const char *from, const char *to, const char *without);

/* Write the pieces of a path, NULL ends them, and make every folder in front of its last part. */
void library_path(char path[512], const char *first, ...);

#endif
