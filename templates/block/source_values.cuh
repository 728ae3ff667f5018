// SPDX-License-Identifier: MIT
// The values one lane holds of a row that is to be stored: 16 in a row, a block of nvfp4.
#pragma once
#include "block/types.cuh"

namespace ftj {

constexpr int lane_values = 16;

template <class Source>
struct SourceValues {
    static constexpr int num_words = lane_values * Source::bytes / 4;
    static constexpr int num_vectors = num_words / 4;

    uint32_t words[num_words];  // as they lie in memory

    // Vector loads need an address that is a multiple of 16.
    static __device__ __forceinline__ SourceValues load(uint64_t address, bool is_aligned) {
        SourceValues values;
        if (is_aligned)
            values.load_vectors(pointer<const ptx::Words4>(address));
        else
            values.load_elements(pointer<const typename Source::Storage>(address));
        return values;
    }

    static __device__ __forceinline__ SourceValues zeros() {
        SourceValues values;
#pragma unroll
        for (int i = 0; i < num_words; i++)
            values.words[i] = 0;
        return values;
    }

    // i is a constant once loops are unrolled.
    __device__ __forceinline__ float value(int i) const {
        if constexpr (Source::bytes == 4)
            return ptx::bits_float(words[i]);
        else
            return Source::widen(static_cast<uint16_t>(words[i / 2] >> (i % 2 * 16)));
    }

    __device__ __forceinline__ void widen(float* x) const {
#pragma unroll
        for (int i = 0; i < lane_values; i++)
            x[i] = value(i);
    }

private:
    __device__ __forceinline__ void load_vectors(const ptx::Words4* from) {
#pragma unroll
        for (int i = 0; i < num_vectors; i++) {
            const ptx::Words4 v = from[i];
#pragma unroll
            for (int j = 0; j < 4; j++)
                words[4 * i + j] = v.w[j];
        }
    }

    __device__ __forceinline__ void load_elements(const typename Source::Storage* from) {
#pragma unroll
        for (int i = 0; i < num_words; i++) {
            if constexpr (Source::bytes == 4)
                words[i] = ptx::float_bits(from[i]);
            else
                words[i] = from[2 * i] | static_cast<uint32_t>(from[2 * i + 1]) << 16;
        }
    }
};

// The largest magnitude; NaNs do not count.
FTJ_DEVICE float largest_magnitude(const float* x) {
    float largest = 0.0f;
#pragma unroll
    for (int i = 0; i < lane_values; i++)
        largest = ptx::max_f32(largest, ptx::abs_f32(x[i]));
    return largest;
}

// Below it the scale of a row goes no further down.
constexpr float smallest_row_max = 1e-10f;

}  // namespace ftj
