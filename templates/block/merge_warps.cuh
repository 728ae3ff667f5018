// SPDX-License-Identifier: MIT
// The end of a segment: the warps' states become one, and the block writes its rows of output, or a
// partial result for attn_combine.cuh.
//
// Each warp leaves its rows in shared memory, and each thread adds up four columns of one row over
// the warps of its kv head (part_sum.cuh) and writes them at once. The memory is what the ring has
// free then: of each group's stages the one that was read last, for a copy into it starts only with
// the next wait. Where a warp's share of a stage does not hold eight rows, they go in two turns of
// four.
#pragma once
#include "block/part_sum.cuh"
#include "block/pieces.cuh"
#include "block/segments.cuh"
#include "block/types.cuh"

namespace ftj {

template <class Config, class Tile>
struct OutputRows {
    using VCodec = typename Config::VCodec;
    using Element = typename Config::Element;
    static constexpr int head_dim = Config::head_dim;
    static constexpr int n_tiles = Config::n_tiles;
    static constexpr int num_warps = Config::num_warps;
    static constexpr uint32_t unit_heads = Config::unit_heads;
    static constexpr uint32_t tile_warps = Config::warps_per_tile;
    static constexpr int num_rows = 8 * n_tiles;
    static constexpr uint32_t quads = head_dim / 4;

    // What a warp leaves in a turn, its slot: rows 2c and 2c + 1 of a tile of columns, or one
    // of them.
    static constexpr int pitch = (head_dim + 31) / 32 * 32;                // floats
    static constexpr int room = Tile::bytes / Tile::ring_warps / 16 * 16;  // for it
    static constexpr int turns = 8 * pitch * 4 <= room ? 1 : 2;
    static constexpr int slot_rows = 8 / turns;
    static constexpr int slot_bytes = slot_rows * pitch * 4;
    static_assert(slot_bytes <= room, "decode_shape.c must see to it");
    // And beside it (max, sum) of its 8 rows, and where the slot is; in whole pairs of words.
    static constexpr int state_bytes = 8 * 8 + 8;
    static constexpr int shared_bytes = num_warps * state_bytes;

    using Column = float[n_tiles][2];

    // All threads call it: of tiles `begin` to `end` of the block's range, which are of one
    // segment. A block has two slots for parts: of the segment that it starts in, and of the one
    // that it ends in. `stage` is the group's free one, which all its warps have read; after the
    // `is_last` of the block's writes no copy comes into it. `meanwhile` is called when the state
    // is not needed any more, and before the others' is waited for.
    template <class Run, class State, class Meanwhile>
    static __device__ __forceinline__ void write(const ftj_decode_params& p, const Run& run,
                                                 uint32_t begin, uint32_t end, State& state,
                                                 uint32_t stage, uint32_t shared, bool is_last,
                                                 const Meanwhile& meanwhile) {
        sum_over_tokens(state.sum);
        const bool whole = run.tile == 0 && end - begin == run.tiles;
        const Target to = {run.columns(p, run.head_set * unit_heads, num_rows),
                           whole ? no_slot : 2 * ptx::block_index() + (begin != 0)};
#pragma unroll
        for (int n = 0; n < n_tiles; n++) {
#pragma unroll
            for (int at_turn = 0; at_turn < turns; at_turn++)
                turn(p, to, n, at_turn, state, stage, shared, is_last, meanwhile);
        }
    }

private:
    // Where a unit's rows go.
    struct Target {
        Columns<Config::has_runs> columns;  // of the first kv head
        uint32_t slot;                      // for a part; no_slot: to the output
    };
    static constexpr uint32_t no_slot = 0xffffffffu;

    static __device__ __forceinline__ void sum_over_tokens(Column& sum) {
#pragma unroll
        for (int n = 0; n < n_tiles; n++) {
#pragma unroll
            for (int e = 0; e < 2; e++) {
#pragma unroll
                for (uint32_t mask = 4; mask < warp_size; mask *= 2)
                    sum[n][e] += ptx::shfl_xor(sum[n][e], mask);
            }
        }
    }

    // Rows of tile n of the columns, which may have fewer than eight.
    template <class State, class Meanwhile>
    static __device__ __forceinline__ void turn(const ftj_decode_params& p, const Target& to, int n,
                                                int at_turn, const State& state, uint32_t stage,
                                                uint32_t shared, bool is_last,
                                                const Meanwhile& meanwhile) {
        const uint32_t warp = ptx::thread_index() / warp_size;
        const uint32_t first = min_of(to.columns.count, uint32_t(8 * n));
        const uint32_t rows = min_of(to.columns.count - first, 8u);
        const uint32_t slot = stage + warp % Tile::ring_warps * slot_bytes;
        if (ptx::thread_index() % 4 * 2 < rows) {
            put_state(state.max[n], state.sum[n], slot, shared + warp * state_bytes);
            put_rows(state.out[n], state.v_factor(), slot, at_turn);
        }
        if (!is_last)
            Tile::Ring::written();
        if (n == n_tiles - 1 && at_turn == turns - 1)
            meanwhile();
        ptx::sync_block();
        add_up(p, to, first, rows, at_turn, shared);
        ptx::sync_block();
    }

    // (max, sum) [8], then the address of the slot.
    static __device__ __forceinline__ void put_state(const float (&max)[2], const float (&sum)[2],
                                                     uint32_t slot, uint32_t shared) {
        const uint32_t lane = ptx::thread_index() % warp_size;
        if (lane >= 4)
            return;
#pragma unroll
        for (int e = 0; e < 2; e++) {
            ptx::st_shared_u32(shared + (2 * lane + e) * 8, ptx::float_bits(max[e]));
            ptx::st_shared_u32(shared + (2 * lane + e) * 8 + 4, ptx::float_bits(sum[e]));
        }
        if (lane == 0)
            ptx::st_shared_u32(shared + 8 * 8, slot);
    }

    // Columns of a row in a slot, the order of its quads turned by the row so that lanes that store
    // or load 16 bytes at a time meet no bank twice.
    static __device__ __forceinline__ uint32_t in_slot(uint32_t row, uint32_t dim) {
        const uint32_t c = row / 2;
        const uint32_t at_row = turns == 1 ? row : c;
        return at_row * (pitch * 4) + ((dim * 4) ^ ((2 * c + ((c ^ c >> 1) & 1)) * 16));
    }

    // Transposed accumulators to rows of dims in their natural order.
    static __device__ __forceinline__ void put_rows(const float (&out)[head_dim / 16][4],
                                                    float factor, uint32_t slot, int at_turn) {
        const uint32_t lane = ptx::thread_index() % warp_size;
        const uint32_t g = lane / 4, c = lane % 4;
        for_each_piece<head_dim, VCodec::widest_value(head_dim)>([&](auto piece) {
#pragma unroll
            for (int tile = 0; tile < piece.dims / 16; tile += 2) {
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    if (turns == 2 && e != at_turn)
                        continue;
                    const uint32_t to =
                        slot + in_slot(2 * c + e, piece.at + value_dim<piece.dims>(tile, 0, g));
                    const auto& of = out[piece.at / 16 + tile];
                    if constexpr (piece.dims == 16) {
                        ptx::st_shared_v2(to, {{ptx::float_bits(of[e] * factor),
                                                ptx::float_bits(of[2 + e] * factor)}});
                    } else {
                        const auto& next = out[piece.at / 16 + tile + 1];
                        ptx::st_shared_v4(to, {{ptx::float_bits(of[e] * factor),
                                                ptx::float_bits(next[e] * factor),
                                                ptx::float_bits(of[2 + e] * factor),
                                                ptx::float_bits(next[2 + e] * factor)}});
                    }
                }
            }
        });
    }

    static __device__ __forceinline__ void add_up(const ftj_decode_params& p, const Target& to,
                                                  uint32_t first, uint32_t rows, int at_turn,
                                                  uint32_t shared) {
        const uint32_t in_turn = turns == 1 ? rows : (rows + 1 - at_turn) / 2;
#pragma unroll 1
        for (uint32_t i = ptx::thread_index(); i < unit_heads * in_turn * quads;
             i += Config::num_threads) {
            const uint32_t head = unit_heads == 1 ? 0 : i / quads / in_turn;
            const uint32_t of_head = i / quads - head * in_turn;
            const uint32_t row = turns == 1 ? of_head : 2 * of_head + at_turn;
            const uint32_t dim = i % quads * 4;
            const PartSum sum = over_warps(row, dim, shared + head * (tile_warps * state_bytes));
            if (to.slot == no_slot)
                write_output(p, to, head, first + row, dim, sum);
            else
                write_part(p, to, head, first + row, dim, sum);
        }
    }

    // Of the kv head whose first warp's state is at `shared`. All warps' rows are on their way at
    // once, where the thread's own state is left by then.
    static __device__ __forceinline__ PartSum over_warps(uint32_t row, uint32_t dim,
                                                         uint32_t shared) {
        constexpr uint32_t warps = num_warps / unit_heads;
        constexpr uint32_t most = n_tiles * turns == 1 ? 12 : 4;
        constexpr uint32_t at_once = warps <= most ? warps : 4;
        static_assert(warps % at_once == 0, "no warp is left over");
        PartSum sum = PartSum::none();
#pragma unroll 1
        for (uint32_t warp = 0; warp < warps; warp += at_once) {
            PartSum others[at_once];
#pragma unroll
            for (uint32_t j = 0; j < at_once; j++) {
                const uint32_t at =
                    (warp + j) / tile_warps * (unit_heads * tile_warps) + (warp + j) % tile_warps;
                const uint32_t of = shared + at * state_bytes;
                const ptx::Words2 state = ptx::ld_shared_v2(of + row * 8);
                const ptx::Words4 v =
                    ptx::ld_shared_v4(ptx::ld_shared_u32(of + 8 * 8) + in_slot(row, dim));
                others[j] = {{{ptx::bits_float(v.w[0]), ptx::bits_float(v.w[1]),
                               ptx::bits_float(v.w[2]), ptx::bits_float(v.w[3])}},
                             ptx::bits_float(state.w[0]),
                             ptx::bits_float(state.w[1])};
            }
            sum.add(others);
        }
        return sum;
    }

    static __device__ __forceinline__ void write_output(const ftj_decode_params& p,
                                                        const Target& to, uint32_t head,
                                                        uint32_t row, uint32_t dim,
                                                        const PartSum& sum) {
        const auto at = to.columns.at(p, row, head);
        const FinalRow end = finalise(p.sinks, at.q_head, sum.max, sum.sum);
        store_quad<Element>(output_row<Element>(p, at.row, at.q_head) + dim, sum.out, end.factor);
        if (dim == 0)
            write_lse(p, at.row, at.q_head, end.lse);
    }

    static __device__ __forceinline__ void write_part(const ftj_decode_params& p, const Target& to,
                                                      uint32_t head, uint32_t row, uint32_t dim,
                                                      const PartSum& sum) {
        const uint64_t at_row = (uint64_t(to.slot) * unit_heads + head) * num_rows + row;
        pointer<Quad>(p.partial_out)[at_row * quads + dim / 4] = sum.out;
        if (dim == 0)
            pointer<ptx::Words2>(p.partial_state)[at_row] = {
                {ptx::float_bits(sum.max), ptx::float_bits(sum.sum)}};
    }
};

}  // namespace ftj
