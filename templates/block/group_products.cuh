// SPDX-License-Identifier: MIT
// The two products of a warpgroup's 64 query rows with a tile of keys, by wgmma. Both are started
// here and waited for by the caller. Operands are of the model's 16-bit type, but for keys that
// were codes, and their queries.
#pragma once
#include "block/swizzled.cuh"

namespace ftj {

template <class Element>
struct GroupMma;
template <>
struct GroupMma<Bf16> {
    template <int n>
    static __device__ __forceinline__ void shared(float (&d)[n / 2], uint32_t a, uint32_t b,
                                                  bool accumulate) {
        ptx::wgmma_ss_k64_bf16<n>(d, a, b, accumulate);
    }
    template <int n>
    static __device__ __forceinline__ void registers(float (&d)[n / 2], const uint32_t* a,
                                                     uint32_t b) {
        ptx::wgmma_rs_k64_bf16<n>(d, a, b);
    }
    static __device__ __forceinline__ uint32_t pack(float low, float high) {
        return ptx::cvt_rn_bf16x2_f32(low, high);
    }
};
template <>
struct GroupMma<Fp16> {
    template <int n>
    static __device__ __forceinline__ void shared(float (&d)[n / 2], uint32_t a, uint32_t b,
                                                  bool accumulate) {
        ptx::wgmma_ss_k64_f16<n>(d, a, b, accumulate);
    }
    template <int n>
    static __device__ __forceinline__ void registers(float (&d)[n / 2], const uint32_t* a,
                                                     uint32_t b) {
        ptx::wgmma_rs_k64_f16<n>(d, a, b);
    }
    static __device__ __forceinline__ uint32_t pack(float low, float high) {
        return ptx::cvt_rn_f16x2_f32(low, high);
    }
};

template <class Config>
struct GroupProducts {
    static constexpr int head_dim = Config::head_dim;
    static constexpr int tokens = Config::tile_tokens;
    using Query = SwizzledTile<64, head_dim>;
    using Keys = SwizzledTile<tokens, head_dim>;

    // Operands in shared memory are given by their descriptors (swizzled.cuh).
    // scores = Q K^T: [64 rows][tokens]
    template <class Element>
    static __device__ __forceinline__ void start_scores(uint32_t query, uint32_t keys,
                                                        float (&scores)[tokens / 2]) {
        ptx::wgmma_fence();
#pragma unroll
        for (int step = 0; step < head_dim / 64; step++)
            GroupMma<Element>::template shared<tokens>(scores, query + Query::step_over_dims(step),
                                                       keys + Keys::step_over_dims(step), step > 0);
        ptx::wgmma_commit();
    }

    // out += P V: [64 rows][head_dim]
    template <class Element>
    static __device__ __forceinline__ void start_outputs(const uint32_t (&weights)[tokens / 4],
                                                         uint32_t values,
                                                         float (&out)[head_dim / 2]) {
        ptx::wgmma_fence();
#pragma unroll
        for (int step = 0; step < tokens / 64; step++)
            GroupMma<Element>::template registers<head_dim>(out, weights + 16 * step,
                                                            values + Keys::step_over_rows(step));
        ptx::wgmma_commit();
    }
};

}  // namespace ftj
