// SPDX-License-Identifier: MIT
// Which requests of an extend are dealt otherwise than by a cut, for unit_deal.cuh.
#pragma once
#include "block/query_run.cuh"

namespace ftj {

// In how many rounds a request of so many units is dealt. Half a round to one and a half are left
// over for the cut, which makes shares equal. One round alone is not worth it.
FTJ_DEVICE uint32_t rounds_of(uint32_t units, const Divisor& blocks) {
    const uint32_t halves = blocks.divide(2 * units);
    const uint32_t rounds = (halves - min_of(halves, 1u)) / 2;
    return rounds < 2 ? 0 : min_of(rounds, 65535u);
}

// The order in which blocks get the units of such a request: through its query tiles, all kv heads
// of each. Where blocks work in pairs, those of a kv head in two query tiles that follow each
// other: then the two blocks of a cluster walk the keys of both.
template <bool can_pair>
struct RoundUnits {
    uint16_t is_of_clusters;  // 1: the launch is

    __device__ __forceinline__ void init() {
        if constexpr (can_pair)
            is_of_clusters = uint16_t(ptx::cluster_blocks() - 1);
    }
    // 1: blocks work in pairs. 0: the kernel has none, or this launch.
    __device__ __forceinline__ uint32_t pairs() const { return can_pair ? is_of_clusters : 0; }
    // Of so many, those that do, or all.
    __device__ __forceinline__ uint32_t in_pairs(uint32_t count) const {
        return count >> pairs() << pairs();
    }

    // Query tiles that have no more than so many units.
    __device__ __forceinline__ uint32_t tiles(uint32_t units, const Divisor& heads) const {
        return heads.divide(units >> pairs()) << pairs();
    }
    // Of a query tile's first head. Those of the others are apart() from one another.
    __device__ __forceinline__ uint32_t first(uint32_t index, uint32_t heads) const {
        return in_pairs(index) * heads + (index & pairs());
    }
    __device__ __forceinline__ uint32_t apart() const { return 1 + pairs(); }
    __device__ __forceinline__ uint32_t index(uint32_t unit, const Divisor& heads) const {
        return tiles(unit, heads) + (unit & pairs());
    }
    __device__ __forceinline__ uint32_t head(uint32_t unit, const Divisor& heads) const {
        return (unit >> pairs()) - heads.divide(unit >> pairs()) * heads.number;
    }
};

// The requests that are, in shared memory.
struct LongRequests {
    static constexpr uint32_t most = 32;  // of more, none is
    struct Place {
        uint32_t request;  // of these
        uint32_t round;    // the next
    };

    uint32_t count;
    uint32_t requests[most];
    uint16_t rounds[most];

    __device__ __forceinline__ void add(uint32_t request, uint32_t its_rounds) {
        if (its_rounds == 0)
            return;
        const uint32_t place = ptx::atomic_add(&count, 1);
        if (place < most)
            requests[place] = request, rounds[place] = uint16_t(its_rounds);
    }
    // In order, by one thread: the blocks of a pair take them alike.
    __device__ __forceinline__ void sort() {
        const uint32_t end = min_of(count, most);
#pragma unroll 1
        for (uint32_t i = 1; i < end; i++) {
#pragma unroll 1
            for (uint32_t at = i; at > 0 && requests[at - 1] > requests[at]; at--) {
                const uint32_t request = requests[at];
                const uint16_t its_rounds = rounds[at];
                requests[at] = requests[at - 1], rounds[at] = rounds[at - 1];
                requests[at - 1] = request, rounds[at - 1] = its_rounds;
            }
        }
    }
    // To the next unit of this block, of the request it is in then. In every other round blocks
    // take units from the last to the first.
    template <class InRounds>
    __device__ __forceinline__ bool next(const InRounds& all, const Divisor& blocks,
                                         const Divisor& heads, Place& at, uint32_t& unit) const {
#pragma unroll 1
        for (; at.request < count; at.request++, at.round = 0) {
            const uint32_t units =
                all.tiles(rounds[at.request] * blocks.number, heads) * heads.number;
#pragma unroll 1
            while (at.round * blocks.number < units) {
                const uint32_t round = at.round++, block = ptx::block_index();
                unit = round * blocks.number + (round % 2 ? blocks.number - 1 - block : block);
                if (unit < units)
                    return true;
            }
        }
        return false;
    }
    __device__ __forceinline__ bool are_few() const { return count && count <= most; }
};

// Whose units are dealt whole, when they are not in rounds.
struct ShortRequest {
    static constexpr uint32_t most_keys = 512;

    static __device__ __forceinline__ bool is(const QueryRun& run, uint32_t in_rounds) {
        return in_rounds == 0 && run.length <= most_keys;
    }
};

}  // namespace ftj
