// SPDX-License-Identifier: MIT
// Many divisions by one number, each as IEEE division rounds it, for five instructions.
//
// r = 1 / d, rounded. x * r is within 1.5 units in the last place of x / d; one correction makes it
// one of the two neighbours of x / d; and from there a correction by the exact remainder gives the
// nearest (Markstein). tests/unit/test_store_codecs.c holds the proof by exhaustion for 8-bit numerators.
//
// Holds where the remainder does not underflow: for |x / d| >= 2^-20 with 2^-60 <= d <= 2^120.
// Below, the result is below 2^-19 too, which is all that the formats ask.
#pragma once
#include "block/types.cuh"

namespace ftj {

struct SharedDivisor {
    float divisor;
    float reciprocal;

    // 0 and infinity stand for "everything divided by it is 0": a finite x gives a zero, an
    // infinite one NaN.
    static __device__ __forceinline__ SharedDivisor of(float d) {
        const bool usable = is_usable(d);
        return {usable ? d : 0.0f, usable ? ptx::div_rn(1.0f, d) : 0.0f};
    }

    static __device__ __forceinline__ bool is_usable(float d) {
        return d > 0.0f && d <= largest_float;
    }

    __device__ __forceinline__ float divide(float x) const {
        const float near = ptx::mul_rn(x, reciprocal);
        const float neighbour = correct(x, near);
        return correct(x, neighbour);
    }

private:
    static constexpr float largest_float = 3.402823466e38f;

    __device__ __forceinline__ float correct(float x, float quotient) const {
        const float remainder = ptx::fma_rn(-quotient, divisor, x);
        return ptx::fma_rn(remainder, reciprocal, quotient);
    }
};

}  // namespace ftj
