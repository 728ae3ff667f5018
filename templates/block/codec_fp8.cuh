// SPDX-License-Identifier: MIT
// Codec: rows of E4M3 codes with one fp32 scale per row. Operands are fp16, exact; the row scale is
// the kernel's to apply, to the score for K and to p for V. Members: codec_16bit.cuh.
#pragma once
#include "block/pieces.cuh"

namespace ftj {

template <class E4m3>
struct CodecFp8 {
    using Mma = MmaF16;
    static constexpr bool is_coded = true;
    static constexpr bool has_row_scale = true;
    static constexpr bool has_block_scale = false;
    static constexpr float operand_fold = E4m3::widen_fold;

    static constexpr int code_bytes(int dims) { return dims; }
    static constexpr int widest_key(int) { return 64; }
    static constexpr int widest_value(int) { return 128; }
    static constexpr int key_run(int dims, int c) { return c * (dims / 4); }
    static constexpr int value_run(int dims, int g) { return g * (dims / 8); }
    static constexpr int block_run(int, int) { return 0; }

    template <int dims>
    static constexpr int key_dim(int j, int c, int i) {
        return dims / 4 * c + 4 * j + i;
    }

    template <int dims>
    static __device__ __forceinline__ void load_key(uint32_t codes, uint32_t,
                                                    uint32_t (&operands)[dims / 16][2]) {
        uint32_t words[dims / 16];
        load_shared<dims / 4>(codes, words);
#pragma unroll
        for (int j = 0; j < dims / 16; j++) {
            operands[j][0] = E4m3::widen2(words[j]);
            operands[j][1] = E4m3::widen2_high(words[j]);
        }
    }

    template <int dims>
    static __device__ __forceinline__ void load_keys(uint32_t codes, uint32_t scales,
                                                     uint32_t codes_apart, uint32_t,
                                                     uint32_t (&first)[dims / 16][2],
                                                     uint32_t (&second)[dims / 16][2]) {
        load_key<dims>(codes, scales, first);
        load_key<dims>(codes + codes_apart, scales, second);
    }

    // A word holds four dims of one token; interleaved with another token's, its bytes become pairs
    // of one dim.
    template <int dims>
    static __device__ __forceinline__ void load_value(const uint32_t (&codes)[4],
                                                      const uint32_t (&)[2],
                                                      uint32_t (&operands)[dims / 16][4]) {
        constexpr int bytes = dims / 8;
        constexpr int num_words = (bytes + 3) / 4;
        constexpr uint32_t dims_0_1 = 0x5140, dims_2_3 = 0x7362;
        uint32_t words[4][num_words];
#pragma unroll
        for (int token = 0; token < 4; token++)
            load_shared<bytes>(codes[token], words[token]);
#pragma unroll
        for (int w = 0; w < num_words; w++) {
#pragma unroll
            for (int pair = 0; pair < 2; pair++) {
                const uint32_t a = words[2 * pair][w], b = words[2 * pair + 1][w];
                const uint32_t low = ptx::prmt(a, b, dims_0_1);
                if constexpr (dims == 16) {
                    operands[0][2 * pair] = E4m3::widen2(low);
                    operands[0][2 * pair + 1] = E4m3::widen2_high(low);
                } else {
                    const uint32_t high = ptx::prmt(a, b, dims_2_3);
                    operands[2 * w][2 * pair] = E4m3::widen2(low);
                    operands[2 * w + 1][2 * pair] = E4m3::widen2_high(low);
                    operands[2 * w][2 * pair + 1] = E4m3::widen2(high);
                    operands[2 * w + 1][2 * pair + 1] = E4m3::widen2_high(high);
                }
            }
        }
    }
};

}  // namespace ftj
