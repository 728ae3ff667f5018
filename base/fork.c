/* SPDX-License-Identifier: MIT */
#include "base/fork.h"

#include <pthread.h>
#include <stdatomic.h>

/* NOTE(variables that are not const): a fork is seen by the process alone, not by any object in it.
 * A system call for the pid would cost more than the look-up that it guards. */
static atomic_uint generation;
static pthread_once_t is_watched = PTHREAD_ONCE_INIT;

static void count_fork(void)
{
    atomic_fetch_add(&generation, 1);
}

static void watch(void)
{
    /* Without memory for it, forks are not seen, which is how it was before. */
    (void)pthread_atfork(NULL, NULL, count_fork);
}

void ftj_fork_watch(void)
{
    pthread_once(&is_watched, watch);
}

uint32_t ftj_fork_generation(void)
{
    return atomic_load_explicit(&generation, memory_order_relaxed);
}
