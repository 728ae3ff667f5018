/* SPDX-License-Identifier: MIT */
/*
 * Processes of one node that want the same kernel at once: one compiles, the others wait for it.
 *
 * The locks save work and nothing else. They are the kernel's (flock), so that a process that dies
 * holds none; their files lie outside the cache and are never removed. Waits are bounded, and where
 * there is no lock to be had everybody compiles: what is published stays right all the same.
 */
#ifndef FTJ_CACHE_LOCK_H
#define FTJ_CACHE_LOCK_H

#include "cache/key.h"

struct ftj_locks; /* opaque: the folder of lock files, or none */

/* The folder is FTJIT_LOCK_DIR, else $XDG_RUNTIME_DIR/ftjit, else /dev/shm/ftjit-<uid>; it must be
 * the user's alone. The first flight looks for it. `log` is copied. FTJ_E_NO_MEMORY. */
FTJ_NODISCARD ftj_status ftj_locks_create(const struct ftj_log *log, struct ftj_locks **out);
void ftj_locks_destroy(struct ftj_locks *locks); /* NULL is fine; nothing may be held */

/* For who does nothing but compile, before the first flight: take turns on all cores of the node,
 * not on the half that is left to whoever compiles beside other work. */
void ftj_locks_take_all(struct ftj_locks *locks);

/* The folder in use, "" when there is none. Borrowed. */
const char *ftj_locks_dir(struct ftj_locks *locks);

/* A file that is locked, or not: zeroed. */
struct ftj_lock {
    int file; /* while held */
    bool is_held;
};

/* Which lock a key has, of FTJ_NUM_KEY_LOCKS. */
#define FTJ_NUM_KEY_LOCKS 256
uint32_t ftj_lock_of_key(const struct ftj_key *key);

/* What a compile holds. A zeroed one is nothing. */
struct ftj_flight {
    struct ftj_lock key;
    struct ftj_lock slot; /* one of those that limit the compiles of this node */
    bool has_waited;
};

/*
 * Take the lock of a key, then a slot of the node.
 *
 * `key` NULL: the slot only, where there is no cache through which others could be served. `look`
 * is asked whether another process has published meanwhile: after the lock is got, and whenever a
 * compile under it has ended. What it answers other than FTJ_E_NOT_FOUND ends the wait and is
 * returned: nothing is held then. FTJ_E_NOT_FOUND: compile, with whatever could be got. A wait ends
 * after 5 seconds, or four times as long as the last compile under that lock took, without a
 * compile that ended.
 */
FTJ_NODISCARD ftj_status ftj_flight_begin(struct ftj_locks *locks, const struct ftj_key *key,
                                          ftj_status (*look)(void *data), void *data,
                                          struct ftj_flight *flight);

/* Let the next one in, once the kernel is published. `compile_us` and what was compiled are
 * recorded for those who wait; 0 for a compile that failed. */
void ftj_flight_end(struct ftj_flight *flight, const struct ftj_key *key, uint32_t compile_us);

#endif
