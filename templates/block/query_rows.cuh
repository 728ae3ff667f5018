// SPDX-License-Identifier: MIT
// The rows of a query tile as A operands in shared memory, in the order of dims in which K's codec
// yields them: [tile of 16 rows][product][lane] of four words.
#pragma once
#include "block/pieces.cuh"
#include "block/query_tile.cuh"
#include "block/types.cuh"

namespace ftj {

template <class Config, class KCodec, int widest>
struct QueryRows {
    using Element = typename Config::Element;
    static constexpr int head_dim = Config::head_dim;
    static constexpr int m_tiles = Config::m_tiles;
    static constexpr int products = head_dim / 16;
    static constexpr int tile_bytes = products * int(warp_size) * 16;
    // A 16-bit cache meets the query as it is. Codes are fp16 operands, which a bf16 query might
    // overflow: there each row is first brought to 2^13 <= max|q| < 2^14, by a power of two.
    static constexpr bool normalised = KCodec::is_coded;
    static constexpr int top_exponent = 13;
    static constexpr float least_scale = 0x1p-126f;

    // A warp's rows from `row` on, into `shared`, their part of the tile, and into `scales` what
    // each row's scores are multiplied by. A barrier has passed since they were last read, and one
    // will before they are read.
    static __device__ __forceinline__ void load(const ftj_extend_params& p,
                                                const QueryTile<Config>& unit, uint32_t row,
                                                uint32_t shared, uint32_t scales) {
        const uint32_t lane = ptx::thread_index() % warp_size;
#pragma unroll 1
        for (uint32_t i = 0; i < 2 * m_tiles; i++) {  // upper and lower halves of tiles
            const uint32_t mine = 8 * i + lane / 4;
            const float factor =
                load_row(p, unit, row + mine, shared + i / 2 * tile_bytes + lane * 16 + i % 2 * 4);
            if (normalised && lane % 4 == 0)
                ptx::st_shared_u32(scales + 4 * mine, ptx::float_bits(factor));
        }
    }

    // The factors of rows g and g + 8 of each tile of 16. Positive: a negative scale has turned the
    // query's signs over.
    static __device__ __forceinline__ void load_scales(const ftj_extend_params& p, uint32_t scales,
                                                       float (&out)[m_tiles][2]) {
        const uint32_t mine = scales + ptx::thread_index() % warp_size / 4 * 4;
#pragma unroll
        for (int m = 0; m < m_tiles; m++) {
#pragma unroll
            for (int h = 0; h < 2; h++)
                out[m][h] = normalised ? ptx::ld_shared_f32(mine + 4 * (16 * m + 8 * h))
                                       : abs_of(p.score_scale);
        }
    }

private:
    // Words a0 and a2 of every product, or a1 and a3. Rows past the tile's end are zeros. (As
    // loops, its pieces have ptxas order what follows otherwise, the loop over keys too.)
    static __device__ __forceinline__ float load_row(const ftj_extend_params& p,
                                                     const QueryTile<Config>& unit, uint32_t row,
                                                     uint32_t to) {
        const uint32_t c = ptx::thread_index() % 4;
        uint32_t pairs[head_dim / 8];  // of this lane's dims, piece after piece
        // Rows past the end read the last one: a branch would cost a choice per word.
        const uint32_t kept = row < unit.end_row ? ~0u : 0u;
        row = min_of(row, unit.end_row - 1);
        const uint32_t query = by_group(p).divide(row);
        const uint32_t q_head = unit.head * p.group + (row - query * p.group);
        const auto* from = pointer<const typename Element::Storage>(p.q) +
                           (int64_t(unit.run.first) + query) * p.q_token_stride +
                           q_head * p.q_head_stride;
        for_each_piece_apart<head_dim, widest>([&](auto piece) {
            const auto* run = from + piece.at + piece.dims / 4 * c;
#pragma unroll
            for (int i = 0; i < piece.dims / 8; i += 2) {
                const auto v = *reinterpret_cast<const ptx::Words2*>(run + 2 * i);
                pairs[piece.at / 8 + i] = v.w[0] & kept;
                pairs[piece.at / 8 + i + 1] = v.w[1] & kept;
            }
        });
        const uint32_t signs = p.score_scale < 0.0f ? 0x80008000u : 0u;
        const float factor = normalised ? power_to_top(largest(pairs)) : 1.0f;
        for_each_piece_apart<head_dim, widest>([&](auto piece) {
#pragma unroll
            for (int j = 0; j < piece.dims / 16; j++) {
                const uint32_t at = to + (piece.at / 16 + j) * (warp_size * 16);
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    const int low = KCodec::template key_dim<piece.dims>(j, 0, 2 * half);
                    const int high = KCodec::template key_dim<piece.dims>(j, 0, 2 * half + 1);
                    ptx::st_shared_u32(at + 8 * half, signs ^ pair(pairs, piece.at / 4 + low,
                                                                   piece.at / 4 + high, factor));
                }
            }
        });
        // Not 0, be the row and the scale as small as they may: a masked score is minus infinity.
        return ptx::max_f32(abs_of(p.score_scale) * KCodec::operand_fold * inverse_of_power(factor),
                            least_scale);
    }

    // Values `low` and `high` of the lane's own as an operand.
    static __device__ __forceinline__ uint32_t pair(const uint32_t (&pairs)[head_dim / 8], int low,
                                                    int high, float factor) {
        if constexpr (normalised)
            return KCodec::Mma::pack(value(pairs, low) * factor, value(pairs, high) * factor);
        else
            return bits(pairs, low) | bits(pairs, high) << 16;
    }
    static __device__ __forceinline__ uint32_t bits(const uint32_t (&pairs)[head_dim / 8], int i) {
        return pairs[i / 2] >> (16 * (i % 2)) & 0xffffu;
    }
    static __device__ __forceinline__ float value(const uint32_t (&pairs)[head_dim / 8], int i) {
        return Element::widen(static_cast<typename Element::Storage>(bits(pairs, i)));
    }

    // max|q| of the row, over the four lanes that share it.
    static __device__ __forceinline__ float largest(const uint32_t (&pairs)[head_dim / 8]) {
        float most = 0.0f;
#pragma unroll
        for (int i = 0; i < head_dim / 4; i++)
            most = ptx::max_f32(most, abs_of(value(pairs, i)));
        most = ptx::max_f32(most, ptx::shfl_xor(most, 1));
        return ptx::max_f32(most, ptx::shfl_xor(most, 2));
    }
    static __device__ __forceinline__ float abs_of(float v) {
        return ptx::bits_float(ptx::float_bits(v) & 0x7fffffffu);
    }

    // 2^(top_exponent - exponent of v); exponents under -100 count as -100, to keep it finite.
    static __device__ __forceinline__ float power_to_top(float v) {
        constexpr int bias = 127;
        const int exponent = max_of(int(ptx::float_bits(v) >> 23) - bias, -100);
        return ptx::bits_float(uint32_t(bias + top_exponent - exponent) << 23);
    }
};

}  // namespace ftj
