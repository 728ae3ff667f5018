// SPDX-License-Identifier: MIT
// Codes to 16-bit values, eight neighbours at a time.
//
// Keys become fp16, without their row scale, exactly: an E4M3 has four significant bits, an E2M1
// times a block scale six. Values become bf16, times their row scale, rounded once. Or either
// becomes fp16, times a row scale that is fp16 itself (half_rows.cuh).
//
// Every one offers
//   is_coded                  false: rows are 16-bit values already, and there is nothing else
//   code_bytes(dims)          bytes of that many dims
//   block_bytes(dims)         bytes of their block scales, 0 without
//   chunk_codes               codes in the 16 bytes that a lane widens at a time
//   key_unit                  what a key is, of what it is widened to without its row scale
//   key_order                 the eight dims of a chunk of keys, four bits each, first one lowest
//   half_exponent             log2 of what a value is, of what widen_half() makes it with a row
//                             scale that was multiplied by half_fold
//   half_fold                 that factor
//   nothing_scale             bits of the row scale of zeros, which is the least
//   keys_take_rest            of the row scale of keys, the high half is what the low one lacks
//   widen(codes, scales, i)                   chunk i of 8 keys; scales: two block scales, E4M3
//   widen(codes, scales, row_scale, i)        of 8 values, in their order, to bf16
//   widen_half(codes, scales, row_scale, i)   of 8 values, to fp16; the scale in both halves
//   swaps_values              those come with 1 and 4, and 3 and 6, in each other's places
//   swapped(values)           8 values with those so, where it does
//   widen_keys(codes, scales, row_scale, i)   of 8 keys, to fp16, in their order
#pragma once
#include "block/types.cuh"

namespace ftj {

struct Rows16Bit {
    static constexpr bool is_coded = false;
    static constexpr int code_bytes(int dims) { return 2 * dims; }
    static constexpr int block_bytes(int) { return 0; }
    static constexpr float key_unit = 1.0f;
    static constexpr uint32_t key_order = 0x76543210u;
};

template <class E4m3>
struct WidenFp8 {
    static constexpr bool is_coded = true;
    static constexpr int chunk_codes = 16;
    static constexpr int code_bytes(int dims) { return dims; }
    static constexpr int block_bytes(int) { return 0; }

    static constexpr float key_unit = E4m3::widen_fold;
    static constexpr uint32_t key_order = 0x76543210u;
    static constexpr float half_fold = E4m3::widen_fold;
    static constexpr uint32_t half_exponent = 0;
    static constexpr bool keys_take_rest = false;
    static constexpr bool swaps_values = false;
    static constexpr uint32_t nothing_scale = 0x2a7b5124u;

    static __device__ __forceinline__ ptx::Words4 widen(const ptx::Words4& codes, uint32_t, int i) {
        const uint32_t low = codes.w[2 * i], high = codes.w[2 * i + 1];
        return {{E4m3::widen2(low), E4m3::widen2_high(low), E4m3::widen2(high),
                 E4m3::widen2_high(high)}};
    }
    static __device__ __forceinline__ ptx::Words4 widen(const ptx::Words4& codes, uint32_t scales,
                                                        float row_scale, int i) {
        ptx::Words4 values = widen(codes, scales, i);
#pragma unroll
        for (int j = 0; j < 4; j++)
            values.w[j] = ptx::cvt_rn_bf16x2_f32(number(values.w[j] & 0xffffu) * row_scale,
                                                 number(values.w[j] >> 16) * row_scale);
        return values;
    }
    static __device__ __forceinline__ ptx::Words4 widen_half(const ptx::Words4& codes,
                                                             uint32_t scales, uint32_t row_scale,
                                                             int i) {
        ptx::Words4 values = widen(codes, scales, i);
#pragma unroll
        for (uint32_t& two : values.w)
            two = ptx::mul_f16x2(two, row_scale);
        return values;
    }
    static __device__ __forceinline__ ptx::Words4 widen_keys(const ptx::Words4& codes,
                                                             uint32_t scales, uint32_t row_scale,
                                                             int i) {
        return widen_half(codes, scales, row_scale, i);
    }

private:
    static __device__ __forceinline__ float number(uint32_t half) {
        return ptx::cvt_f32_f16(half) * key_unit;
    }
};

template <class E4m3>
struct WidenNvfp4 {
    static constexpr bool is_coded = true;
    static constexpr int chunk_codes = 32;
    static constexpr int code_bytes(int dims) { return dims / 2; }
    static constexpr int block_bytes(int dims) { return dims / 16; }

    // A code's bits, moved to where fp16 has them, are 2^-14 of its value, and are given a factor
    // of 2^7 so that their products with block scales are no subnormals.
    static constexpr float key_unit = 128.0f * E4m3::widen_fold;
    static constexpr uint32_t key_order = 0x73516240u;
    static constexpr float half_fold = E4m3::widen_fold;
    static constexpr uint32_t half_exponent = 14;
    static constexpr bool keys_take_rest = true;
    static constexpr bool swaps_values = true;
    static constexpr uint32_t nothing_scale = 0x29278b6du;

    static __device__ __forceinline__ ptx::Words4 widen(const ptx::Words4& codes, uint32_t scales,
                                                        int i) {
        constexpr uint32_t raised = 0x58005800u;
        return in_key_order(codes, scale_of(ptx::mul_f16x2(E4m3::widen2(scales), raised), i), i);
    }
    static __device__ __forceinline__ ptx::Words4 widen_keys(const ptx::Words4& codes,
                                                             uint32_t scales, uint32_t row_scale,
                                                             int i) {
        const uint32_t two = E4m3::widen2(scales);
        const uint32_t rest = ptx::mul_f16x2(two, ptx::high_twice(row_scale));
        const uint32_t scaled = ptx::fma_f16x2(two, ptx::low_twice(row_scale), rest);
        return in_key_order(codes, scale_of(scaled, i), i);
    }
    static __device__ __forceinline__ ptx::Words4 widen_half(const ptx::Words4& codes,
                                                             uint32_t scales, uint32_t row_scale,
                                                             int i) {
        const uint32_t scaled = ptx::mul_f16x2(E4m3::widen2(scales), row_scale);
        return in_key_order(codes, scale_of(scaled, i), i);
    }
    static __device__ __forceinline__ ptx::Words4 swapped(const ptx::Words4& values) {
        constexpr uint32_t low = 0x5410, high = 0x7632;
        const uint32_t* w = values.w;
        return {{ptx::prmt(w[0], w[2], low), ptx::prmt(w[1], w[3], low),
                 ptx::prmt(w[0], w[2], high), ptx::prmt(w[1], w[3], high)}};
    }
    static __device__ __forceinline__ ptx::Words4 widen(const ptx::Words4& codes, uint32_t scales,
                                                        float row_scale, int i) {
        const uint32_t two = E4m3::widen2(scales);
        const float block_scale =
            ptx::cvt_f32_f16(i < 2 ? two & 0xffffu : two >> 16) * E4m3::widen_fold;
        const Magnitudes table = Magnitudes::times(block_scale * row_scale);
        const uint32_t word = codes.w[i];
        const uint32_t raised = word << 4, names = word & 0x77777777u;
        const uint32_t low_signs = ptx::prmt_signs<0xd9c8>(raised, word);
        const uint32_t high_signs = ptx::prmt_signs<0xfbea>(raised, word);
        ptx::Words4 values;
        widen4(table, names, low_signs, values.w);
        widen4(table, names >> 16, high_signs, values.w + 2);
        return values;
    }

private:
    static constexpr uint32_t both = 0x8e008e00u;  // where fp16 has a sign and a code's magnitude

    // A word's codes in the bytes of two, sign and magnitude so; other bits are anything.
    struct Nibbles {
        uint32_t even;
        uint32_t odd;

        __device__ __forceinline__ explicit Nibbles(uint32_t word) {
            constexpr uint32_t magnitudes = 0x0e0e0e0eu, b_where_c_else_a = 0xd8;
            even = ptx::lop3<b_where_c_else_a>(word << 4, word << 1, magnitudes);
            odd = ptx::lop3<b_where_c_else_a>(word, word >> 3, magnitudes);
        }
    };

    // Of two, the scale of the block that chunk i is in, in both halves.
    static __device__ __forceinline__ uint32_t scale_of(uint32_t two, int i) {
        return ptx::prmt(two, two, i < 2 ? 0x1010 : 0x3232);
    }
    static __device__ __forceinline__ ptx::Words4 in_key_order(const ptx::Words4& codes,
                                                               uint32_t scale, int i) {
        const Nibbles of(codes.w[i]);
        return {{ptx::mul_f16x2(of.even << 8 & both, scale), ptx::mul_f16x2(of.even & both, scale),
                 ptx::mul_f16x2(of.odd << 8 & both, scale), ptx::mul_f16x2(of.odd & both, scale)}};
    }

    // 0, .5, 1, 1.5, 2, 3, 4 and 6 times a scale, rounded to bf16: the upper and the lower bytes of
    // the first four and of the others. Two of them are rounded, the rest are those with another
    // exponent. An infinite scale makes 0 a NaN.
    struct Magnitudes {
        uint32_t upper[2];
        uint32_t lower[2];

        static __device__ __forceinline__ Magnitudes times(float scale) {
            constexpr uint32_t lower_bytes = 0x6420, upper_bytes = 0x7531;
            constexpr uint32_t nothing_and_half = 0x3f000000u, twice = 0x40004000u;
            constexpr uint32_t four_times = 0x40804080u;
            const uint32_t from_1 = ptx::cvt_rn_bf16x2_f32(scale, 1.5f * scale);
            const uint32_t below_1 =
                ptx::mul_bf16x2(ptx::prmt(from_1, from_1, 0x1010), nothing_and_half);
            const uint32_t from_2 = ptx::mul_bf16x2(from_1, twice);
            const uint32_t from_4 = ptx::mul_bf16x2(from_1, four_times);
            return {
                {ptx::prmt(below_1, from_1, upper_bytes), ptx::prmt(from_2, from_4, upper_bytes)},
                {ptx::prmt(below_1, from_1, lower_bytes), ptx::prmt(from_2, from_4, lower_bytes)}};
        }
    };

    // Four names of magnitudes, three bits in each nibble of the lower half.
    static __device__ __forceinline__ void widen4(const Magnitudes& table, uint32_t names,
                                                  uint32_t signs, uint32_t* values) {
        constexpr uint32_t sign_bits = 0x80808080u, a_or_b_and_c = 0xf8;
        const uint32_t upper = ptx::lop3<a_or_b_and_c>(
            ptx::prmt(table.upper[0], table.upper[1], names), signs, sign_bits);
        const uint32_t lower = ptx::prmt(table.lower[0], table.lower[1], names);
        values[0] = ptx::prmt(lower, upper, 0x5140);
        values[1] = ptx::prmt(lower, upper, 0x7362);
    }
};

}  // namespace ftj
