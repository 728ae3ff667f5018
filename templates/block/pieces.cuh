// SPDX-License-Identifier: MIT
// A row is read from shared memory in pieces of 128, 64, 32 or 16 dims: the widest a codec can load
// at once first, then what is left. head_dim 80 is 64 + 16, 512 is four of 128.
//
// Within a piece the lanes of a fragment own runs of dims, and the order of dims inside a matrix
// product is whatever the codec's decoding makes cheapest: K and Q agree on key_dim(), V and the
// output on value_dim(), and nothing is ever transposed through shared memory. Only the V in 16
// bits of an extend is: ldmatrix transposes it on its way to the registers, and its dims keep their
// order.
#pragma once
#include "block/params.h"

namespace ftj {

constexpr int piece_dims(int left, int widest) {
    int dims = widest;
    while (dims > left)
        dims /= 2;
    return dims;
}

// A piece as a type, so that a loop over pieces is unrolled with its widths known.
template <int at_, int dims_>
struct PieceAt {
    static constexpr int at = at_;
    static constexpr int dims = dims_;
};

// One of many of one width: what is done with them is then compiled once, and unrolled late.
template <int dims_>
struct EqualPiece {
    static constexpr int dims = dims_;
    int at;
};

// Row r of a score tile is token tau(r), the same in rows 8 to 15 + 8: with it, eight lanes that
// load 16 bytes of one column each meet no bank twice, for K as for V.
constexpr uint32_t tau(uint32_t row) { return row % 2 ? 4 + ((row / 2) ^ 1) : row / 2; }

// The dim, within a piece, that V's tile `tile` holds in row g (half 0) and row g + 8 (half 1).
template <int dims>
constexpr int value_dim(int tile, int half, int g) {
    if (dims == 16)
        return 2 * g + half;
    return dims / 8 * g + 4 * (tile / 2) + tile % 2 + 2 * half;
}

// Calls visit(piece) for every piece of a row, each of a type of its own.
template <int head_dim, int widest, int at = 0, class Visit>
FTJ_DEVICE void for_each_piece_apart(const Visit& visit) {
    if constexpr (at < head_dim) {
        constexpr int dims = piece_dims(head_dim - at, widest);
        visit(PieceAt<at, dims>());
        for_each_piece_apart<head_dim, widest, at + dims>(visit);
    }
}

// The same; many of one width are a loop.
template <int head_dim, int widest, class Visit>
FTJ_DEVICE void for_each_piece(const Visit& visit) {
    if constexpr (head_dim % widest == 0 && head_dim > 2 * widest) {
#pragma unroll
        for (int i = 0; i < head_dim / widest; i++)
            visit(EqualPiece<widest>{i * widest});
    } else {
        for_each_piece_apart<head_dim, widest>(visit);
    }
}

// `bytes` of shared memory, 16, 8, 4, 2 or 1 of them, as words.
template <int bytes>
FTJ_DEVICE void load_shared(uint32_t address, uint32_t (&words)[(bytes + 3) / 4]) {
    static_assert(bytes == 16 || bytes == 8 || bytes == 4 || bytes == 2 || bytes == 1, "one load");
    if constexpr (bytes == 16) {
        const ptx::Words4 v = ptx::ld_shared_v4(address);
        words[0] = v.w[0], words[1] = v.w[1], words[2] = v.w[2], words[3] = v.w[3];
    } else if constexpr (bytes == 8) {
        const ptx::Words2 v = ptx::ld_shared_v2(address);
        words[0] = v.w[0], words[1] = v.w[1];
    } else if constexpr (bytes == 4) {
        words[0] = ptx::ld_shared_u32(address);
    } else if constexpr (bytes == 2) {
        words[0] = ptx::ld_shared_u16(address);
    } else {
        words[0] = ptx::ld_shared_u8(address);
    }
}

}  // namespace ftj
