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

// The requests that are, in shared memory.
struct LongRequests {
    static constexpr uint32_t most = 32;  // of more, none is

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
