// SPDX-License-Identifier: MIT
// The second half of a decode: one row of output per query head, from the partial results of the
// blocks that shared its segment, or from nothing when the request shows no key.
//
//   O = sum_i out_i 2^(max_i - max) / sum_i sum_i 2^(max_i - max)
//
// A block serves one row; thread = (share of the parts, four columns), so that neighbours read
// neighbouring float4 and the parts are read rows at a time. Rows that one decode block finished by
// itself are left alone. Grid: batch * query heads.
#pragma once
#include "block/final_row.cuh"
#include "block/segments.cuh"

namespace ftj {

template <class Config>
struct AttnCombine {
    using Element = typename Config::Element;
    static constexpr int head_dim = Config::head_dim;
    static constexpr int num_rows = 8 * Config::n_tiles;
    static constexpr uint32_t quads = head_dim / 4;
    static constexpr uint32_t shares = Config::num_threads / quads;
    static_assert(shares >= 1, "a thread for every four columns");
    static_assert(Config::smem_bytes == int(shares * (quads * 16 + 8)), "tune and Smem must agree");

    // What a share of the parts adds up to.
    struct Sum {
        float max;
        float sum;
        Quad out;
    };

    static __device__ void run(const ftj_decode_params& p) {
        Launch::let_next_start();
        const uint32_t q_heads = p.num_kv_heads * p.group;
        const uint32_t request = ptx::block_index() / q_heads;
        const uint32_t q_head = ptx::block_index() % q_heads;
        const bool shows_keys = visible_any(p, request);
        Launch::wait_for_previous();  // every block, or the grid might end before the decode has
        if (!shows_keys) {
            write_empty(p, request, q_head);
            return;
        }
        const uint32_t in_group = q_head % p.group;
        const uint32_t unit = q_head / p.group * p.head_blocks + in_group / num_rows;
        const auto* segment = pointer<const uint32_t>(p.segments) +
                              2 * (uint64_t(request) * (p.num_kv_heads * p.head_blocks) + unit);
        const uint32_t first_slot = segment[0], parts = segment[1];
        if (parts == 1)
            return;

        const uint32_t share = ptx::thread_index() / quads;
        const uint32_t quad = ptx::thread_index() % quads;
        if (share < shares)
            leave(add_parts(p, first_slot, parts, in_group % num_rows, share, quad), share, quad);
        ptx::sync_block();
        if (share == 0)
            write_row(p, request, q_head, quad);
    }

private:
    static __device__ __forceinline__ bool visible_any(const ftj_decode_params& p,
                                                       uint32_t request) {
        const Visible keys = visible_keys(p.requests, request);
        return keys.end > keys.begin;
    }

    static __device__ __forceinline__ void write_empty(const ftj_decode_params& p, uint32_t request,
                                                       uint32_t q_head) {
        const auto end = finalise(p.sinks, q_head, lowest_score, 0.0f);
        auto* o = output(p, request, q_head);
        for (uint32_t i = ptx::thread_index(); i < uint32_t(head_dim); i += Config::num_threads)
            o[i] = Element::narrow(0.0f);
        if (ptx::thread_index() == 0)
            write_lse(p, request, q_head, end.lse);
    }

    // The part of block first + i: its first run, except that the segment may start in its second.
    static __device__ __forceinline__ uint64_t part_row(uint32_t first_slot, uint32_t part,
                                                        uint32_t row) {
        const uint32_t slot = part == 0 ? first_slot : 2 * (first_slot / 2 + part);
        return uint64_t(slot) * num_rows + row;
    }

    static __device__ __forceinline__ Sum add_parts(const ftj_decode_params& p, uint32_t first_slot,
                                                    uint32_t parts, uint32_t row, uint32_t share,
                                                    uint32_t quad) {
        const auto* outs = pointer<const Quad>(p.partial_out);
        const auto* states = pointer<const float>(p.partial_state);
        Sum sum = {lowest_score, 0.0f, {}};
#pragma unroll 4
        for (uint32_t part = share; part < parts; part += shares) {
            const uint64_t at = part_row(first_slot, part, row);
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

    static __device__ __forceinline__ void write_row(const ftj_decode_params& p, uint32_t request,
                                                     uint32_t q_head, uint32_t quad) {
        const auto* outs = reinterpret_cast<const Quad*>(ptx::dynamic_shared());
        const auto* states = reinterpret_cast<const float*>(outs + shares * quads);
        Sum sum = {lowest_score, 0.0f, {}};
        for (uint32_t s = 0; s < shares; s++)
            add(sum, {states[2 * s], states[2 * s + 1], outs[s * quads + quad]});

        const auto end = finalise(p.sinks, q_head, sum.max, sum.sum);
        store_quad<Element>(output(p, request, q_head) + 4 * quad, sum.out, end.factor);
        if (quad == 0)
            write_lse(p, request, q_head, end.lse);
    }

    static __device__ __forceinline__ typename Element::Storage* output(const ftj_decode_params& p,
                                                                        uint32_t request,
                                                                        uint32_t q_head) {
        return pointer<typename Element::Storage>(p.o) + request * p.o_batch_stride +
               q_head * p.o_head_stride;
    }

    static __device__ __forceinline__ void write_lse(const ftj_decode_params& p, uint32_t request,
                                                     uint32_t q_head, float lse) {
        if (p.lse)
            pointer<float>(p.lse)[uint64_t(request) * (p.num_kv_heads * p.group) + q_head] = lse;
    }
};

}  // namespace ftj
