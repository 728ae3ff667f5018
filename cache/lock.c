/* SPDX-License-Identifier: MIT */
/* Waiting is polling: flock() has no time limit of its own, and a library takes no signal for one.
 */
#include "cache/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "cache/compile_limit.h"
#include "cache/lock_dir.h"

#define LEAST_WAIT_US  (5u * 1000 * 1000)
#define MOST_WAIT_US   (600u * 1000 * 1000)
#define FIRST_NAP_US   1000u
#define LONGEST_NAP_US 32000u

struct ftj_locks {
    struct ftj_log log;
    char dir[256]; /* "": none */
    int folder;    /* while there is a dir */
    uint32_t num_slots;
};

/* What a lock's file holds. Written under the lock, read without it: it only steers waits. */
struct record {
    uint32_t num_compiles;
    uint32_t compile_us; /* of the last one */
};

enum attempt { HELD, BUSY, UNAVAILABLE };

/* ---- one lock ---------------------------------------------------------------------------------
 */

static void release(struct ftj_lock *lock)
{
    if (lock->is_held) {
        /* Not left to close(): a child that was forked meanwhile shares the lock. */
        flock(lock->file, LOCK_UN);
        close(lock->file);
    }
    *lock = (struct ftj_lock){0};
}

static struct record read_record(int file)
{
    struct record record = {0};
    if (pread(file, &record, sizeof(record), 0) != (ssize_t)sizeof(record))
        return (struct record){0};
    if (record.compile_us > MOST_WAIT_US / 4)
        record.compile_us = MOST_WAIT_US / 4;
    return record;
}

/* `record` gets what the holder of a busy one left. */
static enum attempt try_lock(const struct ftj_locks *locks, const char *name, struct ftj_lock *lock,
                             struct record *record)
{
    if (!*locks->dir)
        return UNAVAILABLE;
    const int file =
        openat(locks->folder, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, 0600);
    if (file < 0)
        return UNAVAILABLE;
    int result;
    do
        result = flock(file, LOCK_EX | LOCK_NB);
    while (result != 0 && errno == EINTR);
    if (result == 0) {
        *lock = (struct ftj_lock){.file = file, .is_held = true};
        return HELD;
    }
    const enum attempt attempt = errno == EWOULDBLOCK ? BUSY : UNAVAILABLE;
    *record = read_record(file);
    close(file);
    return attempt;
}

static enum attempt try_key(const struct ftj_locks *locks, const struct ftj_key *key,
                            struct ftj_lock *lock, struct record *record)
{
    char name[16];
    snprintf(name, sizeof(name), "key-%.2s", key->hex);
    return try_lock(locks, name, lock, record);
}

/* Any slot will do. `record` gets the sum of all compiles, and the longest of the last ones. */
static enum attempt try_slot(const struct ftj_locks *locks, struct ftj_lock *lock,
                             struct record *record)
{
    *record = (struct record){0};
    for (uint32_t i = 0; i < locks->num_slots; i++) {
        char name[16];
        struct record held = {0};
        snprintf(name, sizeof(name), "slot-%u", i);
        const enum attempt attempt = try_lock(locks, name, lock, &held);
        if (attempt != BUSY)
            return attempt;
        record->num_compiles += held.num_compiles;
        if (held.compile_us > record->compile_us)
            record->compile_us = held.compile_us;
    }
    return BUSY;
}

/* ---- waiting ----------------------------------------------------------------------------------
 */

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

/* How long to be patient, and since when. */
struct wait {
    uint64_t start_us;
    uint32_t num_compiles; /* as last seen */
    uint32_t nap_us;
};

/* One turn. False: nothing has ended for so long that the holder is not worth waiting for. */
static bool nap(struct wait *wait, const struct record *record)
{
    const uint64_t now = now_us();
    if (wait->nap_us == 0 || wait->num_compiles != record->num_compiles) {
        wait->start_us = now;
        wait->num_compiles = record->num_compiles;
    }
    const uint64_t patience_us =
        record->compile_us > LEAST_WAIT_US / 4 ? 4ull * record->compile_us : LEAST_WAIT_US;
    if (now - wait->start_us >= patience_us)
        return false;

    wait->nap_us = wait->nap_us == 0                    ? FIRST_NAP_US
                   : wait->nap_us >= LONGEST_NAP_US / 2 ? LONGEST_NAP_US
                                                        : 2 * wait->nap_us;
    const struct timespec pause = {.tv_nsec = (long)wait->nap_us * 1000};
    nanosleep(&pause, NULL);
    return true;
}

/* With the key's lock or without it, nobody has published yet as far as `look` can tell. */
static ftj_status wait_for_key(struct ftj_locks *locks, const struct ftj_key *key,
                               ftj_status (*look)(void *data), void *data,
                               struct ftj_flight *flight)
{
    struct wait wait = {0};
    struct record record = {0};
    enum attempt attempt;
    while ((attempt = try_key(locks, key, &flight->key, &record)) == BUSY) {
        flight->has_waited = true;
        if (!nap(&wait, &record)) {
            ftj_say(&locks->log, FTJ_LOG_DEBUG,
                    "another process has held the lock of kernel %s for too long; it is compiled "
                    "here as well",
                    key->hex);
            break;
        }
        const ftj_status status = look(data);
        if (status != FTJ_E_NOT_FOUND)
            return status;
    }
    /* Between our first look and the lock somebody may have done it all. */
    return attempt == HELD ? look(data) : FTJ_E_NOT_FOUND;
}

static ftj_status wait_for_slot(struct ftj_locks *locks, ftj_status (*look)(void *data), void *data,
                                struct ftj_flight *flight)
{
    struct wait wait = {0};
    struct record record = {0};
    while (try_slot(locks, &flight->slot, &record) == BUSY) {
        flight->has_waited = true;
        if (!nap(&wait, &record)) {
            ftj_say(&locks->log, FTJ_LOG_DEBUG,
                    "no compile of this node has ended for too long; this one does not wait for "
                    "its turn");
            break;
        }
        const ftj_status status = look(data);
        if (status != FTJ_E_NOT_FOUND)
            return status;
    }
    return FTJ_E_NOT_FOUND;
}

/* ---- the calls --------------------------------------------------------------------------------
 */

ftj_status ftj_locks_create(const struct ftj_log *log, struct ftj_locks **out)
{
    struct ftj_locks *locks = calloc(1, sizeof(*locks));
    if (!locks)
        return ftj_fail(log, FTJ_E_NO_MEMORY, "no memory for the locks");
    if (log)
        locks->log = *log;
    locks->num_slots = ftj_compile_limit();
    char why[256];
    if (!ftj_lock_dir_open(locks->dir, sizeof(locks->dir), &locks->folder, why, sizeof(why))) {
        locks->dir[0] = '\0';
        ftj_say(&locks->log, FTJ_LOG_DEBUG, "processes do not wait for each other's compiles: %s",
                why);
    }
    *out = locks;
    return FTJ_OK;
}

void ftj_locks_destroy(struct ftj_locks *locks)
{
    if (locks && *locks->dir)
        close(locks->folder);
    free(locks);
}

const char *ftj_locks_dir(const struct ftj_locks *locks)
{
    return locks->dir;
}

ftj_status ftj_flight_begin(struct ftj_locks *locks, const struct ftj_key *key,
                            ftj_status (*look)(void *data), void *data, struct ftj_flight *flight)
{
    struct ftj_flight begun = {0};
    ftj_status status = FTJ_E_NOT_FOUND;
    if (key)
        status = wait_for_key(locks, key, look, data, &begun);
    if (status == FTJ_E_NOT_FOUND)
        status = wait_for_slot(locks, look, data, &begun);
    if (status != FTJ_E_NOT_FOUND) {
        release(&begun.slot);
        release(&begun.key);
    }
    *flight = begun;
    return status;
}

/* A file that cannot be written to still locks. */
static void write_record(const struct ftj_lock *lock, uint32_t compile_us)
{
    if (!lock->is_held || compile_us == 0)
        return;
    struct record record = read_record(lock->file);
    record.num_compiles++;
    record.compile_us = compile_us;
    if (pwrite(lock->file, &record, sizeof(record), 0) < 0)
        return;
}

void ftj_flight_end(struct ftj_flight *flight, uint32_t compile_us)
{
    write_record(&flight->key, compile_us);
    write_record(&flight->slot, compile_us);
    release(&flight->slot);
    release(&flight->key);
    *flight = (struct ftj_flight){0};
}
