/* SPDX-License-Identifier: MIT */
/* Shared libraries opened at run time. */
#ifndef FTJ_BASE_DYNLIB_H
#define FTJ_BASE_DYNLIB_H

#include "base/bytes.h"

/* Open the first of `names` (NULL ends the list) that loads. `tried` gets "name, name, ...", for
 * the sentence; `path` (size bytes, may be NULL) the file that was loaded. NULL when none does. */
void *ftj_dynlib_open(const char *const *names, struct ftj_text *tried, char *path, size_t size);
void *ftj_dynlib_symbol(void *library, const char *symbol);
void ftj_dynlib_close(void *library); /* NULL is fine */

#endif
