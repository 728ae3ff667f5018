// SPDX-License-Identifier: MIT
// From what a softmax adds up to over all keys to a row of output and its LSE.
#pragma once
#include "block/types.cuh"

namespace ftj {

// A maximum before any score: no score is below it, and 2^(it - score) is 0 for every other.
constexpr float lowest_score = -3.402823466e38f;

struct FinalRow {
    float factor;  // O = out * factor
    float lse;     // natural log
};

// max is in log2 units; a sink is one more logit, of value 0. Neither key nor sink: O 0, LSE -inf.
FTJ_DEVICE FinalRow finalise(uint64_t sinks, uint32_t q_head, float max, float sum) {
    float most = max;
    if (sinks) {
        const float sink = pointer<const float>(sinks)[q_head] * log2e;
        most = ptx::max_f32(max, sink);
        sum = sum * ptx::ex2_approx(max - most) + ptx::ex2_approx(sink - most);
    }
    if (sum == 0.0f)
        return {0.0f, ptx::bits_float(0xff800000u)};
    return {ptx::div_approx(ptx::ex2_approx(max - most), sum), (most + ptx::lg2_approx(sum)) * ln2};
}

// Four columns of a row, on their way to the output.
struct alignas(16) Quad {
    float v[4];
};

template <class Element>
FTJ_DEVICE void store_quad(typename Element::Storage* o, const Quad& v, float factor) {
    uint32_t bits[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        bits[i] = Element::narrow(v.v[i] * factor);
    *reinterpret_cast<ptx::Words2*>(o) = {{bits[0] | bits[1] << 16, bits[2] | bits[3] << 16}};
}

template <class Element>
FTJ_DEVICE typename Element::Storage* output_row(const ftj_decode_params& p, uint32_t row,
                                                 uint32_t q_head) {
    return pointer<typename Element::Storage>(p.o) + row * p.o_row_stride +
           q_head * p.o_head_stride;
}

FTJ_DEVICE void write_lse(const ftj_decode_params& p, uint32_t row, uint32_t q_head, float lse) {
    if (p.lse)
        pointer<float>(p.lse)[uint64_t(row) * (p.num_kv_heads * p.group) + q_head] = lse;
}

}  // namespace ftj
