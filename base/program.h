/* SPDX-License-Identifier: MIT */
/* Starting programs: the C++ compiler of the CPU target, and ftjit-cc. */
#ifndef FTJ_BASE_PROGRAM_H
#define FTJ_BASE_PROGRAM_H

#include <stdbool.h>
#include <sys/types.h>

/* A file that may be executed. */
bool ftj_is_program(const char *path);

struct ftj_program {
    const char *const *argv;  /* argv[0] is a path; NULL ends it */
    int input;                /* becomes standard input; -1: /dev/null */
    int output;               /* becomes both outputs; likewise */
    char *const *environment; /* NULL: this process's */
    bool has_group;           /* one of its own, to be ended with all it has started */
};

/* No signal is blocked in the child, and the host's way with SIGCHLD, SIGPIPE and SIGALRM is not
 * the child's. 0, or errno's number. */
int ftj_program_start(const struct ftj_program *program, pid_t *child);

#endif
