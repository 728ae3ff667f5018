/* SPDX-License-Identifier: MIT */
#include "cache/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cache/cache_dir.h"

struct ftj_store {
    struct ftj_cache_dir dir; /* no root: nowhere to put anything */
    struct ftj_log log;
    bool is_disabled;         /* by the caller: a dropped write is no failure */
    atomic_bool has_given_up; /* the root is no use */
    atomic_bool has_warned;   /* that entries are not saved: once is enough */
};

#define MAX_ENTRY_BYTES ((off_t)1 << 30) /* a larger file is no kernel of ours */

/* Where a key's entry is. */
struct place {
    char folder[32]; /* "v1/sm_90a/ab" */
    char name[40];   /* "<30 hex>.ftk" */
};

static struct place place_of(const struct ftj_key *key)
{
    struct place place;
    snprintf(place.folder, sizeof(place.folder), "v1/%.15s/%.2s", key->target, key->hex);
    snprintf(place.name, sizeof(place.name), "%.30s.ftk", key->hex + 2);
    return place;
}

static void give_up(struct ftj_store *store, const struct ftj_reason *reason)
{
    atomic_store(&store->has_given_up, true);
    if (!atomic_exchange(&store->has_warned, true))
        ftj_say(&store->log, FTJ_LOG_WARNING,
                "cache directory %s (from %s) cannot be used: %s; kernels are kept in memory only",
                store->dir.root, store->dir.origin, reason->text);
}

/* Says what is wrong with the root now rather than after the first compile. */
static ftj_status choose_root(struct ftj_store *store, const char *dir)
{
    struct ftj_reason reason;
    ftj_status status = ftj_cache_dir_init(&store->dir, dir, &reason);
    if (status == FTJ_E_NO_MEMORY)
        return status;
    if (status) {
        atomic_store(&store->has_warned, true);
        ftj_say(&store->log, FTJ_LOG_WARNING,
                "no cache directory: %s; kernels are kept in memory only",
                status == FTJ_E_IO ? reason.text
                                   : "FTJIT_CACHE_DIR, XDG_CACHE_HOME and HOME are all unset");
        return FTJ_OK;
    }
    int fd = -1;
    status = ftj_cache_dir_open(&store->dir, "", false, &fd, &reason);
    if (status == FTJ_OK)
        close(fd);
    else if (status != FTJ_E_NOT_FOUND)
        give_up(store, &reason);
    return FTJ_OK;
}

ftj_status ftj_store_create(const char *dir, bool disabled, const struct ftj_log *log,
                            struct ftj_store **out)
{
    struct ftj_store *store = calloc(1, sizeof(*store));
    if (!store)
        return ftj_fail(log, FTJ_E_NO_MEMORY, "no memory for the cache");
    if (log)
        store->log = *log;
    store->is_disabled = disabled;
    if (!disabled) {
        const ftj_status status = choose_root(store, dir);
        if (status) {
            ftj_store_destroy(store);
            return status;
        }
    }
    *out = store;
    return FTJ_OK;
}

void ftj_store_destroy(struct ftj_store *store)
{
    if (!store)
        return;
    ftj_cache_dir_finish(&store->dir);
    free(store);
}

static bool is_usable(const struct ftj_store *store)
{
    return store->dir.root && !atomic_load(&store->has_given_up);
}

const char *ftj_store_dir(const struct ftj_store *store)
{
    return is_usable(store) ? store->dir.root : "";
}

/* ---- reading ---- */

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

/* Read what has the entry's name. `seen` is what was there; `fault` ends "cache entry PATH ...". */
static ftj_status read_file(int folder, const char *name, struct stat *seen, struct ftj_bytes *file,
                            const char **fault)
{
    *fault = "cannot be read";
    if (fstatat(folder, name, seen, AT_SYMLINK_NOFOLLOW))
        return errno == ENOENT || errno == ESTALE ? FTJ_E_NOT_FOUND : FTJ_E_DAMAGED;
    /* O_NONBLOCK: a named pipe there must not stop us; it is refused below. */
    const int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && (errno == ENOENT || errno == ESTALE))
        return FTJ_E_NOT_FOUND;

    ftj_status status = FTJ_E_DAMAGED;
    if (fd >= 0 && fstat(fd, seen)) /* another file than before, if it was replaced meanwhile */
        goto cleanup;
    if (!S_ISREG(seen->st_mode)) {
        *fault = "is not a regular file";
        goto cleanup;
    }
    if (fd < 0)
        goto cleanup;
    *fault = seen->st_size == 0 ? "is empty" : "fails its checks";
    if (seen->st_size <= MAX_ENTRY_BYTES)
        status = read_all(fd, (size_t)seen->st_size, file);

cleanup:
    if (fd >= 0)
        close(fd);
    return status;
}

/* Remove a bad entry, unless another process has put a new one in its place. The instant between
 * look and unlink costs that process's entry at worst, which is a miss. A folder goes if empty. */
static bool remove_seen(int folder, const char *name, const struct stat *seen)
{
    struct stat now;
    if (fstatat(folder, name, &now, AT_SYMLINK_NOFOLLOW))
        return errno == ENOENT;
    if (now.st_dev != seen->st_dev || now.st_ino != seen->st_ino || now.st_size != seen->st_size ||
        now.st_mtim.tv_sec != seen->st_mtim.tv_sec || now.st_mtim.tv_nsec != seen->st_mtim.tv_nsec)
        return true;
    return unlinkat(folder, name, S_ISDIR(now.st_mode) ? AT_REMOVEDIR : 0) == 0;
}

static void replace_bad_entry(struct ftj_store *store, int folder, const struct place *place,
                              const struct stat *seen, const char *fault)
{
    const bool removed = remove_seen(folder, place->name, seen);
    if (!removed) /* said here, so not again when the new one cannot be put */
        atomic_store(&store->has_warned, true);
    ftj_say(&store->log, FTJ_LOG_WARNING, "cache entry %s/%s/%s %s; %s", store->dir.root,
            place->folder, place->name, fault,
            removed ? "it is removed and built again"
                    : "it cannot be removed, so this kernel is kept in memory only");
}

static ftj_status get_from(struct ftj_store *store, int folder, const struct place *place,
                           const struct ftj_key *key, struct ftj_entry *entry)
{
    struct ftj_bytes file = {0};
    struct stat seen;
    const char *fault = NULL;
    ftj_status status = read_file(folder, place->name, &seen, &file, &fault);
    if (!status) {
        status = ftj_entry_decode(key, file.data, file.size, entry);
        if (status == FTJ_E_NOT_FOUND) {
            fault = "holds another kernel";
            status = FTJ_E_DAMAGED;
        }
    }
    ftj_bytes_finish(&file);
    if (status == FTJ_E_DAMAGED)
        replace_bad_entry(store, folder, place, &seen, fault);
    return status;
}

ftj_status ftj_store_get(struct ftj_store *store, const struct ftj_key *key,
                         struct ftj_entry *entry)
{
    if (!is_usable(store))
        return FTJ_E_NOT_FOUND;
    const struct place place = place_of(key);
    struct ftj_reason reason;
    int folder = -1;
    /* A folder that cannot be opened is a miss: the put that follows says why. */
    if (ftj_cache_dir_open(&store->dir, place.folder, false, &folder, &reason))
        return FTJ_E_NOT_FOUND;
    const ftj_status status = get_from(store, folder, &place, key, entry);
    close(folder);
    return status;
}

/* ---- publishing ---- */

struct temporary {
    int fd;
    char name[96];
};

/* Host, process and a random number: unique on a shared file system too, and no reader's business.
 * Two that agree all the same are told apart by O_EXCL. */
static void name_temporary(struct temporary *temporary)
{
    char host[33] = "host";
    gethostname(host, sizeof(host) - 1);
    host[sizeof(host) - 1] = '\0';
    for (char *at = host; *at; at++) {
        if (*at == '/')
            *at = '_';
    }
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

/* Readers see the whole file or none of it. The last writer of a key wins, which is harmless: equal
 * keys mean equal code. What was written is never read back. */
static ftj_status publish(const struct ftj_cache_dir *dir, const struct place *place,
                          const struct ftj_bytes *file, struct ftj_reason *reason)
{
    int folder = -1;
    int tmp = -1;
    struct temporary temporary;
    ftj_status status = ftj_cache_dir_open(dir, place->folder, true, &folder, reason);
    if (status)
        return status;
    status = ftj_cache_dir_open(dir, "v1/tmp", true, &tmp, reason);
    if (status)
        goto cleanup;
    status = create_temporary(tmp, &temporary, reason);
    if (status)
        goto cleanup;

    status = fill(&temporary, file, reason);
    if (!status && renameat(tmp, temporary.name, folder, place->name)) {
        ftj_reason_set(reason, errno, "rename to %s/%s", place->folder, place->name);
        status = FTJ_E_IO;
    }
    if (status)
        unlinkat(tmp, temporary.name, 0);

cleanup:
    if (tmp >= 0)
        close(tmp);
    close(folder);
    return status;
}

ftj_status ftj_store_put(struct ftj_store *store, const struct ftj_key *key,
                         const struct ftj_entry *entry)
{
    if (store->is_disabled)
        return FTJ_OK;
    if (!is_usable(store))
        return FTJ_E_IO;

    struct ftj_bytes file = {0};
    ftj_status status = ftj_entry_encode(key, entry, &file);
    if (status)
        return status;
    const struct place place = place_of(key);
    struct ftj_reason reason;
    status = publish(&store->dir, &place, &file, &reason);
    ftj_bytes_finish(&file);
    if (status && !atomic_exchange(&store->has_warned, true))
        ftj_say(&store->log, FTJ_LOG_WARNING,
                "cannot save kernels in %s (from %s): %s; they are kept in memory only",
                store->dir.root, store->dir.origin, reason.text);
    return status;
}

void ftj_store_drop(struct ftj_store *store, const struct ftj_key *key)
{
    if (!is_usable(store))
        return;
    const struct place place = place_of(key);
    struct ftj_reason reason;
    int folder = -1;
    if (ftj_cache_dir_open(&store->dir, place.folder, false, &folder, &reason))
        return;
    unlinkat(folder, place.name, 0);
    close(folder);
}
