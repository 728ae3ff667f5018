// SPDX-License-Identifier: MIT
// The CPU target: bits, arithmetic and conversions of one thread. Included by ptx_cpu.cuh.
// Compiled without contraction; a NaN that is made here is the one the instruction makes.
#pragma once

namespace ftj {
namespace ptx {

// ---- bits --------------------------------------------------------------------------------------
FTJ_DEVICE uint32_t float_bits(float v) {
    uint32_t bits;
    __builtin_memcpy(&bits, &v, sizeof(bits));
    return bits;
}
FTJ_DEVICE float bits_float(uint32_t bits) {
    float v;
    __builtin_memcpy(&v, &bits, sizeof(v));
    return v;
}

// Byte i of the result is byte selector[4i..4i+2] of {b, a}; bit 3 repeats its sign instead.
FTJ_DEVICE uint32_t prmt(uint32_t a, uint32_t b, uint32_t selector) {
    const uint64_t bytes = static_cast<uint64_t>(b) << 32 | a;
    uint32_t result = 0;
    for (int i = 0; i < 4; i++) {
        const uint32_t select = selector >> (4 * i) & 0xfu;
        uint32_t byte = static_cast<uint32_t>(bytes >> (8 * (select & 7u))) & 0xffu;
        if (select & 8u)
            byte = byte & 0x80u ? 0xffu : 0u;
        result |= byte << (8 * i);
    }
    return result;
}

template <uint32_t selector>
FTJ_DEVICE uint32_t prmt_signs(uint32_t a, uint32_t b) {
    return prmt(a, b, selector);
}

template <uint32_t table>
FTJ_DEVICE uint32_t lop3(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t result = 0;
    for (uint32_t row = 0; row < 8; row++) {
        if (table >> row & 1u)
            result |= (row & 4u ? a : ~a) & (row & 2u ? b : ~b) & (row & 1u ? c : ~c);
    }
    return result;
}

FTJ_DEVICE void keep(uint32_t&) {}
FTJ_DEVICE void keep(uint64_t&) {}
FTJ_DEVICE uint32_t opaque(uint32_t v) { return v; }
FTJ_DEVICE uint32_t made_anew(uint32_t v) { return v; }
FTJ_DEVICE uint32_t low_twice(uint32_t v) { return (v & 0xffffu) | v << 16; }
FTJ_DEVICE uint32_t high_twice(uint32_t v) { return v >> 16 | (v & 0xffff0000u); }

// ---- arithmetic --------------------------------------------------------------------------------
FTJ_DEVICE float add_rn(float a, float b) { return a + b; }
FTJ_DEVICE float mul_rn(float a, float b) { return a * b; }
FTJ_DEVICE float div_rn(float a, float b) { return a / b; }
FTJ_DEVICE float rcp_rn(float v) { return 1.0f / v; }
// Rounded towards 0; the product is exact in double.
FTJ_DEVICE float mul_rz(float a, float b) {
    const double product = static_cast<double>(a) * b;
    const float nearest = static_cast<float>(product);
    const bool is_above = nearest < 0 ? nearest < product : nearest > product;
    return is_above ? bits_float(float_bits(nearest) - 1) : nearest;
}
// Rounded up, likewise.
FTJ_DEVICE float mul_rp(float a, float b) {
    const double product = static_cast<double>(a) * b;
    const float nearest = static_cast<float>(product);
    if (!(nearest < product))
        return nearest;
    if (nearest == 0.0f)
        return bits_float(1);
    return bits_float(nearest < 0 ? float_bits(nearest) - 1 : float_bits(nearest) + 1);
}
FTJ_DEVICE float fma_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

// A NaN loses against a number; +0 is above -0.
FTJ_DEVICE float max_f32(float a, float b) {
    if (a != a)
        return b;
    if (a == b)
        return bits_float(float_bits(a) & float_bits(b));
    return a < b ? b : a;
}
FTJ_DEVICE int32_t max_bits(int32_t most, float a, float b) {
    const auto a_bits = static_cast<int32_t>(float_bits(a)),
               b_bits = static_cast<int32_t>(float_bits(b));
    const int32_t larger = a_bits > b_bits ? a_bits : b_bits;
    return most > larger ? most : larger;
}
FTJ_DEVICE float min_f32(float a, float b) {
    if (a != a)
        return b;
    if (a == b)
        return bits_float(float_bits(a) | float_bits(b));
    return b < a ? b : a;
}

FTJ_DEVICE float abs_f32(float v) { return bits_float(float_bits(v) & 0x7fffffffu); }
FTJ_DEVICE float fma_rn_sat(float a, float b, float c) {
    return min_f32(max_f32(fma_rn(a, b, c), 0.0f), 1.0f);
}
FTJ_DEVICE float tanh_f32(float v) { return __builtin_tanhf(v); }

// ftz: a subnormal becomes a zero of its sign.
FTJ_DEVICE float flush(float v) {
    return float_bits(v) & 0x7f800000u ? v : bits_float(float_bits(v) & 0x80000000u);
}
FTJ_DEVICE float div_approx(float a, float b) { return a / b; }
FTJ_DEVICE float ex2_approx(float x) { return flush(__builtin_exp2f(flush(x))); }
FTJ_DEVICE float lg2_approx(float x) { return flush(__builtin_log2f(flush(x))); }

// ---- fp16 and bf16 -----------------------------------------------------------------------------
FTJ_DEVICE float cvt_f32_f16(uint32_t v) {
    const uint32_t sign = (v & 0x8000u) << 16;
    const uint32_t magnitude = (v & 0x7fffu) << 13;
    constexpr uint32_t rebias = 112u << 23;
    constexpr uint32_t smallest_normal = 113u << 23;
    if ((v & 0x7c00u) == 0x7c00u)
        return bits_float(sign | 0x7f800000u | magnitude);
    if (v & 0x7c00u)
        return bits_float(sign | (magnitude + rebias));
    const float subnormal = bits_float(smallest_normal + magnitude) - bits_float(smallest_normal);
    return bits_float(sign | float_bits(subnormal));
}

// Round to nearest, ties to even, past the largest finite value to infinity.
FTJ_DEVICE uint32_t cvt_rn_f16_f32(float v) {
    const uint32_t bits = float_bits(v);
    const uint32_t sign = bits >> 16 & 0x8000u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return 0x7fffu;
    if (magnitude >= 0x477ff000u)  // 65520, half way to 2^16
        return sign | 0x7c00u;
    if (magnitude >= 0x38800000u)  // 2^-14: normal
        return sign | (magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
    // Below, the codes are spaced 2^-24 apart: that is the last bit of a float in [0.5, 1).
    return sign | (float_bits(bits_float(magnitude) + 0.5f) & 0x7fffffu);
}

FTJ_DEVICE uint32_t cvt_rn_f16x2_f32(float low, float high) {
    return cvt_rn_f16_f32(low) | cvt_rn_f16_f32(high) << 16;
}

FTJ_DEVICE uint32_t cvt_rn_bf16_f32(float v) {
    const uint32_t bits = float_bits(v);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return 0x7fffu;
    return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}
FTJ_DEVICE uint32_t cvt_rn_bf16x2_f32(float low, float high) {
    return cvt_rn_bf16_f32(low) | cvt_rn_bf16_f32(high) << 16;
}

// The product of two fp16 is exact in fp32, so that this rounds once.
FTJ_DEVICE uint32_t fma_f16x2(uint32_t a, uint32_t b, uint32_t c) {
    // The product is exact in fp32, and the sum is rounded twice.
    return cvt_rn_f16x2_f32(cvt_f32_f16(a & 0xffffu) * cvt_f32_f16(b & 0xffffu) +
                                cvt_f32_f16(c & 0xffffu),
                            cvt_f32_f16(a >> 16) * cvt_f32_f16(b >> 16) + cvt_f32_f16(c >> 16));
}
FTJ_DEVICE uint32_t mul_f16x2(uint32_t a, uint32_t b) {
    return cvt_rn_f16x2_f32(cvt_f32_f16(a & 0xffffu) * cvt_f32_f16(b & 0xffffu),
                            cvt_f32_f16(a >> 16) * cvt_f32_f16(b >> 16));
}

// Likewise exact in fp32, or below its range.
FTJ_DEVICE uint32_t mul_bf16x2(uint32_t a, uint32_t b) {
    return cvt_rn_bf16x2_f32(bits_float(a << 16) * bits_float(b << 16),
                             bits_float(a & 0xffff0000u) * bits_float(b & 0xffff0000u));
}

// ---- E4M3 --------------------------------------------------------------------------------------
// Round to nearest, ties to even, past 448 to 448; a NaN is 0x7F.
FTJ_DEVICE uint32_t cvt_rn_satfinite_e4m3_f32(float v) {
    const uint32_t bits = float_bits(v);
    const uint32_t sign = bits >> 24 & 0x80u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return 0x7fu;
    if (magnitude >= 0x43e00000u)  // 448
        return sign | 0x7eu;
    if (magnitude >= 0x3c800000u)  // 2^-6: normal
        return sign | (magnitude - (120u << 23) + 0x7ffffu + (magnitude >> 20 & 1u)) >> 20;
    // Below, the codes are spaced 2^-9 apart: that is the last bit of a float in [2^14, 2^15).
    return sign | (float_bits(bits_float(magnitude) + 16384.0f) & 0x7fffffu);
}
FTJ_DEVICE uint32_t cvt_rn_satfinite_e4m3x2_f32(float low, float high) {
    return cvt_rn_satfinite_e4m3_f32(low) | cvt_rn_satfinite_e4m3_f32(high) << 8;
}

FTJ_DEVICE uint32_t cvt_rn_f16_e4m3(uint32_t code) {
    const uint32_t sign = (code & 0x80u) << 8;
    const uint32_t magnitude = code & 0x7fu;
    if (magnitude == 0x7fu)
        return 0x7fffu;
    if (magnitude >= 8u)
        return sign | ((magnitude << 7) + (8u << 10));
    return sign | cvt_rn_f16_f32(static_cast<float>(magnitude) * 0x1p-9f);
}
FTJ_DEVICE uint32_t cvt_rn_f16x2_e4m3x2(uint32_t codes) {
    return cvt_rn_f16_e4m3(codes & 0xffu) | cvt_rn_f16_e4m3(codes >> 8 & 0xffu) << 16;
}
FTJ_DEVICE uint32_t cvt_rn_f16x2_e4m3x2_high(uint32_t codes) {
    return cvt_rn_f16x2_e4m3x2(codes >> 16);
}

}  // namespace ptx
}  // namespace ftj
