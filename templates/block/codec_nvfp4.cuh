// SPDX-License-Identifier: MIT
// Codec: rows of E2M1 codes, an E4M3 scale per 16 of them, one fp32 scale per row. Operands are
// fp16: (code * 2^-14) * block scale, a multiple of 2^-24 of at most seven bits, which fp16 has, if
// as a subnormal; the row scale is the kernel's to apply. Members: codec_16bit.cuh.
#pragma once
#include "block/pieces.cuh"

namespace ftj {

// Eight codes as four fp16 pairs, each value * 2^-14: n0 n4 | n2 n6 | n1 n5 | n3 n7. E2M1's fields
// drop onto fp16's sign, low exponent and top mantissa bits; the biases differ by 14.
//
// Alone in a byte, a code times 2 has its magnitude where it belongs, and 0x70 on top carries its
// sign there. That is one multiplication if ptxas does not know what the factor is: by a known 2 it
// shifts before it masks, and then adds.
FTJ_DEVICE void widen_e2m1_8(uint32_t codes, uint32_t (&pairs)[4]) {
    constexpr uint32_t magnitude_bits = 0x0E0E0E0Eu;  // of a byte whose sign is its top bit
    constexpr uint32_t fp16_bits = 0x8E008E00u;
    constexpr uint32_t select = 0xE4;  // where the third word is set the first, else the second
    constexpr uint32_t low_nibbles = 0x0F0F0F0Fu, carry = 0x70707070u;
    const uint32_t even = (codes & low_nibbles) * ptx::opaque(2) + carry;
    const uint32_t odd = ptx::lop3<select>(codes >> 3, codes, magnitude_bits);
    pairs[0] = (even << 8) & fp16_bits;
    pairs[1] = even & fp16_bits;
    pairs[2] = (odd << 8) & fp16_bits;
    pairs[3] = odd & fp16_bits;
}

template <class E4m3>
struct CodecNvfp4 {
    using Mma = MmaF16;
    static constexpr bool is_coded = true;
    static constexpr bool has_row_scale = true;
    static constexpr bool has_block_scale = true;
    static constexpr float operand_fold = 16384.0f;  // 2^14

    // A lane's 16-byte loads, and its loads of two block scales, need an even number of blocks.
    static constexpr int widest_key(int head_dim) { return head_dim % 32 ? 64 : 128; }
    static constexpr int widest_value(int head_dim) { return head_dim % 32 ? 64 : 128; }
    static constexpr int code_bytes(int dims) { return dims / 2; }
    static constexpr int key_run(int dims, int c) { return c * (dims / 8); }
    static constexpr int value_run(int dims, int g) { return g * (dims / 16); }
    // Blocks 2c and 2c + 1 of a piece of 128; of a narrower one, the block that holds both of those
    // positions.
    static constexpr int block_run(int dims, int c) { return dims == 128 ? 2 * c : c * dims / 64; }

    template <int dims>
    static constexpr int key_dim(int j, int c, int i) {
        constexpr int by_byte[4] = {0, 2, 1, 3};
        constexpr int by_pair[4] = {0, 4, 2, 6};
        if (dims == 16)
            return 4 * c + by_byte[i];
        return dims / 4 * c + 8 * (j / 2) + j % 2 + by_pair[i];
    }

    // The block scales at block_run() as a pair: two blocks, or one twice.
    template <int dims>
    static __device__ __forceinline__ uint32_t load_scales(uint32_t scales) {
        constexpr float factor = E4m3::widen_fold;
        constexpr uint32_t half_bits = 0x5c00u;
        static_assert(factor == 1.0f || factor == 256.0f, "nothing to multiply by, or half_bits");
        uint32_t codes[1];
        if constexpr (dims == 128) {
            load_shared<2>(scales, codes);
        } else {
            load_shared<1>(scales, codes);
            codes[0] |= codes[0] << 8;
        }
        const uint32_t pair = E4m3::widen2(codes[0]);
        return factor == 1.0f ? pair : ptx::mul_f16x2(pair, half_bits | half_bits << 16);
    }

    template <int dims>
    static __device__ __forceinline__ void load_key(uint32_t codes, uint32_t scales,
                                                    uint32_t (&operands)[dims / 16][2]) {
        constexpr int bytes = dims / 8;
        uint32_t words[(bytes + 3) / 4];
        uint32_t pairs[4];
        load_shared<bytes>(codes, words);
        const uint32_t scale_pair = load_scales<dims>(scales);
        if constexpr (dims == 16) {
            widen_e2m1_8(ptx::prmt(words[0], 0, 0x4140), pairs);  // a byte to a half
            operands[0][0] = ptx::mul_f16x2(pairs[0], scale_pair);
            operands[0][1] = ptx::mul_f16x2(pairs[2], scale_pair);
        } else {
#pragma unroll
            for (int w = 0; w < dims / 32; w++) {
                uint32_t scale = scale_pair;
                if constexpr (dims == 128)
                    scale = w < 2 ? ptx::low_twice(scale_pair) : ptx::high_twice(scale_pair);
                widen_e2m1_8(words[w], pairs);
                operands[2 * w][0] = ptx::mul_f16x2(pairs[0], scale);
                operands[2 * w][1] = ptx::mul_f16x2(pairs[1], scale);
                operands[2 * w + 1][0] = ptx::mul_f16x2(pairs[2], scale);
                operands[2 * w + 1][1] = ptx::mul_f16x2(pairs[3], scale);
            }
        }
    }

    // Of a piece of 16 dims a lane has half a word of a row: two rows make one.
    template <int dims>
    static __device__ __forceinline__ void load_keys(uint32_t codes, uint32_t scales,
                                                     uint32_t codes_apart, uint32_t scales_apart,
                                                     uint32_t (&first)[dims / 16][2],
                                                     uint32_t (&second)[dims / 16][2]) {
        if constexpr (dims == 16) {
            constexpr uint32_t by_byte = 0x5140;  // first, second, first, second
            uint32_t words[2][1];
            uint32_t pairs[4];
            load_shared<2>(codes, words[0]);
            load_shared<2>(codes + codes_apart, words[1]);
            const uint32_t first_scale = load_scales<dims>(scales);
            const uint32_t second_scale = load_scales<dims>(scales + scales_apart);
            widen_e2m1_8(ptx::prmt(words[0][0], words[1][0], by_byte), pairs);
            first[0][0] = ptx::mul_f16x2(pairs[0], first_scale);
            first[0][1] = ptx::mul_f16x2(pairs[2], first_scale);
            second[0][0] = ptx::mul_f16x2(pairs[1], second_scale);
            second[0][1] = ptx::mul_f16x2(pairs[3], second_scale);
        } else {
            load_key<dims>(codes, scales, first);
            load_key<dims>(codes + codes_apart, scales + scales_apart, second);
        }
    }

    // Half a word holds four dims of one token: with another token's half it is decoded into pairs
    // of one dim. The scale pair of (two tokens, block of lane g) comes from the lanes that loaded
    // (token, two blocks) by one transpose.
    template <int dims>
    static __device__ __forceinline__ void load_value(const uint32_t (&codes)[4],
                                                      const uint32_t (&scales)[2],
                                                      uint32_t (&operands)[dims / 16][4]) {
        constexpr int bytes = dims / 16;
        constexpr uint32_t low_halves = 0x5410, high_halves = 0x7632;
        uint32_t words[4][(bytes + 3) / 4];
#pragma unroll
        for (int token = 0; token < 4; token++)
            load_shared<bytes>(codes[token], words[token]);
        if constexpr (dims == 16) {  // a byte of each
            uint32_t pairs[4];
            widen_e2m1_8(ptx::prmt(ptx::prmt(words[0][0], words[2][0], 0x0040),
                                   ptx::prmt(words[1][0], words[3][0], 0x0040), low_halves),
                         pairs);
#pragma unroll
            for (int pair = 0; pair < 2; pair++) {
                const uint32_t scale = ptx::movmatrix_trans(load_scales<dims>(scales[pair]));
                operands[0][2 * pair] = ptx::mul_f16x2(pairs[pair], scale);
                operands[0][2 * pair + 1] = ptx::mul_f16x2(pairs[2 + pair], scale);
            }
        } else {
#pragma unroll
            for (int pair = 0; pair < 2; pair++) {
                const uint32_t scale = ptx::movmatrix_trans(load_scales<dims>(scales[pair]));
#pragma unroll
                for (int half = 0; half < dims / 32; half++) {
                    uint32_t pairs[4];
                    widen_e2m1_8(ptx::prmt(words[2 * pair][half / 2], words[2 * pair + 1][half / 2],
                                           half % 2 ? high_halves : low_halves),
                                 pairs);
                    operands[2 * half][2 * pair] = ptx::mul_f16x2(pairs[0], scale);
                    operands[2 * half][2 * pair + 1] = ptx::mul_f16x2(pairs[1], scale);
                    operands[2 * half + 1][2 * pair] = ptx::mul_f16x2(pairs[2], scale);
                    operands[2 * half + 1][2 * pair + 1] = ptx::mul_f16x2(pairs[3], scale);
                }
            }
        }
    }
};

}  // namespace ftj
