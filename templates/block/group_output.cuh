// SPDX-License-Identifier: MIT
// The end of a segment whose warps attended together: each has all that there is of its dims, but
// for the sums, which are of its tokens. A lane has four neighbouring dims of its columns, and
// writes them as they are: rows of output, or a partial result for attn_combine.cuh.
#pragma once
#include "block/group_query.cuh"
#include "block/part_sum.cuh"
#include "block/segments.cuh"

namespace ftj {

template <class Config, class Tile>
struct GroupOutput {
    using Element = typename Config::Element;
    static constexpr int num_rows = GroupColumns<Config>::of_part;
    static constexpr int tiles = GroupColumns<Config>::tiles;
    static constexpr uint32_t unit_heads = Config::unit_heads;
    static constexpr uint32_t warps = Config::num_warps;
    static constexpr uint32_t quads = Config::head_dim / 4;
    static constexpr uint32_t columns = GroupColumns<Config>::count;
    static constexpr int shared_bytes = warps * columns * 4;  // the warps' sums
    static_assert(quads == 8 * warps, "a lane has one of a row");

    // As in block/merge_warps.cuh.
    template <class Run, class State, class Meanwhile>
    static __device__ __forceinline__ void write(const ftj_decode_params& p, const Run& run,
                                                 uint32_t begin, uint32_t end, State& state,
                                                 uint32_t, uint32_t shared, bool,
                                                 const Meanwhile& meanwhile) {
        const uint32_t lane = ptx::thread_index() % warp_size;
        const uint32_t warp = ptx::thread_index() / warp_size;
        const uint32_t g = lane / 4, c = lane % 4;
        const bool whole = run.tile == 0 && end - begin == run.tiles;
        const auto to = run.columns(p, run.head_set * unit_heads, num_rows);
        const uint32_t slot = 2 * ptx::block_index() + (begin != 0);
        const uint32_t sums = shared + 8 * c;
        state.settle();
        put_sums(state.sum, sums + warp * (4 * columns));
        const float v_factor = state.v_factor();
        sync_readers<int(warps)>();
#pragma unroll
        for (int n = 0; n < tiles; n++) {
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const uint32_t part = n / Config::n_tiles;
                const uint32_t row = 8 * (n % Config::n_tiles) + 2 * c + e;
                if (row >= to.count)
                    continue;
                const PartSum sum = {
                    {{state.out[0][4 * n + e] * v_factor, state.out[1][4 * n + e] * v_factor,
                      state.out[0][4 * n + 2 + e] * v_factor,
                      state.out[1][4 * n + 2 + e] * v_factor}},
                    state.max[n][e],
                    over_warps(sums + 32 * n + 4 * e)};
                const uint32_t quad = 8 * warp + g;
                if (whole)
                    write_output(p, to.at(p, row, part), quad, sum);
                else
                    write_part(p, (uint64_t(slot) * unit_heads + part) * num_rows + row, quad, sum);
            }
        }
        meanwhile();
        sync_readers<int(warps)>();
    }

private:
    static __device__ __forceinline__ void put_sums(float (&sum)[tiles][2], uint32_t shared) {
#pragma unroll
        for (int n = 0; n < tiles; n++) {
#pragma unroll
            for (int e = 0; e < 2; e++) {
#pragma unroll
                for (uint32_t mask = 4; mask < warp_size; mask *= 2)
                    sum[n][e] += ptx::shfl_xor(sum[n][e], mask);
            }
            if (ptx::thread_index() % warp_size < 4)
                ptx::st_shared_v2(shared + 32 * n,
                                  {{ptx::float_bits(sum[n][0]), ptx::float_bits(sum[n][1])}});
        }
    }
    static __device__ __forceinline__ float over_warps(uint32_t shared) {
        float sum = 0.0f;
#pragma unroll
        for (uint32_t warp = 0; warp < warps; warp++)
            sum += ptx::ld_shared_f32(shared + warp * (4 * columns));
        return sum;
    }

    template <class Place>
    static __device__ __forceinline__ void write_output(const ftj_decode_params& p, const Place& at,
                                                        uint32_t quad, const PartSum& sum) {
        const FinalRow end = finalise(p.sinks, at.q_head, sum.max, sum.sum);
        store_quad<Element>(output_row<Element>(p, at.row, at.q_head) + 4 * quad, sum.out,
                            end.factor);
        if (quad == 0)
            write_lse(p, at.row, at.q_head, end.lse);
    }
    static __device__ __forceinline__ void write_part(const ftj_decode_params& p, uint64_t row,
                                                      uint32_t quad, const PartSum& sum) {
        pointer<Quad>(p.partial_out)[row * quads + quad] = sum.out;
        if (quad == 0)
            pointer<ptx::Words2>(p.partial_state)[row] = {
                {ptx::float_bits(sum.max), ptx::float_bits(sum.sum)}};
    }
};

}  // namespace ftj
