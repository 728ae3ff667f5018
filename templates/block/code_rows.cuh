// SPDX-License-Identifier: MIT
// A producer warp's rows of a tile, from the slot that they were fetched into to the swizzled tile.
#pragma once
#include "block/widen_rows.cuh"

namespace ftj {

// How a warp's rows of one side lie in a slot.
template <class Widen_, int head_dim, int rows_, bool is_value_, bool tells_unit_>
struct CodeRows {
    using Widen = Widen_;
    static constexpr bool is_value = is_value_;      // V: widened with row scales in any case
    static constexpr bool tells_unit = tells_unit_;  // of the other side's: has its row scales too
    static constexpr int rows = rows_;
    static constexpr int code_row = Widen::code_bytes(head_dim);
    static constexpr int block_row = Widen::block_bytes(head_dim);
    static constexpr int scales = rows * code_row;
    static constexpr int blocks = scales + rows * 4;
    static constexpr int other_scales = blocks + rows * block_row;
    static constexpr int bytes = Widen::is_coded ? other_scales + (tells_unit ? rows * 4 : 0) : 0;
    static_assert(bytes % 16 == 0, "slots follow each other on 16-byte boundaries");
};

// Rows of a slot, whole groups of eight.
struct SlotRows {
    uint32_t first;
    uint32_t count;
};

enum class WidenKind {
    plain,       // keys without their row scales; values to bf16
    half,        // with row scales, to fp16
    half_alike,  // so are the other side's, in the same places: what they are is kept
    seldom,      // values to bf16 beside those, which need not be fast
};

// Where a lane's share of a slot goes: 16 bytes of codes at a time, of rows `at_once` apart.
template <class Side, class Tile, WidenKind kind>
struct WidenRows {
    static constexpr bool as_half = kind == WidenKind::half || kind == WidenKind::half_alike;
    using Widen = typename Side::Widen;
    static constexpr int rows = Side::rows;
    static constexpr uint32_t lanes = Side::code_row / 16;  // that share a row
    static constexpr uint32_t at_once = warp_size / lanes;  // rows
    static constexpr uint32_t chunks = Widen::chunk_codes / 8;
    static constexpr uint32_t loads = at_once < 8 ? 8 / at_once : 1;  // a whole group of rows
    static constexpr uint32_t batch_rows = loads * at_once;
    // Registers for two batches; and tiles that are seldom need not be fast.
    static constexpr bool in_pairs =
        loads <= 2 && rows % (2 * batch_rows) == 0 && kind != WidenKind::seldom;
    static_assert(rows % batch_rows == 0, "whole batches");
    // Eight lanes store at a time: where they reach into several panels, each panel's lanes
    // take other rows, so that no two meet in a bank.
    static constexpr uint32_t panels =
        lanes * chunks < 16 ? 1 : (lanes < 8 ? lanes : 8) * chunks / 8;
    static constexpr uint32_t apart = lanes >= 8 ? 1 : 8 / lanes;

    struct Batch {
        ptx::Words4 codes[loads];
        uint32_t block_scales[loads];
        uint32_t row_scales[loads];
    };
    uint32_t codes_at;
    uint32_t blocks_at;
    uint32_t scales_at;
    uint32_t to[loads][chunks];
    uint32_t count;    // rows
    uint32_t nothing;  // 0, which the assembler does not know
    Batch first;       // codes only

    __device__ __forceinline__ WidenRows(uint32_t own_lane, uint32_t first_row, uint32_t slot,
                                         uint32_t tile, SlotRows its = {0, rows})
        : count(its.count) {
        const uint32_t lane = kind == WidenKind::half_alike ? own_lane : ptx::made_anew(own_lane);
        nothing = ptx::opaque(0);
        const uint32_t q = lane % lanes;
        const uint32_t first = lane / lanes ^ q * chunks / 8 % panels * apart;
        const uint32_t from = its.first + first;
        codes_at = slot + from * Side::code_row + q * 16;
        blocks_at = slot + Side::blocks + from * Side::block_row + q * (Widen::chunk_codes / 16);
        scales_at = slot + Side::scales + from * 4;
#pragma unroll
        for (uint32_t j = 0; j < loads; j++) {
#pragma unroll
            for (uint32_t i = 0; i < chunks; i++)
                to[j][i] = tile + its.first * 128 +
                           Tile::at(first_row + (first ^ j * at_once), q * chunks + i);
        }
    }
    // All of them, and in two steps: row scales may be written meanwhile.
    __device__ __forceinline__ void run() {
        start();
        go_on();
    }
    __device__ __forceinline__ void start() {
        if constexpr (in_pairs)
            load_codes(0, first);
    }
    __device__ __forceinline__ void go_on() {
        constexpr uint32_t step = batch_rows;
        constexpr uint32_t pairs = as_half && rows % (4 * step) == 0 ? 2 : 1;
        const uint32_t end = ptx::opaque(count);  // or the compiler unrolls what is told not to be
        if constexpr (in_pairs) {
            // Loads before the stores of the batch before: each may alias the next load.
            Batch even = first, odd;
            load_scales(0, even);
#pragma unroll 1
            for (uint32_t row = 0; row < end; row += 2 * step * pairs) {
#pragma unroll
                for (uint32_t at = 0; at < 2 * step * pairs; at += 2 * step) {
                    load(at + step, odd);
                    store(at, even);
                    if (at + 2 * step < 2 * step * pairs || row + 2 * step * pairs < end)
                        load(at + 2 * step, even);
                    store(at + step, odd);
                }
                go_on_loading(2 * step * pairs);
                go_on_storing(2 * step * pairs);
            }
        } else {
#pragma unroll 1
            for (uint32_t row = 0; row < end; row += step) {
                Batch batch;
                load(0, batch);
                go_on_loading(step);
                store(0, batch);
                go_on_storing(step);
            }
        }
    }

private:
    // `row`: on from where they stand.
    __device__ __forceinline__ void load(uint32_t row, Batch& batch) const {
        load_codes(row, batch);
        load_scales(row, batch);
    }
    __device__ __forceinline__ void load_codes(uint32_t row, Batch& batch) const {
#pragma unroll
        for (uint32_t j = 0; j < loads; j++) {
            const uint32_t at = row + j * at_once;
            batch.codes[j] = ptx::ld_shared_v4(codes_at + at * Side::code_row);
            batch.block_scales[j] = 0;
            if constexpr (Side::block_row > 0)
                batch.block_scales[j] = ptx::ld_shared_u16(blocks_at + at * Side::block_row);
        }
    }
    __device__ __forceinline__ void load_scales(uint32_t row, Batch& batch) const {
#pragma unroll
        for (uint32_t j = 0; j < loads; j++) {
            if constexpr (Side::is_value || as_half)
                batch.row_scales[j] = ptx::ld_shared_u32(scales_at + (row + j * at_once) * 4);
        }
    }
    // A store waits in the queue of shared memory before it reads its registers, and of some chunks
    // in a row the assembler would have all in the same. So its address takes a bit that is none
    // from the values after it, which then have others.
    static constexpr bool is_chained = chunks > 2;
    __device__ __forceinline__ void store(uint32_t row, const Batch& batch) const {
        constexpr uint32_t a_and_b_or_c = 0xea;
        ptx::Words4 values = widen(batch, 0, 0);
#pragma unroll
        for (uint32_t at = 0; at < loads * chunks; at++) {
            const uint32_t address = to[at / chunks][at % chunks];
            const uint32_t next = at + 1;
            if (next == loads * chunks) {
                ptx::st_shared_v4(address + row * 128, values);
            } else {
                const ptx::Words4 others = widen(batch, next / chunks, int(next % chunks));
                const uint32_t chained =
                    is_chained ? ptx::lop3<a_and_b_or_c>(others.w[3], nothing, address) : address;
                ptx::st_shared_v4(chained + row * 128, values);
                values = others;
            }
        }
    }
    __device__ __forceinline__ void go_on_loading(uint32_t count) {
        codes_at += count * Side::code_row;
        blocks_at += count * Side::block_row;
        scales_at += count * 4;
    }
    __device__ __forceinline__ void go_on_storing(uint32_t count) {
#pragma unroll
        for (uint32_t j = 0; j < loads; j++) {
#pragma unroll
            for (uint32_t i = 0; i < chunks; i++)
                to[j][i] += count * 128;
        }
    }

    static __device__ __forceinline__ ptx::Words4 widen(const Batch& batch, uint32_t j, int i) {
        if constexpr (as_half && !Side::is_value)
            return Widen::widen_keys(batch.codes[j], batch.block_scales[j], batch.row_scales[j], i);
        else if constexpr (as_half)
            return Widen::widen_half(batch.codes[j], batch.block_scales[j], batch.row_scales[j], i);
        else if constexpr (kind == WidenKind::seldom && Widen::swaps_values)
            return Widen::swapped(Widen::widen(batch.codes[j], batch.block_scales[j],
                                               ptx::bits_float(batch.row_scales[j]), i));
        else if constexpr (Side::is_value)
            return Widen::widen(batch.codes[j], batch.block_scales[j],
                                ptx::bits_float(batch.row_scales[j]), i);
        else
            return Widen::widen(batch.codes[j], batch.block_scales[j], i);
    }
};

}  // namespace ftj
