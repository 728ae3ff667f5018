// SPDX-License-Identifier: MIT
// The second half of an extend: the rows of each unit whose tiles several blocks shared, from their
// partial results.
//
//   O = sum_i out_i 2^(max_i - max) / sum_i sum_i 2^(max_i - max)
//
// A block of the extend says of one unit at most, in its Split, how many parts there are. A block
// here serves rows_per_block rows of one such unit; thread = (row, share of the parts, four
// columns), so that neighbours read neighbouring float4. What takes time is two trips to memory, to
// what the Split says and to the parts, so many blocks are on their way at once, each of which asks
// for all of its few parts in one: of two parts, those of two rows a thread. Grid: blocks of the
// extend * (block_rows / rows_per_block, rounded up).
//
// Its blocks take the places of those of the extend that have ended, and wait for the last of them:
// nothing is known before. All of them wait, those without a unit too, so that this grid ends after
// the extend: who waits for the one waits for both. So does the next extend, which writes the same
// workspace and is launched in order.
#pragma once
#include "block/part_sum.cuh"
#include "block/query_tile.cuh"

namespace ftj {

template <class Config>
struct ExtendCombine {
    using Element = typename Config::Element;
    static constexpr int head_dim = Config::head_dim;
    static constexpr uint32_t rows_per_block = Config::rows_per_block;
    static constexpr uint32_t quads = head_dim / 4;
    static constexpr uint32_t shares = Config::num_threads / quads;
    static constexpr uint32_t parts_at_once = 4;
    static_assert(shares >= 2, "two threads for every four columns");
    static constexpr uint32_t rows_each = rows_per_block / shares;  // of two parts, a thread's
    static_assert(rows_per_block == rows_each * shares, "as many for every thread");
    using SharedSums = SharedPartSums<Config::num_threads>;
    static_assert(Config::smem_bytes == SharedSums::bytes, "tune_extend.c must agree");

    static __device__ void run(const ftj_extend_params& p) {
        Launch::let_next_start();
        Launch::wait_for_previous();
        const uint32_t chunks = (p.block_rows + rows_per_block - 1) / rows_per_block;
        const uint32_t block = ptx::block_index() / chunks;
        const Split split = pointer<const Split>(p.splits)[block];
        const uint32_t begin = ptx::block_index() % chunks * rows_per_block;
        if (split.parts < 2 || begin >= split.end_row - split.first_row)
            return;
        const uint32_t end = min_of(begin + rows_per_block, split.end_row - split.first_row);
        const uint32_t share = ptx::thread_index() / quads;
        const uint32_t quad = ptx::thread_index() % quads;
        if (split.parts == 2) {
            if (share < shares)
                add_two(p, split, block, begin + share, end, quad);
            return;
        }
        // As many shares of a row as it takes for their parts to be on their way at once.
        const uint32_t per_row = min_of((split.parts + parts_at_once - 1) / parts_at_once, shares);
        const uint32_t at_once = shares / per_row;
        const auto shared = SharedSums::at(ptx::dynamic_shared());
#pragma unroll 1
        for (uint32_t first = begin; first < end; first += at_once) {
            const uint32_t row = first + share / per_row;
            const bool has_row = share < at_once * per_row && row < end;
            PartSum sum = PartSum::none();
            if (has_row)
                sum = PartSum::of<quads, parts_at_once>(
                    pointer<const Quad>(p.partial_out) + quad,
                    pointer<const ptx::Words2>(p.partial_state), split.parts, share % per_row,
                    per_row, [&](uint32_t part) {
                        return slot_of(split, block, part) * p.block_rows + row;
                    });
            shared.put(ptx::thread_index(), sum);
            ptx::sync_block();
            if (has_row && share % per_row == 0) {
                const uint32_t mine = ptx::thread_index();
                sum = shared.add(sum, mine + quads, quads, mine + per_row * quads);
                write_row(p, split, split.first_row + row, sum, quad);
            }
            ptx::sync_block();
        }
    }

private:
    static __device__ __forceinline__ uint32_t slot_of(const Split& split, uint32_t block,
                                                       uint32_t part) {
        return part == 0 ? split.slot : 2 * (block + part);
    }

    // A thread's rows, each of two parts, as most are.
    static __device__ __forceinline__ void add_two(const ftj_extend_params& p, const Split& split,
                                                   uint32_t block, uint32_t first, uint32_t end,
                                                   uint32_t quad) {
        const auto* outs = pointer<const Quad>(p.partial_out) + quad;
        const auto* states = pointer<const ptx::Words2>(p.partial_state);
        PartSum parts[rows_each][2];
#pragma unroll
        for (uint32_t i = 0; i < rows_each; i++) {
#pragma unroll
            for (uint32_t part = 0; part < 2; part++) {
                // One past the last is read as the last.
                const uint64_t at = slot_of(split, block, part) * p.block_rows +
                                    min_of(first + i * shares, end - 1);
                const ptx::Words2 state = states[at];
                parts[i][part] = {outs[at * quads], ptx::bits_float(state.w[0]),
                                  ptx::bits_float(state.w[1])};
            }
        }
#pragma unroll
        for (uint32_t i = 0; i < rows_each; i++) {
            PartSum sum = PartSum::none();
            sum.add(parts[i]);
            if (first + i * shares < end)
                write_row(p, split, split.first_row + first + i * shares, sum, quad);
        }
    }

    static __device__ __forceinline__ void write_row(const ftj_extend_params& p, const Split& split,
                                                     uint32_t row, const PartSum& sum,
                                                     uint32_t quad) {
        const uint32_t query = by_group(p).divide(row);
        const uint32_t q_head = split.head * p.group + (row - query * p.group);
        const int64_t token = int64_t(split.first_query) + query;
        const FinalRow end = finalise(p.sinks, q_head, sum.max, sum.sum);
        auto* o = pointer<typename Element::Storage>(p.o) + token * p.o_token_stride +
                  q_head * p.o_head_stride + 4 * quad;
        store_quad<Element>(o, sum.out, end.factor);
        if (quad == 0 && p.lse)
            pointer<float>(p.lse)[token * (p.num_kv_heads * p.group) + q_head] = end.lse;
    }
};

}  // namespace ftj
