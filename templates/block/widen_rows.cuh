// SPDX-License-Identifier: MIT
// Codes to bf16, eight neighbours at a time and in their order. Without their row scale, exactly:
// an E4M3 has four significant bits, an E2M1 times a block scale six. With it, rounded once.
//
// Every one offers
//   is_coded                  false: rows are 16-bit values already, and there is nothing else
//   code_bytes(dims)          bytes of that many dims
//   block_bytes(dims)         bytes of their block scales, 0 without
//   chunk_codes               codes in the 16 bytes that a lane widens at a time
//   widen(codes, scales, i)   chunk i of 8 values of these; scales: two block scales, E4M3
//   widen(codes, scales, row_scale, i)    the same times a row scale
#pragma once
#include "block/types.cuh"

namespace ftj {

// An fp32 scale as a bf16 and what that leaves, a bf16 as well: in both halves of a word each.
struct SplitScale {
    uint32_t high;
    uint32_t low;

    static __device__ __forceinline__ SplitScale of(float scale) {
        const uint32_t high = ptx::cvt_rn_bf16x2_f32(scale, scale);
        const float left = scale - ptx::bits_float(high & 0xffff0000u);
        return {high, ptx::cvt_rn_bf16x2_f32(left, left)};
    }
    __device__ __forceinline__ uint32_t times(uint32_t two) const {
        return ptx::fma_bf16x2(two, high, ptx::mul_bf16x2(two, low));
    }
};

struct Rows16Bit {
    static constexpr bool is_coded = false;
    static constexpr int code_bytes(int dims) { return 2 * dims; }
    static constexpr int block_bytes(int) { return 0; }
};

struct WidenFp8 {
    static constexpr bool is_coded = true;
    static constexpr int chunk_codes = 16;
    static constexpr int code_bytes(int dims) { return dims; }
    static constexpr int block_bytes(int) { return 0; }

    static __device__ __forceinline__ ptx::Words4 widen(const ptx::Words4& codes, uint32_t, int i) {
        const uint32_t low = codes.w[2 * i], high = codes.w[2 * i + 1];
        return {{widen2(ptx::prmt_signs<0x9180>(low, low)),
                 widen2(ptx::prmt_signs<0xb3a2>(low, low)),
                 widen2(ptx::prmt_signs<0x9180>(high, high)),
                 widen2(ptx::prmt_signs<0xb3a2>(high, high))}};
    }
    static __device__ __forceinline__ ptx::Words4 widen(const ptx::Words4& codes, uint32_t scales,
                                                        float row_scale, int i) {
        const SplitScale scale = SplitScale::of(row_scale);
        ptx::Words4 values = widen(codes, scales, i);
#pragma unroll
        for (int j = 0; j < 4; j++)
            values.w[j] = scale.times(values.w[j]);
        return values;
    }

private:
    // A code at the bottom of each half, and above it eight times its sign. Four places up, sign,
    // exponent and mantissa are where bf16 has them; 2^(127 - 7) makes up for the difference of the
    // biases.
    static __device__ __forceinline__ uint32_t widen2(uint32_t codes) {
        constexpr uint32_t fields = 0x87f087f0u, bias_difference = 0x7b807b80u;
        return ptx::mul_bf16x2(codes << 4 & fields, bias_difference);
    }
};

struct WidenNvfp4 {
    static constexpr bool is_coded = true;
    static constexpr int chunk_codes = 32;
    static constexpr int code_bytes(int dims) { return dims / 2; }
    static constexpr int block_bytes(int dims) { return dims / 16; }

    static __device__ __forceinline__ ptx::Words4 widen(const ptx::Words4& codes, uint32_t scales,
                                                        int i) {
        return widen(codes, scales, 1.0f, i);
    }
    static __device__ __forceinline__ ptx::Words4 widen(const ptx::Words4& codes, uint32_t scales,
                                                        float row_scale, int i) {
        const Magnitudes table =
            Magnitudes::times(block_scale(i < 2 ? scales : scales >> 8) * row_scale);
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
    // 0, .5, 1, 1.5, 2, 3, 4 and 6 times a scale, rounded to bf16: the upper and the lower bytes of
    // the first four and of the others. Two of them are rounded, the rest are those with another
    // exponent. An infinite scale makes 0 a NaN.
    struct Magnitudes {
        uint32_t upper[2];
        uint32_t lower[2];

        static __device__ __forceinline__ Magnitudes times(float scale) {
            constexpr uint32_t twice = 0x00800080u, lower_bytes = 0x6420, upper_bytes = 0x7531;
            const uint32_t below_1 = ptx::cvt_rn_bf16x2_f32(0.0f * scale, 0.5f * scale);
            const uint32_t from_1 = ptx::cvt_rn_bf16x2_f32(scale, 1.5f * scale);
            const uint32_t from_2 = from_1 + twice, from_4 = from_2 + twice;
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
    // In the low byte.
    static __device__ __forceinline__ float block_scale(uint32_t scale) {
        return ptx::cvt_f32_f16(ptx::cvt_rn_f16x2_e4m3x2(scale & 0xffu) & 0xffffu);
    }
};

}  // namespace ftj
