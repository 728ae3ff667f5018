/* SPDX-License-Identifier: MIT */
/* A log callback that keeps what it is told. */
#ifndef LOG_CATCHER_H
#define LOG_CATCHER_H

#include <stdio.h>

#include "base/log.h"

struct log_catcher {
    int num_sentences;
    ftj_log_level level; /* of the last one */
    char last[4096];
};

static inline void catch_sentence(void *data, ftj_log_level level, const char *sentence)
{
    struct log_catcher *catcher = data;
    catcher->num_sentences++;
    catcher->level = level;
    snprintf(catcher->last, sizeof(catcher->last), "%s", sentence);
}

#endif
