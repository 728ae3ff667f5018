// SPDX-License-Identifier: MIT
// Many divisions by one number d, each as good as IEEE division for what is made of it: a code of
// at most four significant bits.
//
// A numerator that was widened from 16 bits takes two instructions. With r = 1 / d rounded and
// s = (1 - r d) r rounded up, x r + x s is x / d to about 2^-47, and its rounding is that of x / d
// or, in 14 of the 2^33 pairs of significands (11 bits by 24: all were tried), its neighbour, with
// no number of five significant bits at or between them; so no code differs.
//
// Of fp32, x r is within 1.5 units in the last place of x / d. A correction by the remainder makes
// it a neighbour of x / d, and one by the then exact remainder the nearest (Markstein).
//
// Holds where nothing underflows: for |x / d| >= 2^-20 with 2^-60 <= d <= 2^100. Below, what comes
// out is below 2^-19 too, which is all that the formats ask; reduce() sees to the upper end.
#pragma once
#include "block/types.cuh"

namespace ftj {

template <class Source>
struct SharedDivisor {
    float divisor;
    float reciprocal;
    float rest;

    // d > 0. Divided by infinity, a finite x gives a zero and an infinite one NaN.
    static __device__ __forceinline__ SharedDivisor of(float d) {
        const float finite = d <= largest_float ? d : 0.0f;
        const float reciprocal = ptx::rcp_rn(d);
        const float rest = ptx::mul_rp(ptx::fma_rn(-finite, reciprocal, 1.0f), reciprocal);
        return {finite, reciprocal, rest};
    }

    // x is a value of Source.
    __device__ __forceinline__ float divide(float x) const {
        if constexpr (Source::bytes == 2)
            return ptx::fma_rn(x, reciprocal, ptx::mul_rn(x, rest));
        else
            return correct(x, correct(x, ptx::mul_rn(x, reciprocal)));
    }

    // Brings a large divisor and what it is to divide down by one power of two.
    template <int count>
    static __device__ __forceinline__ void reduce(float& d, float (&x)[count]) {
        constexpr float large = 1.2379400392853803e27f;            // 2^90
        constexpr float two_to_minus_64 = 5.421010862427522e-20f;  // still far from underflow
        if (Source::largest_exponent < 90 || !(d > large && d <= largest_float))
            return;
        d = ptx::mul_rn(d, two_to_minus_64);
#pragma unroll
        for (int i = 0; i < count; i++)
            x[i] = ptx::mul_rn(x[i], two_to_minus_64);
    }

private:
    static constexpr float largest_float = 3.402823466e38f;

    __device__ __forceinline__ float correct(float x, float quotient) const {
        const float remainder = ptx::fma_rn(-quotient, divisor, x);
        return ptx::fma_rn(remainder, reciprocal, quotient);
    }
};

}  // namespace ftj
