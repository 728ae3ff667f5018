// SPDX-License-Identifier: MIT
// Codec: rows of bf16 or fp16, as they are.
//
// Every codec_*.cuh offers the same members; a decode kernel says KCodec:: and VCodec:: and nothing
// else of a format:
//   Mma                       the product its operands are for
//   code_bytes(dims)          bytes of that many dims in the code array
//   has_row_scale, has_block_scale
//   widest_key, widest_value  dims of the widest piece (pieces.cuh), given head_dim
//   operand_fold              what an operand lacks of the value codes * block scale
//   key_run(dims, c)          where, in bytes, lane c's run of dims starts in a piece of K
//   value_run(dims, g)        likewise row g's in a piece of V
//   block_run(dims, c)        the block scales lane c loads of a piece
//   key_dim<dims>(j, c, i)    the dim that product j of a piece multiplies in lane c, element i
//   load_key<dims>            one row's operands of a piece: [dims / 16][k half]
//   load_keys<dims>           those of two rows, so many bytes apart
//   load_value<dims>          four tokens' operands of a piece: [dims / 16][a0..a3]
// The loads take shared addresses that include the runs.
#pragma once
#include "block/pieces.cuh"
#include "block/types.cuh"

namespace ftj {

template <class Element>
struct ProductOf;
template <>
struct ProductOf<Bf16> {
    using Mma = MmaBf16;
};
template <>
struct ProductOf<Fp16> {
    using Mma = MmaF16;
};

template <class Element>
struct Codec16Bit {
    using Mma = typename ProductOf<Element>::Mma;
    static constexpr bool is_coded = false;
    static constexpr bool has_row_scale = false;
    static constexpr bool has_block_scale = false;
    static constexpr float operand_fold = 1.0f;

    static constexpr int code_bytes(int dims) { return 2 * dims; }
    static constexpr int widest_key(int) { return 32; }
    static constexpr int widest_value(int) { return 64; }
    static constexpr int key_run(int dims, int c) { return c * (dims / 2); }
    static constexpr int value_run(int dims, int g) { return g * (dims / 4); }
    static constexpr int block_run(int, int) { return 0; }

    template <int dims>
    static constexpr int key_dim(int j, int c, int i) {
        return dims / 4 * c + 4 * j + i;
    }

    template <int dims>
    static __device__ __forceinline__ void load_key(uint32_t codes, uint32_t,
                                                    uint32_t (&operands)[dims / 16][2]) {
        uint32_t words[dims / 8];
        load_shared<dims / 2>(codes, words);
#pragma unroll
        for (int j = 0; j < dims / 16; j++) {
            operands[j][0] = words[2 * j];
            operands[j][1] = words[2 * j + 1];
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

    // A word holds two dims of one token; an operand one dim of two tokens.
    template <int dims>
    static __device__ __forceinline__ void load_value(const uint32_t (&codes)[4],
                                                      const uint32_t (&)[2],
                                                      uint32_t (&operands)[dims / 16][4]) {
        constexpr int bytes = dims / 4;
        uint32_t words[4][bytes / 4];
#pragma unroll
        for (int token = 0; token < 4; token++)
            load_shared<bytes>(codes[token], words[token]);
        constexpr uint32_t even_dim = 0x5410, odd_dim = 0x7632;
        if constexpr (dims == 16) {
            operands[0][0] = ptx::prmt(words[0][0], words[1][0], even_dim);
            operands[0][1] = ptx::prmt(words[0][0], words[1][0], odd_dim);
            operands[0][2] = ptx::prmt(words[2][0], words[3][0], even_dim);
            operands[0][3] = ptx::prmt(words[2][0], words[3][0], odd_dim);
        } else {
#pragma unroll
            for (int tile = 0; tile < dims / 16; tile++) {
                const int word = tile / 2 * 2;
                const uint32_t select = tile % 2 ? odd_dim : even_dim;
                operands[tile][0] = ptx::prmt(words[0][word], words[1][word], select);
                operands[tile][1] = ptx::prmt(words[0][word + 1], words[1][word + 1], select);
                operands[tile][2] = ptx::prmt(words[2][word], words[3][word], select);
                operands[tile][3] = ptx::prmt(words[2][word + 1], words[3][word + 1], select);
            }
        }
    }
};

// Values that codes were widened to, without their row scale.
template <class Element>
struct CodecWidened : Codec16Bit<Element> {
    static constexpr bool has_row_scale = true;
};

}  // namespace ftj
