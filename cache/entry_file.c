/* SPDX-License-Identifier: MIT */
#include "cache/entry_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_ENTRY_BYTES ((off_t)1 << 30) /* a larger file is no kernel of ours */
#define TOUCH_SECONDS   3600

struct ftj_place ftj_place_of(const struct ftj_key *key)
{
    struct ftj_place place;
    snprintf(place.folder, sizeof(place.folder), "v1/%.15s/%.2s", key->target, key->hex);
    snprintf(place.name, sizeof(place.name), "%.30s-%.16s.ftk", key->hex + 2, key->compiler_hex);
    return place;
}

/* The whole file. pread, not a mapping: a file cut short by somebody else must not kill us. */
static ftj_status read_all(int fd, size_t size, struct ftj_bytes *file)
{
    uint8_t *data = malloc(size > 0 ? size : 1);
    if (!data)
        return ftj_fail(NULL, FTJ_E_NO_MEMORY, "no memory for a cache entry of %zu bytes", size);
    size_t used = 0;
    while (used < size) {
        const ssize_t part = pread(fd, data + used, size - used, (off_t)used);
        if (part < 0 && errno == EINTR)
            continue;
        if (part <= 0) {
            free(data);
            return part < 0 && errno == ESTALE ? FTJ_E_NOT_FOUND : FTJ_E_DAMAGED;
        }
        used += (size_t)part;
    }
    *file = (struct ftj_bytes){.data = data, .size = size};
    return FTJ_OK;
}

/* What was opened is checked, not what had the name before. */
static ftj_status read_opened(const struct ftj_owners *owners, int fd, const struct stat *seen,
                              struct ftj_bytes *file, struct ftj_reason *fault)
{
    struct ftj_reason why;
    if (!S_ISREG(seen->st_mode)) {
        snprintf(fault->text, sizeof(fault->text), "is not a regular file");
        return FTJ_E_DAMAGED;
    }
    if (fd < 0)
        return FTJ_E_DAMAGED;
    if (ftj_trust_check(owners, seen, &why)) {
        snprintf(fault->text, sizeof(fault->text), "cannot be trusted: %.400s", why.text);
        return FTJ_E_DAMAGED;
    }
    snprintf(fault->text, sizeof(fault->text), "%s",
             seen->st_size == 0 ? "is empty" : "fails its checks");
    return seen->st_size <= MAX_ENTRY_BYTES ? read_all(fd, (size_t)seen->st_size, file)
                                            : FTJ_E_DAMAGED;
}

ftj_status ftj_entry_file_read(const struct ftj_owners *owners, int folder, const char *name,
                               struct stat *seen, struct ftj_bytes *file, struct ftj_reason *fault)
{
    snprintf(fault->text, sizeof(fault->text), "cannot be read");
    if (fstatat(folder, name, seen, AT_SYMLINK_NOFOLLOW))
        return errno == ENOENT || errno == ESTALE ? FTJ_E_NOT_FOUND : FTJ_E_DAMAGED;
    /* O_NONBLOCK: a named pipe there must not stop us; it is refused below. */
    const int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && (errno == ENOENT || errno == ESTALE))
        return FTJ_E_NOT_FOUND;

    ftj_status status = FTJ_E_DAMAGED;
    if (fd < 0 || !fstat(fd, seen)) /* another file than before, if it was replaced meanwhile */
        status = read_opened(owners, fd, seen, file, fault);
    if (fd >= 0)
        close(fd);
    return status;
}

/* The time of change is the time of last use: atime is off on most machines. */
void ftj_entry_file_touch(int folder, const char *name, const struct stat *seen)
{
    const time_t now = time(NULL);
    if (now - seen->st_mtime > TOUCH_SECONDS)
        (void)utimensat(folder, name, NULL, AT_SYMLINK_NOFOLLOW);
}

/* The instant between look and unlink costs another process's new entry at worst, which is a miss.
 * A folder goes if it is empty. */
bool ftj_entry_file_remove(int folder, const char *name, const struct stat *seen)
{
    struct stat now;
    if (fstatat(folder, name, &now, AT_SYMLINK_NOFOLLOW))
        return errno == ENOENT;
    if (now.st_dev != seen->st_dev || now.st_ino != seen->st_ino || now.st_size != seen->st_size ||
        now.st_mtim.tv_sec != seen->st_mtim.tv_sec || now.st_mtim.tv_nsec != seen->st_mtim.tv_nsec)
        return true;
    return unlinkat(folder, name, S_ISDIR(now.st_mode) ? AT_REMOVEDIR : 0) == 0;
}
