// SPDX-License-Identifier: MIT
// Which keys the rows of a warp see: of a tile of keys the question is whether all, some or none.
#pragma once
#include "block/query_tile.cuh"

namespace ftj {

struct SeenKeys {
    KeyRange by_all;  // begin may lie past end
    KeyRange by_some;

    // Of `keys`, those of rows `row` to `row` + `rows` of the request.
    template <class Config>
    static __device__ __forceinline__ SeenKeys find(const ftj_extend_params& p,
                                                    const QueryTile<Config>& unit, KeyRange keys,
                                                    uint32_t row, uint32_t rows) {
        if (row >= unit.end_row)
            return {{0, 0}, {0, 0}};
        const uint32_t last = min_of(row + rows, unit.end_row) - 1;
        const KeyRange top = unit.run.seen_by(by_group(p).divide(row), p.requests.window);
        const KeyRange bottom = unit.run.seen_by(by_group(p).divide(last), p.requests.window);
        return {{bottom.begin, min_of(top.end, keys.end)},
                {top.begin, min_of(bottom.end, keys.end)}};
    }

    // The same in a warp's registers.
    __device__ __forceinline__ SeenKeys held() const {
        return {{ptx::uniform(by_all.begin), ptx::uniform(by_all.end)},
                {ptx::uniform(by_some.begin), ptx::uniform(by_some.end)}};
    }

    __device__ __forceinline__ bool is_seen(uint32_t begin, uint32_t end) const {
        return begin < by_some.end && end > by_some.begin;
    }
    __device__ __forceinline__ bool is_whole(uint32_t begin, uint32_t end) const {
        return begin >= by_all.begin && end <= by_all.end;
    }
};

}  // namespace ftj
