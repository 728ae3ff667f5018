/* SPDX-License-Identifier: MIT */
/*
 * The CPU target's contract between a compiled kernel and the library that runs it: plain C, read
 * by both compilers. A kernel's shared object needs no symbol of the library; it is handed a block
 * and calls back through the block's table.
 */
#ifndef FTJ_CPU_RUNTIME_H
#define FTJ_CPU_RUNTIME_H

#include <stdint.h>

/* Raised with every change below; a shared object of another number is refused. */
#define FTJ_CPU_ABI        5

#define FTJ_CPU_WARP_LANES 32
#define FTJ_CPU_GROUP      128 /* threads of a warpgroup */
#define FTJ_CPU_LANE_WORDS 12
#define FTJ_CPU_MAX_GROUPS 8 /* warpgroups of a block, or of both of a cluster */

/* Where the shared addresses of block `rank` of a cluster begin, as they do on a GPU: an address
 * that is put somewhere with no room for it, or is meant of the wrong block, shows. */
#define FTJ_CPU_SHARED_BASE(rank) ((rank) << 24)

/* What one lane brings to a warp collective, and takes from it. */
typedef struct ftj_cpu_lane {
    uint32_t w[FTJ_CPU_LANE_WORDS];
} ftj_cpu_lane;

/* Replaces the operands of all 32 lanes by their results. */
typedef void (*ftj_cpu_compute)(ftj_cpu_lane* lanes);

/* Is given what each thread of a warpgroup brought. */
typedef void (*ftj_cpu_group_compute)(void* const* operands);

typedef struct ftj_cpu_block ftj_cpu_block;

/* Each acts for the thread that is running. None returns to a thread whose block has failed. */
typedef struct ftj_cpu_calls {
    /* Returns when all lanes of the warp have come to the same `compute`; `lane` in and out. */
    void (*warp_collective)(ftj_cpu_block* block, const char* name, ftj_cpu_compute compute,
                            ftj_cpu_lane* lane);
    void (*sync_block)(ftj_cpu_block* block);
    /* cp.async: `shared` is an address of the block's shared memory. */
    void (*copy_issue)(ftj_cpu_block* block, uint32_t shared, const void* global, uint32_t bytes);
    void (*copy_commit)(ftj_cpu_block* block);
    void (*copy_wait)(ftj_cpu_block* block, uint32_t pending);
    /* Returns when all threads of the warpgroup have come to the same `compute`. */
    void (*group_collective)(ftj_cpu_block* block, const char* name, ftj_cpu_group_compute compute,
                             void* operand);
    /* Returns when so many threads have come to the barrier of that number. */
    void (*sync_group)(ftj_cpu_block* block, uint32_t id, uint32_t threads);
    /* mbarriers, likewise. */
    void (*barrier_init)(ftj_cpu_block* block, uint32_t shared, uint32_t arrivals);
    /* The phase under way also waits for so many bytes of copies. */
    void (*barrier_expect)(ftj_cpu_block* block, uint32_t shared, uint32_t bytes);
    void (*barrier_arrive)(ftj_cpu_block* block, uint32_t shared);
    void (*barrier_wait)(ftj_cpu_block* block, uint32_t shared, uint32_t parity);
    /* cp.async.bulk, counted by the mbarrier at the shared address `barrier`. */
    void (*bulk_copy)(ftj_cpu_block* block, uint32_t shared, const void* global, uint32_t bytes,
                      uint32_t barrier);
    /* Clusters: all threads of both blocks that have not left meet. What reaches the other block is
     * given addresses of its shared memory, `peer_`. */
    void (*sync_cluster)(ftj_cpu_block* block);
    void (*peer_arrive)(ftj_cpu_block* block, uint32_t peer_barrier);
    void (*peer_copy)(ftj_cpu_block* block, uint32_t peer_to, uint32_t shared, uint32_t bytes,
                      uint32_t peer_barrier);
    void (*peer_store)(ftj_cpu_block* block, uint32_t peer_to, uint32_t value,
                       uint32_t peer_barrier);
} ftj_cpu_calls;

struct ftj_cpu_block {
    const ftj_cpu_calls* calls;
    unsigned char* shared;   /* aligned to 1024 */
    uintptr_t shared_origin; /* what its shared addresses are added to */
    uint32_t shared_bytes;
    uint32_t thread_index; /* of the thread that is running */
    uint32_t block_index;
    uint32_t num_blocks;
    uint32_t cluster_blocks; /* 1 where there are no clusters */
    uint32_t cluster_rank;   /* 0 there */
    uint32_t first_group;    /* its first warpgroup among those of the cluster */
};

/* The one symbol of a kernel's shared object. */
#define FTJ_CPU_SYMBOL "ftj_cpu_kernel"

typedef struct ftj_cpu_entry {
    uint32_t abi;
    uint32_t params_bytes;
    void (*run)(ftj_cpu_block* block, const void* params); /* one thread, to its end */
} ftj_cpu_entry;

#endif
