// SPDX-License-Identifier: MIT
// Which rows of q and o the columns of a unit are.
#pragma once
#include "block/types.cuh"

namespace ftj {

// Columns of one kv head from `first` on: its query heads, and those of the queries after it where
// a request has a run of them.
template <bool has_runs>
struct Columns {
    uint32_t row;   // of q and o: of the first query
    uint32_t head;  // the kv head's first query head
    uint32_t first;
    uint32_t count;

    struct Place {
        uint32_t row;
        uint32_t q_head;
    };

    template <class Keys>
    static __device__ __forceinline__ Columns of(const ftj_decode_params& p, const Keys& keys,
                                                 uint32_t request, uint32_t kv_head, uint32_t block,
                                                 uint32_t block_columns) {
        const uint32_t first = block * block_columns;
        return {keys.first_row(request), kv_head * p.group, first,
                min_of(keys.num_queries() * p.group - first, block_columns)};
    }

    // Of column first + i, or the same one of the kv head that is so many further on.
    __device__ __forceinline__ Place at(const ftj_decode_params& p, uint32_t i,
                                        uint32_t kv_heads_on = 0) const {
        const uint32_t q_head = head + kv_heads_on * p.group;
        if constexpr (has_runs) {
            const uint32_t query = (first + i) / p.group;
            return {row + query, q_head + (first + i) % p.group};
        } else {
            return {row, q_head + first + i};
        }
    }
};

}  // namespace ftj
