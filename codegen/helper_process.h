/* SPDX-License-Identifier: MIT */
/* ftjit-cc as a process: where it is, its start and its end. */
#ifndef FTJ_CODEGEN_HELPER_PROCESS_H
#define FTJ_CODEGEN_HELPER_PROCESS_H

#include <sys/types.h>

#include "base/bytes.h"
#include "base/log.h"

/* helper_find.c: the program ftjit-cc: FTJIT_CC, else beside the library or the program, else in
 * the installation's libexec. False: there is none; `tried` has where it was looked for. */
bool ftj_helper_find(char *path, size_t size, struct ftj_text *tried);

/* One that runs. */
struct ftj_helper {
    pid_t pid;
    int socket;
    uint32_t fork_generation; /* of the process whose child it is */
    char folder[256];         /* its TMPDIR, removed at its end; "": none could be made */
};

/* FTJ_E_COMPILER: `path` cannot be run; FTJ_E_NO_MEMORY. The caller ends it. */
FTJ_NODISCARD ftj_status ftj_helper_start(const char *path, const struct ftj_log *log,
                                          struct ftj_helper **out);

/* How a helper ended. */
struct ftj_helper_end {
    bool is_late;  /* it was killed, when its time was over */
    bool is_known; /* false: the host has thrown that away (it ignores SIGCHLD, or waits for every
                      child) */
    int fate;      /* as waitpid() has it */
};

/* Wait until it ends, or kill it when ftj_now_us() is past `deadline_us`; 0: at once. Frees it;
 * NULL is fine. In a process that was forked from its parent: leave it to that one. */
struct ftj_helper_end ftj_helper_end(struct ftj_helper *helper, uint64_t deadline_us);

#endif
