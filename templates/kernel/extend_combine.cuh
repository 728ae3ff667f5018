// SPDX-License-Identifier: MIT
// The second half of an extend: the rows of each unit whose tiles several blocks shared, from their
// partial results.
//
//   O = sum_i out_i 2^(max_i - max) / sum_i sum_i 2^(max_i - max)
//
// A block of the extend says of one unit at most, in its Split, how many parts there are. A block
// here serves rows_per_block rows of one such unit; thread = (row, share of the parts, four
// columns), so that neighbours read neighbouring float4. A few parts are one share. What takes time
// is two trips to memory, what the Split says and the parts, so many blocks are on their way at
// once. Grid: blocks of the extend * block_rows / rows_per_block.
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
    using SharedSums = SharedPartSums<Config::num_threads>;
    static_assert(Config::smem_bytes == SharedSums::bytes, "tune_extend.c must agree");

    static __device__ void run(const ftj_extend_params& p) {
        Launch::let_next_start();
        Launch::wait_for_previous();
        const uint32_t chunks = p.block_rows / rows_per_block;
        const uint32_t block = ptx::block_index() / chunks;
        const Split split = pointer<const Split>(p.splits)[block];
        if (split.parts < 2)
            return;
        const uint32_t begin = ptx::block_index() % chunks * rows_per_block;
        const uint32_t end = min_of(begin + rows_per_block, split.end_row - split.first_row);

        const uint32_t per_row = split.parts <= parts_at_once ? 1 : shares;  // shares of one row
        const uint32_t at_once = shares / per_row;
        const uint32_t share = ptx::thread_index() / quads;
        const uint32_t quad = ptx::thread_index() % quads;
        const auto shared = SharedSums::at(ptx::dynamic_shared());
        for (uint32_t first = begin; first < end; first += at_once) {
            const uint32_t row = first + share / per_row;
            const bool has_row = share < at_once * per_row && row < end;
            PartSum sum = PartSum::none();
            if (has_row)
                sum = PartSum::of<quads, parts_at_once>(
                    pointer<const Quad>(p.partial_out) + quad,
                    pointer<const ptx::Words2>(p.partial_state), split.parts, share % per_row,
                    per_row, [&](uint32_t part) {
                        const uint32_t slot = part == 0 ? split.slot : 2 * (block + part);
                        return slot * p.block_rows + row;
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
