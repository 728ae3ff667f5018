/* SPDX-License-Identifier: MIT */
/* What a kernel calls: collectives, barriers and copies, each for the fibre that is running. */
#include "runtime/cpu/cpu_barrier.h"
#include "runtime/cpu/cpu_fibre.h"

static void warp_collective(ftj_cpu_block *block, const char *name, ftj_cpu_compute compute,
                            ftj_cpu_lane *lane)
{
    struct ftj_cpu_worker *worker = (struct ftj_cpu_worker *)block;
    struct fibre *fibre = ftj_cpu_running_fibre(worker);
    const uint32_t warp_index = worker->running / WARP_LANES;
    struct warp *warp = &worker->warps[warp_index];
    ftj_cpu_lane *own = &warp->lanes[fibre->thread_index % WARP_LANES];

    if (warp->num_arrived > 0 && warp->compute != compute) {
        ftj_cpu_fail(worker, "thread %u is at %s while %u lanes of its warp are at %s",
                     fibre->thread_index, name, warp->num_arrived, warp->name);
    }
    warp->compute = compute;
    warp->name = name;
    *own = *lane;
    if (++warp->num_arrived < WARP_LANES) {
        ftj_cpu_wait(worker, name, 0);
    } else {
        compute(warp->lanes);
        warp->num_arrived = 0;
        ftj_cpu_wake(worker, warp_index * WARP_LANES, (warp_index + 1) * WARP_LANES);
    }
    *lane = *own;
}

static void sync_block(ftj_cpu_block *block)
{
    struct ftj_cpu_worker *worker = (struct ftj_cpu_worker *)block;
    struct member *member = ftj_cpu_running_member(worker);
    const uint32_t first = block->cluster_rank * worker->num_threads;

    if (++member->num_at_barrier < worker->num_threads) {
        ftj_cpu_wait(worker, "sync_block", 0);
    } else {
        member->num_at_barrier = 0;
        ftj_cpu_wake(worker, first, first + worker->num_threads);
    }
}

static void copy_issue(ftj_cpu_block *block, uint32_t address, const void *global, uint32_t bytes)
{
    struct ftj_cpu_worker *worker = (struct ftj_cpu_worker *)block;
    const uint32_t shared = ftj_cpu_offset(block, address);

    if (shared % bytes || (uintptr_t)global % bytes) {
        ftj_cpu_fail(worker,
                     "cp.async of %u bytes by thread %u from %p to shared address %u: not aligned",
                     bytes, block->thread_index, global, shared);
    }
    if ((uint64_t)shared + bytes > block->shared_bytes) {
        ftj_cpu_fail(
            worker,
            "cp.async of %u bytes by thread %u to shared address %u, past the block's %u bytes",
            bytes, block->thread_index, shared, block->shared_bytes);
    }
    if (!ftj_cpu_copy_issue(&ftj_cpu_running_fibre(worker)->copies, block->shared + shared, global,
                            bytes))
        ftj_cpu_fail(worker, "no memory for a cp.async of thread %u", block->thread_index);
}

static void copy_commit(ftj_cpu_block *block)
{
    ftj_cpu_copy_commit(&ftj_cpu_running_fibre((struct ftj_cpu_worker *)block)->copies);
}

static void copy_wait(ftj_cpu_block *block, uint32_t pending)
{
    ftj_cpu_copy_wait(&ftj_cpu_running_fibre((struct ftj_cpu_worker *)block)->copies, pending);
}

static void group_collective(ftj_cpu_block *block, const char *name, ftj_cpu_group_compute compute,
                             void *operand)
{
    struct ftj_cpu_worker *worker = (struct ftj_cpu_worker *)block;
    const uint32_t thread = block->thread_index;
    struct group *group = &worker->groups[block->first_group + thread / GROUP];

    if (group->num_arrived > 0 && group->compute != compute) {
        ftj_cpu_fail(worker, "thread %u is at %s while %u threads of its warpgroup are at %s",
                     thread, name, group->num_arrived, group->name);
    }
    group->compute = compute;
    group->name = name;
    group->operands[thread % GROUP] = operand;
    if (++group->num_arrived < GROUP) {
        ftj_cpu_wait(worker, name, 0);
    } else {
        compute(group->operands);
        group->num_arrived = 0;
        const uint32_t first = worker->running - thread % GROUP;
        ftj_cpu_wake(worker, first, first + GROUP);
    }
}

static void sync_group(ftj_cpu_block *block, uint32_t id, uint32_t threads)
{
    struct ftj_cpu_worker *worker = (struct ftj_cpu_worker *)block;

    if (id == 0 || id >= NUM_NAMED)
        ftj_cpu_fail(worker, "thread %u is at barrier %u; there are 1 to 15", block->thread_index,
                     id);
    struct member *member = ftj_cpu_running_member(worker);
    if (++member->num_at_named[id] < threads) {
        ftj_cpu_wait(worker, "sync_group", id);
    } else {
        member->num_at_named[id] = 0;
        ftj_cpu_wake_from(worker, member, id);
    }
}

/* The mbarrier at a shared address, which must be one. */
static struct ftj_cpu_barrier *barrier_at(struct ftj_cpu_worker *worker,
                                          const struct member *member, uint32_t shared)
{
    const ftj_cpu_block *block = &worker->block;
    if (shared % FTJ_CPU_BARRIER_BYTES ||
        (uint64_t)shared + FTJ_CPU_BARRIER_BYTES > block->shared_bytes) {
        ftj_cpu_fail(
            worker,
            "thread %u uses an mbarrier at shared address %u of %u bytes: it cannot lie there",
            block->thread_index, shared, block->shared_bytes);
    }
    return (struct ftj_cpu_barrier *)(void *)(member->shared + shared);
}

static void barrier_init(ftj_cpu_block *block, uint32_t address, uint32_t arrivals)
{
    struct ftj_cpu_worker *worker = (struct ftj_cpu_worker *)block;
    struct ftj_cpu_barrier *barrier =
        barrier_at(worker, ftj_cpu_running_member(worker), ftj_cpu_offset(block, address));
    if (!ftj_cpu_barrier_init(barrier, arrivals))
        ftj_cpu_fail(worker, "an mbarrier of %u arrivals is no mbarrier", arrivals);
}

struct ftj_cpu_barrier *ftj_cpu_sound_barrier(struct ftj_cpu_worker *worker,
                                              const struct member *member, uint32_t shared)
{
    struct ftj_cpu_barrier *barrier = barrier_at(worker, member, shared);
    if (!ftj_cpu_barrier_is_sound(barrier)) {
        ftj_cpu_fail(worker,
                     "thread %u uses an mbarrier at shared address %u that was not initialised",
                     worker->block.thread_index, shared);
    }
    return barrier;
}

static void barrier_expect(ftj_cpu_block *block, uint32_t address, uint32_t bytes)
{
    struct ftj_cpu_worker *worker = (struct ftj_cpu_worker *)block;
    ftj_cpu_barrier_expect(ftj_cpu_sound_barrier(worker, ftj_cpu_running_member(worker),
                                                 ftj_cpu_offset(block, address)),
                           bytes);
}

void ftj_cpu_arrive(struct ftj_cpu_worker *worker, struct member *member, uint32_t shared)
{
    struct ftj_cpu_barrier *barrier = ftj_cpu_sound_barrier(worker, member, shared);
    if (barrier->pending == 0)
        ftj_cpu_fail(worker, "thread %u is one more than the %u arrivals of the mbarrier at %u",
                     worker->block.thread_index, barrier->arrivals, shared);
    if (ftj_cpu_barrier_arrive(barrier))
        ftj_cpu_wake_from(worker, member, NUM_NAMED + shared);
}

static void barrier_arrive(ftj_cpu_block *block, uint32_t address)
{
    struct ftj_cpu_worker *worker = (struct ftj_cpu_worker *)block;
    ftj_cpu_arrive(worker, ftj_cpu_running_member(worker), ftj_cpu_offset(block, address));
}

/* Whether there were copies for the barrier. */
static bool make_copies(struct ftj_cpu_worker *worker, struct ftj_cpu_barrier *barrier,
                        uint32_t shared)
{
    struct member *member = ftj_cpu_running_member(worker);
    const uint32_t bytes = ftj_cpu_bulk_copy_make(&member->bulk_copies, shared);
    if (bytes && ftj_cpu_barrier_complete(barrier, bytes))
        ftj_cpu_wake_from(worker, member, NUM_NAMED + shared);
    return bytes > 0;
}

static void barrier_wait(ftj_cpu_block *block, uint32_t address, uint32_t parity)
{
    struct ftj_cpu_worker *worker = (struct ftj_cpu_worker *)block;
    struct member *member = ftj_cpu_running_member(worker);
    const uint32_t shared = ftj_cpu_offset(block, address);
    struct ftj_cpu_barrier *barrier = ftj_cpu_sound_barrier(worker, member, shared);
    while (!ftj_cpu_barrier_has_ended(barrier, parity)) {
        if (!make_copies(worker, barrier, shared))
            ftj_cpu_wait(worker, "mbarrier_wait", NUM_NAMED + shared);
    }
    ftj_cpu_peer_awaited(member, shared, parity);
}

void ftj_cpu_bulk_copy(struct ftj_cpu_worker *worker, struct member *member, uint32_t shared,
                       const void *from, uint32_t bytes, uint32_t barrier)
{
    const ftj_cpu_block *block = &worker->block;
    if (shared % 16 || (uintptr_t)from % 16 || bytes % 16 || bytes == 0) {
        ftj_cpu_fail(worker,
                     "cp.async.bulk of %u bytes by thread %u from %p to shared address %u: not "
                     "aligned to 16",
                     bytes, block->thread_index, from, shared);
    }
    if ((uint64_t)shared + bytes > block->shared_bytes) {
        ftj_cpu_fail(worker,
                     "cp.async.bulk of %u bytes by thread %u to shared address %u, past the "
                     "block's %u bytes",
                     bytes, block->thread_index, shared, block->shared_bytes);
    }
    (void)ftj_cpu_sound_barrier(worker, member, barrier);
    if (worker->cluster_blocks > 1)
        ftj_cpu_check_sources(worker, member, shared, bytes);
    if (!ftj_cpu_bulk_copy_issue(&member->bulk_copies, member->shared + shared, from, bytes,
                                 barrier))
        ftj_cpu_fail(worker, "no memory for a cp.async.bulk of thread %u", block->thread_index);
    ftj_cpu_wake_from(worker, member, NUM_NAMED + barrier); /* one of them makes it */
}

static void bulk_copy(ftj_cpu_block *block, uint32_t address, const void *global, uint32_t bytes,
                      uint32_t barrier)
{
    struct ftj_cpu_worker *worker = (struct ftj_cpu_worker *)block;
    ftj_cpu_bulk_copy(worker, ftj_cpu_running_member(worker), ftj_cpu_offset(block, address),
                      global, bytes, ftj_cpu_offset(block, barrier));
}

const ftj_cpu_calls ftj_cpu_worker_calls = {
    .warp_collective = warp_collective,
    .sync_block = sync_block,
    .copy_issue = copy_issue,
    .copy_commit = copy_commit,
    .copy_wait = copy_wait,
    .group_collective = group_collective,
    .sync_group = sync_group,
    .barrier_init = barrier_init,
    .barrier_expect = barrier_expect,
    .barrier_arrive = barrier_arrive,
    .barrier_wait = barrier_wait,
    .bulk_copy = bulk_copy,
    .sync_cluster = ftj_cpu_sync_cluster,
    .peer_arrive = ftj_cpu_peer_arrive,
    .peer_copy = ftj_cpu_peer_copy,
    .peer_store = ftj_cpu_peer_store,
};
