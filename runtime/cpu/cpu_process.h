/* SPDX-License-Identifier: MIT */
/* A program that is run to its end: the host's compiler. */
#ifndef FTJ_RUNTIME_CPU_PROCESS_H
#define FTJ_RUNTIME_CPU_PROCESS_H

#include "base/bytes.h"

/* The executable file that `name` means: itself when it holds a slash, else looked for on PATH. */
bool ftj_cpu_process_find(const char *name, char *path, size_t size);

/* Run argv[0], a path, and gather what it prints on both streams. False with errno set: it could
 * not be run at all. `is_success`: it ended with status 0. One that has not ended after `timeout_s`
 * is killed, with its children; the output then says so, as it does of one that a signal ended. */
bool ftj_cpu_process_run(const char *const *argv, uint32_t timeout_s, struct ftj_bytes *output,
                         bool *is_success);

#endif
