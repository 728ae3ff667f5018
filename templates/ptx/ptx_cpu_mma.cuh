// SPDX-License-Identifier: MIT
// The CPU target: mma.sync in fp32. Included by ptx_cpu.cuh.
//
// c[m][n] = (...((c[m][n] + a[m][0] * b[0][n]) + a[m][1] * b[1][n]) + ...), each sum rounded to
// fp32, to nearest; a product of two 16-bit values is exact. The hardware sums in another order and
// rounds elsewhere: results agree within rounding, not bit for bit.
//
// Fragments, in lane 4 * g + t: a[r] holds row g + 8 * (r % 2), columns 2t and 2t + 1 counted from
// 8 * (r / 2); b[r] rows 2t and 2t + 1 counted from 8 * r, of column g; c[r] row g + 8 * (r / 2),
// column 2t + r % 2.
#pragma once

namespace ftj {
namespace ptx {

typedef float MmaFloats __attribute__((vector_size(16)));
typedef uint32_t MmaWords __attribute__((vector_size(16)));

FTJ_DEVICE MmaFloats mma_floats(MmaWords v) { return reinterpret_cast<MmaFloats>(v); }
FTJ_DEVICE MmaWords mma_words(MmaFloats v) { return reinterpret_cast<MmaWords>(v); }

// Widen the low halves of four words.
struct MmaF16 {
    // cvt_f32_f16 without a branch: masks pick between the normal and the subnormal.
    static MmaFloats widen(MmaWords v) {
        constexpr uint32_t rebias = 112u << 23;
        const MmaWords sign = (v & 0x8000u) << 16;
        const MmaWords magnitude = (v & 0x7fffu) << 13;
        const MmaWords exponent = v & 0x7c00u;
        const MmaWords is_subnormal = -((exponent - 1u) >> 31);
        const MmaWords is_special = -((exponent + 0x400u) >> 15);
        const MmaWords one = (v & 0u) + (113u << 23);
        const MmaWords subnormal = mma_words(mma_floats(magnitude + one) - mma_floats(one));
        const MmaWords normal = magnitude + rebias + (is_special & rebias);
        return mma_floats(sign | (subnormal & is_subnormal) | (normal & ~is_subnormal));
    }
};
struct MmaBf16 {
    static MmaFloats widen(MmaWords v) { return mma_floats(v << 16); }
};

template <class Element, int depth>
struct Mma {
    static constexpr int lanes = FTJ_CPU_WARP_LANES;
    static constexpr int a_words = depth / 4;
    static constexpr int b_words = depth / 8;
    static constexpr int vector = 4;  // floats in a MmaFloats: half a row of C

    struct Operands {
        float a[16][depth];
        alignas(16) float b[depth][8];
    };

    // Both halves of word `word` of every lane.
    static void widen(const ftj_cpu_lane* warp, int word, float* low, float* high) {
        alignas(16) uint32_t words[lanes];
        for (int i = 0; i < lanes; i++)
            words[i] = warp[i].w[word];
        for (int i = 0; i < lanes; i += vector) {
            const MmaWords v = reinterpret_cast<const MmaWords&>(words[i]);
            reinterpret_cast<MmaFloats&>(low[i]) = Element::widen(v & 0xffffu);
            reinterpret_cast<MmaFloats&>(high[i]) = Element::widen(v >> 16);
        }
    }

    static void gather(const ftj_cpu_lane* warp, Operands& operands) {
        alignas(16) float low[lanes], high[lanes];
        for (int r = 0; r < a_words; r++) {
            widen(warp, 4 + r, low, high);
            for (int i = 0; i < lanes; i++) {
                float* a = &operands.a[i / 4 + 8 * (r % 2)][2 * (i % 4) + 8 * (r / 2)];
                a[0] = low[i];
                a[1] = high[i];
            }
        }
        for (int r = 0; r < b_words; r++) {
            widen(warp, 4 + a_words + r, low, high);
            for (int i = 0; i < lanes; i++) {
                operands.b[2 * (i % 4) + 8 * r][i / 4] = low[i];
                operands.b[2 * (i % 4) + 8 * r + 1][i / 4] = high[i];
            }
        }
    }

    // A row of C: words `word` and the next of the four lanes that hold it.
    static void accumulate_row(ftj_cpu_lane* row, int word, const float* a,
                               const Operands& operands) {
        alignas(16) float c[8];
        for (int n = 0; n < 8; n++)
            c[n] = bits_float(row[n / 2].w[word + n % 2]);
        MmaFloats left = reinterpret_cast<const MmaFloats&>(c[0]);
        MmaFloats right = reinterpret_cast<const MmaFloats&>(c[vector]);
        for (int k = 0; k < depth; k++) {
            left += a[k] * reinterpret_cast<const MmaFloats&>(operands.b[k][0]);
            right += a[k] * reinterpret_cast<const MmaFloats&>(operands.b[k][vector]);
        }
        reinterpret_cast<MmaFloats&>(c[0]) = left;
        reinterpret_cast<MmaFloats&>(c[vector]) = right;
        for (int n = 0; n < 8; n++)
            row[n / 2].w[word + n % 2] = float_bits(c[n]);
    }

    static void compute(ftj_cpu_lane* warp) {
        Operands operands;
        gather(warp, operands);
        for (int row = 0; row < 16; row++)
            accumulate_row(warp + 4 * (row % 8), 2 * (row / 8), operands.a[row], operands);
    }

    FTJ_DEVICE void run(const char* name, float* c, ftj_cpu_lane& lane) {
        for (int i = 0; i < 4; i++)
            lane.w[i] = float_bits(c[i]);
        running_block->calls->warp_collective(running_block, name, compute, &lane);
        for (int i = 0; i < 4; i++)
            c[i] = bits_float(lane.w[i]);
    }
};

FTJ_DEVICE void mma_m16n8k8_f16(float* c, uint32_t a0, uint32_t a1, uint32_t b0) {
    ftj_cpu_lane lane = {{0, 0, 0, 0, a0, a1, b0}};
    Mma<MmaF16, 8>::run("mma_m16n8k8_f16", c, lane);
}
FTJ_DEVICE void mma_m16n8k16_f16(float* c, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                                 uint32_t b0, uint32_t b1) {
    ftj_cpu_lane lane = {{0, 0, 0, 0, a0, a1, a2, a3, b0, b1}};
    Mma<MmaF16, 16>::run("mma_m16n8k16_f16", c, lane);
}
FTJ_DEVICE void mma_m16n8k16_bf16(float* c, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                                  uint32_t b0, uint32_t b1) {
    ftj_cpu_lane lane = {{0, 0, 0, 0, a0, a1, a2, a3, b0, b1}};
    Mma<MmaBf16, 16>::run("mma_m16n8k16_bf16", c, lane);
}

}  // namespace ptx
}  // namespace ftj
