/* SPDX-License-Identifier: MIT */
/* Locks that save work: who waits for whom, and for how long at most. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cache/lock_file.h"
#include "log_catcher.h"
#include "temp_dir.h"

static struct log_catcher catcher;
static const struct ftj_log log_to_catcher = {catch_sentence, &catcher, FTJ_LOG_DEBUG};
static char dir[256];
static char lock_dir[300];

#define expect_said(part)                                                                          \
    cr_expect(strstr(catcher.last, part), "\"%s\" is not in: %s", part, catcher.last)

static void set_up(void)
{
    temp_dir_init(dir);
    snprintf(lock_dir, sizeof(lock_dir), "%s/locks", dir);
    setenv("FTJIT_LOCK_DIR", lock_dir, 1);
}

static void tear_down(void)
{
    temp_dir_finish(dir);
}

TestSuite(lock, .init = set_up, .fini = tear_down, .timeout = 60);

static struct ftj_locks *open_locks(void)
{
    struct ftj_locks *locks = NULL;
    cr_assert_eq(ftj_locks_create(&log_to_catcher, &locks), FTJ_OK);
    return locks;
}

/* Keys by their first two digits, which choose the lock. */
static struct ftj_key key_of(unsigned int number)
{
    struct ftj_key key = {0};
    snprintf(key.hex, sizeof(key.hex), "%02x000000000000000000000000000000", number & 255);
    return key;
}

/* What a cache would say: nothing until `status` is set. */
struct cache {
    _Atomic(ftj_status) status;
    atomic_int num_looks;
};

static ftj_status look(void *data)
{
    struct cache *cache = data;
    atomic_fetch_add(&cache->num_looks, 1);
    return atomic_load(&cache->status);
}

static double seconds_since(const struct timespec *start)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - start->tv_sec) + 1e-9 * (double)(now.tv_nsec - start->tv_nsec);
}

/* ---- the folder ---- */

static void expect_no_locks(const char *said)
{
    struct ftj_locks *locks = open_locks();
    struct ftj_flight flight = {0};
    struct cache cache = {FTJ_E_NOT_FOUND, 0};
    const struct ftj_key key = key_of(1);
    cr_expect_str_eq(ftj_locks_dir(locks), "");
    cr_expect_eq(catcher.level, FTJ_LOG_DEBUG);
    expect_said(said);
    cr_expect_eq(ftj_flight_begin(locks, &key, look, &cache, &flight), FTJ_E_NOT_FOUND);
    cr_expect_not(flight.key.is_held);
    cr_expect_not(flight.slot.is_held);
    ftj_flight_end(&flight, &key, 1);
    ftj_locks_destroy(locks);
}

Test(lock, folder_is_made_for_its_user_alone)
{
    struct ftj_locks *locks = open_locks();
    struct stat about;
    cr_expect_str_eq(ftj_locks_dir(locks), lock_dir);
    cr_assert_eq(stat(lock_dir, &about), 0);
    cr_expect_eq(about.st_mode & 0777, 0700);
    ftj_locks_destroy(locks);
}

Test(lock, folder_that_cannot_be_trusted_is_not_used)
{
    cr_assert_eq(mkdir(lock_dir, 0700), 0);
    cr_assert_eq(chmod(lock_dir, 0777), 0);
    expect_no_locks("is open to other users (mode 777)");
    cr_assert_eq(rmdir(lock_dir), 0);
    cr_assert_eq(symlink(dir, lock_dir), 0);
    expect_no_locks("cannot be opened");
    setenv("FTJIT_LOCK_DIR", "/dev/null", 1);
    expect_no_locks("/dev/null");
    setenv("FTJIT_LOCK_DIR", "/proc/ftjit", 1);
    expect_no_locks("cannot be made");
}

Test(lock, folder_of_the_session_comes_before_that_of_the_machine)
{
    char expected[300];
    unsetenv("FTJIT_LOCK_DIR");
    setenv("XDG_RUNTIME_DIR", dir, 1);
    cr_assert_eq(chmod(dir, 0700), 0);
    struct ftj_locks *locks = open_locks();
    snprintf(expected, sizeof(expected), "%s/ftjit", dir);
    cr_expect_str_eq(ftj_locks_dir(locks), expected);
    ftj_locks_destroy(locks);

    cr_assert_eq(chmod(dir, 0777), 0);
    locks = open_locks();
    cr_expect_str_neq(ftj_locks_dir(locks), expected, "others may rename what is in it");
    ftj_locks_destroy(locks);
}

/* ---- one key ---- */

struct other {
    struct ftj_locks *locks; /* of its own, as another process has */
    struct ftj_key key;
    struct cache cache;
    struct ftj_flight flight;
    ftj_status status;
    atomic_bool has_begun;
    atomic_long thread; /* the system's number of it; 0: not running yet */
};

static void *begin_other(void *data)
{
    struct other *other = data;
    atomic_store(&other->thread, syscall(SYS_gettid));
    other->status =
        ftj_flight_begin(other->locks, &other->key, look, &other->cache, &other->flight);
    return NULL;
}

/* Until the other thread sleeps: then it waits for the lock. */
static void expect_to_wait(const struct other *other)
{
    char path[64];
    char state = 'R';
    struct timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    while (state != 'S' && seconds_since(&start) < 30) {
        usleep(1000);
        snprintf(path, sizeof(path), "/proc/self/task/%ld/stat", atomic_load(&other->thread));
        FILE *file = fopen(path, "r");
        if (file && fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
            state = 'R';
        if (file)
            fclose(file);
    }
    cr_assert_eq(state, 'S', "it does not wait");
}

Test(lock, one_who_waits_is_served_with_what_was_published)
{
    struct ftj_locks *locks = open_locks();
    struct other other = {.locks = open_locks(), .key = key_of(1)};
    struct ftj_flight flight = {0};
    struct cache cache = {FTJ_E_NOT_FOUND, 0};
    pthread_t thread;
    atomic_store(&other.cache.status, FTJ_E_NOT_FOUND);
    cr_assert_eq(ftj_flight_begin(locks, &other.key, look, &cache, &flight), FTJ_E_NOT_FOUND);
    cr_expect(flight.key.is_held);
    cr_expect(flight.slot.is_held);
    cr_expect_not(flight.has_waited);
    cr_expect_eq(cache.num_looks, 1, "somebody may have published before the lock was got");

    cr_assert_eq(pthread_create(&thread, NULL, begin_other, &other), 0);
    expect_to_wait(&other);
    atomic_store(&other.cache.status, FTJ_OK); /* published */
    const int num_looks = atomic_load(&other.cache.num_looks);
    struct timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    ftj_flight_end(&flight, &other.key, 1000);
    pthread_join(thread, NULL);
    cr_expect_lt(seconds_since(&start), 2.0);
    cr_expect_eq(other.status, FTJ_OK);
    cr_expect_eq(num_looks, 0, "the cache is left alone while nothing has ended");
    cr_expect_eq(atomic_load(&other.cache.num_looks), 1);
    cr_expect(other.flight.has_waited);
    cr_expect_not(other.flight.key.is_held);
    cr_expect_not(other.flight.slot.is_held);
    ftj_locks_destroy(other.locks);
    ftj_locks_destroy(locks);
}

Test(lock, what_the_cache_answers_ends_the_flight)
{
    struct ftj_locks *locks = open_locks();
    struct ftj_flight flight = {0};
    struct cache cache = {FTJ_E_NO_MEMORY, 0};
    const struct ftj_key key = key_of(1);
    cr_expect_eq(ftj_flight_begin(locks, &key, look, &cache, &flight), FTJ_E_NO_MEMORY);
    cr_expect_not(flight.key.is_held);
    atomic_store(&cache.status, FTJ_E_NOT_FOUND);
    cr_expect_eq(ftj_flight_begin(locks, &key, look, &cache, &flight), FTJ_E_NOT_FOUND);
    cr_expect(flight.key.is_held, "it was free");
    ftj_flight_end(&flight, &key, 0);
    ftj_locks_destroy(locks);
}

Test(lock, without_a_key_is_a_turn_only)
{
    struct ftj_locks *locks = open_locks();
    struct ftj_flight flight = {0};
    struct cache cache = {FTJ_E_NOT_FOUND, 0};
    const struct ftj_key key = key_of(1);
    cr_expect_eq(ftj_flight_begin(locks, NULL, look, &cache, &flight), FTJ_E_NOT_FOUND);
    cr_expect_not(flight.key.is_held);
    cr_expect(flight.slot.is_held);
    ftj_flight_end(&flight, &key, 0);
    ftj_locks_destroy(locks);
}

/* A child that takes the lock, says so, and sleeps; the caller ends it. */
static pid_t start_holder(const struct ftj_key *key)
{
    int ready[2];
    char byte = 0;
    cr_assert_eq(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
        struct ftj_locks *locks = NULL;
        struct ftj_flight flight = {0};
        struct cache cache = {FTJ_E_NOT_FOUND, 0};
        if (ftj_locks_create(NULL, &locks) ||
            ftj_flight_begin(locks, key, look, &cache, &flight) != FTJ_E_NOT_FOUND ||
            write(ready[1], &byte, 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    cr_assert_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return child;
}

Test(lock, of_a_process_that_was_killed_is_free)
{
    struct ftj_locks *locks = open_locks();
    struct ftj_flight flight = {0};
    struct cache cache = {FTJ_E_NOT_FOUND, 0};
    const struct ftj_key key = key_of(1);
    const pid_t holder = start_holder(&key);
    struct timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
    cr_expect_eq(ftj_flight_begin(locks, &key, look, &cache, &flight), FTJ_E_NOT_FOUND);
    cr_expect(flight.key.is_held);
    cr_expect_lt(seconds_since(&start), 2.0);
    ftj_flight_end(&flight, &key, 0);
    ftj_locks_destroy(locks);
}

/* The holder has the only slots too, where the machine has two cores. */
Test(lock, of_a_process_that_hangs_is_waited_for_no_longer_than_it_is_worth)
{
    struct ftj_locks *locks = open_locks();
    struct ftj_flight flight = {0};
    struct cache cache = {FTJ_E_NOT_FOUND, 0};
    const struct ftj_key key = key_of(1);
    const pid_t holder = start_holder(&key);
    struct timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    cr_expect_eq(ftj_flight_begin(locks, &key, look, &cache, &flight), FTJ_E_NOT_FOUND);
    cr_expect_not(flight.key.is_held);
    cr_expect_geq(seconds_since(&start), 4.9);
    cr_expect_lt(seconds_since(&start), 20.0);
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
    ftj_flight_end(&flight, &key, 0);
    ftj_locks_destroy(locks);
}

Test(lock, is_given_back_although_a_forked_child_shares_it)
{
    struct ftj_locks *locks = open_locks();
    struct ftj_flight flight = {0};
    struct cache cache = {FTJ_E_NOT_FOUND, 0};
    const struct ftj_key key = key_of(1);
    cr_assert_eq(ftj_flight_begin(locks, &key, look, &cache, &flight), FTJ_E_NOT_FOUND);
    const pid_t child = fork();
    while (child == 0)
        pause();
    ftj_flight_end(&flight, &key, 1);
    cr_expect_eq(ftj_flight_begin(locks, &key, look, &cache, &flight), FTJ_E_NOT_FOUND);
    cr_expect_not(flight.has_waited);
    cr_expect(flight.key.is_held);
    ftj_flight_end(&flight, &key, 1);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    ftj_locks_destroy(locks);
}

static void *begin_and_say_so(void *data)
{
    struct other *other = data;
    begin_other(other);
    atomic_store(&other->has_begun, true);
    return NULL;
}

/* The lock of key_of(1), taken by the test itself. */
static int hold_lock(struct ftj_locks *locks)
{
    char path[400];
    cr_assert_str_eq(ftj_locks_dir(locks), lock_dir);
    snprintf(path, sizeof(path), "%s/key-01", lock_dir);
    const int file = open(path, O_RDWR | O_CREAT, 0600);
    cr_assert_geq(file, 0);
    cr_assert_eq(flock(file, LOCK_EX), 0);
    return file;
}

static void write_record(int file, const struct ftj_lock_record *record)
{
    cr_assert_eq(pwrite(file, record, sizeof(*record), 0), (ssize_t)sizeof(*record));
}

/* Its compile ended after the caller's first look; somebody else has the lock by now. */
Test(lock, of_a_kernel_that_has_just_been_published_is_not_waited_for)
{
    struct ftj_locks *locks = open_locks();
    struct ftj_flight flight = {0};
    struct cache cache = {FTJ_OK, 0};
    const struct ftj_key key = key_of(1);
    struct ftj_lock_record record = {.num_ends = 7, .num_begins = 8, .compile_us = 1000};
    struct timespec start;
    const int file = hold_lock(locks);
    memcpy(record.hex, key.hex, sizeof(record.hex));
    write_record(file, &record);
    clock_gettime(CLOCK_MONOTONIC, &start);
    cr_expect_eq(ftj_flight_begin(locks, &key, look, &cache, &flight), FTJ_OK);
    cr_expect_lt(seconds_since(&start), 0.5);
    cr_expect_not(flight.has_waited);
    cr_expect_eq(atomic_load(&cache.num_looks), 1);
    close(file);
    ftj_locks_destroy(locks);
}

/* The test itself is the holder, who ends compiles of this kernel and leaves nothing in the cache.
 */
Test(lock, of_a_kernel_that_could_not_be_published_is_not_waited_for_again)
{
    struct ftj_locks *locks = open_locks();
    struct other other = {.locks = locks, .key = key_of(1)};
    struct ftj_lock_record record = {.compile_us = 1000};
    pthread_t thread;
    const int file = hold_lock(locks);
    memcpy(record.hex, other.key.hex, sizeof(record.hex));
    atomic_store(&other.cache.status, FTJ_E_NOT_FOUND);
    cr_assert_eq(pthread_create(&thread, NULL, begin_and_say_so, &other), 0);

    struct timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    while (!atomic_load(&other.has_begun) && seconds_since(&start) < 4.0) {
        record.num_ends++;
        write_record(file, &record);
        usleep(100000);
    }
    cr_expect(atomic_load(&other.has_begun), "it still waits");
    pthread_join(thread, NULL);
    cr_expect_eq(other.status, FTJ_E_NOT_FOUND);
    cr_expect_not(other.flight.key.is_held);
    cr_expect(other.flight.slot.is_held);
    ftj_flight_end(&other.flight, &other.key, 1000);
    close(file);
    ftj_locks_destroy(locks);
}
