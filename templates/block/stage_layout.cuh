// SPDX-License-Identifier: MIT
// How one tile of a cache lies in shared memory: rows of one kv head, each array without gaps.
#pragma once
#include "block/pieces.cuh"
#include "block/types.cuh"

namespace ftj {

// Bytes of a row in each of the six arrays; 0: the format has no such array.
template <class Config>
struct RowBytes {
    using KCodec = typename Config::KCodec;
    using VCodec = typename Config::VCodec;
    static constexpr int k_codes = KCodec::code_bytes(Config::head_dim);
    static constexpr int v_codes = VCodec::code_bytes(Config::head_dim);
    static constexpr int k_blocks = KCodec::has_block_scale ? Config::head_dim / 16 : 0;
    static constexpr int v_blocks = VCodec::has_block_scale ? Config::head_dim / 16 : 0;
    static constexpr int k_scales = KCodec::has_row_scale ? 4 : 0;
    static constexpr int v_scales = VCodec::has_row_scale ? 4 : 0;
    static constexpr int all = k_codes + v_codes + k_blocks + v_blocks + k_scales + v_scales;
};

// Array after array, each with all tokens of the tile.
template <class Config, int tokens>
struct ArrayLayout {
    using Row = RowBytes<Config>;
    static constexpr int k_codes = 0;
    static constexpr int v_codes = k_codes + tokens * Row::k_codes;
    static constexpr int k_blocks = v_codes + tokens * Row::v_codes;
    static constexpr int v_blocks = k_blocks + tokens * Row::k_blocks;
    static constexpr int k_scales = v_blocks + tokens * Row::v_blocks;
    static constexpr int v_scales = k_scales + tokens * Row::k_scales;
    static constexpr int bytes = v_scales + tokens * Row::v_scales;
    static_assert(bytes % 16 == 0, "stages follow each other on 16-byte boundaries");
};

// Where slot 0 of one (page, head) lies. In one allocation the arrays are at fixed distances from
// each other, and the products with the strides are made once.
template <class Config>
struct PageCorner {
    uint64_t first_base;
    uint64_t first;
    uint32_t head;
    uint32_t page;

    __device__ __forceinline__ PageCorner(const ftj_cache_params& cache, uint32_t of_head,
                                          uint32_t of_page)
        : first_base(cache.k.codes.base), head(of_head), page(of_page) {
        first = strided(cache.k.codes);
    }
    __device__ __forceinline__ uint64_t strided(const ftj_array_params& array) const {
        return array.base + page * array.page_stride + head * array.head_stride;
    }
    __device__ __forceinline__ uint64_t of(const ftj_array_params& array) const {
        return Config::one_allocation ? first + (array.base - first_base) : strided(array);
    }
};

}  // namespace ftj
