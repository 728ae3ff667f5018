/* SPDX-License-Identifier: MIT */
#include "cache/scan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cache/entry_file.h"

static const char hex_digits[] = "0123456789abcdef";

bool ftj_scan_is_entry(const char *name)
{
    if (strspn(name, hex_digits) != 30)
        return false;
    const char *rest = name + 30;
    if (*rest == '-' && strspn(rest + 1, hex_digits) == 16)
        rest += 17;
    return strcmp(rest, ".ftk") == 0;
}

static bool is_shard(const char *name)
{
    return strlen(name) == 2 && strspn(name, hex_digits) == 2;
}

static bool is_target(const char *name)
{
    const size_t size = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");
    return size > 0 && size < 16 && name[size] == '\0' && strcmp(name, "tmp") != 0 &&
           strcmp(name, "usage") != 0;
}

static bool is_temporary(const char *name)
{
    char host[34];
    long pid;
    return ftj_temporary_parse(name, host, &pid);
}

struct scan {
    ftj_status (*visit)(void *data, const struct ftj_found *found);
    void *data;
    const char *target;
};

/* Call `each` for every name in a folder; closes `fd`. */
static ftj_status each_name(int fd, struct scan *scan,
                            ftj_status (*each)(struct scan *scan, int folder, const char *name))
{
    DIR *list = fdopendir(fd);
    if (!list) {
        close(fd);
        return FTJ_OK;
    }
    ftj_status status = FTJ_OK;
    for (struct dirent *item = readdir(list); item && !status; item = readdir(list))
        status = each(scan, dirfd(list), item->d_name);
    closedir(list);
    return status;
}

static int open_folder(int folder, const char *name)
{
    return openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static ftj_status show(struct scan *scan, int folder, const char *shard, const char *name)
{
    struct ftj_found found = {
        .target = scan->target, .shard = shard, .name = name, .folder = folder};
    if (fstatat(folder, name, &found.info, AT_SYMLINK_NOFOLLOW))
        return FTJ_OK; /* gone meanwhile */
    return scan->visit(scan->data, &found);
}

static ftj_status visit_temporary(struct scan *scan, int folder, const char *name)
{
    return is_temporary(name) ? show(scan, folder, "", name) : FTJ_OK;
}

static ftj_status visit_shard(struct scan *scan, int folder, const char *shard)
{
    const int fd = is_shard(shard) ? open_folder(folder, shard) : -1;
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    if (!list) {
        if (fd >= 0)
            close(fd);
        return FTJ_OK;
    }
    ftj_status status = FTJ_OK;
    for (struct dirent *item = readdir(list); item && !status; item = readdir(list)) {
        if (ftj_scan_is_entry(item->d_name))
            status = show(scan, dirfd(list), shard, item->d_name);
    }
    closedir(list);
    return status;
}

static ftj_status visit_target(struct scan *scan, int folder, const char *target)
{
    const int fd = is_target(target) ? open_folder(folder, target) : -1;
    if (fd < 0)
        return FTJ_OK;
    scan->target = target;
    return each_name(fd, scan, visit_shard);
}

ftj_status ftj_scan(const struct ftj_cache_dir *dir, bool with_temporaries,
                    ftj_status (*visit)(void *data, const struct ftj_found *found), void *data,
                    struct ftj_reason *reason)
{
    struct scan scan = {.visit = visit, .data = data, .target = ""};
    int fd = -1;
    ftj_status status = ftj_cache_dir_open(dir, "", false, &fd, reason);
    if (status)
        return status;
    close(fd);
    status = ftj_cache_dir_open(dir, "v1", false, &fd, reason);
    if (status)
        return status == FTJ_E_NOT_FOUND ? FTJ_OK : status;
    const int tmp = with_temporaries ? open_folder(fd, "tmp") : -1;
    if (tmp >= 0)
        status = each_name(tmp, &scan, visit_temporary);
    if (status) {
        close(fd);
        return status;
    }
    return each_name(fd, &scan, visit_target);
}

/* ---- clearing ---- */

static ftj_status remove_found(void *data, const struct ftj_found *found)
{
    size_t *count = data;
    *count += !unlinkat(found->folder, found->name, 0);
    return FTJ_OK;
}

/* rmdir() leaves a folder in which there is something that is not ours. */
static ftj_status remove_shard(struct scan *scan, int folder, const char *shard)
{
    (void)scan;
    if (is_shard(shard))
        unlinkat(folder, shard, AT_REMOVEDIR);
    return FTJ_OK;
}

static ftj_status remove_target(struct scan *scan, int folder, const char *target)
{
    const int fd = is_target(target) ? open_folder(folder, target) : -1;
    if (fd < 0)
        return FTJ_OK;
    const ftj_status status = each_name(fd, scan, remove_shard);
    unlinkat(folder, target, AT_REMOVEDIR);
    return status;
}

/* Only the tag we wrote. */
static void remove_tag(int root)
{
    char text[512];
    const int fd = openat(root, "CACHEDIR.TAG", O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return;
    const ssize_t size = read(fd, text, sizeof(text));
    close(fd);
    if (size == (ssize_t)strlen(ftj_cache_tag) && !memcmp(text, ftj_cache_tag, (size_t)size))
        unlinkat(root, "CACHEDIR.TAG", 0);
}

ftj_status ftj_cache_clear(const struct ftj_cache_dir *dir, size_t *num_files,
                           struct ftj_reason *reason)
{
    struct scan scan = {.target = ""};
    int root = -1;
    int fd = -1;
    *num_files = 0;
    ftj_status status = ftj_scan(dir, true, remove_found, num_files, reason);
    if (!status)
        status = ftj_cache_dir_open(dir, "", false, &root, reason);
    if (status)
        return status;
    if (!ftj_cache_dir_open(dir, "v1", false, &fd, reason)) {
        unlinkat(fd, "usage", 0);
        unlinkat(fd, "tmp", AT_REMOVEDIR);
        status = each_name(fd, &scan, remove_target);
        unlinkat(root, "v1", AT_REMOVEDIR);
    }
    remove_tag(root);
    close(root);
    rmdir(dir->root);
    return status;
}
