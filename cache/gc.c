/* SPDX-License-Identifier: MIT */
#include "cache/gc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/environment.h"
#include "cache/entry_file.h"
#include "cache/scan.h"

#define MIN_AGE_SECONDS  600   /* of an entry that may go */
#define DEAD_AGE_SECONDS 60    /* of a temporary whose process is gone */
#define OLD_AGE_SECONDS  3600  /* of any temporary */
#define FUTURE_SLACK     86400 /* clocks of machines that share a root may differ by so much */
#define MIN_RETRY_BYTES  (1u << 20)

ftj_status ftj_gc_cap(const char *text, const char *origin, const struct ftj_log *log,
                      uint64_t *max_bytes)
{
    static const char units[] = "KMG";
    if (!text) {
        text = ftj_variable("FTJIT_CACHE_MAX_BYTES");
        origin = "FTJIT_CACHE_MAX_BYTES";
    }
    if (!text) {
        *max_bytes = FTJ_DEFAULT_MAX_BYTES;
        return FTJ_OK;
    }
    char *end = NULL;
    errno = 0;
    const unsigned long long number = strtoull(text, &end, 10);
    const char *unit = *end ? strchr(units, *end) : NULL;
    const int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    const bool ends_well = *end == '\0' || (unit && end[1] == '\0');
    if (text[0] < '0' || text[0] > '9' || errno || !ends_well || number == 0 ||
        number > UINT64_MAX >> shift)
        return ftj_fail(log, FTJ_E_INVALID,
                        "%s \"%s\" is not known; it must be a number of bytes, 1 or more, with or "
                        "without K, M or G behind it",
                        origin, text);
    *max_bytes = (uint64_t)number << shift;
    return FTJ_OK;
}

struct candidate {
    char target[16];
    char shard[3];
    char name[64];
    struct stat info;
};

struct collection {
    struct candidate *items; /* owned */
    size_t count;
    size_t capacity;
    uint64_t bytes;
    size_t num_swept;
    time_t now;
    char host[34];
};

/* A time that has not come yet is a wrong clock's: such an entry counts as new for a day, then as
 * old. */
static uint64_t age_of(const struct collection *collection, const struct stat *info)
{
    if (info->st_mtime <= collection->now)
        return (uint64_t)(collection->now - info->st_mtime);
    return info->st_mtime - collection->now > FUTURE_SLACK ? UINT64_MAX : 0;
}

/* A process of another machine, or of another container, cannot be asked for: its temporaries are
 * left alone for an hour. */
static void sweep(struct collection *collection, const struct ftj_found *found)
{
    char host[34];
    long pid = 0;
    const uint64_t age = age_of(collection, &found->info);
    if (!ftj_temporary_parse(found->name, host, &pid))
        return;
    const bool is_dead = !strcmp(host, collection->host) && kill((pid_t)pid, 0) && errno == ESRCH;
    if ((age > OLD_AGE_SECONDS || (is_dead && age > DEAD_AGE_SECONDS)) &&
        !unlinkat(found->folder, found->name, 0))
        collection->num_swept++;
}

static ftj_status collect(void *data, const struct ftj_found *found)
{
    struct collection *collection = data;
    if (!found->target[0]) {
        sweep(collection, found);
        return FTJ_OK;
    }
    if (!S_ISREG(found->info.st_mode))
        return FTJ_OK;
    collection->bytes += (uint64_t)found->info.st_size;
    if (collection->count == collection->capacity) {
        const size_t capacity = collection->capacity ? 2 * collection->capacity : 256;
        struct candidate *grown = realloc(collection->items, capacity * sizeof(*grown));
        if (!grown)
            return ftj_fail(NULL, FTJ_E_NO_MEMORY, "no memory for a list of %zu entries", capacity);
        collection->items = grown;
        collection->capacity = capacity;
    }
    struct candidate *item = &collection->items[collection->count++];
    snprintf(item->target, sizeof(item->target), "%s", found->target);
    snprintf(item->shard, sizeof(item->shard), "%s", found->shard);
    snprintf(item->name, sizeof(item->name), "%s", found->name);
    item->info = found->info;
    return FTJ_OK;
}

static int compare_times(const void *a, const void *b)
{
    const struct timespec *one = &((const struct candidate *)a)->info.st_mtim;
    const struct timespec *two = &((const struct candidate *)b)->info.st_mtim;
    if (one->tv_sec != two->tv_sec)
        return one->tv_sec < two->tv_sec ? -1 : 1;
    return (one->tv_nsec > two->tv_nsec) - (one->tv_nsec < two->tv_nsec);
}

static bool evict(const struct ftj_cache_dir *dir, const struct candidate *item)
{
    char path[32];
    struct ftj_reason reason;
    int folder = -1;
    snprintf(path, sizeof(path), "v1/%s/%s", item->target, item->shard);
    if (ftj_cache_dir_open(dir, path, false, &folder, &reason))
        return false;
    const bool removed = ftj_entry_file_remove(folder, item->name, &item->info);
    close(folder);
    return removed;
}

static void make_room(const struct ftj_cache_dir *dir, struct collection *collection,
                      uint64_t max_bytes, uint64_t min_age_seconds, struct ftj_gc_result *result)
{
    const uint64_t goal = max_bytes / 5 * 4;
    qsort(collection->items, collection->count, sizeof(*collection->items), compare_times);
    for (size_t i = 0; i < collection->count && result->bytes_after > goal; i++) {
        const struct candidate *item = &collection->items[i];
        if (item->info.st_uid != geteuid() || age_of(collection, &item->info) < min_age_seconds)
            continue;
        if (!evict(dir, item))
            continue;
        result->bytes_after -= (uint64_t)item->info.st_size;
        result->num_entries--;
        result->num_evicted++;
    }
}

static ftj_status run(const struct ftj_cache_dir *dir, uint64_t max_bytes, uint64_t min_age_seconds,
                      struct ftj_gc_result *result, struct ftj_reason *reason)
{
    struct collection collection = {.now = time(NULL)};
    ftj_temporary_host(collection.host);
    const ftj_status status = ftj_scan(dir, true, collect, &collection, reason);
    if (!status) {
        *result = (struct ftj_gc_result){
            .bytes_before = collection.bytes,
            .bytes_after = collection.bytes,
            .num_entries = collection.count,
            .num_swept = collection.num_swept,
        };
        if (collection.bytes > max_bytes)
            make_room(dir, &collection, max_bytes, min_age_seconds, result);
    }
    free(collection.items);
    return status;
}

/* ---- the counter ---- */

/* v1/usage: bytes of all entries, about; and where the next collection is due when the last one
 * could not free enough. It is locked by whoever counts or collects, and by nobody who waits. */
struct usage {
    unsigned long long bytes;
    unsigned long long retry_above;
};

/* -1: it cannot be made, or is in use; `reason` says which. */
static int open_usage(const struct ftj_cache_dir *dir, struct ftj_reason *reason)
{
    int folder = -1;
    if (ftj_cache_dir_open(dir, "v1", false, &folder, reason))
        return -1;
    const int fd =
        openat(folder, "usage", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
    if (fd < 0)
        ftj_reason_set(reason, errno, "open v1/usage");
    close(folder);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB)) {
        ftj_reason_set(reason, errno, "lock v1/usage");
        close(fd);
        return -1;
    }
    return fd;
}

/* False: it is new, or no longer makes sense. */
static bool read_usage(int fd, struct usage *usage)
{
    char text[64] = "";
    const ssize_t size = pread(fd, text, sizeof(text) - 1, 0);
    return size > 0 && sscanf(text, "%llu %llu\n", &usage->bytes, &usage->retry_above) == 2;
}

static void write_usage(int fd, const struct usage *usage)
{
    char text[64];
    const int size = snprintf(text, sizeof(text), "%llu %llu\n", usage->bytes, usage->retry_above);
    if (!ftruncate(fd, 0) && pwrite(fd, text, (size_t)size, 0) == size)
        return;
    if (ftruncate(fd, 0)) /* what is in it is no number, or an old one: counted anew, or later */
        return;
}

/* With the counter held. */
static ftj_status run_and_note(const struct ftj_cache_dir *dir, int usage_fd, uint64_t max_bytes,
                               uint64_t min_age_seconds, struct ftj_gc_result *result,
                               struct ftj_reason *reason)
{
    const ftj_status status = run(dir, max_bytes, min_age_seconds, result, reason);
    if (status)
        return status;
    struct usage usage = {.bytes = result->bytes_after};
    const uint64_t step = max_bytes / 8 > MIN_RETRY_BYTES ? max_bytes / 8 : MIN_RETRY_BYTES;
    if (result->bytes_after > max_bytes)
        usage.retry_above = result->bytes_after + step;
    write_usage(usage_fd, &usage);
    return FTJ_OK;
}

bool ftj_gc_count(const struct ftj_cache_dir *dir, uint64_t max_bytes, uint64_t *pending,
                  struct ftj_gc_result *result)
{
    struct ftj_reason reason;
    struct usage usage = {0};
    const int fd = open_usage(dir, &reason);
    if (fd < 0)
        return false;
    bool collected = false;
    const bool is_known = read_usage(fd, &usage);
    usage.bytes += *pending;
    *pending = 0;
    if (is_known && (usage.bytes <= max_bytes || usage.bytes <= usage.retry_above))
        write_usage(fd, &usage);
    else /* also what counts a root that has no counter yet */
        collected = !run_and_note(dir, fd, max_bytes, MIN_AGE_SECONDS, result, &reason);
    close(fd);
    return collected;
}

ftj_status ftj_gc_run(const struct ftj_cache_dir *dir, uint64_t max_bytes, uint64_t min_age_seconds,
                      struct ftj_gc_result *result, struct ftj_reason *reason)
{
    int root = -1;
    ftj_status status = ftj_cache_dir_open(dir, "", false, &root, reason);
    if (status)
        return status;
    close(root);
    status = ftj_cache_dir_open(dir, "v1", false, &root, reason);
    if (status == FTJ_E_NOT_FOUND) { /* nothing was ever saved in it */
        *result = (struct ftj_gc_result){0};
        return FTJ_OK;
    }
    if (status)
        return status;
    close(root);
    const int fd = open_usage(dir, reason);
    if (fd < 0)
        return FTJ_E_IO;
    status = run_and_note(dir, fd, max_bytes, min_age_seconds, result, reason);
    close(fd);
    return status;
}
