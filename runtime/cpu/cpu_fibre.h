/* SPDX-License-Identifier: MIT */
/* The fibres of a block as cpu_worker.c schedules them and cpu_calls.c makes them wait. All of it
 * happens on one host thread. */
#ifndef FTJ_RUNTIME_CPU_FIBRE_H
#define FTJ_RUNTIME_CPU_FIBRE_H

#include "runtime/cpu/cpu_context.h"
#include "runtime/cpu/cpu_copy.h"
#include "runtime/cpu/cpu_worker.h"

#define WARP_LANES FTJ_CPU_WARP_LANES
#define MAX_WARPS  (FTJ_CPU_MAX_THREADS / WARP_LANES)
#define GROUP      FTJ_CPU_GROUP
#define MAX_GROUPS (FTJ_CPU_MAX_THREADS / GROUP)
#define NUM_NAMED  16u /* barriers that a number names */

struct fibre {
    struct ftj_cpu_context context;
    struct ftj_cpu_worker *worker;
    uint32_t thread_index;
    char *stack; /* NULL: not prepared */
    size_t stack_bytes;
    const char *waits_at; /* NULL: it can run, or has left */
    uint32_t waits_for;   /* named barrier, or NUM_NAMED + shared address of an mbarrier */
    struct ftj_cpu_copies copies;
};

/* The collective that lanes of a warp have come to. */
struct warp {
    ftj_cpu_lane lanes[WARP_LANES];
    ftj_cpu_compute compute;
    const char *name;
    uint32_t num_arrived;
};

/* The same for the threads of a warpgroup. */
struct group {
    void *operands[GROUP];
    ftj_cpu_group_compute compute;
    const char *name;
    uint32_t num_arrived;
};

struct ftj_cpu_worker {
    ftj_cpu_block block; /* first: what a kernel is handed */
    const ftj_cpu_entry *entry;
    const void *params;
    uint32_t num_threads;
    char *stacks;
    struct ftj_cpu_context scheduler;
    struct fibre fibres[FTJ_CPU_MAX_THREADS];
    struct warp warps[MAX_WARPS];
    struct group groups[MAX_GROUPS];
    struct ftj_cpu_copies bulk_copies;
    uint32_t num_at_named[NUM_NAMED];    /* threads in sync_group */
    uint32_t ready[FTJ_CPU_MAX_THREADS]; /* a stack of thread indices */
    uint32_t num_ready;
    uint32_t num_left;       /* threads that returned */
    uint32_t num_at_barrier; /* threads in sync_block */
    char failure[320];       /* "": none */
};

struct fibre *ftj_cpu_running_fibre(struct ftj_cpu_worker *worker);

/* The running fibre waits, at what the failure of a block that stalls will call `name`, until
 * somebody wakes it; `barrier`: named barrier, or NUM_NAMED + shared address of an mbarrier, or 0.
 */
void ftj_cpu_wait(struct ftj_cpu_worker *worker, const char *name, uint32_t barrier);
/* Fibres first to end, but the running one, can go on; the first is the next to. */
void ftj_cpu_wake(struct ftj_cpu_worker *worker, uint32_t first, uint32_t end);
/* Likewise those that wait for a barrier. */
void ftj_cpu_wake_from(struct ftj_cpu_worker *worker, uint32_t barrier);
/* The running fibre's block is over; nothing of it runs again. */
_Noreturn FTJ_PRINTF(2, 3) void ftj_cpu_fail(struct ftj_cpu_worker *worker, const char *format,
                                             ...);

/* What a kernel is handed: cpu_calls.c. */
extern const ftj_cpu_calls ftj_cpu_worker_calls;

#endif
