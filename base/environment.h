/* SPDX-License-Identifier: MIT */
/* What the environment says, where it may be believed. */
#ifndef FTJ_BASE_ENVIRONMENT_H
#define FTJ_BASE_ENVIRONMENT_H

/* The value of a variable; NULL when it is unset or empty, or when the program runs with more
 * rights than its user: the environment is not its own then, and variables name libraries and
 * programs that would get those rights. Borrowed from the environment. */
const char *ftj_variable(const char *name);

/* Folder for private files: TMPDIR, else /tmp. Borrowed likewise. */
const char *ftj_temp_folder(void);

#endif
