// SPDX-License-Identifier: MIT
// Row encoder of fp8: E4M3 codes and one fp32 scale.
//
//   scale = fl(max(amax, 1e-10) * fl(1/448)),   code = e4m3(fl(x / scale))
//
// A NaN counts as nothing in amax and is stored as 7E. A row with an infinity gets an infinite
// scale, 7E where it was infinite and 00 elsewhere.
#pragma once
#include "block/cache_row.cuh"
#include "block/group_reduce.cuh"
#include "block/shared_divisor.cuh"
#include "block/source_values.cuh"

namespace ftj {

template <class E4m3>
struct EncodeFp8 {
    template <int lanes, class Source>
    static __device__ __forceinline__ void encode(const SourceValues<Source>& values,
                                                  const CacheRow& row, uint32_t lane,
                                                  bool is_stored) {
        float x[lane_values];
        values.widen(x);
        const float scale = row_scale(group_max<lanes>(largest_magnitude(x)));
        float divisor = scale;
        SharedDivisor<Source>::reduce(divisor, x);
        const auto by_scale = SharedDivisor<Source>::of(divisor);
#pragma unroll
        for (int i = 0; i < lane_values; i++)
            x[i] = by_scale.divide(x[i]);
        if (!is_stored)
            return;
        pointer<ptx::Words4>(row.codes)[lane] = {{
            E4m3::encode4(x[0], x[1], x[2], x[3]),
            E4m3::encode4(x[4], x[5], x[6], x[7]),
            E4m3::encode4(x[8], x[9], x[10], x[11]),
            E4m3::encode4(x[12], x[13], x[14], x[15]),
        }};
        if (lane == 0)
            *pointer<float>(row.row_scale) = scale;
    }

private:
    static __device__ __forceinline__ float row_scale(float amax) {
        const float reciprocal = ptx::bits_float(0x3b124925u);  // fl(1/448)
        return ptx::mul_rn(ptx::max_f32(amax, smallest_row_max), reciprocal);
    }
};

}  // namespace ftj
