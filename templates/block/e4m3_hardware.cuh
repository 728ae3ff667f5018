// SPDX-License-Identifier: MIT
// E4M3 by the conversion instructions (sm_89 and up): the same bytes as e4m3_software.cuh.
//
// The instruction saturates and rounds as wanted; what is left to do is to send a NaN to +448, and
// to take the sign off a zero.
#pragma once
#include "block/e4m3_value.cuh"

namespace ftj {

struct E4m3Hardware {
    static constexpr float widen_fold = 1.0f;

    // The two codes in the low half, or the high one, as fp16 values / widen_fold.
    static __device__ __forceinline__ uint32_t widen2(uint32_t codes) {
        return ptx::cvt_rn_f16x2_e4m3x2(codes);
    }
    static __device__ __forceinline__ uint32_t widen2_high(uint32_t codes) {
        return ptx::cvt_rn_f16x2_e4m3x2_high(codes);
    }

    static __device__ __forceinline__ uint32_t encode(float v) {
        return e4m3_without_negative_zero(ptx::cvt_rn_satfinite_e4m3x2_f32(number(v), 0.0f));
    }

    // The first value in the low byte.
    static __device__ __forceinline__ uint32_t encode4(float a, float b, float c, float d) {
        const uint32_t low = ptx::cvt_rn_satfinite_e4m3x2_f32(number(a), number(b));
        const uint32_t high = ptx::cvt_rn_satfinite_e4m3x2_f32(number(c), number(d));
        return e4m3_without_negative_zero(low | high << 16);
    }

private:
    static __device__ __forceinline__ float number(float v) { return ptx::min_f32(v, e4m3_max); }
};

}  // namespace ftj
