// SPDX-License-Identifier: MIT
// Which rows of q and o the columns of a unit are.
#pragma once
#include "block/types.cuh"

namespace ftj {

// Whether O leaves registers for hardly more than scores and operands, as four tiles of columns do
// with head_dim 128.
template <class Config>
constexpr bool has_many_columns = Config::n_tiles > 2 && Config::n_tiles* Config::head_dim > 256;
// What could be known before the loop is then worked out for every tile, where K is FP8: or there
// would be spills, 16 x 16384 of 8 queries took 180 us and takes 149 (NVFP4 159 and 161). Not where
// the four warps of a block attend to two parts together (by_group.cuh): 64 heads over 64 x 16384
// took 227.5 us so, and take 223.5.
template <class Config>
constexpr bool keeps_little =
    has_many_columns<Config>&& Config::KCodec::has_row_scale && !Config::KCodec::has_block_scale &&
    (Config::group_parts == 1 || Config::num_warps > 4);

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
