// SPDX-License-Identifier: MIT
// The second half of a decode: the rows of output of the segments that several of its blocks
// shared, from the part that each of them left.
//
//   O = sum_i out_i 2^(max_i - max) / sum_i sum_i 2^(max_i - max)
//
// The work was cut by lengths and grid alone, so that a block finds out by itself, while the decode
// still runs, which segment it has: a unit, or, where decode blocks are fewer, the one that starts
// in that decode block and goes on in the next. It serves combine_rows rows of it; thread = (share
// of the parts, row, four columns). Blocks that have to wait for room are late, even if they find
// nothing to do: the grid is combine_units * combine_chunks, no more than fit, and takes turns
// where units are more.
#pragma once
#include "block/part_sum.cuh"
#include "block/segments.cuh"

namespace ftj {

template <class Config>
struct AttnCombine {
    using Element = typename Config::Element;
    static constexpr int num_rows = 8 * Config::n_tiles;  // of a kv head in a unit's slot
    static constexpr uint32_t num_threads = Config::num_threads;
    static constexpr uint32_t quads = Config::head_dim / 4;
    // What one of four shares has of the 33 parts that 264 blocks make of one request of 8 kv
    // heads.
    static constexpr uint32_t parts_at_once = 9;
    using SharedSums = SharedPartSums<num_threads>;

    using Table = typename OneOrRun<OfAnyTable, OfRuns<num_rows>, Config::has_runs>::Type;

    // A segment that several blocks share.
    struct Split {
        Columns<Config::has_runs> columns;  // of its first kv head
        uint32_t block;                     // the first of them
        uint32_t first_slot;
        uint32_t parts;  // 0: none starts in the block
        uint32_t upto;   // numbers that have any are below

        // The first block's part lies in its second slot, unless it has but one segment.
        __device__ __forceinline__ uint32_t slot(uint32_t part) const {
            return part == 0 ? first_slot : 2 * (block + part);
        }
    };
    static_assert(Config::smem_bytes == SharedSums::bytes + int(sizeof(Split)),
                  "tune_decode.c must agree");

    // The segment of that unit, or the one that starts in that block of the decode and goes on in
    // the next. All lanes of a warp get it.
    static __device__ __forceinline__ Split find_split(const ftj_decode_params& p,
                                                       uint32_t number) {
        const Cut<Table> cut(p);
        Split split = {};
        if (cut.blocks == 0 || cut.pieces == 1)
            return split;
        const uint32_t units = cut.count * cut.num_units;
        const bool by_unit = units < cut.blocks;
        split.upto = by_unit ? units : cut.blocks - 1;
        if (number >= split.upto)
            return split;
        const auto place =
            cut.locate(cut.begin_of(number + 1), by_unit ? number : Cut<Table>::no_unit);
        const uint32_t width = cut.unit_width(place.keys.num_tiles(p.tile_shift));
        const uint32_t first = cut.owner(place.begin + cut.first_tile());
        const uint32_t last = cut.owner(place.begin + width - 1);
        if (first == last || (!by_unit && first != number))
            return split;
        const uint32_t head_set = cut.head_set(place);
        split.columns = Columns<Config::has_runs>::of(
            p, place.keys, place.request, head_set * p.unit_heads,
            place.unit - head_set * place.keys.head_blocks(p), num_rows);
        split.block = first;
        split.first_slot = 2 * first + (place.begin > cut.begin_of(first));
        split.parts = last - first + 1;
        return split;
    }

    static __device__ void run(const ftj_decode_params& p) {
        // The next grid starts when every block is here: it takes nobody's room. A decode has then
        // the time that this one needs to look up its own first tiles.
        Launch::let_next_start();
        const bool by_chunk = p.combine_by_chunk;
        const uint32_t in_row = by_chunk ? p.combine_units : p.combine_chunks;
        const uint32_t row = ptx::block_index() / in_row, at = ptx::block_index() - row * in_row;
        const uint32_t chunk = by_chunk ? row : at;
        uint32_t number = by_chunk ? at : row;
        auto& shared = *reinterpret_cast<Split*>(ptx::dynamic_shared() + SharedSums::bytes);
#pragma unroll 1
        for (;; number += p.combine_units) {
            if (ptx::thread_index() < warp_size) {
                const Split found = find_split(p, number);
                if (ptx::thread_index() == 0)
                    shared = found;
            }
            ptx::sync_block();
            const Split split = shared;
            const uint32_t count = split.columns.count * p.unit_heads;
            const uint32_t rows = has_few_parts(split) ? p.combine_few_rows : p.combine_rows;
            if (split.parts != 0 && chunk * rows < count)
                combine(p, split, chunk * rows, min_of(rows, count - chunk * rows));
            if (number + p.combine_units >= split.upto)
                break;
            ptx::sync_block();
        }
        if (ptx::block_index() == 0)  // one must, or the grid might end before the decode has
            Launch::wait_for_previous();
    }

private:
    // Few parts are on their way at once in one thread, and need not meet in shared memory.
    static __device__ __forceinline__ bool has_few_parts(const Split& split) {
        return split.parts <= parts_at_once;
    }

    static __device__ __forceinline__ void combine(const ftj_decode_params& p, const Split& split,
                                                   uint32_t first_row, uint32_t rows) {
        const uint32_t width = rows * quads;
        const uint32_t shares = has_few_parts(split) ? 1 : num_threads / width;
        const uint32_t share = ptx::thread_index() / width;
        const uint32_t item = ptx::thread_index() % width;
        const uint32_t of_unit = first_row + item / quads;
        const uint32_t head = p.unit_heads == 1 ? 0 : of_unit / split.columns.count;
        const uint32_t row = of_unit - head * split.columns.count;
        const uint32_t quad = item % quads;
        if (shares == 1 && share > 0)
            return;

        // All that is known before the parts are there: what follows the wait is on everyone's way.
        const uint32_t slot_rows = p.unit_heads * num_rows;
        uint32_t first = split.slot(0) * slot_rows + head * num_rows + row;
        uint32_t others = 2 * split.block * slot_rows + head * num_rows + row;
        uint32_t step = 2 * slot_rows;
        uint64_t outs = p.partial_out + quad * sizeof(Quad), states = p.partial_state;
        const auto to = split.columns.at(p, row, head);
        uint64_t output = reinterpret_cast<uint64_t>(output_row<Element>(p, to.row, to.q_head));
        ptx::keep(first), ptx::keep(others), ptx::keep(step);
        ptx::keep(outs), ptx::keep(states), ptx::keep(output);
        Launch::wait_for_previous();

        PartSum sum = PartSum::none();
        if (share < shares)
            sum = PartSum::of<quads, parts_at_once>(
                pointer<const Quad>(outs), pointer<const ptx::Words2>(states), split.parts, share,
                shares, [&](uint32_t part) { return part == 0 ? first : others + part * step; });
        if (shares > 1) {
            const auto shared = SharedSums::at(ptx::dynamic_shared());
            shared.put(ptx::thread_index(), sum);
            ptx::sync_block();
            if (share > 0)
                return;
            sum = shared.add(sum, item + width, width, shares * width);
        }
        const auto end = finalise(p.sinks, to.q_head, sum.max, sum.sum);
        store_quad<Element>(pointer<typename Element::Storage>(output) + 4 * quad, sum.out,
                            end.factor);
        if (quad == 0)
            write_lse(p, to.row, to.q_head, end.lse);
    }
};

}  // namespace ftj
