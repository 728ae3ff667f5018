// SPDX-License-Identifier: MIT
// Row readers of the fp32 kernel: any value of a cache row, exactly as the formats define it.
//
// Every reader is made from a CacheRow and offers value(i); a row's scale is read once.
#pragma once
#include "block/cache_row.cuh"
#include "block/e2m1.cuh"
#include "block/e4m3_value.cuh"

namespace ftj {

template <class Element>
struct RowValue16bit {
    const typename Element::Storage* elements;

    static __device__ __forceinline__ RowValue16bit of(const CacheRow& row) {
        return {pointer<const typename Element::Storage>(row.codes)};
    }

    __device__ __forceinline__ float value(uint32_t i) const { return Element::widen(elements[i]); }
};

struct RowValueFp8 {
    const uint8_t* codes;
    float scale;

    static __device__ __forceinline__ RowValueFp8 of(const CacheRow& row) {
        return {pointer<const uint8_t>(row.codes), *pointer<const float>(row.row_scale)};
    }

    __device__ __forceinline__ float value(uint32_t i) const {
        return ptx::mul_rn(e4m3_value(codes[i]), scale);
    }
};

struct RowValueNvfp4 {
    static constexpr uint32_t block_values = 16;

    const uint8_t* pairs;  // the even value in the low four bits
    const uint8_t* block_scales;
    float scale;

    static __device__ __forceinline__ RowValueNvfp4 of(const CacheRow& row) {
        return {pointer<const uint8_t>(row.codes), pointer<const uint8_t>(row.block_scales),
                *pointer<const float>(row.row_scale)};
    }

    __device__ __forceinline__ float value(uint32_t i) const {
        const uint32_t code = static_cast<uint32_t>(pairs[i / 2]) >> (i % 2 * 4);
        const float block = e4m3_value(block_scales[i / block_values]);
        return ptx::mul_rn(ptx::mul_rn(e2m1_value(code), block), scale);
    }
};

}  // namespace ftj
