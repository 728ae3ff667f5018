// SPDX-License-Identifier: MIT
// The second half of a decode: the rows of output of the segments that several of its blocks
// shared, from the part that each of them left.
//
//   O = sum_i out_i 2^(max_i - max) / sum_i sum_i 2^(max_i - max)
//
// The work was cut by lengths and grid alone, so that a block finds out by itself, while the decode
// still runs, which segment it has: the one that starts in decode block `block_index / chunks` and
// goes on in the next. It serves rows_per_block rows of it; thread = (share of the parts, row, four
// columns). Grid: the decode's * chunks.
#pragma once
#include "block/final_row.cuh"
#include "block/segments.cuh"

namespace ftj {

template <class Config>
struct AttnCombine {
    using Element = typename Config::Element;
    static constexpr int num_rows = 8 * Config::n_tiles;  // of a unit's slot
    static constexpr uint32_t rows_per_block = Config::rows_per_block;
    static constexpr uint32_t num_threads = Config::num_threads;
    static constexpr uint32_t quads = Config::head_dim / 4;
    static constexpr uint32_t at_once = 8;  // parts a thread has under way
    static_assert(rows_per_block * quads <= num_threads, "a thread for every four columns");
    static_assert(Config::smem_bytes == num_threads * 24, "tune and Sum must agree");

    // What a share of the parts adds up to.
    struct Sum {
        Quad out;
        float max;
        float sum;
    };

    // A segment that several blocks share.
    struct Split {
        uint32_t request;
        uint32_t q_head;  // the first of its rows
        uint32_t heads;
        uint32_t block;  // the first of them
        uint32_t first_slot;
        uint32_t parts;  // 0: none starts in the block

        // The first block's part lies in its second slot, unless it has but one segment.
        __device__ __forceinline__ uint32_t slot(uint32_t part) const {
            return part == 0 ? first_slot : 2 * (block + part);
        }
    };

    static __device__ void run(const ftj_decode_params& p) {
        const uint32_t unit_rows = min_of(p.group, uint32_t(num_rows));
        const uint32_t chunks = (unit_rows + rows_per_block - 1) / rows_per_block;
        const uint32_t first_row = ptx::block_index() % chunks * rows_per_block;
        const Split split = find_split(p, ptx::block_index() / chunks);
        const bool has_rows = split.parts != 0 && first_row < split.heads;
        // One block must wait, or the grid might end before the decode has.
        if (!has_rows && ptx::block_index() != 0)
            return;
        Launch::wait_for_previous();
        Launch::let_next_start();  // not sooner: the next decode would take the room of this grid
        if (has_rows)
            combine(p, split, first_row, min_of(rows_per_block, split.heads - first_row));
    }

private:
    static __device__ __forceinline__ Split find_split(const ftj_decode_params& p, uint32_t block) {
        const uint32_t num_units = p.num_kv_heads * p.head_blocks;
        const auto all = Tally<OfAnyTable>::of(p.requests, num_units, p.tile_tokens);
        const Cut cut = Cut::of(all.total, p.min_tiles, p.blocks);
        if (block + 1 >= cut.blocks)
            return {};
        const uint64_t next = cut.begin_of(block + 1);
        const TilePlace place = all.locate(p.requests, num_units, p.tile_tokens, next);
        const uint32_t tiles = place.keys.num_tiles(p.tile_tokens);
        const uint32_t unit = place.before / tiles;
        const uint64_t first = next - place.before % tiles;  // tile of the segment
        if (first == next || first < cut.begin_of(block))
            return {};
        const uint32_t head_block = unit % p.head_blocks;
        return {place.request,
                unit / p.head_blocks * p.group + head_block * num_rows,
                min_of(p.group - head_block * num_rows, uint32_t(num_rows)),
                block,
                2 * block + (first != cut.begin_of(block)),
                cut.owner(first + tiles - 1) - block + 1};
    }

    static __device__ __forceinline__ void combine(const ftj_decode_params& p, const Split& split,
                                                   uint32_t first_row, uint32_t rows) {
        const uint32_t width = rows * quads;
        const uint32_t shares = num_threads / width;
        const uint32_t share = ptx::thread_index() / width;
        const uint32_t item = ptx::thread_index() % width;
        const uint32_t row = first_row + item / quads;
        const uint32_t quad = item % quads;
        auto* outs = reinterpret_cast<Quad*>(ptx::dynamic_shared());
        auto* states = reinterpret_cast<float*>(outs + num_threads);

        Sum sum = {{}, lowest_score, 0.0f};
        if (share < shares)
            sum = add_parts(p, split, row, quad, share, shares);
        outs[ptx::thread_index()] = sum.out;
        states[2 * ptx::thread_index()] = sum.max;
        states[2 * ptx::thread_index() + 1] = sum.sum;
        ptx::sync_block();
        if (share > 0)
            return;
        for (uint32_t at = item + width; at < shares * width; at += width) {
            const Sum other[1] = {{outs[at], states[2 * at], states[2 * at + 1]}};
            add(sum, other);
        }
        const auto end = finalise(p.sinks, split.q_head + row, sum.max, sum.sum);
        store_quad<Element>(output_row<Element>(p, split.request, split.q_head + row) + 4 * quad,
                            sum.out, end.factor);
        if (quad == 0)
            write_lse(p, split.request, split.q_head + row, end.lse);
    }

    static __device__ __forceinline__ Sum add_parts(const ftj_decode_params& p, const Split& split,
                                                    uint32_t row, uint32_t quad, uint32_t share,
                                                    uint32_t shares) {
        const auto* outs = pointer<const Quad>(p.partial_out) + row * quads + quad;
        const auto* states = pointer<const ptx::Words2>(p.partial_state) + row;
        Sum sum = {{}, lowest_score, 0.0f};
#pragma unroll 1
        for (uint32_t i = share; i < split.parts; i += at_once * shares) {
            Sum others[at_once];
#pragma unroll
            for (uint32_t j = 0; j < at_once; j++) {
                const uint32_t part = i + j * shares;
                others[j] = {{}, lowest_score, 0.0f};
                if (part < split.parts) {
                    const uint64_t first = uint64_t(split.slot(part)) * num_rows;
                    const ptx::Words2 state = states[first];
                    others[j] = {outs[first * quads], ptx::bits_float(state.w[0]),
                                 ptx::bits_float(state.w[1])};
                }
            }
            add(sum, others);
        }
        return sum;
    }

    template <uint32_t count>
    static __device__ __forceinline__ void add(Sum& sum, const Sum (&others)[count]) {
        float max = sum.max;
#pragma unroll
        for (uint32_t j = 0; j < count; j++)
            max = ptx::max_f32(max, others[j].max);
        const float of_sum = ptx::ex2_approx(sum.max - max);
        sum.max = max;
        sum.sum *= of_sum;
#pragma unroll
        for (int i = 0; i < 4; i++)
            sum.out.v[i] *= of_sum;
#pragma unroll
        for (uint32_t j = 0; j < count; j++) {
            const float of_other = ptx::ex2_approx(others[j].max - max);
            sum.sum += others[j].sum * of_other;
#pragma unroll
            for (int i = 0; i < 4; i++)
                sum.out.v[i] += others[j].out.v[i] * of_other;
        }
    }
};

}  // namespace ftj
