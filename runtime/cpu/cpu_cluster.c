/* SPDX-License-Identifier: MIT */
/* What the blocks of a cluster do to each other. A kernel that would reach into a block that may
 * not have begun, or may have left, fails every time, whatever the order in which fibres run. */
#include <stddef.h>

#include "runtime/cpu/cpu_barrier.h"
#include "runtime/cpu/cpu_fibre.h"

/* All have come that are to come: who has left the kernel is not waited for. */
static bool has_met(struct ftj_cpu_worker *worker)
{
    const uint32_t num_fibres = worker->num_threads * worker->cluster_blocks;
    if (worker->num_at_cluster == 0 || worker->num_at_cluster + worker->num_left < num_fibres)
        return false;
    worker->num_at_cluster = 0;
    worker->has_met = true;
    for (uint32_t rank = 0; rank < worker->cluster_blocks; rank++)
        worker->members[rank].num_peer_arrivals = 0;
    return true;
}

/* The fibres that wait at sync_cluster. */
static void wake_all(struct ftj_cpu_worker *worker)
{
    for (uint32_t rank = worker->cluster_blocks; rank-- > 0;)
        ftj_cpu_wake_from(worker, &worker->members[rank], AT_CLUSTER);
}

void ftj_cpu_sync_cluster(ftj_cpu_block *block)
{
    struct ftj_cpu_worker *worker = (struct ftj_cpu_worker *)block;
    worker->num_at_cluster++;
    if (has_met(worker))
        wake_all(worker);
    else
        ftj_cpu_wait(worker, "sync_cluster", AT_CLUSTER);
}

/* What an address of the other block's shared memory is past its base. */
static uint32_t peer_offset(const ftj_cpu_block *block, uint32_t peer_address)
{
    return peer_address - FTJ_CPU_SHARED_BASE(block->cluster_rank ^ 1);
}

/* The block whose shared memory an address is of: the other one, which must be there. */
static struct member *peer_of(struct ftj_cpu_worker *worker, uint32_t peer_address)
{
    const ftj_cpu_block *block = &worker->block;
    if (worker->cluster_blocks < 2 || peer_offset(block, peer_address) >> 24) {
        ftj_cpu_fail(worker, "thread %u uses %#x, which is no address of the other block's",
                     block->thread_index, peer_address);
    }
    struct member *peer = &worker->members[block->cluster_rank ^ 1];
    if (!worker->has_met)
        ftj_cpu_fail(worker,
                     "thread %u reaches into the other block, which may not have begun: there was "
                     "no sync_cluster",
                     block->thread_index);
    if (peer->num_left == worker->num_threads)
        ftj_cpu_fail(worker, "thread %u reaches into the other block, which has left the kernel",
                     block->thread_index);
    return peer;
}

static void note_arrival(struct ftj_cpu_worker *worker, struct member *peer, uint32_t shared)
{
    const uint32_t parity = 1u << ftj_cpu_sound_barrier(worker, peer, shared)->parity;
    for (uint32_t i = 0; i < peer->num_peer_arrivals; i++) {
        if (peer->peer_arrivals[i].shared == shared) {
            peer->peer_arrivals[i].parities |= parity;
            return;
        }
    }
    if (peer->num_peer_arrivals == MAX_PEER)
        ftj_cpu_fail(worker, "a block arrives at more than %u mbarriers of the other", MAX_PEER);
    peer->peer_arrivals[peer->num_peer_arrivals++] = (struct peer_arrival){shared, parity};
}

void ftj_cpu_peer_awaited(struct member *member, uint32_t shared, uint32_t parity)
{
    for (uint32_t i = 0; i < member->num_peer_arrivals; i++) {
        struct peer_arrival *arrival = &member->peer_arrivals[i];
        if (arrival->shared != shared)
            continue;
        arrival->parities &= ~(1u << (parity & 1));
        if (!arrival->parities)
            *arrival = member->peer_arrivals[--member->num_peer_arrivals];
        return;
    }
}

void ftj_cpu_peer_arrive(ftj_cpu_block *block, uint32_t peer_barrier)
{
    struct ftj_cpu_worker *worker = (struct ftj_cpu_worker *)block;
    struct member *peer = peer_of(worker, peer_barrier);
    note_arrival(worker, peer, peer_offset(block, peer_barrier));
    ftj_cpu_arrive(worker, peer, peer_offset(block, peer_barrier));
}

void ftj_cpu_peer_copy(ftj_cpu_block *block, uint32_t peer_to, uint32_t address, uint32_t bytes,
                       uint32_t peer_barrier)
{
    const uint32_t shared = ftj_cpu_offset(block, address);
    struct ftj_cpu_worker *worker = (struct ftj_cpu_worker *)block;
    struct member *peer = peer_of(worker, peer_to);
    (void)peer_of(worker, peer_barrier);
    if ((uint64_t)shared + bytes > block->shared_bytes) {
        ftj_cpu_fail(worker,
                     "cp.async.bulk of %u bytes by thread %u from shared address %u, past the "
                     "block's %u bytes",
                     bytes, block->thread_index, shared, block->shared_bytes);
    }
    ftj_cpu_bulk_copy(worker, peer, peer_offset(block, peer_to), block->shared + shared, bytes,
                      peer_offset(block, peer_barrier));
}

void ftj_cpu_peer_store(ftj_cpu_block *block, uint32_t peer_to, uint32_t value,
                        uint32_t peer_barrier)
{
    struct ftj_cpu_worker *worker = (struct ftj_cpu_worker *)block;
    struct member *peer = peer_of(worker, peer_to);
    (void)peer_of(worker, peer_barrier);
    const uint32_t shared = peer_offset(block, peer_to);
    const uint32_t barrier = peer_offset(block, peer_barrier);
    if (shared % sizeof(value) || shared + sizeof(value) > block->shared_bytes) {
        ftj_cpu_fail(worker,
                     "st.async by thread %u to shared address %u of %u bytes: it cannot lie there",
                     block->thread_index, shared, block->shared_bytes);
    }
    (void)ftj_cpu_sound_barrier(worker, peer, barrier);
    if (!ftj_cpu_value_copy_issue(&peer->bulk_copies, peer->shared + shared, value, barrier))
        ftj_cpu_fail(worker, "no memory for a st.async of thread %u", block->thread_index);
    ftj_cpu_wake_from(worker, peer, NUM_NAMED + barrier); /* one of them makes it */
}

void ftj_cpu_check_sources(struct ftj_cpu_worker *worker, const struct member *member,
                           uint32_t shared, uint32_t bytes)
{
    const struct member *peer = &worker->members[member == worker->members];
    if (ftj_cpu_bulk_copies_from(&peer->bulk_copies, member->shared + shared, bytes)) {
        ftj_cpu_fail(
            worker,
            "cp.async.bulk of %u bytes by thread %u to shared address %u: over what a copy "
            "to the other block is still to read",
            bytes, worker->block.thread_index, shared);
    }
}

/* On a GPU the memory of a block that has left is another's, while copies still read it, and while
 * arrivals that nobody waited for are still on their way to it. */
static void check_what_is_left(struct ftj_cpu_worker *worker)
{
    const struct member *member = ftj_cpu_running_member(worker);
    const struct member *peer = &worker->members[worker->block.cluster_rank ^ 1];
    const size_t num_copies =
        ftj_cpu_bulk_copies_from(&peer->bulk_copies, member->shared, worker->block.shared_bytes);
    if (num_copies)
        ftj_cpu_fail(
            worker,
            "the block has left the kernel before %zu copies out of its shared memory were "
            "waited for",
            num_copies);
    if (member->num_peer_arrivals)
        ftj_cpu_fail(worker,
                     "the block has left the kernel before an arrival of the other block at its "
                     "mbarrier at %u was waited for, there or at sync_cluster",
                     member->peer_arrivals[0].shared);
}

void ftj_cpu_cluster_left(struct ftj_cpu_worker *worker)
{
    if (++ftj_cpu_running_member(worker)->num_left == worker->num_threads)
        check_what_is_left(worker);
    if (has_met(worker))
        wake_all(worker);
}
