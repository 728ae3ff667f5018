// SPDX-License-Identifier: MIT
// Adding up what an extend's query tiles cost, for unit_deal.cuh: the threads of a block, each over
// a run of requests, then of query tiles.
#pragma once
#include "block/types.cuh"

namespace ftj {

// Of query tiles, all kv heads.
struct UnitCost {
    uint64_t all;
    uint64_t whole;  // of short requests, whose units are dealt whole
    uint64_t rest;   // of what is neither so nor in rounds

    __device__ __forceinline__ void add(const UnitCost& other) {
        all += other.all;
        whole += other.whole;
        rest += other.rest;
    }
};

// A cost in equal parts, in whole numbers.
struct EqualShares {
    uint64_t each;
    uint32_t rest;
    uint32_t blocks;

    static __device__ __forceinline__ EqualShares of(uint64_t cost, uint32_t blocks) {
        const uint64_t each = cost / blocks;
        return {each, uint32_t(cost - each * blocks), blocks};
    }
    __device__ __forceinline__ uint64_t begin(uint32_t block) const {
        return each * block + rest * block / blocks;
    }
    __device__ __forceinline__ uint64_t share(uint32_t block) const {
        return begin(block + 1) - begin(block);
    }
};

template <uint32_t num_threads>
struct UnitSums {
    static constexpr uint32_t num_warps = num_threads / warp_size;
    static constexpr int shared_bytes =
        (num_threads + num_warps) * sizeof(UnitCost) + num_threads * 4;

    // In shared memory.
    UnitCost* costs;
    UnitCost* warp_costs;
    uint32_t* query_tiles;  // of the requests of the threads before each
    // This thread's.
    uint32_t requests = 0;  // how many, at most
    uint32_t first = 0;     // query tile
    uint32_t mine = 0;      // how many they are
    UnitCost cost = {};
    UnitCost before = {};  // of the threads before it
    UnitCost total = {};   // of all threads
    static_assert(num_threads <= 1024, "start() looks for one of so many");

    explicit __device__ __forceinline__ UnitSums(unsigned char* shared)
        : costs(reinterpret_cast<UnitCost*>(shared)), warp_costs(costs + num_threads),
          query_tiles(reinterpret_cast<uint32_t*>(warp_costs + num_warps)) {}

    // How many query tiles this thread's requests have.
    __device__ __forceinline__ void share_query_tiles(uint32_t count) {
        const uint32_t thread = ptx::thread_index(), lane = thread % warp_size;
        auto* warp_counts = reinterpret_cast<uint32_t*>(warp_costs);
        uint32_t sum = count;
#pragma unroll 1
        for (uint32_t step = 1; step < warp_size; step *= 2) {
            const uint32_t up = ptx::shfl_up(sum, step);
            sum += lane >= step ? up : 0;
        }
        if (lane == warp_size - 1)
            warp_counts[thread / warp_size] = sum;
        ptx::sync_block();
        uint32_t all = 0, of_warps = 0;
#pragma unroll 4
        for (uint32_t w = 0; w < num_warps; w++) {
            of_warps = w == thread / warp_size ? all : of_warps;
            all += warp_counts[w];
        }
        query_tiles[thread] = of_warps + sum - count;
        const uint32_t share = (all + num_threads - 1) / num_threads;
        first = min_of(thread * share, all);
        mine = min_of(share, all - first);
        ptx::sync_block();
    }

    __device__ __forceinline__ void add_up() {
        const uint32_t thread = ptx::thread_index(), warp = thread / warp_size;
        costs[thread] = cost;
        ptx::sync_block();
        UnitCost sum = {};
#pragma unroll 4
        for (uint32_t t = warp * warp_size; t < (warp + 1) * warp_size; t++) {
            if (t == thread)
                before = sum;
            sum.add(costs[t]);
        }
        warp_costs[warp] = sum;
        ptx::sync_block();
#pragma unroll 4
        for (uint32_t w = 0; w < num_warps; w++) {
            if (w == warp)
                before.add(total);
            total.add(warp_costs[w]);
        }
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
