/* SPDX-License-Identifier: MIT */
/*
 * flock() has no time limit of its own, and a library takes no signal for one. So a wait is a sleep
 * on the number of compiles that the lock's file holds, which the holder changes at its end and
 * wakes all by; and a look at the lock now and then, for a holder that has died changes nothing.
 */
#include "cache/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cache/compile_limit.h"
#include "cache/lock_dir.h"

#define LEAST_WAIT_US    (5u * 1000 * 1000)
#define MOST_WAIT_US     (600u * 1000 * 1000)
#define FIRST_NAP_US     1000u
#define COURTESY_US      15000
#define LONGEST_NAP_US   32000u
#define LONGEST_SLEEP_US 250000u

struct ftj_locks {
    struct ftj_log log;
    char dir[256]; /* "": none */
    int folder;    /* while there is a dir */
    uint32_t num_slots;
    atomic_bool was_served; /* the last flight ended with another process's kernel */
};

/* What a lock's file holds. Written under the lock, read without it: it only steers waits. */
struct record {
    uint32_t num_ends;   /* compiles that ended, one way or the other */
    uint32_t compile_us; /* of the last one */
    char hex[32];        /* its key */
};

enum attempt { HELD, BUSY, UNAVAILABLE };

/* ---- one lock ---- */

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

/* A file that cannot be written to still locks. */
static void write_record(int file, const struct record *record)
{
    if (pwrite(file, record, sizeof(*record), 0) < 0)
        return;
}

/* So that those who come now can be woken. */
static void init_record(int file)
{
    const struct record record = read_record(file);
    if (record.num_ends == 0)
        write_record(file, &record);
}

/* -1: there is no such lock to be had. */
static int open_file(const struct ftj_locks *locks, const char *name)
{
    if (!*locks->dir)
        return -1;
    return openat(locks->folder, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, 0600);
}

static enum attempt try_lock(int file)
{
    int result;
    do
        result = flock(file, LOCK_EX | LOCK_NB);
    while (result != 0 && errno == EINTR);
    if (result == 0)
        return HELD;
    return errno == EWOULDBLOCK ? BUSY : UNAVAILABLE;
}

/* Any slot will do. `record` gets the sum of all compiles, and the longest of the last ones. */
static enum attempt try_slots(const struct ftj_locks *locks, struct ftj_lock *lock,
                              struct record *record)
{
    *record = (struct record){0};
    for (uint32_t i = 0; i < locks->num_slots; i++) {
        char name[16];
        snprintf(name, sizeof(name), "slot-%u", i);
        const int file = open_file(locks, name);
        const enum attempt attempt = file < 0 ? UNAVAILABLE : try_lock(file);
        if (attempt == HELD) {
            *lock = (struct ftj_lock){.file = file, .is_held = true};
            return HELD;
        }
        const struct record held = attempt == BUSY ? read_record(file) : *record;
        if (file >= 0)
            close(file);
        if (attempt == UNAVAILABLE)
            return UNAVAILABLE;
        record->num_ends += held.num_ends;
        if (held.compile_us > record->compile_us)
            record->compile_us = held.compile_us;
    }
    return BUSY;
}

/* ---- waiting ---- */

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

/* How long to be patient, and since when. */
struct wait {
    uint64_t start_us;
    uint32_t num_ends; /* as last seen */
    uint32_t nap_us;
    void *file; /* the lock's, mapped, to be woken by its first word; NULL: not woken */
};

/* A wait for the lock of a key. */
struct flight_wait {
    const struct ftj_key *key;
    ftj_status (*look)(void *data);
    void *data;
    struct wait wait;
    bool is_patient;
};

/* Only a file with its record in it is mapped: its page is there, so that reading it cannot fail
 * for want of memory, which would be a signal. */
static void *map_file(int file)
{
    struct stat about;
    if (fstat(file, &about) || about.st_size < (off_t)sizeof(struct record))
        return NULL;
    void *mapped = mmap(NULL, sizeof(struct record), PROT_READ, MAP_SHARED, file, 0);
    return mapped == MAP_FAILED ? NULL : mapped;
}

static void unmap_file(void *mapped)
{
    if (mapped)
        munmap(mapped, sizeof(struct record));
}

static void sleep_for(const struct wait *wait)
{
    const struct timespec pause = {.tv_nsec = (long)wait->nap_us * 1000};
    if (wait->file)
        syscall(SYS_futex, wait->file, FUTEX_WAIT, wait->num_ends, &pause, NULL, 0);
    else
        nanosleep(&pause, NULL);
}

/* A nap. False: nothing has ended for so long that the holder is not worth waiting for. */
static bool nap(struct wait *wait, const struct record *record)
{
    const uint64_t now = now_us();
    if (wait->nap_us == 0 || wait->num_ends != record->num_ends) {
        wait->start_us = now;
        wait->num_ends = record->num_ends;
    }
    const uint64_t patience_us =
        record->compile_us > LEAST_WAIT_US / 4 ? 4ull * record->compile_us : LEAST_WAIT_US;
    if (now - wait->start_us >= patience_us)
        return false;

    const uint32_t longest_us = wait->file ? LONGEST_SLEEP_US : LONGEST_NAP_US;
    wait->nap_us = wait->nap_us == 0 ? FIRST_NAP_US : 2 * wait->nap_us;
    if (wait->file || wait->nap_us > longest_us)
        wait->nap_us = longest_us;
    sleep_for(wait);
    return true;
}

/* The lock is busy: one turn of waiting. Nothing but the lock's own file is looked at until a
 * compile has ended, for there may be many who wait. FTJ_E_NOT_FOUND: go on, or, without
 * `is_patient`, do not. */
static ftj_status wait_a_turn(struct flight_wait *turn, int file)
{
    const struct record record = read_record(file);
    const bool has_ended = turn->wait.nap_us > 0 && turn->wait.num_ends != record.num_ends;
    const ftj_status status = has_ended ? turn->look(turn->data) : FTJ_E_NOT_FOUND;
    if (status != FTJ_E_NOT_FOUND)
        return status;
    /* It was this very kernel, and it could not be published: nobody can be served by waiting. */
    turn->is_patient =
        !(has_ended && memcmp(record.hex, turn->key->hex, sizeof(record.hex)) == 0) &&
        nap(&turn->wait, &record);
    return FTJ_E_NOT_FOUND;
}

/* With the key's lock or without it, FTJ_E_NOT_FOUND: nobody has published yet. */
static ftj_status wait_for_key(struct ftj_locks *locks, struct flight_wait *turn,
                               struct ftj_flight *flight)
{
    char name[16];
    snprintf(name, sizeof(name), "key-%.2s", turn->key->hex);
    const int file = open_file(locks, name);
    if (file < 0)
        return FTJ_E_NOT_FOUND;

    enum attempt attempt;
    ftj_status status = FTJ_E_NOT_FOUND;
    turn->is_patient = true;
    while ((attempt = try_lock(file)) == BUSY && turn->is_patient && status == FTJ_E_NOT_FOUND) {
        flight->has_waited = true;
        if (!turn->wait.file)
            turn->wait.file = map_file(file);
        status = wait_a_turn(turn, file);
    }
    unmap_file(turn->wait.file);
    if (attempt == HELD) {
        flight->key = (struct ftj_lock){.file = file, .is_held = true};
        init_record(file);
        /* Between our first look and the lock somebody may have done it all. */
        return status == FTJ_E_NOT_FOUND ? turn->look(turn->data) : status;
    }
    close(file);
    if (status == FTJ_E_NOT_FOUND)
        ftj_say(&locks->log, FTJ_LOG_DEBUG, "kernel %s is compiled without its lock",
                turn->key->hex);
    return status;
}

/* A herd wants the same kernels in the same order. The process that has compiled one has its
 * compiler loaded and warm, so it should be the one to compile the next as well; but those whom it
 * has just woken are scheduled before it. */
static void let_others_go_first(void)
{
    const struct timespec pause = {.tv_nsec = COURTESY_US * 1000};
    nanosleep(&pause, NULL);
}

static ftj_status wait_for_slot(struct ftj_locks *locks, struct flight_wait *turn,
                                struct ftj_flight *flight)
{
    struct wait wait = {0};
    struct record record = {0};
    while (try_slots(locks, &flight->slot, &record) == BUSY) {
        flight->has_waited = true;
        if (!nap(&wait, &record)) {
            ftj_say(&locks->log, FTJ_LOG_DEBUG,
                    "no compile of this node has ended for too long; this one does not wait for "
                    "its turn");
            break;
        }
        const ftj_status status = turn->look(turn->data);
        if (status != FTJ_E_NOT_FOUND)
            return status;
    }
    return FTJ_E_NOT_FOUND;
}

/* ---- the calls ---- */

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
    struct flight_wait turn = {.key = key, .look = look, .data = data};
    if (key && atomic_load(&locks->was_served))
        let_others_go_first();
    if (key)
        status = wait_for_key(locks, &turn, &begun);
    if (status == FTJ_E_NOT_FOUND)
        status = wait_for_slot(locks, &turn, &begun);
    atomic_store(&locks->was_served, status == FTJ_OK);
    if (status != FTJ_E_NOT_FOUND) {
        release(&begun.slot);
        release(&begun.key);
    }
    *flight = begun;
    return status;
}

/* Written as the holder, and all who sleep on the number are woken. */
static void record_end(const struct ftj_lock *lock, const struct ftj_key *key, uint32_t compile_us)
{
    if (!lock->is_held)
        return;
    struct record record = read_record(lock->file);
    record.num_ends++;
    record.compile_us = compile_us;
    memcpy(record.hex, key->hex, sizeof(record.hex));
    write_record(lock->file, &record);
    void *mapped = map_file(lock->file);
    if (mapped)
        syscall(SYS_futex, mapped, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    unmap_file(mapped);
}

void ftj_flight_end(struct ftj_flight *flight, const struct ftj_key *key, uint32_t compile_us)
{
    record_end(&flight->slot, key, compile_us);
    release(&flight->slot);
    record_end(&flight->key, key, compile_us);
    release(&flight->key);
    *flight = (struct ftj_flight){0};
}
