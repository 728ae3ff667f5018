// SPDX-License-Identifier: MIT
// The end of a segment: the warps' states become one, and the block writes its rows of output, or a
// partial result for attn_combine.cuh.
//
// Two states of one query over different keys merge as
//   max = max(a, b)   sum = sum_a 2^(a - max) + sum_b 2^(b - max)   out likewise.
#pragma once
#include "block/final_row.cuh"
#include "block/pieces.cuh"
#include "block/segments.cuh"
#include "block/types.cuh"

namespace ftj {

template <class Config>
struct OutputRows {
    using VCodec = typename Config::VCodec;
    using Element = typename Config::Element;
    static constexpr int head_dim = Config::head_dim;
    static constexpr int n_tiles = Config::n_tiles;
    static constexpr int num_warps = Config::num_warps;
    static constexpr int num_rows = 8 * n_tiles;
    static constexpr uint32_t quads = head_dim / 4;
    // A warp's state by lane: outputs, maxima, sums. Half of the warps have a slot at a time.
    static constexpr int slot_words = (n_tiles * (head_dim / 4) + 4 * n_tiles) * int(warp_size);
    static constexpr int num_slots = num_warps > 1 ? num_warps / 2 : 1;
    static constexpr int row_pitch = head_dim + 4;  // floats; lanes of one g fall on other banks
    static constexpr int shared_bytes = num_slots * slot_words * 4;
    static_assert((num_rows * row_pitch + 2 * num_rows) <= slot_words, "the rows reuse a slot");

    using Out = float[n_tiles][head_dim / 16][4];
    using Column = float[n_tiles][2];

    // All warps call it; warp 0's merged rows end in shared memory: [num_rows][row_pitch] and then
    // (max, sum) [num_rows].
    static __device__ __forceinline__ void merge(Out& out, Column& max, Column& sum, float v_factor,
                                                 unsigned char* shared) {
        const uint32_t warp = ptx::thread_index() / warp_size;
        auto* slots = reinterpret_cast<float*>(shared);
        sum_over_tokens(sum);
        multiply(out, v_factor);
#pragma unroll 1
        for (uint32_t left = num_warps; left > 1; left = (left + 1) / 2) {
            const uint32_t kept = (left + 1) / 2;
            if (warp >= kept && warp < left)
                put(out, max, sum, slots + (warp - kept) * slot_words);
            ptx::sync_block();
            if (warp < left - kept)
                take(out, max, sum, slots + warp * slot_words);
            ptx::sync_block();
        }
        if (warp == 0)
            put_rows(out, max, sum, slots);
        ptx::sync_block();
    }

    // All threads write what merge() left: of tiles `begin` to `end` of the block's range, which
    // are of one segment. A block has two slots for parts: of the segment that it starts in, and
    // of the one that it ends in.
    template <class Run>
    static __device__ __forceinline__ void write(const ftj_decode_params& p, const Run& run,
                                                 uint32_t begin, uint32_t end,
                                                 const unsigned char* shared) {
        const auto* rows = reinterpret_cast<const float*>(shared);
        if (run.tile == 0 && end - begin == run.tiles)
            write_outputs(p, run, rows);
        else
            write_partial(p, 2 * ptx::block_index() + (begin != 0), rows);
        ptx::sync_block();  // the rows have been read
    }

    // The rows of requests that show no key; the blocks share them out.
    static __device__ __forceinline__ void write_empty(const ftj_decode_params& p) {
        const uint32_t q_heads = p.num_kv_heads * p.group;
        for (uint32_t r = ptx::block_index(); r < p.requests.batch; r += ptx::num_blocks()) {
            const Visible keys = visible_keys<Config::slot_table>(p.requests, r);
            if (keys.end > keys.begin)
                continue;
            for (uint32_t i = ptx::thread_index(); i < q_heads * quads; i += Config::num_threads)
                store_quad<Element>(output_row<Element>(p, r, i / quads) + i % quads * 4, {}, 0.0f);
            for (uint32_t head = ptx::thread_index(); head < q_heads; head += Config::num_threads)
                write_lse(p, r, head, finalise(p.sinks, head, lowest_score, 0.0f).lse);
        }
    }

private:
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

    static __device__ __forceinline__ void multiply(Out& out, float factor) {
#pragma unroll
        for (int n = 0; n < n_tiles; n++) {
#pragma unroll
            for (int i = 0; i < head_dim / 16; i++) {
#pragma unroll
                for (int e = 0; e < 4; e++)
                    out[n][i][e] *= factor;
            }
        }
    }

    // A lane's words of a slot, one after the other: neighbours in neighbouring banks.
    static __device__ __forceinline__ void put(const Out& out, const Column& max, const Column& sum,
                                               float* slot) {
        float* word = slot + ptx::thread_index() % warp_size;
#pragma unroll
        for (int n = 0; n < n_tiles; n++) {
#pragma unroll
            for (int i = 0; i < head_dim / 16; i++) {
#pragma unroll
                for (int e = 0; e < 4; e++)
                    word[((n * (head_dim / 16) + i) * 4 + e) * warp_size] = out[n][i][e];
            }
#pragma unroll
            for (int e = 0; e < 2; e++) {
                word[(state_word(n) + e) * warp_size] = max[n][e];
                word[(state_word(n) + 2 + e) * warp_size] = sum[n][e];
            }
        }
    }
    static constexpr int state_word(int n) { return n_tiles * (head_dim / 4) + 4 * n; }

    static __device__ __forceinline__ void take(Out& out, Column& max, Column& sum,
                                                const float* slot) {
        const float* word = slot + ptx::thread_index() % warp_size;
#pragma unroll
        for (int n = 0; n < n_tiles; n++) {
            float mine[2], other[2];
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const float other_max = word[(state_word(n) + e) * warp_size];
                const float other_sum = word[(state_word(n) + 2 + e) * warp_size];
                const float most = ptx::max_f32(max[n][e], other_max);
                mine[e] = ptx::ex2_approx(max[n][e] - most);
                other[e] = ptx::ex2_approx(other_max - most);
                max[n][e] = most;
                sum[n][e] = sum[n][e] * mine[e] + other_sum * other[e];
            }
#pragma unroll
            for (int i = 0; i < head_dim / 16; i++) {
#pragma unroll
                for (int e = 0; e < 4; e++)
                    out[n][i][e] =
                        out[n][i][e] * mine[e % 2] +
                        word[((n * (head_dim / 16) + i) * 4 + e) * warp_size] * other[e % 2];
            }
        }
    }

    // Transposed accumulators to rows of dims in their natural order.
    static __device__ __forceinline__ void put_rows(const Out& out, const Column& max,
                                                    const Column& sum, float* rows) {
        const uint32_t lane = ptx::thread_index() % warp_size;
        const uint32_t g = lane / 4, c = lane % 4;
#pragma unroll
        for (int n = 0; n < n_tiles; n++) {
            float* first = rows + (8 * n + 2 * c) * row_pitch;
            for_each_piece<head_dim, VCodec::widest_value(head_dim)>([&](auto piece) {
#pragma unroll
                for (int tile = 0; tile < piece.dims / 16; tile++) {
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        first[e % 2 * row_pitch + piece.at +
                              value_dim<piece.dims>(tile, e / 2, g)] =
                            out[n][piece.at / 16 + tile][e];
                }
            });
            if (g == 0) {
                float* state = rows + num_rows * row_pitch + 2 * (8 * n + 2 * c);
                state[0] = max[n][0], state[1] = sum[n][0];
                state[2] = max[n][1], state[3] = sum[n][1];
            }
        }
    }

    static __device__ __forceinline__ Quad quad_at(const float* rows, uint32_t row, uint32_t dim) {
        return *reinterpret_cast<const Quad*>(rows + row * row_pitch + dim);
    }

    template <class Run>
    static __device__ __forceinline__ void write_outputs(const ftj_decode_params& p, const Run& run,
                                                         const float* rows) {
        const uint32_t first = run.head_block * num_rows;
        const uint32_t heads = min_of(p.group - first, uint32_t(num_rows));
        const uint32_t q_head = run.head * p.group + first;
        const float* state = rows + num_rows * row_pitch;
        for (uint32_t i = ptx::thread_index(); i < heads * quads; i += Config::num_threads) {
            const uint32_t row = i / quads, dim = i % quads * 4;
            const FinalRow end =
                finalise(p.sinks, q_head + row, state[2 * row], state[2 * row + 1]);
            store_quad<Element>(output_row<Element>(p, run.request, q_head + row) + dim,
                                quad_at(rows, row, dim), end.factor);
            if (dim == 0)
                write_lse(p, run.request, q_head + row, end.lse);
        }
    }

    static __device__ __forceinline__ void write_partial(const ftj_decode_params& p, uint32_t slot,
                                                         const float* rows) {
        auto* out = pointer<Quad>(p.partial_out) + uint64_t(slot) * num_rows * quads;
        for (uint32_t i = ptx::thread_index(); i < num_rows * quads; i += Config::num_threads)
            out[i] = quad_at(rows, i / quads, i % quads * 4);
        auto* state = pointer<float>(p.partial_state) + uint64_t(slot) * 2 * num_rows;
        for (uint32_t i = ptx::thread_index(); i < uint32_t(2 * num_rows); i += Config::num_threads)
            state[i] = rows[num_rows * row_pitch + i];
    }
};

}  // namespace ftj
