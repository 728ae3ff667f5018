/* SPDX-License-Identifier: MIT */
/* A compile in a process of its own: ftjit-cc, which may crash, hang or be killed. */
#ifndef FTJ_CODEGEN_HELPER_COMPILE_H
#define FTJ_CODEGEN_HELPER_COMPILE_H

#include <stdatomic.h>

#include "codegen/helper_message.h"
#include "codegen/helper_process.h"

#define FTJ_MAX_IDLE_HELPERS 64

/* Helpers between two compiles, which have NVRTC loaded. A zeroed one has none. Any thread. */
struct ftj_helpers {
    _Atomic(struct ftj_helper *) idle[FTJ_MAX_IDLE_HELPERS]; /* owned */
};

void ftj_helpers_finish(struct ftj_helpers *helpers); /* ends them; zeroed is fine */

/* Let the program `path` compile: one of `helpers`, or one that is started, which then stays there.
 * `helpers` NULL: one is started and ended. FTJ_E_COMPILE with the reason in binary->log also when
 * it died or was too slow; FTJ_E_COMPILER: it could not be run, or is no ftjit-cc. Any thread. */
FTJ_NODISCARD ftj_status ftj_helper_compile(struct ftj_helpers *helpers, const char *path,
                                            const struct ftj_helper_request *request,
                                            const struct ftj_log *log, struct ftj_binary *binary);

#endif
