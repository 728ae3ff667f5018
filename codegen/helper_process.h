/* SPDX-License-Identifier: MIT */
/* A compile in a process of its own: ftjit-cc, which may crash, hang or be killed. */
#ifndef FTJ_CODEGEN_HELPER_PROCESS_H
#define FTJ_CODEGEN_HELPER_PROCESS_H

#include "codegen/helper_message.h"

/* helper_find.c: the program ftjit-cc: FTJIT_CC, else beside the library or the program, else in
 * the installation's libexec. False: there is none; `tried` has where it was looked for. */
bool ftj_helper_find(char *path, size_t size, struct ftj_text *tried);

/* Let the program `helper` compile. FTJ_E_COMPILE with the reason in binary->log also when it died
 * or was too slow; FTJ_E_COMPILER: it could not be run, or is no ftjit-cc. Any thread. */
FTJ_NODISCARD ftj_status ftj_helper_compile(const char *helper,
                                            const struct ftj_helper_request *request,
                                            const struct ftj_log *log, struct ftj_binary *binary);

#endif
