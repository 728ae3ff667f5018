// SPDX-License-Identifier: MIT
// A consumer's 64 query rows in shared memory, as the product with a tile of keys takes them. Rows
// come as bf16, which keys of 16 bits want too. Keys that were codes are fp16 (widen_rows.cuh), and
// so their queries must be: times 2^6, in the order of the keys' dims. Where a row's largest lies
// between 2^-8 and 2^9, that rounds none by more than 2^-23 of it; other rows get a power of two of
// their own, which their scores are multiplied by in the slow way (GroupRows::look_at).
#pragma once
#include "block/tile_feed.cuh"

namespace ftj {

template <class Config>
struct GroupQueries {
    using Tile = SwizzledTile<64, Config::head_dim>;
    using Widen = typename Config::KWiden;
    static constexpr float unit = 0.015625f;  // 2^-6: what a query is, of what it is narrowed to
    static constexpr int bytes = 64 * 4;      // of factors, a consumer's
    static constexpr uint32_t dims = 32;      // a lane's
    static constexpr uint32_t lanes = Config::head_dim / dims;  // that share a row
    static constexpr uint32_t bias = 127;

    // bf16 to fp16, by the warp whose rows they are; `factors`: shared address of one per row of
    // the consumer. Whether some have other factors than 1.
    static __device__ __forceinline__ bool narrow(uint32_t tile, uint32_t factors) {
        const uint32_t lane = ptx::thread_index() % warp_size;
        const uint32_t first = ptx::thread_index() / warp_size % 4 * 16 + lane / lanes;
        bool is_odd = false;
#pragma unroll 1
        for (uint32_t pass = 0; pass < 16; pass += warp_size / lanes) {
            const uint32_t row = first + pass;
            ptx::Words4 chunks[dims / 8];
            float most = 0;
#pragma unroll
            for (uint32_t j = 0; j < dims / 8; j++) {
                chunks[j] = ptx::ld_shared_v4(at(tile, row, lane, j));
#pragma unroll
                for (uint32_t word : chunks[j].w)
                    most = ptx::max_f32(
                        most, ptx::max_f32(ptx::abs_f32(low(word)), ptx::abs_f32(high(word))));
            }
#pragma unroll
            for (uint32_t s = 1; s < lanes; s *= 2)
                most = ptx::max_f32(most, ptx::shfl_xor(most, s));
            const uint32_t power = power_for(most);
            const float factor = ptx::bits_float((bias + 6 + bias - power) << 23);
            is_odd = is_odd || factor != 1.0f;
            if (lane % lanes == 0)
                ptx::st_shared_u32(factors + 4 * row, ptx::float_bits(factor));
#pragma unroll
            for (uint32_t j = 0; j < dims / 8; j++)
                ptx::st_shared_v4(at(tile, row, lane, j),
                                  narrowed(chunks[j], ptx::bits_float(power << 23)));
        }
        return ptx::any(is_odd);
    }

    // The queries as they came, once more: from memory, as small ones may have lost digits.
    static __device__ __forceinline__ void restore(const ftj_extend_params& p,
                                                   const QueryTile<Config>& queries, uint32_t group,
                                                   uint32_t shared) {
        feed_queries(p, queries, shared, 64 * group, 64 * group + 64);
        ptx::cp_async_commit();
        ptx::cp_async_wait<0>();
    }

private:
    static __device__ __forceinline__ uint32_t at(uint32_t tile, uint32_t row, uint32_t lane,
                                                  uint32_t j) {
        return tile + Tile::at(row, lane % lanes * (dims / 8) + j);
    }
    static __device__ __forceinline__ float low(uint32_t word) {
        return ptx::bits_float(word << 16);
    }
    static __device__ __forceinline__ float high(uint32_t word) {
        return ptx::bits_float(word & 0xffff0000u);
    }

    // Biased exponent of what a row is multiplied by: 2^6, or what takes its largest to 2^14. No
    // less than 2^-113 nor more than 2^120, so that the inverse is a number. Rows that are not
    // finite stay so.
    static __device__ __forceinline__ uint32_t power_for(float most) {
        const uint32_t exponent = ptx::float_bits(most) >> 23;
        const bool is_plain = most == 0.0f || exponent == 255;
        if (is_plain || (exponent >= bias - 8 && exponent <= bias + 8))
            return bias + 6;
        return bias + 14 + bias - max_of(exponent, bias + 14 - 120u);
    }

    // Eight bf16 in the order of their dims to fp16 in the order of the keys'.
    static __device__ __forceinline__ ptx::Words4 narrowed(const ptx::Words4& chunk, float power) {
        ptx::Words4 to;
#pragma unroll
        for (int i = 0; i < 4; i++)
            to.w[i] =
                ptx::cvt_rn_f16x2_f32(value(chunk, 2 * i) * power, value(chunk, 2 * i + 1) * power);
        return to;
    }
    static __device__ __forceinline__ float value(const ptx::Words4& chunk, int place) {
        const uint32_t dim = Widen::key_order >> 4 * place & 7;
        return dim % 2 ? high(chunk.w[dim / 2]) : low(chunk.w[dim / 2]);
    }
};

}  // namespace ftj
