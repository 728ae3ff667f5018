// SPDX-License-Identifier: MIT
// The queries of a segment as B operands: column g is one query head, the dims in the order in
// which K's codec yields them. Wide heads, and many columns, are kept in shared memory, for want of
// registers.
#pragma once
#include "block/columns.cuh"
#include "block/pieces.cuh"
#include "block/types.cuh"

namespace ftj {

template <class Config>
struct Query {
    using KCodec = typename Config::KCodec;
    using Element = typename Config::Element;
    static constexpr int head_dim = Config::head_dim;
    static constexpr int n_tiles = Config::n_tiles;
    static constexpr int products = head_dim / 16;
    static constexpr bool in_shared = n_tiles * head_dim > 256 ||
                                      (n_tiles > 1 && Config::num_warps > 8);
    static constexpr bool in_pairs = in_shared && n_tiles % 2 == 0;  // one load brings two tiles'
    static constexpr int at_once = in_pairs ? 2 : 1;
    static constexpr int unit_heads = Config::unit_heads;
    static constexpr int head_bytes = n_tiles * products * 2 * int(warp_size) * 4;
    static constexpr int shared_bytes = in_shared ? unit_heads * head_bytes : 0;
    static constexpr bool has_all_heads = false;  // of a unit: a warp has those of one
    // A 16-bit cache meets the query as it is. Codes are fp16 operands, which a bf16 query might
    // overflow: there the heads are first brought to 2^13 <= max|q| < 2^14, by one power of two.
    static constexpr bool normalised = KCodec::has_row_scale;
    static constexpr int top_exponent = 13;

    using Words = uint32_t[head_dim / 8];

    // From fetch() to take() the rows as they lie in memory, of each head this lane's dims, piece
    // after piece; then, unless those are in shared memory, the operands [product][half].
    Words words[n_tiles];
    uint32_t shared;    // address of the operands, when they are there
    float score_scale;  // to be put on the products

    // The rows of a segment, on their way: nothing here waits for them.
    __device__ __forceinline__ void fetch(const ftj_decode_params& p,
                                          const Columns<Config::has_runs>& columns) {
        const uint32_t g = ptx::thread_index() % warp_size / 4;
#pragma unroll
        for (int n = 0; n < n_tiles; n++)
            fetch_head(8 * n + g < columns.count ? query_row(p, columns.at(p, 8 * n + g)) : nullptr,
                       words[n]);
    }
    // Neither rows nor operands are needed any more: they would live through the loop otherwise.
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
        float factor = 1.0f;
        if constexpr (normalised)
            factor = power_to_top(largest());
#pragma unroll
        for (int n = 0; n < n_tiles; n++)
            put_head(n, factor);
        score_scale = p.score_scale * KCodec::operand_fold * inverse_of_power(factor);
        if constexpr (in_shared)
            ptx::sync_block();
    }

    // Every tile's scores += 16 dims of 16 keys, rows g and g + 8, with theirs.
    template <class Mma>
    __device__ __forceinline__ void multiply(int product, const uint32_t (&upper)[2],
                                             const uint32_t (&lower)[2],
                                             float (&scores)[n_tiles][4]) const {
#pragma unroll
        for (int n = 0; n < n_tiles; n += at_once) {
            uint32_t b[at_once][2];
            operands(n, product, b);
#pragma unroll
            for (int i = 0; i < at_once; i++)
                Mma::product(scores[n + i], upper[0], lower[0], upper[1], lower[1], b[i][0],
                             b[i][1]);
        }
    }

private:
    // Those of one product, of tile n, or of it and the next.
    __device__ __forceinline__ void operands(int n, int product, uint32_t (&b)[at_once][2]) const {
        if constexpr (in_pairs) {
            const ptx::Words4 v = ptx::ld_shared_v4(address(n, product));
            b[0][0] = v.w[0], b[0][1] = v.w[1], b[1][0] = v.w[2], b[1][1] = v.w[3];
        } else if constexpr (in_shared) {
            const ptx::Words2 v = ptx::ld_shared_v2(address(n, product));
            b[0][0] = v.w[0], b[0][1] = v.w[1];
        } else {
            b[0][0] = words[n][2 * product], b[0][1] = words[n][2 * product + 1];
        }
    }

    __device__ __forceinline__ uint32_t address(int n, int product) const {
        const uint32_t lane = ptx::thread_index() % warp_size;
        if constexpr (in_pairs)
            return shared + ((n / 2 * products + product) * warp_size + lane) * 16 + n % 2 * 8;
        return shared + ((n * products + product) * warp_size + lane) * 8;
    }

    static __device__ __forceinline__ const typename Element::Storage* query_row(
        const ftj_decode_params& p, typename Columns<Config::has_runs>::Place at) {
        return pointer<const typename Element::Storage>(p.q) + at.row * p.q_row_stride +
               at.q_head * p.q_head_stride;
    }

    // Column g of a tile; a null row is a column of zeros. Of each piece a lane needs one run of
    // dims, which it loads in vectors.
    static __device__ __forceinline__ void fetch_head(const typename Element::Storage* row,
                                                      Words& words) {
        const uint32_t c = ptx::thread_index() % 4;
        for_each_piece<head_dim, KCodec::widest_key(head_dim)>([&](auto piece) {
#pragma unroll
            for (int i = 0; i < piece.dims / 8; i += 2) {
                ptx::Words2 v = {};
                if (row)
                    v = *reinterpret_cast<const ptx::Words2*>(row + piece.at + piece.dims / 4 * c +
                                                              2 * i);
                words[piece.at / 8 + i] = v.w[0];
                words[piece.at / 8 + i + 1] = v.w[1];
            }
        });
    }

    // The lane's dims in the codec's order.
    __device__ __forceinline__ void put_head(int n, float factor) {
        Words row;
#pragma unroll
        for (int i = 0; i < head_dim / 8; i++)
            row[i] = words[n][i];
        for_each_piece<head_dim, KCodec::widest_key(head_dim)>([&](auto piece) {
#pragma unroll
            for (int j = 0; j < piece.dims / 16; j++) {
                uint32_t b[2];
#pragma unroll
                for (int half = 0; half < 2; half++)
                    b[half] = pair(
                        row, piece.at / 4 + KCodec::template key_dim<piece.dims>(j, 0, 2 * half),
                        piece.at / 4 + KCodec::template key_dim<piece.dims>(j, 0, 2 * half + 1),
                        factor);
                put(n, piece.at / 16 + j, b);
            }
        });
    }

    __device__ __forceinline__ void put(int n, int product, const uint32_t (&b)[2]) {
        if constexpr (in_shared) {
            // Every warp of a kv head has the same operands: each writes those of its own turn.
            constexpr uint32_t tile_warps = Config::warps_per_tile;
            const uint32_t warp = ptx::thread_index() / warp_size;
            const uint32_t of_head =
                warp / (tile_warps * unit_heads) * tile_warps + warp % tile_warps;
            if (of_head == product % (Config::num_warps / unit_heads))
                ptx::st_shared_v2(address(n, product), {{b[0], b[1]}});
        } else {
            words[n][2 * product] = b[0], words[n][2 * product + 1] = b[1];
        }
    }

    // Values `low` and `high` of the lane's own as an operand.
    static __device__ __forceinline__ uint32_t pair(const Words& words, int low, int high,
                                                    float factor) {
        if constexpr (normalised)
            return KCodec::Mma::pack(value(words, low) * factor, value(words, high) * factor);
        else
            return bits(words, low) | bits(words, high) << 16;
    }
    static __device__ __forceinline__ uint32_t bits(const Words& words, int i) {
        return words[i / 2] >> (16 * (i % 2)) & 0xffffu;
    }
    static __device__ __forceinline__ float value(const Words& words, int i) {
        return Element::widen(static_cast<typename Element::Storage>(bits(words, i)));
    }

    // max|q| over all heads of the warp.
    __device__ __forceinline__ float largest() const {
        float most = 0.0f;
#pragma unroll
        for (int n = 0; n < n_tiles; n++) {
#pragma unroll
            for (int i = 0; i < head_dim / 4; i++)
                most = ptx::max_f32(most, abs_of(value(words[n], i)));
        }
#pragma unroll
        for (uint32_t mask = 1; mask < warp_size; mask *= 2)
            most = ptx::max_f32(most, ptx::shfl_xor(most, mask));
        return most;
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
