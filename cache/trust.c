/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* the strerror_r() that returns its text */
#include "cache/trust.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void ftj_reason_set(struct ftj_reason *reason, int error, const char *format, ...)
{
    char what[384];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    char buffer[128];
    snprintf(reason->text, sizeof(reason->text), "%s: %s", what,
             strerror_r(error, buffer, sizeof(buffer)));
}

ftj_status ftj_owners_init(struct ftj_owners *owners, const char *list, const char *origin,
                           const struct ftj_log *log)
{
    struct ftj_owners parsed = {.ids = {0}, .count = 1}; /* root */
    for (const char *at = list ? list : ""; *at;) {
        char *end = NULL;
        errno = 0;
        const unsigned long long id = strtoull(at, &end, 10);
        const bool is_number = *at >= '0' && *at <= '9' && !errno && id < UINT32_MAX;
        if (!is_number || (*end != ',' && *end != '\0') || parsed.count == FTJ_MAX_OWNERS)
            return ftj_fail(log, FTJ_E_INVALID,
                            "%s \"%s\" is not known; it must be up to %d user numbers separated by "
                            "commas",
                            origin, list, FTJ_MAX_OWNERS - 1);
        parsed.ids[parsed.count++] = (uid_t)id;
        at = end + (*end == ',');
    }
    *owners = parsed;
    return FTJ_OK;
}

static bool is_owner(const struct ftj_owners *owners, uid_t id)
{
    if (id == geteuid())
        return true;
    for (size_t i = 0; i < owners->count; i++) {
        if (owners->ids[i] == id)
            return true;
    }
    return false;
}

ftj_status ftj_trust_check(const struct ftj_owners *owners, const struct stat *info,
                           struct ftj_reason *reason)
{
    if (!is_owner(owners, info->st_uid)) {
        snprintf(reason->text, sizeof(reason->text),
                 "it belongs to user %lu and this process runs as user %lu",
                 (unsigned long)info->st_uid, (unsigned long)geteuid());
        return FTJ_E_IO;
    }
    if (info->st_mode & (S_IWGRP | S_IWOTH)) {
        snprintf(reason->text, sizeof(reason->text),
                 "others may write to it (mode %04o; chmod go-w mends it)",
                 (unsigned)info->st_mode & 07777);
        return FTJ_E_IO;
    }
    return FTJ_OK;
}
