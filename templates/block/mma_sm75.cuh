// SPDX-License-Identifier: MIT
// The products of mma_sm80.cuh on sm_75: fp16 as two of depth 8; bf16, which its tensor cores do
// not have, in fp32 on the ordinary cores, with the operands fetched from their lanes. Only a
// 16-bit bf16 cache pays for that: quantised caches are fp16 operands everywhere.
#pragma once
#include "block/types.cuh"

namespace ftj {

struct MmaF16 {
    static __device__ __forceinline__ void product(float* c, uint32_t a0, uint32_t a1, uint32_t a2,
                                                   uint32_t a3, uint32_t b0, uint32_t b1) {
        ptx::mma_m16n8k8_f16(c, a0, a1, b0);
        ptx::mma_m16n8k8_f16(c, a2, a3, b1);
    }
    static __device__ __forceinline__ uint32_t pack(float low, float high) {
        return ptx::cvt_rn_f16_f32(low) | ptx::cvt_rn_f16_f32(high) << 16;
    }
};

struct MmaBf16 {
    static __device__ __forceinline__ float dot(uint32_t a, uint32_t b, float sum) {
        sum = ptx::fma_rn(ptx::bits_float(a << 16), ptx::bits_float(b << 16), sum);
        return ptx::fma_rn(ptx::bits_float(a & 0xffff0000u), ptx::bits_float(b & 0xffff0000u), sum);
    }

    struct Sum {
        float v[4];
    };

    static __device__ __forceinline__ void product(float* c, uint32_t a0, uint32_t a1, uint32_t a2,
                                                   uint32_t a3, uint32_t b0, uint32_t b1) {
        const Sum sum = add_product({{c[0], c[1], c[2], c[3]}}, a0, a1, a2, a3, b0, b1);
        c[0] = sum.v[0], c[1] = sum.v[1], c[2] = sum.v[2], c[3] = sum.v[3];
    }

    // Not inlined: a wide head has a hundred of them, and ptxas half a minute of work.
    static __device__ __noinline__ Sum add_product(Sum c, uint32_t a0, uint32_t a1, uint32_t a2,
                                                   uint32_t a3, uint32_t b0, uint32_t b1) {
        const uint32_t lane = ptx::thread_index() % warp_size;
        const uint32_t row = lane / 4 * 4;     // first lane of row g in A
        const uint32_t column = lane % 4 * 8;  // first lane of column 2c in B
#pragma unroll
        for (uint32_t k = 0; k < 4; k++) {
            const uint32_t upper_low_k = ptx::shfl(a0, row + k);
            const uint32_t lower_low_k = ptx::shfl(a1, row + k);
            const uint32_t upper_high_k = ptx::shfl(a2, row + k);
            const uint32_t lower_high_k = ptx::shfl(a3, row + k);
#pragma unroll
            for (uint32_t n = 0; n < 2; n++) {
                const uint32_t low_k = ptx::shfl(b0, column + 4 * n + k);
                const uint32_t high_k = ptx::shfl(b1, column + 4 * n + k);
                c.v[n] = dot(upper_high_k, high_k, dot(upper_low_k, low_k, c.v[n]));
                c.v[2 + n] = dot(lower_high_k, high_k, dot(lower_low_k, low_k, c.v[2 + n]));
            }
        }
        return c;
    }

    static __device__ __forceinline__ uint32_t pack(float low, float high) {
        return static_cast<uint32_t>(Bf16::narrow(low)) | static_cast<uint32_t>(Bf16::narrow(high))
                                                              << 16;
    }
};

}  // namespace ftj
