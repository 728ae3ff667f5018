/* SPDX-License-Identifier: MIT */
#include "cache/cache_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/environment.h"

/* What backup programs look for: bford.info/cachedir. */
const char ftj_cache_tag[] =
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# This directory holds compiled kernels of ftjit. They are built again\n"
    "# when they are missing.\n";

/* The base directory rules: a relative path in these is to be ignored. */
static const char *absolute_variable(const char *name)
{
    const char *value = ftj_variable(name);
    return value && value[0] == '/' ? value : NULL;
}

static char *join(const char *parent, const char *child)
{
    const size_t size = strlen(parent) + strlen(child) + 2;
    char *path = malloc(size);
    if (path)
        snprintf(path, size, "%s/%s", parent, child);
    return path;
}

static ftj_status check_path(const char *path)
{
    return path ? FTJ_OK
                : ftj_fail(NULL, FTJ_E_NO_MEMORY, "no memory for the cache directory's path");
}

ftj_status ftj_cache_dir_init_at(struct ftj_cache_dir *dir, const char *path, const char *origin,
                                 struct ftj_reason *reason)
{
    char cwd[PATH_MAX];
    struct ftj_cache_dir found = {.origin = origin};
    if (path[0] != '/' && !getcwd(cwd, sizeof(cwd))) {
        ftj_reason_set(reason, errno, "working directory, for %s %s", origin, path);
        return FTJ_E_IO;
    }
    found.root = path[0] == '/' ? strdup(path) : join(cwd, path);
    const ftj_status status = check_path(found.root);
    if (!status)
        *dir = found;
    return status;
}

ftj_status ftj_cache_dir_init(struct ftj_cache_dir *dir, const char *setting,
                              struct ftj_reason *reason)
{
    const bool has_setting = setting && setting[0] != '\0';
    const char *named = has_setting ? setting : ftj_variable("FTJIT_CACHE_DIR");
    const char *xdg = absolute_variable("XDG_CACHE_HOME");
    const char *home = absolute_variable("HOME");

    if (named)
        return ftj_cache_dir_init_at(
            dir, named, has_setting ? "the setting cache_dir" : "FTJIT_CACHE_DIR", reason);
    if (!xdg && !home)
        return FTJ_E_NOT_FOUND;
    struct ftj_cache_dir found = {
        .root = xdg ? join(xdg, "ftjit") : join(home, ".cache/ftjit"),
        .origin = xdg ? "XDG_CACHE_HOME" : "HOME",
    };
    const ftj_status status = check_path(found.root);
    if (!status)
        *dir = found;
    return status;
}

void ftj_cache_dir_finish(struct ftj_cache_dir *dir)
{
    free(dir->root);
    *dir = (struct ftj_cache_dir){0};
}

/* Best effort: without it a backup is larger, no more. */
static void write_tag(const char *root)
{
    char *path = join(root, "CACHEDIR.TAG");
    if (!path)
        return;
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0) {
        if (write(fd, ftj_cache_tag, sizeof(ftj_cache_tag) - 1) !=
            (ssize_t)(sizeof(ftj_cache_tag) - 1))
            unlink(path);
        close(fd);
    }
    free(path);
}

/* Make the root and what is missing above it. */
static ftj_status make_root(const char *root, struct ftj_reason *reason)
{
    char *path = strdup(root);
    if (!path) {
        ftj_reason_set(reason, ENOMEM, "%s", root);
        return FTJ_E_IO;
    }
    ftj_status status = FTJ_OK;
    for (char *end = path + 1; !status; end++) {
        const char separator = *end;
        if (separator != '/' && separator != '\0')
            continue;
        *end = '\0';
        if (mkdir(path, 0700) && errno != EEXIST) {
            ftj_reason_set(reason, errno, "mkdir %s", path);
            status = FTJ_E_IO;
        }
        *end = separator;
        if (separator == '\0')
            break;
    }
    if (!status)
        write_tag(root);
    free(path);
    return status;
}

static ftj_status check_trust(const struct ftj_owners *owners, int fd, const char *name,
                              struct ftj_reason *reason)
{
    struct stat info;
    if (!fstat(fd, &info))
        return ftj_trust_check(owners, &info, reason);
    ftj_reason_set(reason, errno, "stat %s", name);
    return FTJ_E_IO;
}

static ftj_status open_root(const struct ftj_cache_dir *dir, bool create, int *fd,
                            struct ftj_reason *reason)
{
    const char *root = dir->root;
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    int opened = open(root, flags);
    if (opened < 0 && errno == ENOENT) {
        if (!create)
            return FTJ_E_NOT_FOUND;
        const ftj_status status = make_root(root, reason);
        if (status)
            return status;
        opened = open(root, flags);
    }
    if (opened < 0) {
        ftj_reason_set(reason, errno, "open %s", root);
        return FTJ_E_IO;
    }
    const ftj_status status = check_trust(&dir->owners, opened, root, reason);
    if (status) {
        close(opened);
        return status;
    }
    *fd = opened;
    return FTJ_OK;
}

/* One step down; takes `parent` and closes it. */
static ftj_status descend(const struct ftj_owners *owners, int parent, const char *name,
                          bool create, int *fd, struct ftj_reason *reason)
{
    ftj_status status = FTJ_OK;
    int opened = -1;
    if (create && mkdirat(parent, name, 0700) && errno != EEXIST) {
        ftj_reason_set(reason, errno, "mkdir %s", name);
        status = FTJ_E_IO;
        goto cleanup;
    }
    opened = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (opened < 0) {
        status = errno == ENOENT || errno == ESTALE ? FTJ_E_NOT_FOUND : FTJ_E_IO;
        ftj_reason_set(reason, errno, "open %s", name);
        goto cleanup;
    }
    status = check_trust(owners, opened, name, reason);
    if (status) {
        struct ftj_reason why = *reason;
        snprintf(reason->text, sizeof(reason->text), "%.60s in it: %.400s", name, why.text);
        close(opened);
        goto cleanup;
    }
    *fd = opened;

cleanup:
    close(parent);
    return status;
}

ftj_status ftj_cache_dir_open(const struct ftj_cache_dir *dir, const char *folder, bool create,
                              int *fd, struct ftj_reason *reason)
{
    int at = -1;
    ftj_status status = open_root(dir, create, &at, reason);
    while (!status && *folder) {
        char name[NAME_MAX + 1];
        const size_t size = strcspn(folder, "/");
        snprintf(name, sizeof(name), "%.*s", (int)size, folder);
        status = descend(&dir->owners, at, name, create, &at, reason);
        folder += size;
        folder += *folder == '/';
    }
    if (status)
        return status == FTJ_E_NOT_FOUND && create ? FTJ_E_IO : status;
    *fd = at;
    return FTJ_OK;
}
