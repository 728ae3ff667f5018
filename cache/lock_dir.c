/* SPDX-License-Identifier: MIT */
/*
 * On this node and in memory: a lock on a network's file system may not exclude, and a file that
 * outlives a boot helps nobody. Whoever can write there could stall others' compiles, so the folder
 * must be its user's alone. A predictable name in /dev/shm is checked, not trusted: one that
 * somebody else has made first is not used.
 */
#include "cache/lock_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/environment.h"

#define OPEN_FOLDER (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

static bool is_ours(int fd, mode_t forbidden, const char *path, char *why, size_t why_size)
{
    struct stat about;
    if (fstat(fd, &about)) {
        snprintf(why, why_size, "%s: %s", path, strerror(errno));
        return false;
    }
    if (about.st_uid != geteuid()) {
        snprintf(why, why_size, "%s belongs to user %u", path, (unsigned)about.st_uid);
        return false;
    }
    if (about.st_mode & forbidden) {
        snprintf(why, why_size, "%s is open to other users (mode %03o)", path,
                 (unsigned)about.st_mode & 0777);
        return false;
    }
    return true;
}

static bool open_private(const char *path, int *fd, char *why, size_t why_size)
{
    if (mkdir(path, 0700) && errno != EEXIST) {
        snprintf(why, why_size, "%s cannot be made: %s", path, strerror(errno));
        return false;
    }
    const int opened = open(path, OPEN_FOLDER);
    if (opened < 0) {
        snprintf(why, why_size, "%s cannot be opened: %s", path, strerror(errno));
        return false;
    }
    if (!is_ours(opened, 077, path, why, why_size)) {
        close(opened);
        return false;
    }
    *fd = opened;
    return true;
}

/* The folder of the user's session: nobody else may rename what is in it. */
static bool is_session_folder(const char *path)
{
    char why[256];
    const int fd = *path == '/' ? open(path, OPEN_FOLDER) : -1;
    const bool is_one = fd >= 0 && is_ours(fd, 022, path, why, sizeof(why));
    if (fd >= 0)
        close(fd);
    return is_one;
}

bool ftj_lock_dir_open(char *path, size_t path_size, int *fd, char *why, size_t why_size)
{
    const char *named = ftj_variable("FTJIT_LOCK_DIR");
    const char *session = ftj_variable("XDG_RUNTIME_DIR");
    int length;
    if (named) {
        length = snprintf(path, path_size, "%s", named);
    } else if (session && is_session_folder(session)) {
        length = snprintf(path, path_size, "%s/ftjit", session);
        if (length < (int)path_size && open_private(path, fd, why, why_size))
            return true;
        length = snprintf(path, path_size, "/dev/shm/ftjit-%u", (unsigned)geteuid());
    } else {
        length = snprintf(path, path_size, "/dev/shm/ftjit-%u", (unsigned)geteuid());
    }
    if (length < 0 || length >= (int)path_size) {
        snprintf(why, why_size, "the name of the folder of locks is longer than %zu bytes",
                 path_size - 1);
        return false;
    }
    return open_private(path, fd, why, why_size);
}
