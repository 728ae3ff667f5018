// SPDX-License-Identifier: MIT
// E4M3 without conversion instructions: the same bytes as e4m3_hardware.cuh.
//
// Nearest, ties to even, in one rounding; past +-448 the nearest end; NaN gives +448 (7E); a zero
// result is 00, whatever its sign.
#pragma once
#include "block/e4m3_value.cuh"

namespace ftj {

struct E4m3Software {
    static constexpr float widen_fold = 256.0f;  // 2^(15 - 7), the difference of the biases

    // The two codes in the low half, or the high one, as fp16 values / widen_fold.
    static __device__ __forceinline__ uint32_t widen2(uint32_t codes) {
        return widen_tops(ptx::prmt(codes, 0, 0x1404));
    }
    static __device__ __forceinline__ uint32_t widen2_high(uint32_t codes) {
        return widen_tops(ptx::prmt(codes, 0, 0x3424));
    }

    static __device__ __forceinline__ uint32_t encode(float v) {
        // min first: a NaN leaves it as +448.
        const float clamped = ptx::max_f32(ptx::min_f32(v, e4m3_max), -e4m3_max);
        const uint32_t bits = ptx::float_bits(clamped);
        const uint32_t magnitude = bits & 0x7fffffffu;
        const uint32_t code =
            magnitude < smallest_normal ? encode_subnormal(magnitude) : encode_normal(magnitude);
        return code == 0 ? 0 : code | (bits >> 24 & 0x80u);
    }

    // The first value in the low byte.
    static __device__ __forceinline__ uint32_t encode4(float a, float b, float c, float d) {
        return encode(a) | encode(b) << 8 | encode(c) << 16 | encode(d) << 24;
    }

private:
    // Of codes at the top of each half: the fields at fp16's places. One more in the last place of
    // 7F, and of no other code, carries into the top exponent bit, which is all that it lacks to be
    // fp16's NaN.
    static __device__ __forceinline__ uint32_t widen_tops(uint32_t tops) {
        constexpr uint32_t signs = 0x80008000u, magnitude_bits = 0x3f803f80u;
        constexpr uint32_t last_places = 0x00800080u, top_exponents = 0x40004000u;
        const uint32_t magnitudes = tops >> 1 & magnitude_bits;
        return (tops & signs) | magnitudes | ((magnitudes + last_places) & top_exponents);
    }

    static constexpr uint32_t smallest_normal = 0x3c800000u;  // 2^-6

    // Keep 3 of 23 mantissa bits; a carry into the exponent is the right result.
    static __device__ __forceinline__ uint32_t encode_normal(uint32_t magnitude) {
        constexpr uint32_t dropped = 23 - 3;
        constexpr uint32_t bias_difference = (127 - 7) << 3;
        const uint32_t half = (1u << (dropped - 1)) - 1 + (magnitude >> dropped & 1u);
        return ((magnitude + half) >> dropped) - bias_difference;
    }

    // Beside 2^14 an fp32 counts in steps of 2^-9, which are the codes.
    static __device__ __forceinline__ uint32_t encode_subnormal(uint32_t magnitude) {
        constexpr float steps = 16384.0f;
        return ptx::float_bits(ptx::add_rn(ptx::bits_float(magnitude), steps)) -
               ptx::float_bits(steps);
    }
};

}  // namespace ftj
