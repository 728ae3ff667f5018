// SPDX-License-Identifier: MIT
// Where a warp stands in a query tile: its rows, and which steps of a tile of keys it takes.
#pragma once
#include "block/types.cuh"

namespace ftj {

template <class Config>
struct RowWarp {
    static constexpr int head_dim = Config::head_dim;
    static constexpr int dim_parts = (head_dim + Config::part_dims - 1) / Config::part_dims;
    static constexpr uint32_t rows = 16 * Config::m_tiles;
    static constexpr uint32_t groups = Config::num_warps / dim_parts;  // that have the same rows
    static constexpr uint32_t every_step = 2;

    uint32_t row;     // of the request: its first
    uint32_t query;   // shared address of its Q operands
    uint32_t scales;  // likewise, float per row
    uint32_t turn;    // 0, 1: takes even or odd steps of a tile; every_step

    // Of a query tile of few rows half of the warps have none: they take the same, and turns.
    template <bool may_share_rows>
    static __device__ __forceinline__ RowWarp find(uint32_t first_row, uint32_t end_row,
                                                   uint32_t queries, uint32_t factors) {
        uint32_t group = index() / dim_parts;
        uint32_t turn = every_step;
        if (may_share_rows && end_row - first_row <= groups / 2 * rows) {
            turn = group / (groups / 2);
            group %= groups / 2;
        }
        return {ptx::uniform(first_row + group * rows),
                ptx::uniform(queries + group * (rows * head_dim * 2)),
                ptx::uniform(factors + group * (rows * 4)), ptx::uniform(turn)};
    }

    static __device__ __forceinline__ uint32_t index() { return ptx::thread_index() / warp_size; }
    static __device__ __forceinline__ uint32_t first_dim() {  // of O
        return index() % dim_parts * uint32_t(head_dim - Config::part_dims);
    }
    __device__ __forceinline__ bool takes(uint32_t step) const {
        return turn == every_step || step % 2 == turn;
    }
    // Of the warps with the same rows one loads the queries, and one for each half of O's dims ends
    // with the result.
    __device__ __forceinline__ bool loads_query() const { return turn != 1 && first_dim() == 0; }
    __device__ __forceinline__ bool has_result() const { return turn != 1; }
};

}  // namespace ftj
