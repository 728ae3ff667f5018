// SPDX-License-Identifier: MIT
// The two products of a warp's rows with a tile of keys, by mma.sync: Q is the A operand, K and V
// are B operands as their codecs decode them, and scores become the A operand of the second where
// they are.
#pragma once
#include "block/key_tile.cuh"
#include "block/query_rows.cuh"
#include "block/row_state.cuh"

namespace ftj {

template <class Config, class Tile>
struct RowProducts {
    using KCodec = typename Tile::K::Codec;
    static constexpr int head_dim = Config::head_dim;
    static constexpr int m_tiles = Config::m_tiles;
    static constexpr int dim_parts = (head_dim + Config::part_dims - 1) / Config::part_dims;
    // Of the widest piece of K: a product's Q operands are loaded once per piece, into registers.
    static constexpr int widest_key =
        KCodec::widest_key(head_dim) < 64 ? KCodec::widest_key(head_dim) : 64;
    // Rows of the widest heads go a few pieces at a time, for the time to compile them.
    static constexpr bool in_turns = head_dim > 256 &&
                                     head_dim % (4 * piece_dims(head_dim, widest_key)) == 0;
    using Query = QueryRows<Config, KCodec, widest_key>;

    // Q K^T for `step` tokens.
    template <int step>
    static __device__ __forceinline__ void score(uint32_t lane, uint32_t query, uint32_t shared,
                                                 uint32_t at,
                                                 float (&scores)[m_tiles][step / 8][4]) {
        using Side = typename Tile::K;
        const uint32_t token = at + spread(lane / 4), c = lane % 4;
        constexpr int usual = piece_dims(head_dim, widest_key);  // dims of most pieces
        const uint32_t codes = shared + token * Side::pitch + KCodec::key_run(usual, c);
        const uint32_t blocks =
            shared + Side::blocks + token * Side::block_row + KCodec::block_run(usual, c);
        const uint32_t operands = query + lane * 16;
#pragma unroll
        for (int m = 0; m < m_tiles; m++) {
#pragma unroll
            for (int n = 0; n < step / 8; n++)
                scores[m][n][0] = scores[m][n][1] = scores[m][n][2] = scores[m][n][3] = 0;
        }
        const auto add_piece = [&](auto piece, int from) {
            constexpr int products = piece.dims / 16;
            uint32_t piece_codes = codes + KCodec::code_bytes(from);
            uint32_t piece_blocks = blocks + from / 16;
            if constexpr (piece.dims != usual) {
                piece_codes += KCodec::key_run(piece.dims, c) - KCodec::key_run(usual, c);
                piece_blocks += KCodec::block_run(piece.dims, c) - KCodec::block_run(usual, c);
            }
            ptx::Words4 q[products][m_tiles];
#pragma unroll
            for (int j = 0; j < products; j++) {
#pragma unroll
                for (int m = 0; m < m_tiles; m++)
                    q[j][m] = ptx::ld_shared_v4(operands + (m * (head_dim / 16) + from / 16 + j) *
                                                               (warp_size * 16));
            }
#pragma unroll
            for (int n = 0; n < step / 8; n++) {
                uint32_t k[products][2];
                KCodec::template load_key<piece.dims>(piece_codes + 8 * n * Side::pitch,
                                                      piece_blocks + 8 * n * Side::block_row, k);
#pragma unroll
                for (int j = 0; j < products; j++) {
#pragma unroll
                    for (int m = 0; m < m_tiles; m++)
                        KCodec::Mma::product(scores[m][n], q[j][m].w[0], q[j][m].w[1], q[j][m].w[2],
                                             q[j][m].w[3], k[j][0], k[j][1]);
                }
            }
        };
        if constexpr (in_turns) {
#pragma unroll 4
            for (int from = 0; from < head_dim; from += usual)
                add_piece(PieceAt<0, usual>(), from);
        } else {
            for_each_piece<head_dim, widest_key>([&](auto piece) { add_piece(piece, piece.at); });
        }
    }

    // O += P V for `step` tokens and this warp's dims. Rows of 16 bits come as the product wants
    // them, by matrices; codes in pieces.
    template <int step>
    static __device__ __forceinline__ void accumulate(
        RowState<Config>& state, uint32_t lane, uint32_t first_dim, uint32_t shared, uint32_t at,
        const uint32_t (&weights)[m_tiles][step / 16][4]) {
        if constexpr (Tile::V::by_matrices)
            accumulate_matrices<step>(state, lane, first_dim, shared, at, weights);
        else
            accumulate_pieces<step>(state, lane, first_dim, shared, at, weights);
    }

private:
    // A lane names the row of a matrix: a token, of the first or second eight of 16, and the first
    // or second eight of 16 dims.
    template <int step>
    static __device__ __forceinline__ void accumulate_matrices(
        RowState<Config>& state, uint32_t lane, uint32_t first_dim, uint32_t shared, uint32_t at,
        const uint32_t (&weights)[m_tiles][step / 16][4]) {
        using Side = typename Tile::V;
        using Mma = typename Side::Codec::Mma;
        const uint32_t token = at + spread(lane % 8) + lane / 8 % 2 * 8;
        const uint32_t rows =
            shared + token * Side::pitch + lane / 16 * 16 + (dim_parts > 1 ? 2 * first_dim : 0);
#pragma unroll
        for (int k = 0; k < step / 16; k++) {
#pragma unroll
            for (int tile = 0; tile < Config::part_dims / 16; tile++) {
                const ptx::Words4 v = ptx::ldmatrix_trans(rows + 16 * k * Side::pitch + 32 * tile);
#pragma unroll
                for (int half = 0; half < 2; half++) {
#pragma unroll
                    for (int m = 0; m < m_tiles; m++)
                        Mma::product(state.out[m][2 * tile + half], weights[m][k][0],
                                     weights[m][k][1], weights[m][k][2], weights[m][k][3],
                                     v.w[2 * half], v.w[2 * half + 1]);
                }
            }
        }
    }

    template <int step>
    static __device__ __forceinline__ void accumulate_pieces(
        RowState<Config>& state, uint32_t lane, uint32_t first_dim, uint32_t shared, uint32_t at,
        const uint32_t (&weights)[m_tiles][step / 16][4]) {
        using Side = typename Tile::V;
        using Codec = typename Side::Codec;
        const uint32_t g = lane / 4, c = lane % 4;
        constexpr int usual = piece_dims(Config::part_dims, widest_value);  // dims of most pieces
        const uint32_t skip =
            (dim_parts > 1 ? Codec::code_bytes(first_dim) : 0) + Codec::value_run(usual, g);
        const uint32_t even = shared + (at + c) * Side::pitch + skip;           // spread(2c)
        const uint32_t odd = shared + (at + 4 + (c ^ 2)) * Side::pitch + skip;  // spread(2c + 1)
        const uint32_t blocks = shared + Side::blocks + (at + spread(g)) * Side::block_row +
                                (dim_parts > 1 ? first_dim / 16 : 0) + Codec::block_run(usual, c);
#pragma unroll
        for (int k = 0; k < step / 16; k++) {
            for_each_piece<Config::part_dims, widest_value>([&](auto piece) {
                uint32_t first = 16 * k * Side::pitch + Codec::code_bytes(piece.at);
                uint32_t of_blocks = blocks + 16 * k * Side::block_row + piece.at / 16;
                if constexpr (piece.dims != usual) {
                    first += Codec::value_run(piece.dims, g) - Codec::value_run(usual, g);
                    of_blocks += Codec::block_run(piece.dims, c) - Codec::block_run(usual, c);
                }
                const uint32_t second = first + 8 * Side::pitch;
                const uint32_t codes[4] = {even + first, odd + first, even + second, odd + second};
                const uint32_t scales[2] = {of_blocks, of_blocks + 8 * Side::block_row};
                uint32_t v[piece.dims / 16][4];
                Codec::template load_value<piece.dims>(codes, scales, v);
#pragma unroll
                for (int tile = 0; tile < piece.dims / 16; tile++) {
#pragma unroll
                    for (int half = 0; half < 2; half++) {
#pragma unroll
                        for (int m = 0; m < m_tiles; m++)
                            Codec::Mma::product(state.out[m][2 * (piece.at / 16 + tile) + half],
                                                weights[m][k][0], weights[m][k][1],
                                                weights[m][k][2], weights[m][k][3], v[tile][half],
                                                v[tile][2 + half]);
                    }
                }
            });
        }
    }
};

}  // namespace ftj
