// SPDX-License-Identifier: MIT
// Many divisions by one number, each rounded as IEEE division does, for three or five instructions.
//
// r = 1 / d, rounded. x * r is within 1.5 units in the last place of x / d. A correction by the
// remainder makes it a neighbour of x / d, and one by the then exact remainder the nearest
// (Markstein). For a numerator that was widened from 16 bits the first correction is enough: tried
// for every significand of up to 11 bits with every divisor of 24.
//
// Holds where no remainder underflows: for |x / d| >= 2^-20 with 2^-60 <= d <= 2^120. Below, what
// comes out is below 2^-19 too, which is all that the formats ask.
#pragma once
#include "block/types.cuh"

namespace ftj {

struct SharedDivisor {
    float divisor;
    float reciprocal;

    // d > 0. Divided by infinity, a finite x gives a zero and an infinite one NaN.
    static __device__ __forceinline__ SharedDivisor of(float d) {
        return {d <= largest_float ? d : 0.0f, ptx::rcp_rn(d)};
    }

    // x is a value of Source.
    template <class Source>
    __device__ __forceinline__ float divide(float x) const {
        const float once = correct(x, ptx::mul_rn(x, reciprocal));
        if constexpr (Source::bytes == 2)
            return once;
        else
            return correct(x, once);
    }

private:
    static constexpr float largest_float = 3.402823466e38f;

    __device__ __forceinline__ float correct(float x, float quotient) const {
        const float remainder = ptx::fma_rn(-quotient, divisor, x);
        return ptx::fma_rn(remainder, reciprocal, quotient);
    }
};

}  // namespace ftj
