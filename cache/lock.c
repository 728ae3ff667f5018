/* SPDX-License-Identifier: MIT */
/*
 * flock() has no time limit of its own, and a library takes no signal for one. So a wait is a sleep
 * on the number of compiles that the lock's file holds, which the holder changes at its end and
 * wakes all by; and a look at the lock now and then, for a holder that has died changes nothing.
 */
#include "cache/lock.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cache/compile_limit.h"
#include "cache/lock_dir.h"
#include "cache/lock_file.h"

#define LEAST_WAIT_US    (5u * 1000 * 1000)
#define FIRST_NAP_US     1000u
#define COURTESY_US      30000u
#define LONGEST_NAP_US   32000u
#define LONGEST_SLEEP_US 1000000u

/* Where the locks are, once somebody had to wait: who finds every kernel needs none. */
struct folder {
    char path[256]; /* "": there are no locks */
    int fd;         /* while there is a path */
};

struct ftj_locks {
    struct ftj_log log;
    _Atomic(struct folder *) folder; /* owned; NULL: not looked for yet */
    atomic_uint num_slots;           /* 0: not looked for yet, which only who compiles has to */
    bool is_alone;                   /* takes what the node's other processes have left, too */
    atomic_bool was_served;          /* the last flight ended with another process's kernel */
};

/* ---- the folder ---- */

static void close_folder(struct folder *folder)
{
    if (folder && *folder->path)
        close(folder->fd);
    free(folder);
}

/* Threads that come first together all open it; one result is kept. NULL: no memory. */
static const struct folder *get_folder(struct ftj_locks *locks)
{
    struct folder *known = atomic_load(&locks->folder);
    if (known)
        return known;
    struct folder *folder = calloc(1, sizeof(*folder));
    if (!folder)
        return NULL;
    char why[256];
    const bool is_open =
        ftj_lock_dir_open(folder->path, sizeof(folder->path), &folder->fd, why, sizeof(why));
    if (!is_open)
        folder->path[0] = '\0';
    if (!atomic_compare_exchange_strong(&locks->folder, &known, folder)) {
        close_folder(folder);
        return known;
    }
    if (!is_open)
        ftj_say(&locks->log, FTJ_LOG_DEBUG, "processes do not wait for each other's compiles: %s",
                why);
    return folder;
}

/* -1: there is no such lock to be had. */
static int open_lock(struct ftj_locks *locks, const char *name)
{
    const struct folder *folder = get_folder(locks);
    return folder && *folder->path ? ftj_lock_file_open(folder->fd, name) : -1;
}

/* The first slots are everybody's. */
static uint32_t count_slots(struct ftj_locks *locks)
{
    uint32_t count = atomic_load(&locks->num_slots);
    if (count == 0) {
        const struct ftj_compile_limit limit = ftj_compile_limit();
        count = locks->is_alone ? limit.alone : limit.beside;
        atomic_store(&locks->num_slots, count);
    }
    return count;
}

/* Any slot will do; those that are not everybody's come first. `record` gets the sum of all ends,
 * and the longest of the last compiles. */
static enum ftj_lock_attempt try_slots(struct ftj_locks *locks, struct ftj_lock *lock,
                                       struct ftj_lock_record *record)
{
    const uint32_t num_slots = count_slots(locks);
    *record = (struct ftj_lock_record){0};
    for (uint32_t i = 0; i < num_slots; i++) {
        char name[16];
        snprintf(name, sizeof(name), "slot-%u", locks->is_alone ? num_slots - 1 - i : i);
        const int file = open_lock(locks, name);
        if (file < 0)
            return FTJ_LOCK_UNAVAILABLE;
        const enum ftj_lock_attempt attempt = ftj_lock_file_try(file);
        if (attempt == FTJ_LOCK_HELD) {
            *lock = (struct ftj_lock){.file = file, .is_held = true};
            return FTJ_LOCK_HELD;
        }
        const struct ftj_lock_record held = ftj_lock_file_read(file);
        close(file);
        if (attempt == FTJ_LOCK_UNAVAILABLE)
            return FTJ_LOCK_UNAVAILABLE;
        record->num_ends += held.num_ends;
        if (held.compile_us > record->compile_us)
            record->compile_us = held.compile_us;
    }
    return FTJ_LOCK_BUSY;
}

/* ---- waiting ---- */

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

/* A nap. False: nothing has ended for so long that the holder is not worth waiting for. */
static bool nap(struct wait *wait, const struct ftj_lock_record *record)
{
    const uint64_t now = ftj_now_us();
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
    ftj_lock_file_sleep(wait->file, wait->num_ends, wait->nap_us);
    return true;
}

/* Whether the last compile that ended under a lock was of this key. */
static bool is_of_key(const struct ftj_lock_record *record, const struct ftj_key *key)
{
    return memcmp(record->hex, key->hex, sizeof(record->hex)) == 0;
}

/* The lock is busy, and `record` was read before that was seen: one turn of waiting. Nothing but
 * the lock's own file is looked at until a compile has ended, for there may be many who wait.
 * FTJ_E_NOT_FOUND: go on, or, without `is_patient`, do not. */
static ftj_status wait_a_turn(struct flight_wait *turn, int file, struct ftj_lock_record *record)
{
    if (!turn->wait.file)
        turn->wait.file = ftj_lock_file_map(file, record);
    turn->is_patient = nap(&turn->wait, record);
    *record = ftj_lock_file_read(file);
    if (record->num_ends == turn->wait.num_ends)
        return FTJ_E_NOT_FOUND;
    /* If it was this very kernel, and it could not be published, nobody is served by waiting. */
    if (is_of_key(record, turn->key))
        turn->is_patient = false;
    return turn->look(turn->data);
}

/* A herd wants the same kernels in the same order. The process that has compiled one has its
 * compiler loaded and warm, so it should be the one to compile the next as well; but those whom it
 * has just woken are scheduled before it. Where it has begun already they need not wait for that.
 */
static void let_others_go_first(struct ftj_locks *locks, int file, struct ftj_lock_record *record)
{
    if (!atomic_load(&locks->was_served) || record->num_begins != record->num_ends)
        return;
    ftj_lock_file_sleep(NULL, 0, COURTESY_US);
    *record = ftj_lock_file_read(file);
}

/* With the key's lock or without it, FTJ_E_NOT_FOUND: nobody has published yet. */
static ftj_status wait_for_key(struct ftj_locks *locks, struct flight_wait *turn,
                               struct ftj_flight *flight)
{
    char name[16];
    snprintf(name, sizeof(name), "key-%02x", ftj_lock_of_key(turn->key));
    const int file = open_lock(locks, name);
    if (file < 0)
        return FTJ_E_NOT_FOUND;

    enum ftj_lock_attempt attempt = FTJ_LOCK_BUSY;
    ftj_status status = FTJ_E_NOT_FOUND;
    struct ftj_lock_record record = ftj_lock_file_read(file);
    let_others_go_first(locks, file, &record);
    /* It may have ended since we looked: then nothing more does, and a sleep would be in vain. */
    if (is_of_key(&record, turn->key))
        status = turn->look(turn->data);
    turn->is_patient = true;
    while (status == FTJ_E_NOT_FOUND && turn->is_patient &&
           (attempt = ftj_lock_file_try(file)) == FTJ_LOCK_BUSY) {
        flight->has_waited = true;
        status = wait_a_turn(turn, file, &record);
    }
    ftj_lock_file_unmap(turn->wait.file);
    if (attempt == FTJ_LOCK_HELD) {
        flight->key = (struct ftj_lock){.file = file, .is_held = true};
        ftj_lock_file_begin(file);
        /* Between our first look and the lock somebody may have done it all. */
        return turn->look(turn->data);
    }
    close(file);
    if (status == FTJ_E_NOT_FOUND)
        ftj_say(&locks->log, FTJ_LOG_DEBUG, "kernel %s is compiled without its lock",
                turn->key->hex);
    return status;
}

static ftj_status wait_for_slot(struct ftj_locks *locks, struct flight_wait *turn,
                                struct ftj_flight *flight)
{
    struct wait wait = {0};
    struct ftj_lock_record record = {0};
    ftj_status status = FTJ_E_NOT_FOUND;
    while (try_slots(locks, &flight->slot, &record) == FTJ_LOCK_BUSY) {
        flight->has_waited = true;
        if (!nap(&wait, &record)) {
            ftj_say(&locks->log, FTJ_LOG_DEBUG,
                    "no compile of this node has ended for too long; this one does not wait for "
                    "its turn");
            break;
        }
        status = turn->look(turn->data);
        if (status != FTJ_E_NOT_FOUND)
            return status;
    }
    /* Whoever had the slot may have had it for this kernel. */
    return wait.nap_us > 0 && flight->slot.is_held ? turn->look(turn->data) : status;
}

/* ---- the calls ---- */

uint32_t ftj_lock_of_key(const struct ftj_key *key)
{
    const char digits[] = {key->hex[0], key->hex[1], '\0'};
    return (uint32_t)strtoul(digits, NULL, 16) % FTJ_NUM_KEY_LOCKS;
}

ftj_status ftj_locks_create(const struct ftj_log *log, struct ftj_locks **out)
{
    struct ftj_locks *locks = calloc(1, sizeof(*locks));
    if (!locks)
        return ftj_fail(log, FTJ_E_NO_MEMORY, "no memory for the locks");
    if (log)
        locks->log = *log;
    *out = locks;
    return FTJ_OK;
}

void ftj_locks_take_all(struct ftj_locks *locks)
{
    locks->is_alone = true;
}

void ftj_locks_destroy(struct ftj_locks *locks)
{
    if (locks)
        close_folder(atomic_load(&locks->folder));
    free(locks);
}

const char *ftj_locks_dir(struct ftj_locks *locks)
{
    const struct folder *folder = get_folder(locks);
    return folder ? folder->path : "";
}

ftj_status ftj_flight_begin(struct ftj_locks *locks, const struct ftj_key *key,
                            ftj_status (*look)(void *data), void *data, struct ftj_flight *flight)
{
    struct ftj_flight begun = {0};
    ftj_status status = FTJ_E_NOT_FOUND;
    struct flight_wait turn = {.key = key, .look = look, .data = data};
    if (key)
        status = wait_for_key(locks, &turn, &begun);
    if (status == FTJ_E_NOT_FOUND)
        status = wait_for_slot(locks, &turn, &begun);
    atomic_store(&locks->was_served, status == FTJ_OK);
    if (status != FTJ_E_NOT_FOUND) {
        ftj_lock_file_release(&begun.slot);
        ftj_lock_file_cancel(&begun.key);
        ftj_lock_file_release(&begun.key);
    }
    *flight = begun;
    return status;
}

void ftj_flight_end(struct ftj_flight *flight, const struct ftj_key *key, uint32_t compile_us)
{
    ftj_lock_file_end(&flight->slot, key, compile_us);
    ftj_lock_file_release(&flight->slot);
    ftj_lock_file_end(&flight->key, key, compile_us);
    ftj_lock_file_release(&flight->key);
    *flight = (struct ftj_flight){0};
}
