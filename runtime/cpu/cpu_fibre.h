/* SPDX-License-Identifier: MIT */
/* The fibres of a block, or of the two blocks of a cluster, as cpu_worker.c schedules them and
 * cpu_calls.c and cpu_cluster.c make them wait. All of it happens on one host thread. */
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
#define MAX_PEER   64u /* mbarriers of a block that the other arrives at */

/* What a fibre waits for at sync_cluster: no barrier's number or address. */
#define AT_CLUSTER UINT32_MAX

struct fibre {
    struct ftj_cpu_context context;
    struct ftj_cpu_worker *worker;
    uint32_t thread_index; /* in its block */
    uint32_t rank;         /* of its block */
    char *stack;           /* NULL: not prepared */
    size_t stack_bytes;
    const char *waits_at; /* NULL: it can run, or has left */
    uint32_t waits_for;   /* named barrier, or NUM_NAMED + shared address of an mbarrier, or
                             AT_CLUSTER */
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

/* An mbarrier that the other block arrived at, in phases that nobody has waited for since. */
struct peer_arrival {
    uint32_t shared;
    uint32_t parities; /* 1: in an even phase, 2: in an odd one */
};

/* A block that is run: the only one, or one of a cluster. */
struct member {
    unsigned char *shared; /* owned */
    struct ftj_cpu_copies bulk_copies;
    uint32_t num_left;                /* threads that returned */
    uint32_t num_at_barrier;          /* threads in sync_block */
    uint32_t num_at_named[NUM_NAMED]; /* threads in sync_group */
    struct peer_arrival peer_arrivals[MAX_PEER];
    uint32_t num_peer_arrivals;
};

struct ftj_cpu_worker {
    ftj_cpu_block block; /* first: what a kernel is handed, of the thread that is running */
    const ftj_cpu_entry *entry;
    const void *params;
    uint32_t num_threads; /* per block */
    uint32_t cluster_blocks;
    uint32_t first_block;
    uint32_t running; /* fibre; those of a cluster's second block come after those of its first */
    char *stacks;
    struct ftj_cpu_context scheduler;
    struct fibre fibres[FTJ_CPU_MAX_THREADS];
    struct warp warps[MAX_WARPS];
    struct group groups[MAX_GROUPS];
    struct member members[FTJ_CPU_MAX_CLUSTER];
    uint32_t ready[FTJ_CPU_MAX_THREADS]; /* a stack of fibres */
    uint32_t num_ready;
    uint32_t num_left;       /* threads that returned, of all members */
    uint32_t num_at_cluster; /* threads in sync_cluster */
    bool has_met;            /* there, once */
    char failure[320];       /* "": none */
};

/* What a shared address is past the base of its block; of another block's, more than any has. */
static inline uint32_t ftj_cpu_offset(const ftj_cpu_block *block, uint32_t address)
{
    return address - FTJ_CPU_SHARED_BASE(block->cluster_rank);
}

struct fibre *ftj_cpu_running_fibre(struct ftj_cpu_worker *worker);
struct member *ftj_cpu_running_member(struct ftj_cpu_worker *worker);

/* The running fibre waits, at what the failure of a block that stalls will call `name`, until
 * somebody wakes it; `barrier`: named barrier, or NUM_NAMED + shared address of an mbarrier, or 0.
 */
void ftj_cpu_wait(struct ftj_cpu_worker *worker, const char *name, uint32_t barrier);
/* Fibres first to end, but the running one, can go on; the first is the next to. */
void ftj_cpu_wake(struct ftj_cpu_worker *worker, uint32_t first, uint32_t end);
/* Likewise those of a block that wait for a barrier. */
void ftj_cpu_wake_from(struct ftj_cpu_worker *worker, const struct member *member,
                       uint32_t barrier);
/* The running fibre's block is over; nothing of it, nor of its cluster, runs again. */
_Noreturn FTJ_PRINTF(2, 3) void ftj_cpu_fail(struct ftj_cpu_worker *worker, const char *format,
                                             ...);

/* What a kernel is handed: cpu_calls.c. Those below are told whose shared memory is meant, and
 * where in it, past the base. */
extern const ftj_cpu_calls ftj_cpu_worker_calls;

struct ftj_cpu_barrier *ftj_cpu_sound_barrier(struct ftj_cpu_worker *worker,
                                              const struct member *member, uint32_t shared);
void ftj_cpu_arrive(struct ftj_cpu_worker *worker, struct member *member, uint32_t shared);
void ftj_cpu_bulk_copy(struct ftj_cpu_worker *worker, struct member *member, uint32_t shared,
                       const void *from, uint32_t bytes, uint32_t barrier);

/* Clusters: cpu_cluster.c. */
void ftj_cpu_sync_cluster(ftj_cpu_block *block);
void ftj_cpu_peer_arrive(ftj_cpu_block *block, uint32_t peer_barrier);
void ftj_cpu_peer_copy(ftj_cpu_block *block, uint32_t peer_to, uint32_t address, uint32_t bytes,
                       uint32_t peer_barrier);
void ftj_cpu_peer_store(ftj_cpu_block *block, uint32_t peer_to, uint32_t value,
                        uint32_t peer_barrier);
/* No copy may overwrite what copies out of a block are still to read. */
void ftj_cpu_check_sources(struct ftj_cpu_worker *worker, const struct member *member,
                           uint32_t shared, uint32_t bytes);
/* Somebody has waited for a phase of an mbarrier of the running block. */
void ftj_cpu_peer_awaited(struct member *member, uint32_t shared, uint32_t parity);
/* A thread of a cluster has left the kernel; the last of its block must leave nothing behind. */
void ftj_cpu_cluster_left(struct ftj_cpu_worker *worker);

#endif
