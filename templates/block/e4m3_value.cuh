// SPDX-License-Identifier: MIT
// The value of an E4M3 code. The NaN patterns 7F and FF, which no encoder here writes, read as the
// ordinary numbers their fields spell: +-480.
#pragma once
#include "block/types.cuh"

namespace ftj {

constexpr float e4m3_max = 448.0f;

// Of a code without a sign. Exponent and mantissa at their places in an fp32, subnormals included;
// 2^(127 - 7) makes up for the difference of the biases. Exact.
FTJ_DEVICE float e4m3_magnitude(uint32_t code) {
    constexpr float bias_difference = 1329227995784915872903807060280344576.0f;  // 2^120
    return ptx::mul_rn(ptx::bits_float(code << 20), bias_difference);
}

FTJ_DEVICE float e4m3_value(uint32_t code) {
    const float magnitude = e4m3_magnitude(code & 0x7fu);
    return ptx::bits_float(ptx::float_bits(magnitude) | (code & 0x80u) << 24);
}

// Four codes in a word: 80, a zero with a sign, becomes 00.
FTJ_DEVICE uint32_t e4m3_without_negative_zero(uint32_t codes) {
    constexpr uint32_t magnitudes = 0x7f7f7f7fu;
    return codes & (((codes & magnitudes) + magnitudes) | magnitudes);
}

}  // namespace ftj
