/* SPDX-License-Identifier: MIT */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MAX_SENTENCE 2048

/* NOTE(a variable that is not const): one per thread, as errno is. */
static _Thread_local char last_error[MAX_SENTENCE];

/* One that does not fit ends in "...", so that nobody takes the rest for the whole. */
static void write_sentence(char sentence[MAX_SENTENCE], const char *format, va_list args)
{
    const int size = vsnprintf(sentence, MAX_SENTENCE, format, args);
    if (size >= MAX_SENTENCE)
        memcpy(sentence + MAX_SENTENCE - 4, "...", 4);
}

static bool is_heard(const struct ftj_log *log, ftj_log_level level)
{
    return log && log->write && level <= log->level;
}

/* The sentence is written aside first: an argument may be ftj_last_error() itself, and the callback
 * may fail in calls of its own. */
ftj_status ftj_fail(const struct ftj_log *log, ftj_status status, const char *format, ...)
{
    char sentence[MAX_SENTENCE];
    va_list args;
    va_start(args, format);
    write_sentence(sentence, format, args);
    va_end(args);

    if (is_heard(log, FTJ_LOG_ERROR))
        log->write(log->data, FTJ_LOG_ERROR, sentence);
    memcpy(last_error, sentence, strlen(sentence) + 1);
    return status;
}

void ftj_say(const struct ftj_log *log, ftj_log_level level, const char *format, ...)
{
    if (!is_heard(log, level))
        return;
    char sentence[MAX_SENTENCE];
    va_list args;
    va_start(args, format);
    write_sentence(sentence, format, args);
    va_end(args);
    log->write(log->data, level, sentence);
}

const char *ftj_last_error(void)
{
    return last_error;
}
