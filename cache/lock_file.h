/* SPDX-License-Identifier: MIT */
/* One lock file: taking it, and what its last holder has left in it. For lock.c. */
#ifndef FTJ_CACHE_LOCK_FILE_H
#define FTJ_CACHE_LOCK_FILE_H

#include "cache/lock.h"

/* What a lock's file holds. Written under the lock, read without it: it only steers waits. */
struct ftj_lock_record {
    uint32_t num_ends;   /* compiles that ended, one way or the other */
    uint32_t compile_us; /* of the last one */
    char hex[32];        /* its key */
    uint32_t num_begins; /* of a key's lock: more than num_ends while one is under way, or for ever
                            after one whose process has died */
};

enum ftj_lock_attempt { FTJ_LOCK_HELD, FTJ_LOCK_BUSY, FTJ_LOCK_UNAVAILABLE };

/* The file of a lock in a folder, made if it is not there; -1: there is no such lock to be had. */
int ftj_lock_file_open(int folder, const char *name);
enum ftj_lock_attempt ftj_lock_file_try(int file);
/* Give a lock back, wake all who sleep on it, and close its file; a zeroed one is fine, and becomes
 * so. */
void ftj_lock_file_release(struct ftj_lock *lock);

/* Zeroed where there is none yet. */
struct ftj_lock_record ftj_lock_file_read(int file);
/* As the holder, at the beginning: so that those who come now see it and can be woken. */
void ftj_lock_file_begin(int file);
/* As the holder, at the end: record it. */
void ftj_lock_file_end(const struct ftj_lock *lock, const struct ftj_key *key, uint32_t compile_us);

/* As the holder, where nothing had to be compiled after all: as if it had not begun. */
void ftj_lock_file_cancel(const struct ftj_lock *lock);

/* The file mapped, whose first word is num_ends; NULL: it cannot be slept on. `record` is what was
 * read from it: where that is zeroed the file may be empty. */
void *ftj_lock_file_map(int file, const struct ftj_lock_record *record);
void ftj_lock_file_unmap(void *mapped); /* NULL is fine */
/* Sleep until an end is recorded or the time is over. */
void ftj_lock_file_sleep(void *mapped, uint32_t num_ends, uint32_t us);

#endif
