// SPDX-License-Identifier: MIT
// The 16-bit element types and their conversions, without any toolkit header. A 16-bit value is
// carried as its bits in a uint16_t; every type offers the same three functions,
// and those of 16 bits narrow2(), of two values to a word.
#pragma once
#include "block/params.h"

namespace ftj {

constexpr uint32_t warp_size = 32;
constexpr float log2e = 1.44269504088896341f;
constexpr float ln2 = 0.693147180559945309f;

template <class T>
FTJ_DEVICE T* pointer(uint64_t address) {
    return reinterpret_cast<T*>(address);
}

template <class T>
FTJ_DEVICE T min_of(T a, T b) {
    return b < a ? b : a;
}
template <class T>
FTJ_DEVICE T max_of(T a, T b) {
    return a < b ? b : a;
}

// 1 / v, exact: v is a power of two, from 2^-126 to 2^126. What it is multiplied by is divided by
// v, rounding included, in a tenth of the instructions.
FTJ_DEVICE float inverse_of_power(float v) {
    return ptx::bits_float(0x7f000000u - ptx::float_bits(v));
}

struct Bf16 {
    using Storage = uint16_t;
    static constexpr int bytes = 2;
    static constexpr int largest_exponent = 127;
    static __device__ __forceinline__ float widen(Storage v) {
        return ptx::bits_float(static_cast<uint32_t>(v) << 16);
    }
    // Round to nearest, ties to even; a NaN stays a NaN.
    static __device__ __forceinline__ Storage narrow(float v) {
        const uint32_t bits = ptx::float_bits(v);
        if ((bits & 0x7fffffffu) > 0x7f800000u)
            return static_cast<Storage>((bits >> 16) | 0x40u);
        return static_cast<Storage>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
    }
    static __device__ __forceinline__ uint32_t narrow2(float low, float high) {
        return ptx::cvt_rn_bf16x2_f32(low, high);
    }
};

struct Fp16 {
    using Storage = uint16_t;
    static constexpr int bytes = 2;
    static constexpr int largest_exponent = 15;
    static __device__ __forceinline__ float widen(Storage v) { return ptx::cvt_f32_f16(v); }
    static __device__ __forceinline__ Storage narrow(float v) {
        return static_cast<Storage>(ptx::cvt_rn_f16_f32(v));
    }
    static __device__ __forceinline__ uint32_t narrow2(float low, float high) {
        return ptx::cvt_rn_f16x2_f32(low, high);
    }
};

struct Fp32 {
    using Storage = float;
    static constexpr int bytes = 4;
    static constexpr int largest_exponent = 127;
    static __device__ __forceinline__ float widen(Storage v) { return v; }
    static __device__ __forceinline__ Storage narrow(float v) { return v; }
};

template <bool condition, class A, class B>
struct SelectType {
    using Type = A;
};
template <class A, class B>
struct SelectType<false, A, B> {
    using Type = B;
};
template <bool condition, class A, class B>
using select_type = typename SelectType<condition, A, B>::Type;

template <class A, class B>
constexpr bool is_same = false;
template <class A>
constexpr bool is_same<A, A> = true;

}  // namespace ftj
