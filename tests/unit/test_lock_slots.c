/* SPDX-License-Identifier: MIT */
/* How many kernels a node compiles at once. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cache/compile_limit.h"
#include "cache/lock.h"
#include "temp_dir.h"

static char dir[256];

static void set_up(void)
{
    char lock_dir[300];
    temp_dir_init(dir);
    snprintf(lock_dir, sizeof(lock_dir), "%s/locks", dir);
    setenv("FTJIT_LOCK_DIR", lock_dir, 1);
}

static void tear_down(void)
{
    temp_dir_finish(dir);
}

TestSuite(lock_slots, .init = set_up, .fini = tear_down, .timeout = 60);

static ftj_status find_nothing(void *data)
{
    (void)data;
    return FTJ_E_NOT_FOUND;
}

static struct ftj_locks *open_locks(bool takes_all)
{
    struct ftj_locks *locks = NULL;
    cr_assert_eq(ftj_locks_create(NULL, &locks), FTJ_OK);
    if (takes_all)
        ftj_locks_take_all(locks);
    return locks;
}

Test(lock_slots, are_all_taken_by_who_has_no_other_work)
{
    const uint32_t count = ftj_compile_limit().alone;
    struct ftj_flight flights[FTJ_MAX_COMPILES] = {0};
    struct ftj_locks *locks = open_locks(true);
    for (uint32_t i = 0; i < count; i++) {
        cr_expect_eq(ftj_flight_begin(locks, NULL, find_nothing, NULL, &flights[i]),
                     FTJ_E_NOT_FOUND);
        cr_expect(flights[i].slot.is_held, "slot %u of %u", i, count);
        cr_expect_not(flights[i].has_waited);
    }
    const struct ftj_key key = {0};
    for (uint32_t i = 0; i < count; i++)
        ftj_flight_end(&flights[i], &key, 1);
    ftj_locks_destroy(locks);
}

/* ---- many at once ---- */

struct crowd {
    atomic_uint num_now;
    atomic_uint num_most;
};

static void enter(struct crowd *crowd)
{
    const uint32_t now = atomic_fetch_add(&crowd->num_now, 1) + 1;
    uint32_t most = atomic_load(&crowd->num_most);
    while (most < now && !atomic_compare_exchange_weak(&crowd->num_most, &most, now))
        continue;
}

static void leave(struct crowd *crowd)
{
    atomic_fetch_sub(&crowd->num_now, 1);
}

/* As another process: with locks of its own. */
struct member {
    struct crowd *crowds[2]; /* all, and those of its kind */
    struct ftj_locks *locks;
    struct ftj_key key;
    ftj_status status;
};

static void *compile_in_crowd(void *data)
{
    struct member *member = data;
    struct ftj_flight flight = {0};
    member->status = ftj_flight_begin(member->locks, &member->key, find_nothing, NULL, &flight);
    for (int i = 0; i < 2; i++)
        enter(member->crowds[i]);
    usleep(30000);
    for (int i = 0; i < 2; i++)
        leave(member->crowds[i]);
    ftj_flight_end(&flight, &member->key, 30000);
    return NULL;
}

/* Every second one has no other work. */
Test(lock_slots, limit_the_compiles_of_different_kernels)
{
    enum { MOST = 40 };
    const struct ftj_compile_limit limit = ftj_compile_limit();
    const uint32_t count = 2 * limit.alone + 4;
    struct crowd all = {0};
    struct crowd kinds[2] = {0};
    struct member members[MOST] = {0};
    pthread_t threads[MOST];
    if (count > MOST)
        cr_skip("this machine may compile more at once than the test has threads");
    for (uint32_t i = 0; i < count; i++) {
        struct member *member = &members[i];
        *member = (struct member){.crowds = {&all, &kinds[i % 2]}, .locks = open_locks(i % 2)};
        snprintf(member->key.hex, sizeof(member->key.hex), "%02x000000000000000000000000000000", i);
        cr_assert_eq(pthread_create(&threads[i], NULL, compile_in_crowd, member), 0);
    }
    for (uint32_t i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        cr_expect_eq(members[i].status, FTJ_E_NOT_FOUND);
        ftj_locks_destroy(members[i].locks);
    }
    cr_expect_leq(atomic_load(&all.num_most), limit.alone);
    cr_expect_leq(atomic_load(&kinds[0].num_most), limit.beside);
}
