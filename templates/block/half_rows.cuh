// SPDX-License-Identifier: MIT
// Rows that were codes, in fp16 with their row scales: what an E4M3 is by one instruction for two,
// and what one more puts a scale on. Of fp16's range a tile of K or of V has a unit of its own, a
// power of two by which its row scales are divided: the largest becomes 2^6 to 2^7. Consumers have
// K's in the factor of their scores and V's in the exponents of their weights (GroupRows). They
// read both with the tile of keys, whose warp has the row scales of V for that.
//
// A row scale down to 2^-16 of the tile's largest is a normal fp16. Smaller ones lose digits, which
// scores do not miss beside those of the largest row; but an output may be of the small rows alone.
// So V of a tile with smaller ones, but for those of rows of nothing (none of them above 1e-10), or
// whose unit is far from 1, is bf16, its scales in it, and so are its weights.
#pragma once
#include "block/types.cuh"

namespace ftj {

// As consumers read it.
struct TileUnits {
    float to_log2;   // from products to scores in log2
    float exponent;  // of V, log2; -0 where V is bf16, as its weights must be
    float inverse;   // 2^-exponent

    __device__ __forceinline__ bool is_wide() const {
        return ptx::float_bits(exponent) == 0x80000000u;
    }

    static constexpr int bytes = 64;  // in shared memory, one for each lane of four

    // At a lane's own place: what one address gave all would go to a uniform register, for which
    // the warp would wait at once.
    static __device__ __forceinline__ uint32_t own_offset() {
        return 16 * (ptx::thread_index() % 4);
    }
    static __device__ __forceinline__ TileUnits load(uint32_t own) {
        const ptx::Words2 words = ptx::ld_shared_v2(own);
        return {ptx::bits_float(words.w[0]), ptx::bits_float(words.w[1]),
                ptx::ld_shared_f32(own + 8)};
    }
    __device__ __forceinline__ void store(uint32_t shared, uint32_t lane) const {
        if (lane < bytes / 16)
            ptx::st_shared_v4(shared + 16 * lane,
                              {{ptx::float_bits(to_log2), ptx::float_bits(exponent),
                                ptx::float_bits(inverse), 0}});
    }
};

// Where a producer warp has all row scales of a tile, and V its own as well as K.
template <class Config>
constexpr bool has_half_rows =
    Config::KWiden::is_coded&& Config::VWiden::is_coded&& Config::code_rows == Config::tile_tokens;

template <class Config, bool has_them = has_half_rows<Config>>
constexpr bool swaps_half_values = false;
template <class Config>
constexpr bool swaps_half_values<Config, true> = Config::VWiden::swaps_values;

// The row scales of a tile, by a warp.
template <class Widen, uint32_t tokens>
struct HalfScales {
    static constexpr uint32_t bias = 127;
    static constexpr uint32_t scale_exponent = 6;         // of the largest, in fp16
    static constexpr uint32_t least_top = 32;             // so that its inverse is a number
    static constexpr int most_exponent = 40;              // of V's unit, either way
    static constexpr uint32_t most_apart = 16;            // exponents of V's row scales
    static constexpr uint32_t rows = tokens / warp_size;  // a lane's

    uint32_t bits[rows > 0 ? rows : 1];
    uint32_t top;  // biased exponent of the largest

    // They lie at this shared address, a lane's.
    __device__ __forceinline__ explicit HalfScales(uint32_t own) {
#pragma unroll
        for (uint32_t i = 0; i < rows; i++)
            bits[i] = ptx::ld_shared_u32(own + 4 * warp_size * i);
    }
    // Before anything else, by all lanes.
    __device__ __forceinline__ void find_top() {
        uint32_t most = least_top << 23;
#pragma unroll
        for (uint32_t i = 0; i < rows; i++)
            most = max_of(most, bits[i]);
        top = ptx::max_of_warp(most) >> 23;
    }

    // Of the unit, log2.
    __device__ __forceinline__ int exponent() const {
        return int(top - (bias + scale_exponent - Widen::half_exponent));
    }
    __device__ __forceinline__ bool is_wide() const {
        uint32_t least = 0;  // as a distance below nothing's, which all others are above
#pragma unroll
        for (uint32_t i = 0; i < rows; i++)
            least = max_of(least, Widen::nothing_scale - bits[i]);
        const uint32_t bottom = (Widen::nothing_scale - ptx::max_of_warp(least)) >> 23;
        return uint32_t(exponent() + most_exponent) > 2 * most_exponent ||
               top - bottom > most_apart;
    }

    // To fp16, where they were: twice the same, or with what is left beside it.
    template <bool has_rest>
    __device__ __forceinline__ void narrow(uint32_t own) const {
        const float factor =
            ptx::bits_float((2 * bias + scale_exponent - top) << 23) * Widen::half_fold;
#pragma unroll
        for (uint32_t i = 0; i < rows; i++) {
            const float scale = ptx::bits_float(bits[i]) * factor;
            const float rest = scale - ptx::cvt_f32_f16(ptx::cvt_rn_f16_f32(scale));
            ptx::st_shared_u32(own + 4 * warp_size * i,
                               ptx::cvt_rn_f16x2_f32(scale, has_rest ? rest : scale));
        }
        ptx::sync_warp();
    }

    static __device__ __forceinline__ float power(int exponent) {
        return ptx::bits_float(uint32_t(int(bias) + exponent) << 23);
    }
};

}  // namespace ftj
