// SPDX-License-Identifier: MIT
// E2M1: sign, two exponent bits, one mantissa bit; magnitudes 0, .5, 1, 1.5, 2, 3, 4, 6.
#pragma once
#include "block/types.cuh"

namespace ftj {

// The value of a code; 8 is -0. Exponent and mantissa at their places in an fp32, subnormals
// included; 2^(127 - 1) makes up for the difference of the biases. Exact.
FTJ_DEVICE float e2m1_value(uint32_t code) {
    constexpr float bias_difference = 85070591730234615865843651857942052864.0f;  // 2^126
    const float magnitude = ptx::mul_rn(ptx::bits_float((code & 7u) << 22), bias_difference);
    return ptx::bits_float(ptx::float_bits(magnitude) | (code & 8u) << 28);
}

// What e2m1_count() returns beside the code: the bits of its three constants.
constexpr uint32_t e2m1_bias = 0x4a000000u + 0x4a800000u + 0x4b000000u;

// e2m1_bias + the code of |n|: nearest, ties to even, 7 past 6, 0 for a NaN; 8 more if is_negative.
//
// The grid has steps of .5 up to 2, of 1 up to 4, of 2 up to 6. Each stretch, as a number from 0 to
// 1, is rounded by an addition to a power of two whose last place is the stretch's step; the
// saturation is exact within its stretch, and what the additions count up is the code.
FTJ_DEVICE uint32_t e2m1_count(float n, bool is_negative) {
    constexpr float quarters = 2097152.0f;
    constexpr float halves = 4194304.0f;
    constexpr float ones = 8388608.0f;
    const float a = ptx::abs_f32(n);
    const float to_2 = ptx::fma_rn_sat(a, 0.5f, 0.0f);
    const float to_4 = ptx::fma_rn_sat(a, 0.5f, -1.0f);
    const float to_6 = ptx::fma_rn_sat(a, 0.5f, -2.0f);
    return ptx::float_bits(ptx::add_rn(to_2, is_negative ? quarters + 8 * 0.25f : quarters)) +
           ptx::float_bits(ptx::add_rn(to_4, halves)) + ptx::float_bits(ptx::add_rn(to_6, ones));
}

// Eight codes, the first in the lowest nibble: the magnitude of n, and a sign iff x < limit.
FTJ_DEVICE uint32_t e2m1_pack8(const float* n, const float* x, float limit) {
    constexpr int bits = 4;
    constexpr uint32_t nibbles = 0x11111111u;  // the sum of 16^i
    uint32_t word = 0;
#pragma unroll
    for (int i = 7; i >= 0; i--)
        word = (word << bits) + e2m1_count(n[i], x[i] < limit);
    return word - e2m1_bias * nibbles;
}

}  // namespace ftj
