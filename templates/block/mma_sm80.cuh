// SPDX-License-Identifier: MIT
// Matrix products of depth 16 on sm_80: c[16 x 8] += a[16 x 16] * b[16 x 8], fp32 accumulated.
//
// Fragments of lane (g, c) = (lane / 4, lane % 4), two 16-bit values to a word:
//   a0 (row g, k 2c..)   a1 (row g + 8, k 2c..)   a2 (row g, k 2c + 8..)   a3 (row g + 8, k 2c
//   + 8..) b0 (k 2c.., column g)   b1 (k 2c + 8.., column g) c0 c1 (row g, columns 2c, 2c + 1)   c2
//   c3 (row g + 8, the same columns)
#pragma once

namespace ftj {

struct MmaF16 {
    static __device__ __forceinline__ void product(float* c, uint32_t a0, uint32_t a1, uint32_t a2,
                                                   uint32_t a3, uint32_t b0, uint32_t b1) {
        ptx::mma_m16n8k16_f16(c, a0, a1, a2, a3, b0, b1);
    }
    static __device__ __forceinline__ uint32_t pack(float low, float high) {
        return ptx::cvt_rn_f16x2_f32(low, high);
    }
};

struct MmaBf16 {
    static __device__ __forceinline__ void product(float* c, uint32_t a0, uint32_t a1, uint32_t a2,
                                                   uint32_t a3, uint32_t b0, uint32_t b1) {
        ptx::mma_m16n8k16_bf16(c, a0, a1, a2, a3, b0, b1);
    }
    static __device__ __forceinline__ uint32_t pack(float low, float high) {
        return ptx::cvt_rn_bf16x2_f32(low, high);
    }
};

}  // namespace ftj
