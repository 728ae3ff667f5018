// SPDX-License-Identifier: MIT
// The value of an E4M3 code. 7F and FF, which no encoder here writes, are NaN.
#pragma once
#include "block/types.cuh"

namespace ftj {

constexpr float e4m3_max = 448.0f;

// Of a code without a sign, and not 7F. Exponent and mantissa at their places in an fp32,
// subnormals included; 2^(127 - 7) makes up for the difference of the biases. Exact.
FTJ_DEVICE float e4m3_magnitude(uint32_t code) {
    constexpr float bias_difference = 1329227995784915872903807060280344576.0f;  // 2^120
    return ptx::mul_rn(ptx::bits_float(code << 20), bias_difference);
}

FTJ_DEVICE float e4m3_value(uint32_t code) {
    constexpr uint32_t nan_code = 0x7f, nan_bits = 0x7fffffffu;
    const uint32_t magnitude = code & 0x7fu;
    const uint32_t bits =
        magnitude == nan_code ? nan_bits : ptx::float_bits(e4m3_magnitude(magnitude));
    return ptx::bits_float(bits | (code & 0x80u) << 24);
}

// Four codes in a word: 80, a zero with a sign, becomes 00.
FTJ_DEVICE uint32_t e4m3_without_negative_zero(uint32_t codes) {
    constexpr uint32_t magnitudes = 0x7f7f7f7fu;
    return codes & (((codes & magnitudes) + magnitudes) | magnitudes);
}

}  // namespace ftj
