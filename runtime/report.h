/* SPDX-License-Identifier: MIT */
/* What is left behind for a person when a kernel does not compile. */
#ifndef FTJ_RUNTIME_REPORT_H
#define FTJ_RUNTIME_REPORT_H

#include "cache/key.h"
#include "codegen/compile.h"

/* Write the source and the compiler's log to a private folder and name it in the error. */
void ftj_report_compile(const struct ftj_log *log, const struct ftj_key *key,
                        const struct ftj_source *source, const struct ftj_binary *binary);

#endif
