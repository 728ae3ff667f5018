// SPDX-License-Identifier: MIT
// The queries of all columns of a unit in shared memory, as the B operand of wgmma: row k is a dim,
// in the order in which K's codec yields them, column n a query head. And, behind them, what the
// four warps that attend tell each other.
#pragma once
#include "block/bulk_ring.cuh"
#include "block/columns.cuh"
#include "block/pieces.cuh"
#include "block/swizzled.cuh"
#include "block/types.cuh"

namespace ftj {

// Columns of wgmma, and which of a unit's rows they are. A unit is Config::unit_heads parts of a
// group, of 8 * n_tiles columns each, that stand for kv heads of their own everywhere else.
template <class Config>
struct GroupColumns {
    static constexpr int count = 64;
    static constexpr uint32_t of_part = 8 * Config::n_tiles;
    static constexpr int tiles = Config::unit_heads * Config::n_tiles;  // of 8, that are used
    static_assert(8 * tiles <= count, "one product has them all");
};

template <class Config>
struct GroupQuery {
    using KCodec = typename Config::KCodec;
    using Element = typename Config::Element;
    using Columns64 = GroupColumns<Config>;
    static constexpr int head_dim = Config::head_dim;
    static constexpr int warps = Config::num_warps;
    static constexpr int columns = Columns64::count;
    static constexpr int n_tiles = columns / 8 / warps;  // of columns, that a warp brings
    static constexpr bool in_shared = true;
    static constexpr bool has_all_heads = true;
    // A 16-bit cache meets the query as it is. Codes are fp16 operands, which a bf16 query might
    // overflow: there all heads are first brought to 2^13 <= max|q| < 2^14, by one power of two.
    static constexpr bool normalised = KCodec::has_row_scale;
    static constexpr int top_exponent = 13;
    static_assert(warps == 4, "who attends is a warpgroup");

    using Tile = SwizzledTile<head_dim, columns>;
    using Weights = SwizzledTile<64, columns>;  // of a tile of keys: row k is a token
    // From `shared` on. Of two tiles, one is read while the other is written.
    static constexpr int weights = Tile::bytes;
    static constexpr int maxima = weights + 2 * Weights::bytes;  // of each warp: of its columns
    static constexpr int largest_values = maxima + warps * columns * 4;  // and of row scales
    static constexpr int flags = largest_values + warps * 4;
    static constexpr int shared_bytes = (flags + 2 * 4 + 127) / 128 * 128;
    static constexpr int head_bytes = 0;

    uint32_t words[n_tiles][head_dim / 8];  // as in block/query.cuh, from fetch() to take()
    uint32_t shared;
    float score_scale;  // to be put on the products

    // The rows of a segment, on their way: nothing here waits for them.
    template <class Columns>
    __device__ __forceinline__ void fetch(const ftj_decode_params& p, const Columns& of_part) {
        const uint32_t g = ptx::thread_index() % warp_size / 4;
#pragma unroll
        for (int n = 0; n < n_tiles; n++) {
            const uint32_t column = first_column() + 8 * n + g;
            const uint32_t part = column / Columns64::of_part;
            const uint32_t in_part = column % Columns64::of_part;
            const bool is_there = part < uint32_t(Config::unit_heads) && in_part < of_part.count;
            fetch_row(is_there ? row_of(p, of_part.at(p, in_part, part)) : nullptr, words[n]);
        }
    }
    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int n = 0; n < n_tiles; n++) {
#pragma unroll
            for (int i = 0; i < head_dim / 8; i++)
                words[n][i] = 0;
        }
    }

    // The operands of rows that were fetched. The whole block calls it, at the start of a segment.
    __device__ __forceinline__ void take(const ftj_decode_params& p) {
        const uint32_t warp = ptx::thread_index() / warp_size;
        float factor = 1.0f;
        if constexpr (normalised) {
            const float most = largest();
            if (ptx::thread_index() % warp_size == 0)
                ptx::st_shared_u32(shared + maxima + 4 * warp, ptx::float_bits(most));
            sync_readers<warps>();
            const ptx::Words4 of_warps = ptx::ld_shared_v4(shared + maxima);
            factor = power_to_top(ptx::max_f32(
                ptx::max_f32(ptx::bits_float(of_warps.w[0]), ptx::bits_float(of_warps.w[1])),
                ptx::max_f32(ptx::bits_float(of_warps.w[2]), ptx::bits_float(of_warps.w[3]))));
        }
        if (ptx::thread_index() == 0)
            ptx::st_shared_v2(shared + flags, {});
        put(factor);
        score_scale = p.score_scale * KCodec::operand_fold / factor;
        ptx::fence_proxy_async_shared();  // the products read through another proxy
        sync_readers<warps>();
    }

private:
    static __device__ __forceinline__ uint32_t first_column() {
        return ptx::thread_index() / warp_size * (8 * n_tiles);
    }
    template <class Place>
    static __device__ __forceinline__ const typename Element::Storage* row_of(
        const ftj_decode_params& p, Place at) {
        return pointer<const typename Element::Storage>(p.q) + at.row * p.q_row_stride +
               at.q_head * p.q_head_stride;
    }

    // Of each piece a lane has one run of dims, which it loads in vectors; no row is zeros.
    static __device__ __forceinline__ void fetch_row(const typename Element::Storage* row,
                                                     uint32_t (&to)[head_dim / 8]) {
        const uint32_t c = ptx::thread_index() % 4;
        for_each_piece<head_dim, KCodec::widest_key(head_dim)>([&](auto piece) {
#pragma unroll
            for (int i = 0; i < piece.dims / 8; i += 2) {
                ptx::Words2 v = {};
                if (row)
                    v = *reinterpret_cast<const ptx::Words2*>(row + piece.at + piece.dims / 4 * c +
                                                              2 * i);
                to[piece.at / 8 + i] = v.w[0];
                to[piece.at / 8 + i + 1] = v.w[1];
            }
        });
    }

    __device__ __forceinline__ void put(float factor) const {
        const uint32_t lane = ptx::thread_index() % warp_size;
        const uint32_t g = lane / 4, c = lane % 4;
        for_each_piece<head_dim, KCodec::widest_key(head_dim)>([&](auto piece) {
#pragma unroll
            for (int j = 0; j < piece.dims / 16; j++) {
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const uint32_t k = piece.at + 16 * j + 8 * (i / 2) + 2 * c + i % 2;
                    const int dim = piece.at / 4 + KCodec::template key_dim<piece.dims>(j, 0, i);
#pragma unroll
                    for (int n = 0; n < n_tiles; n++)
                        ptx::st_shared_u16(shared + Tile::at(k, first_column() / 8 + n) + 2 * g,
                                           operand(n, dim, factor));
                }
            }
        });
    }
    __device__ __forceinline__ uint32_t operand(int n, int i, float factor) const {
        const uint32_t bits = words[n][i / 2] >> (16 * (i % 2)) & 0xffffu;
        if constexpr (normalised)
            return KCodec::Mma::pack(value(bits) * factor, 0.0f);
        else
            return bits;
    }
    static __device__ __forceinline__ float value(uint32_t bits) {
        return Element::widen(static_cast<typename Element::Storage>(bits));
    }

    // max|q| over the warp's columns.
    __device__ __forceinline__ float largest() const {
        float most = 0.0f;
#pragma unroll
        for (int n = 0; n < n_tiles; n++) {
#pragma unroll
            for (int i = 0; i < head_dim / 8; i++)
                most = ptx::max_f32(most, ptx::max_f32(ptx::abs_f32(value(words[n][i] & 0xffffu)),
                                                       ptx::abs_f32(value(words[n][i] >> 16))));
        }
#pragma unroll
        for (uint32_t mask = 1; mask < warp_size; mask *= 2)
            most = ptx::max_f32(most, ptx::shfl_xor(most, mask));
        return most;
    }
    // 2^(top_exponent - exponent of v); exponents under -100 count as -100, to keep it finite.
    static __device__ __forceinline__ float power_to_top(float v) {
        constexpr int bias = 127;
        const int exponent = max_of(int(ptx::float_bits(v) >> 23) - bias, -100);
        return ptx::bits_float(uint32_t(bias + top_exponent - exponent) << 23);
    }
};

}  // namespace ftj
