// SPDX-License-Identifier: MIT
// Merge pairs of attention states over disjoint keys, row by row:
//
//   lse = ln(e^lse_a + e^lse_b),   o = (e^lse_a o_a + e^lse_b o_b) / e^lse
//
// in fp32, natural logs. (0, -inf) is neutral; whatever o holds beside a -inf counts as 0. The
// result may take the place of either operand: a warp owns a row, and reads both lse of it before
// it writes any. Grid: ceil(rows / warps_per_block), or fewer.
#pragma once
#include "block/types.cuh"

namespace ftj {

template <class Config>
struct StateMerge {
    using Element = typename Config::Element;

    static constexpr int warps_per_block = Config::num_threads / warp_size;
    static constexpr uint32_t pairs_per_row = Config::head_dim / 2;

    static_assert(Config::head_dim % 2 == 0, "values are read in pairs");
    static_assert(Config::num_threads % warp_size == 0, "whole warps only");

    struct Weights {
        float a;
        float b;
        float lse;
    };

    static __device__ void run(const ftj_merge_params& p) {
        const uint32_t warp = ptx::thread_index() / warp_size;
        const uint32_t lane = ptx::thread_index() % warp_size;
        const uint64_t first = ptx::block_index() * uint64_t(warps_per_block) + warp;
        const uint64_t step = ptx::num_blocks() * uint64_t(warps_per_block);

        for (uint64_t row = first; row < p.rows; row += step) {
            const Weights weights =
                weigh(pointer<const float>(p.lse_a)[row], pointer<const float>(p.lse_b)[row]);
            ptx::sync_warp();
            if (lane == 0 && p.lse)
                pointer<float>(p.lse)[row] = weights.lse;
            blend(p, row, lane, weights);
        }
    }

    static __device__ Weights weigh(float lse_a, float lse_b) {
        const float neg_inf = ptx::bits_float(0xff800000u);
        const float max = ptx::max_f32(lse_a, lse_b);
        if (max == neg_inf)
            return {0.0f, 0.0f, neg_inf};
        const float a = ptx::ex2_approx((lse_a - max) * log2e);
        const float b = ptx::ex2_approx((lse_b - max) * log2e);
        return {ptx::div_approx(a, a + b), ptx::div_approx(b, a + b),
                max + ptx::lg2_approx(a + b) * ln2};
    }

    static __device__ void blend(const ftj_merge_params& p, uint64_t row, uint32_t lane,
                                 const Weights& weights) {
        const uint64_t first_pair = row * pairs_per_row;
        const auto* from_a = pointer<const uint32_t>(p.o_a) + first_pair;
        const auto* from_b = pointer<const uint32_t>(p.o_b) + first_pair;
        auto* to = pointer<uint32_t>(p.o) + first_pair;
        for (uint32_t i = lane; i < pairs_per_row; i += warp_size) {
            const uint32_t a = from_a[i];
            const uint32_t b = from_b[i];
            to[i] = Element::narrow2(blend_value(a, b, weights),
                                     blend_value(a >> 16, b >> 16, weights));
        }
    }

    static __device__ float blend_value(uint32_t a, uint32_t b, const Weights& weights) {
        return share(weights.a, a) + share(weights.b, b);
    }

    static __device__ float share(float weight, uint32_t bits) {
        return weight == 0.0f ? 0.0f : weight * Element::widen(static_cast<uint16_t>(bits));
    }
};

}  // namespace ftj
