/* SPDX-License-Identifier: MIT */
#include "cache/lock_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MOST_COMPILE_US (150u * 1000 * 1000) /* that is believed */

int ftj_lock_file_open(int folder, const char *name)
{
    return openat(folder, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, 0600);
}

enum ftj_lock_attempt ftj_lock_file_try(int file)
{
    int result;
    do
        result = flock(file, LOCK_EX | LOCK_NB);
    while (result != 0 && errno == EINTR);
    if (result == 0)
        return FTJ_LOCK_HELD;
    return errno == EWOULDBLOCK ? FTJ_LOCK_BUSY : FTJ_LOCK_UNAVAILABLE;
}

/* Only the system looks at this mapping: for the word that is slept on. */
static void wake(int file)
{
    void *mapped = mmap(NULL, sizeof(struct ftj_lock_record), PROT_READ, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED)
        return;
    syscall(SYS_futex, mapped, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    munmap(mapped, sizeof(struct ftj_lock_record));
}

void ftj_lock_file_release(struct ftj_lock *lock)
{
    if (lock->is_held) {
        /* Not left to close(): a child that was forked meanwhile shares the lock. */
        flock(lock->file, LOCK_UN);
        wake(lock->file);
        close(lock->file);
    }
    *lock = (struct ftj_lock){0};
}

struct ftj_lock_record ftj_lock_file_read(int file)
{
    struct ftj_lock_record record = {0};
    if (pread(file, &record, sizeof(record), 0) != (ssize_t)sizeof(record))
        return (struct ftj_lock_record){0};
    if (record.compile_us > MOST_COMPILE_US)
        record.compile_us = MOST_COMPILE_US;
    return record;
}

/* A file that cannot be written to still locks. */
static void write_record(int file, const struct ftj_lock_record *record)
{
    if (pwrite(file, record, sizeof(*record), 0) < 0)
        return;
}

void ftj_lock_file_begin(int file)
{
    struct ftj_lock_record record = ftj_lock_file_read(file);
    record.num_begins = record.num_ends + 1;
    write_record(file, &record);
}

void ftj_lock_file_end(const struct ftj_lock *lock, const struct ftj_key *key, uint32_t compile_us)
{
    if (!lock->is_held)
        return;
    struct ftj_lock_record record = ftj_lock_file_read(lock->file);
    record.num_ends++;
    record.num_begins = record.num_ends;
    record.compile_us = compile_us;
    memcpy(record.hex, key->hex, sizeof(record.hex));
    write_record(lock->file, &record);
}

void ftj_lock_file_cancel(const struct ftj_lock *lock)
{
    if (!lock->is_held)
        return;
    struct ftj_lock_record record = ftj_lock_file_read(lock->file);
    record.num_begins = record.num_ends;
    write_record(lock->file, &record);
}

/* Only a file with its record in it is mapped: its page is there, so that reading it cannot fail
 * for want of memory, which would be a signal. A record that has begun was read from such a file.
 */
void *ftj_lock_file_map(int file, const struct ftj_lock_record *record)
{
    if (record->num_begins == 0)
        return NULL;
    void *mapped = mmap(NULL, sizeof(*record), PROT_READ, MAP_SHARED, file, 0);
    return mapped == MAP_FAILED ? NULL : mapped;
}

void ftj_lock_file_unmap(void *mapped)
{
    if (mapped)
        munmap(mapped, sizeof(struct ftj_lock_record));
}

void ftj_lock_file_sleep(void *mapped, uint32_t num_ends, uint32_t us)
{
    const struct timespec pause = {.tv_sec = us / 1000000u,
                                   .tv_nsec = (long)(us % 1000000u) * 1000};
    if (mapped)
        syscall(SYS_futex, mapped, FUTEX_WAIT, num_ends, &pause, NULL, 0);
    else
        nanosleep(&pause, NULL);
}
