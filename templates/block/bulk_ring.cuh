// SPDX-License-Identifier: MIT
// The stages of one warp, or of several that share them, filled by bulk copies and read in turn.
//
// All lanes of all `warps` wait; the first `fillers` of these warps fill, each its part of a stage,
// and wait for the others before they do. What the warps of a ring tell each other goes through its
// barriers in memory and not through a named one of the block: only those that fill wait there, and
// racecheck follows it.
//
// What is asked for every tile lies in registers, unless `keeps` says that there are none left.
// With `lag`, 0 or 1, a stage is filled so many tiles later than when its last reader is known to
// have left it, and hardly anyone has to be waited for.
//
// Of a ring that `is_fed` no reader fills: the warp that follows them does, and nothing else.
#pragma once
#include "block/types.cuh"

namespace ftj {

// Where a bulk copy goes, by one lane: into a stage, whose barrier is told how much is to come; or
// only as far as the L2.
struct ToStage {
    uint32_t stage;
    uint32_t barrier;

    __device__ __forceinline__ ToStage(uint32_t its_stage, uint32_t its_barrier)
        : stage(its_stage), barrier(its_barrier) {}
    __device__ __forceinline__ void expect(uint32_t bytes) const {
        ptx::mbarrier_arrive_expect_tx(barrier, bytes);
    }
    __device__ __forceinline__ void copy(uint32_t at, uint64_t from, uint32_t bytes) const {
        ptx::cp_async_bulk(stage + at, pointer<const void>(from), bytes, barrier,
                           ptx::createpolicy_evict_first());
    }
};
struct ToL2 {
    __device__ __forceinline__ void expect(uint32_t) const {}
    __device__ __forceinline__ void copy(uint32_t, uint64_t from, uint32_t bytes) const {
        ptx::prefetch_bulk_l2(pointer<const void>(from), bytes);
    }
};

// The readers of a ring that is fed meet: who feeds it does not come, and has left when it has no
// more to bring.
template <int warps>
FTJ_DEVICE void sync_readers() {
    ptx::sync_group(1, warps * warp_size);
}

template <int num_stages, int bytes, int warps, int fillers, int lag, bool keeps,
          bool is_fed = false>
struct BulkRing {
    static_assert(num_stages >= 2, "one stage is read while another is filled");
    // Of a stage: filled (all of it has come) and, where warps share it, free (every warp has read
    // it).
    static constexpr int stage_barriers = warps == 1 ? 8 : 16;
    static constexpr int barrier_bytes = num_stages * stage_barriers;

    uint32_t base;       // shared address of stage 0
    uint32_t barriers;   // shared address of stage 0's
    uint32_t filled;     // stage to be filled next
    uint32_t read;       // stage to be read next
    uint32_t own_place;  // place(), asked for every tile
    uint32_t parity;  // of the phase that ends when it has arrived, or, of who feeds, of the round
    uint32_t last;    // barriers of the stage read before

    __device__ __forceinline__ void init(uint32_t stages, uint32_t of_barriers) {
        base = stages;
        barriers = of_barriers;
        filled = read = parity = 0;
        last = filled_of(num_stages - 1);
        own_place = place();
        // Or they are made of the thread's index every time.
        if constexpr (keeps)
            ptx::keep(base), ptx::keep(barriers), ptx::keep(own_place);
        if (own_place == 0 && ptx::elect_lane()) {
#pragma unroll
            for (int stage = 0; stage < num_stages; stage++) {
                ptx::mbarrier_init(filled_of(stage), fillers);
                if constexpr (warps > 1)
                    ptx::mbarrier_init(free_of(stage), warps);
            }
            ptx::fence_mbarrier_init();
        }
    }

    // Of the warp in its ring. Who is the first differs from ring to ring: warp i of a block is on
    // scheduler i % 4 of the SM, and filling is a tenth of a warp's work.
    static __device__ __forceinline__ uint32_t place() {
        if constexpr (warps == 1)
            return 0;
        const uint32_t warp = ptx::thread_index() / warp_size, ring = warp / warps;
        return (warp ^ (ring + ring * warps / 4)) % warps;
    }
    __device__ __forceinline__ bool fills() const {
        if constexpr (is_fed)
            return ptx::thread_index() / warp_size == warps;
        return (keeps ? own_place : place()) < fillers;
    }

    __device__ __forceinline__ void skip() {
        const bool is_round = filled == num_stages - 1;
        filled = is_round ? 0 : filled + 1;
        if (is_fed && fills())
            parity ^= is_round;
    }

    // By who feeds: until all readers have left the stage. Of the last stage they say so once more,
    // before there was anything to read.
    __device__ __forceinline__ void await_free() const {
        ptx::mbarrier_wait(free_of(filled), parity ^ (filled != num_stages - 1));
        ptx::sync_warp();
    }

    // What was filled at first, so many tiles, is not wanted: the ring is to be filled again.
    __device__ __forceinline__ void drop(uint32_t tiles) {
        if constexpr (is_fed) {
            if (ptx::thread_index() / warp_size < warps && tiles > 0)
                wait();
            return;  // who fills goes on
        }
        filled = num_stages - 1 - lag;  // as when all of them are
        for (; tiles > 0; tiles--) {
            wait();
            skip();
        }
        filled = read;
    }

    // The address of the next tile, once it has arrived. The stage read before it is free then for
    // who fills: every lane is past it. A warp says so here and not where it has read it, since an
    // arrival may overtake loads that nothing has used yet; and once, since those of 32 lanes are
    // made one after another.
    __device__ __forceinline__ uint32_t wait() {
        const uint32_t its_barriers = filled_of(read);
        ptx::mbarrier_wait(its_barriers, parity);
        ptx::sync_warp();
        if constexpr (warps > 1) {
            const uint32_t before =
                keeps ? last + 8 : free_of(read == 0 ? num_stages - 1 : read - 1);
            if (ptx::thread_index() % warp_size == 0)
                ptx::mbarrier_arrive(before);
            if (!is_fed && fills()) {
                if constexpr (lag == 0)
                    ptx::mbarrier_wait(before, parity);
                else  // of the stage read before that; there was none before the first
                    ptx::mbarrier_wait(free_of(filled), parity ^ (read == 0));
            }
        }
        last = its_barriers;
        const uint32_t stage = base + read * bytes;
        const bool is_round = read == num_stages - 1;
        read = is_round ? 0 : read + 1;
        parity ^= is_round;
        return stage;
    }

    // The stage read last. It is free until the next wait(), once all of its readers have met;
    // whoever writes there says so before the block does.
    __device__ __forceinline__ uint32_t last_read() const {
        return base + (read == 0 ? num_stages - 1 : read - 1) * bytes;
    }
    static __device__ __forceinline__ void meet() {
        if constexpr (warps == 1)
            ptx::sync_warp();
        else if constexpr (is_fed)
            sync_readers<warps>();
        else
            ptx::sync_block();
    }
    static __device__ __forceinline__ void written() { ptx::fence_proxy_async_shared(); }

    __device__ __forceinline__ uint32_t filled_of(uint32_t stage) const {
        return barriers + stage * stage_barriers;
    }
    __device__ __forceinline__ uint32_t free_of(uint32_t stage) const {
        return filled_of(stage) + 8;
    }
};

}  // namespace ftj
