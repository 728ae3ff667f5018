// SPDX-License-Identifier: MIT
// Row encoder of nvfp4: E2M1 codes, an E4M3 scale per block of 16, one fp32 scale.
//
//   row   = fl(max(amax, 1e-10) * fl(1/2688))                        2688 = 6 * 448
//   block = e4m3(fl(amax_of_block / fl(6 * row)))                    as stored
//   code  = e2m1(fl(x / fl(block * row))), 0 where block is 0; the sign iff the quotient is < 0
//
// A NaN counts as nothing in either amax and gets code 0. A row with an infinity gets an infinite
// scale and codes 0. A lane owns one block.
#pragma once
#include "block/cache_row.cuh"
#include "block/e2m1.cuh"
#include "block/e4m3_value.cuh"
#include "block/group_reduce.cuh"
#include "block/shared_divisor.cuh"
#include "block/source_values.cuh"

namespace ftj {

template <class E4m3>
struct EncodeNvfp4 {
    template <int lanes, class Source>
    static __device__ __forceinline__ void encode(const SourceValues<Source>& values,
                                                  const CacheRow& row, uint32_t lane,
                                                  bool is_stored) {
        float x[lane_values];
        values.widen(x);
        const float block_max = largest_magnitude(x);
        const float scale = row_scale(group_max<lanes>(block_max));
        const uint32_t block = E4m3::encode(ptx::div_rn(block_max, ptx::mul_rn(e2m1_max, scale)));
        float step = block_step(block, scale);
        SharedDivisor<Source>::reduce(step, x);
        const auto by_step = SharedDivisor<Source>::of(step);
        const float limit = negative_limit(step);
        uint32_t codes[2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float n[8];
#pragma unroll
            for (int i = 0; i < 8; i++)
                n[i] = by_step.divide(x[8 * half + i]);
            codes[half] = e2m1_pack8(n, x + 8 * half, limit);
        }
        if (!is_stored)
            return;
        pointer<ptx::Words2>(row.codes)[lane] = {{codes[0], codes[1]}};
        pointer<uint8_t>(row.block_scales)[lane] = static_cast<uint8_t>(block);
        if (lane == 0)
            *pointer<float>(row.row_scale) = scale;
    }

private:
    static constexpr float e2m1_max = 6.0f;

    static __device__ __forceinline__ float row_scale(float amax) {
        const float reciprocal = ptx::bits_float(0x39c30c31u);  // fl(1/2688)
        return ptx::mul_rn(ptx::max_f32(amax, smallest_row_max), reciprocal);
    }

    // x < limit iff fl(x / step) < 0. The quotient of a negative x is a zero down to half the
    // smallest fp32, so the limit is -step * 2^-150, rounded towards 0 to a multiple of 2^-149.
    static __device__ __forceinline__ float negative_limit(float step) {
        constexpr float two_to_minus_75 = 2.646977960169689e-23f;
        return -ptx::mul_rz(ptx::mul_rn(step, two_to_minus_75), two_to_minus_75);
    }

    // What the values of a block are divided by. Infinity, where the block's scale went to 0, makes
    // every code 0.
    static __device__ __forceinline__ float block_step(uint32_t block, float scale) {
        return block == 0 ? ptx::bits_float(0x7f800000u)
                          : ptx::mul_rn(e4m3_magnitude(block), scale);
    }
};

}  // namespace ftj
