// SPDX-License-Identifier: MIT
// What a lane of four warps that attend together has: of a segment its part of the outputs, and the
// addresses of its part of a tile (attend_group.cuh).
#pragma once
#include "block/final_row.cuh"
#include "block/group_query.cuh"

namespace ftj {

// What a lane holds of a segment. Sums are of the warp's tokens.
template <class Config>
struct GroupState {
    using VCodec = typename Config::VCodec;
    static constexpr int columns = GroupColumns<Config>::count;
    static constexpr int tiles = GroupColumns<Config>::tiles;
    static constexpr int m_tiles = Config::head_dim / 64;  // of 16 dims, a warp's

    float out[m_tiles][columns / 2];
    float max[tiles][2];  // log2
    float sum[tiles][2];
    float v_norm;  // power of two on V's row scales; out is of values times it

    __device__ __forceinline__ GroupState() {
#pragma unroll
        for (int m = 0; m < m_tiles; m++) {
#pragma unroll
            for (int i = 0; i < columns / 2; i++)
                out[m][i] = 0;
        }
#pragma unroll
        for (int n = 0; n < tiles; n++) {
            max[n][0] = max[n][1] = lowest_score;
            sum[n][0] = sum[n][1] = 0;
        }
        v_norm = ptx::bits_float(0x7e800000u);  // 2^126: the first real scale replaces it
    }
    __device__ __forceinline__ float v_factor() const {
        return VCodec::has_row_scale ? VCodec::operand_fold / v_norm : 1.0f;
    }
    __device__ __forceinline__ void keep() {
#pragma unroll
        for (int m = 0; m < m_tiles; m++)
            ptx::wgmma_keep(out[m]);
    }
    // Until all products are in it.
    __device__ __forceinline__ void settle() {
        ptx::wgmma_wait<0>();
        keep();
    }
};

// What a lane adds to the address of an array: K's rows are the warp's own, of V's dims the
// warp's. The warp's 16 score rows are tokens 4w to 4w + 3 of every 16 of the tile.
template <class Config, class Tile>
struct GroupLanes {
    using KCodec = typename Config::KCodec;
    using VCodec = typename Config::VCodec;
    using Pitch = typename Tile::Pitch;
    using Weights = typename GroupQuery<Config>::Weights;
    static constexpr int key_dims =
        piece_dims(Config::head_dim, KCodec::widest_key(Config::head_dim));
    static constexpr int warp_dims = Config::head_dim / Config::num_warps;

    uint32_t warp;
    uint32_t row;  // of the tile: score row g; that of g + 8 is two further
    uint32_t k_codes, k_blocks, k_scales;
    uint32_t v_codes;  // of the first 4 of the 16 tokens that the lane has of V, all in a row
    uint32_t v_blocks, v_scales;
    uint32_t weights;  // in a tile: the row of the matrices that this lane stores

    explicit __device__ __forceinline__ GroupLanes(uint32_t of_warp) : warp(of_warp) {
        const uint32_t lane = ptx::thread_index() % warp_size;
        const uint32_t g = lane / 4, c = lane % 4;
        row = g / 2 * 16 + 4 * warp + g % 2;
        k_codes = own<Pitch::k_codes>() + KCodec::key_run(key_dims, c);
        k_blocks = own<Pitch::k_blocks>() + KCodec::block_run(key_dims, c);
        k_scales = own<Pitch::k_scales>();
        v_codes = Tile::template rows_from<Pitch::v_codes>(16 * c) + c * Tile::row_shift +
                  VCodec::value_run(warp_dims, g) + VCodec::code_bytes(warp_dims) * warp;
        v_blocks = Tile::template rows_from<Pitch::v_blocks>(g / 2 * 16) + g % 2 * Pitch::v_blocks +
                   VCodec::block_run(warp_dims, c) + warp_dims / 16 * warp;
        v_scales = own<Pitch::v_scales>();
        const uint32_t matrix = lane / 8;
        weights = Weights::at(16 * warp + matrix % 2 * 8 + lane % 8, matrix / 2);
        ptx::keep(weights), ptx::keep(row), ptx::keep(k_codes), ptx::keep(k_blocks),
            ptx::keep(k_scales);
        ptx::keep(v_codes), ptx::keep(v_blocks), ptx::keep(v_scales);
    }

private:
    template <int row_bytes>
    __device__ __forceinline__ uint32_t own() const {
        return Tile::template rows_from<row_bytes>(row / 16 * 16) + row % 16 * row_bytes;
    }
};

}  // namespace ftj
