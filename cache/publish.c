/* SPDX-License-Identifier: MIT */
/* Publishing by rename: a reader sees a whole file or none. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "cache/entry_file.h"

void ftj_temporary_host(char host[34])
{
    memcpy(host, "host", 5);
    gethostname(host, 33);
    host[33] = '\0';
    for (char *at = host; *at; at++) {
        if (*at == '/' || *at == '-')
            *at = '_';
    }
}

bool ftj_temporary_parse(const char *name, char host[34], long *pid)
{
    const char *dash = strchr(name, '-');
    if (!dash || dash == name || dash - name > 33)
        return false;
    char *end = NULL;
    const long number = strtol(dash + 1, &end, 10);
    const size_t digits = end == dash + 1 || *end != '-' ? 0 : strspn(end + 1, "0123456789abcdef");
    if (number <= 0 || digits != 16 || strcmp(end + 17, ".tmp") != 0)
        return false;
    memcpy(host, name, (size_t)(dash - name));
    host[dash - name] = '\0';
    *pid = number;
    return true;
}

struct temporary {
    int fd;
    char name[96];
};

/* Host, process and a random number: unique on a shared file system too, and no reader's business.
 * Two that agree all the same are told apart by O_EXCL. */
static void name_temporary(struct temporary *temporary)
{
    char host[34];
    ftj_temporary_host(host);
    uint64_t random = 0;
    if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random)) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        random = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    }
    snprintf(temporary->name, sizeof(temporary->name), "%s-%ld-%016llx.tmp", host, (long)getpid(),
             (unsigned long long)random);
}

static ftj_status create_temporary(int folder, struct temporary *temporary,
                                   struct ftj_reason *reason)
{
    const int num_attempts = 8;
    for (int i = 0; i < num_attempts; i++) {
        name_temporary(temporary);
        temporary->fd = openat(folder, temporary->name,
                               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (temporary->fd >= 0)
            return FTJ_OK;
        if (errno != EEXIST)
            break;
    }
    ftj_reason_set(reason, errno, "create tmp/%s", temporary->name);
    return FTJ_E_IO;
}

static ftj_status write_all(int fd, const struct ftj_bytes *file)
{
    size_t used = 0;
    while (used < file->size) {
        const ssize_t part = write(fd, file->data + used, file->size - used);
        if (part < 0 && errno == EINTR)
            continue;
        if (part < 0)
            return FTJ_E_IO;
        used += (size_t)part;
    }
    return FTJ_OK;
}

/* Write and close. A full disk may show as late as at close(). */
static ftj_status fill(const struct temporary *temporary, const struct ftj_bytes *file,
                       struct ftj_reason *reason)
{
    ftj_status status = write_all(temporary->fd, file);
    if (!status && fdatasync(temporary->fd))
        status = FTJ_E_IO;
    int error = errno;
    if (close(temporary->fd) && !status) {
        status = FTJ_E_IO;
        error = errno;
    }
    if (status)
        ftj_reason_set(reason, error, "write tmp/%s", temporary->name);
    return status;
}

/* The last writer of a key wins, which is harmless: equal keys mean equal code. What was written is
 * never read back. */
ftj_status ftj_publish_at(int tmp, int folder, const char *name, const struct ftj_bytes *file,
                          struct ftj_reason *reason)
{
    struct temporary temporary;
    ftj_status status = create_temporary(tmp, &temporary, reason);
    if (status)
        return status;
    status = fill(&temporary, file, reason);
    if (!status && renameat(tmp, temporary.name, folder, name)) {
        ftj_reason_set(reason, errno, "rename to %s", name);
        status = FTJ_E_IO;
    }
    if (status)
        unlinkat(tmp, temporary.name, 0);
    return status;
}

ftj_status ftj_publish(const struct ftj_cache_dir *dir, const char *folder, const char *name,
                       const struct ftj_bytes *file, struct ftj_reason *reason)
{
    int into = -1;
    int tmp = -1;
    ftj_status status = ftj_cache_dir_open(dir, folder, true, &into, reason);
    if (status)
        return status;
    status = ftj_cache_dir_open(dir, "v1/tmp", true, &tmp, reason);
    if (status)
        goto cleanup;
    status = ftj_publish_at(tmp, into, name, file, reason);

cleanup:
    if (tmp >= 0)
        close(tmp);
    close(into);
    return status;
}
