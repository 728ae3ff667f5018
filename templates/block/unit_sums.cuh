// SPDX-License-Identifier: MIT
// Adding up what an extend's query tiles cost, for query_tile.cuh and unit_deal.cuh: the threads of
// a block, each over a run of requests, then of query tiles.
#pragma once
#include "block/types.cuh"

namespace ftj {

// Of query tiles, all kv heads: of all of them, and of those of some kinds.
template <int kinds>
struct UnitCosts {
    uint64_t of[kinds];

    __device__ __forceinline__ void add(const UnitCosts& other) {
#pragma unroll
        for (int i = 0; i < kinds; i++)
            of[i] += other.of[i];
    }
    __device__ __forceinline__ void take(const UnitCosts& other) {
#pragma unroll
        for (int i = 0; i < kinds; i++)
            of[i] -= other.of[i];
    }
    // Those of the thread so many lanes before.
    __device__ __forceinline__ UnitCosts up(uint32_t lanes) const {
        UnitCosts to;
#pragma unroll
        for (int i = 0; i < kinds; i++)
            to.of[i] = uint64_t(ptx::shfl_up(uint32_t(of[i] >> 32), lanes)) << 32 |
                       ptx::shfl_up(uint32_t(of[i]), lanes);
        return to;
    }
};

template <int kinds, uint32_t num_threads>
struct UnitSums {
    using Cost = UnitCosts<kinds>;
    static constexpr uint32_t num_warps = num_threads / warp_size;
    static constexpr int shared_bytes = num_warps * sizeof(Cost) + num_threads * 4;

    // In shared memory.
    Cost* warp_costs;
    uint32_t* query_tiles;  // of the requests of the threads before each
    // This thread's.
    uint32_t requests = 0;  // how many, at most
    uint32_t first = 0;     // query tile
    uint32_t mine = 0;      // how many they are
    Cost cost = {};
    Cost before = {};  // of the threads before it
    Cost total = {};   // of all threads
    static_assert(num_threads <= 1024, "start() looks for one of so many");

    explicit __device__ __forceinline__ UnitSums(unsigned char* shared)
        : warp_costs(reinterpret_cast<Cost*>(shared)),
          query_tiles(reinterpret_cast<uint32_t*>(warp_costs + num_warps)) {}

    // Of `cost` of all threads: what those before this one have, and all. All threads.
    __device__ __forceinline__ void add_up() {
        const uint32_t lane = ptx::thread_index() % warp_size;
        Cost sum = cost;
#pragma unroll 1
        for (uint32_t step = 1; step < warp_size; step *= 2) {
            const Cost up = sum.up(step);
            if (lane >= step)
                sum.add(up);
        }
        if (lane == warp_size - 1)
            warp_costs[ptx::thread_index() / warp_size] = sum;
        ptx::sync_block();
        before = total = {};
#pragma unroll 1
        for (uint32_t w = 0; w < num_warps; w++) {
            if (w == ptx::thread_index() / warp_size)
                before = total;
            total.add(warp_costs[w]);
        }
        sum.take(cost);
        before.add(sum);
        ptx::sync_block();
    }

    // Each thread its share of all query tiles; `cost` was how many its requests have.
    __device__ __forceinline__ void share_query_tiles() {
        const uint32_t thread = ptx::thread_index();
        const uint32_t all = uint32_t(total.of[0]);
        query_tiles[thread] = uint32_t(before.of[0]);
        const uint32_t share = (all + num_threads - 1) / num_threads;
        first = min_of(thread * share, all);
        mine = min_of(share, all - first);
        cost = {};
        ptx::sync_block();
    }

    // Where to go on from `at` to be at the first of this thread's query tiles. There must be one.
    template <class Unit>
    __device__ __forceinline__ uint32_t start(Unit& at) const {
        uint32_t thread = 0;
#pragma unroll 1
        for (uint32_t step = 512; step; step /= 2) {
            if (thread + step < num_threads && query_tiles[thread + step] <= first)
                thread += step;
        }
        at = {};
        at.request = thread * requests - 1;
        return first - query_tiles[thread];
    }
};

}  // namespace ftj
