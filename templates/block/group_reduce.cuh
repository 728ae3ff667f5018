// SPDX-License-Identifier: MIT
// Reductions over aligned groups of 2^n lanes; every lane gets the result, and every lane of the
// warp takes part.
#pragma once
#include "block/types.cuh"

namespace ftj {

// A NaN loses against a number.
template <int lanes>
FTJ_DEVICE float group_max(float v) {
#pragma unroll
    for (int mask = 1; mask < lanes; mask *= 2)
        v = ptx::max_f32(v, ptx::shfl_xor(v, mask));
    return v;
}

template <int lanes>
FTJ_DEVICE float group_sum(float v) {
#pragma unroll
    for (int mask = 1; mask < lanes; mask *= 2)
        v = ptx::add_rn(v, ptx::shfl_xor(v, mask));
    return v;
}

}  // namespace ftj
