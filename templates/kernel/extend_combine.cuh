// SPDX-License-Identifier: MIT
// The second half of an extend: the rows of each unit whose tiles several blocks shared, from their
// partial results.
//
//   O = sum_i out_i 2^(max_i - max) / sum_i sum_i 2^(max_i - max)
//
// A block of the extend says of one unit at most, in its Split, how many parts there are. A block
// here serves rows_per_block rows of one such unit; thread = (row, share of the parts, four
// columns), so that neighbours read neighbouring float4. Grid: blocks of the extend * block_rows /
// rows_per_block.
#pragma once
#include "block/final_row.cuh"
#include "block/query_tile.cuh"

namespace ftj {

template <class Config>
struct ExtendCombine {
    using Element = typename Config::Element;
    static constexpr int head_dim = Config::head_dim;
    static constexpr uint32_t rows_per_block = Config::rows_per_block;
    static constexpr uint32_t quads = head_dim / 4;
    static constexpr uint32_t shares = Config::num_threads / quads;
    static_assert(shares >= 2, "two threads for every four columns");
    static_assert(Config::smem_bytes == int(shares * (quads * 16 + 8)), "tune and Smem must agree");

    struct alignas(16) Quad {
        float v[4];
    };
    // What a share of the parts adds up to.
    struct Sum {
        float max;
        float sum;
        Quad out;
    };

    static __device__ void run(const ftj_extend_params& p) {
        const uint32_t chunks = p.block_rows / rows_per_block;
        const uint32_t block = ptx::block_index() / chunks;
        const Split split = pointer<const Split>(p.splits)[block];
        if (split.parts < 2)
            return;
        const QueryRun run = QueryRun::of(p, split.request);
        const uint32_t unit_row = split.index * p.block_rows;
        const uint32_t unit_rows = min_of(p.block_rows, run.num_rows(p.group) - unit_row);
        const uint32_t begin = ptx::block_index() % chunks * rows_per_block;
        const uint32_t end = min_of(begin + rows_per_block, unit_rows);

        const uint32_t per_row = split.parts == 2 ? 2 : shares;  // shares that one row gets
        const uint32_t at_once = shares / per_row;
        const uint32_t share = ptx::thread_index() / quads;
        const uint32_t quad = ptx::thread_index() % quads;
        for (uint32_t first = begin; first < end; first += at_once) {
            const uint32_t row = first + share / per_row;
            const bool has_row = share < at_once * per_row && row < end;
            if (has_row)
                leave(add_parts(p, split, block, row, share % per_row, per_row, quad), share, quad);
            ptx::sync_block();
            if (has_row && share % per_row == 0)
                write_row(p, split, run, unit_row + row, share, per_row, quad);
            ptx::sync_block();
        }
    }

private:
    static __device__ __forceinline__ Sum add_parts(const ftj_extend_params& p, const Split& split,
                                                    uint32_t block, uint32_t row, uint32_t share,
                                                    uint32_t per_row, uint32_t quad) {
        const auto* outs = pointer<const Quad>(p.partial_out);
        const auto* states = pointer<const float>(p.partial_state);
        Sum sum = {lowest_score, 0.0f, {}};
#pragma unroll 4
        for (uint32_t part = share; part < split.parts; part += per_row) {
            const uint32_t slot = part == 0 ? split.slot : 2 * (block + part);
            const uint64_t at = uint64_t(slot) * p.block_rows + row;
            add(sum, {states[2 * at], states[2 * at + 1], outs[at * quads + quad]});
        }
        return sum;
    }

    static __device__ __forceinline__ void add(Sum& a, const Sum& b) {
        const float max = ptx::max_f32(a.max, b.max);
        const float of_a = ptx::ex2_approx(a.max - max);
        const float of_b = ptx::ex2_approx(b.max - max);
        a.max = max;
        a.sum = a.sum * of_a + b.sum * of_b;
#pragma unroll
        for (int i = 0; i < 4; i++)
            a.out.v[i] = a.out.v[i] * of_a + b.out.v[i] * of_b;
    }

    // Shared memory: Quad [shares][quads], then (max, sum) [shares].
    static __device__ __forceinline__ void leave(const Sum& sum, uint32_t share, uint32_t quad) {
        auto* outs = reinterpret_cast<Quad*>(ptx::dynamic_shared());
        auto* states = reinterpret_cast<float*>(outs + shares * quads);
        outs[share * quads + quad] = sum.out;
        if (quad == 0)
            states[2 * share] = sum.max, states[2 * share + 1] = sum.sum;
    }

    static __device__ __forceinline__ void write_row(const ftj_extend_params& p, const Split& split,
                                                     const QueryRun& run, uint32_t row,
                                                     uint32_t first_share, uint32_t per_row,
                                                     uint32_t quad) {
        const auto* outs = reinterpret_cast<const Quad*>(ptx::dynamic_shared());
        const auto* states = reinterpret_cast<const float*>(outs + shares * quads);
        Sum sum = {lowest_score, 0.0f, {}};
        for (uint32_t s = first_share; s < first_share + per_row; s++)
            add(sum, {states[2 * s], states[2 * s + 1], outs[s * quads + quad]});

        const uint32_t query = row / p.group;
        const uint32_t q_head = split.head * p.group + (row - query * p.group);
        const int64_t token = int64_t(run.first) + query;
        const FinalRow end = finalise(p.sinks, q_head, sum.max, sum.sum);
        auto* o = pointer<typename Element::Storage>(p.o) + token * p.o_token_stride +
                  q_head * p.o_head_stride + 4 * quad;
#pragma unroll
        for (int i = 0; i < 4; i++)
            o[i] = Element::narrow(sum.out.v[i] * end.factor);
        if (quad == 0 && p.lse)
            pointer<float>(p.lse)[token * (p.num_kv_heads * p.group) + q_head] = end.lse;
    }
};

}  // namespace ftj
