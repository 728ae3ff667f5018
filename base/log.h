/* SPDX-License-Identifier: MIT */
/* Where sentences go: the caller's callback, and the thread's last error. */
#ifndef FTJ_BASE_LOG_H
#define FTJ_BASE_LOG_H

#include "ftjit/context.h"

#if defined(__GNUC__)
#define FTJ_PRINTF(sentence, first) __attribute__((format(printf, sentence, first)))
#else
#define FTJ_PRINTF(sentence, first)
#endif

struct ftj_log {
    ftj_log_fn write; /* NULL: nobody listens */
    void *data;
    ftj_log_level level;
};

/* Report a failure once, where it is found: one sentence, no newline. Becomes ftj_last_error() of
 * this thread, is logged as an error, and `status` is returned. `log` may be NULL. */
ftj_status ftj_fail(const struct ftj_log *log, ftj_status status, const char *format, ...)
    FTJ_PRINTF(3, 4);

/* Say something that is no failure. `log` may be NULL. */
void ftj_say(const struct ftj_log *log, ftj_log_level level, const char *format, ...)
    FTJ_PRINTF(3, 4);

#endif
