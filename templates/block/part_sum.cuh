// SPDX-License-Identifier: MIT
// Partial results of one row over different keys, and what they add up to:
//
//   max = max_i max_i    sum = sum_i sum_i 2^(max_i - max)    out likewise
//
// A thread has four columns of a row. Parts lie in float4 [rows][head_dim / 4] and, beside it,
// (max, sum) [rows].
#pragma once
#include "block/final_row.cuh"

namespace ftj {

struct PartSum {
    Quad out;
    float max;
    float sum;

    static __device__ __forceinline__ PartSum none() { return {{}, lowest_score, 0.0f}; }

    template <uint32_t count>
    __device__ __forceinline__ void add(const PartSum (&others)[count]) {
        float most = max;
#pragma unroll
        for (uint32_t j = 0; j < count; j++)
            most = ptx::max_f32(most, others[j].max);
        const float of_this = ptx::ex2_approx(max - most);
        max = most;
        sum *= of_this;
#pragma unroll
        for (int i = 0; i < 4; i++)
            out.v[i] *= of_this;
#pragma unroll
        for (uint32_t j = 0; j < count; j++) {
            const float of_other = ptx::ex2_approx(others[j].max - max);
            sum += others[j].sum * of_other;
#pragma unroll
            for (int i = 0; i < 4; i++)
                out.v[i] += others[j].out.v[i] * of_other;
        }
    }

    // Parts share, share + shares, ... of `count`; part i is row row_of(i). So many are on their
    // way at once, for each is a trip to memory. `outs` are the thread's columns of row 0.
    template <uint32_t quads, uint32_t at_once, class RowOf>
    static __device__ __forceinline__ PartSum of(const Quad* outs, const ptx::Words2* states,
                                                 uint32_t count, uint32_t share, uint32_t shares,
                                                 const RowOf& row_of) {
        PartSum all = none();
#pragma unroll 1
        for (uint32_t i = share; i < count; i += at_once * shares) {
            PartSum others[at_once];
#pragma unroll
            for (uint32_t j = 0; j < at_once; j++) {
                const uint32_t part = i + j * shares;
                others[j] = none();
                if (part < count) {
                    const uint64_t row = row_of(part);
                    const ptx::Words2 state = states[row];
                    others[j] = {outs[row * quads], ptx::bits_float(state.w[0]),
                                 ptx::bits_float(state.w[1])};
                }
            }
            all.add(others);
        }
        return all;
    }
};

// In shared memory, one for each of some threads: Quad [slots], then (max, sum) [slots].
template <uint32_t slots>
struct SharedPartSums {
    static constexpr int bytes = slots * 24;

    Quad* outs;
    float* states;

    static __device__ __forceinline__ SharedPartSums at(unsigned char* shared) {
        auto* outs = reinterpret_cast<Quad*>(shared);
        return {outs, reinterpret_cast<float*>(outs + slots)};
    }
    __device__ __forceinline__ void put(uint32_t slot, const PartSum& v) const {
        outs[slot] = v.out;
        states[2 * slot] = v.max;
        states[2 * slot + 1] = v.sum;
    }
    // v, and those in slots first, first + step, ... below end.
    __device__ __forceinline__ PartSum add(PartSum v, uint32_t first, uint32_t step,
                                           uint32_t end) const {
        for (uint32_t slot = first; slot < end; slot += step) {
            const PartSum other[1] = {{outs[slot], states[2 * slot], states[2 * slot + 1]}};
            v.add(other);
        }
        return v;
    }
};

}  // namespace ftj
