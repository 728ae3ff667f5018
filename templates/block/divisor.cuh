// SPDX-License-Identifier: MIT
// Division by one number again and again, and parts of a number.
#pragma once
#include "block/types.cuh"

namespace ftj {

// Exact for dividends below 2^31, in four instructions for some eighteen.
struct Divisor {
    uint32_t number;
    uint32_t inverse;  // (2^32 - 1) / number

    static __device__ __forceinline__ Divisor of(uint32_t number) {
        return {number, 0xffffffffu / number};
    }
    __device__ __forceinline__ uint32_t divide(uint32_t dividend) const {
        const auto quotient = uint32_t(uint64_t(dividend) * inverse >> 32);  // or one less
        return quotient + (dividend - quotient * number >= number);
    }
};

// A cost in parts: equal ones, or as good as that when it is more than 2^32, but none less than
// `least` while there is any.
struct EqualShares {
    uint64_t cost;
    Divisor parts;
    uint32_t least;

    __device__ __forceinline__ uint64_t begin(uint32_t part) const {
        const uint32_t place = part * (parts.inverse + 1);  // in units of 2^-32
        const uint64_t begin = (cost >> 32) * place + ((cost & 0xffffffffu) * place >> 32);
        return part < parts.number ? min_of(max_of(begin, uint64_t(part * least)), cost) : cost;
    }
};

// Of an extend: the host has divided.
template <class Params>
FTJ_DEVICE Divisor by_group(const Params& p) {
    return {p.group, p.group_inverse};
}
template <class Params>
FTJ_DEVICE Divisor by_heads(const Params& p) {
    return {p.num_kv_heads, p.heads_inverse};
}

}  // namespace ftj
