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
    static constexpr int vector = 4;  // floats
    static constexpr int columns = 8 / vector;

    struct Operands {
        float a[16][depth];
        alignas(16) float b[depth][8];
    };

    // Both halves of `words` words of every lane.
    template <int words>
    static void widen(const ftj_cpu_lane* lanes_in, int first, float (*low)[lanes],
                      float (*high)[lanes]) {
        for (int r = 0; r < words; r++) {
            for (int i = 0; i < lanes; i += vector) {
                MmaWords v;
                for (int j = 0; j < vector; j++)
                    v[j] = lanes_in[i + j].w[first + r];
                reinterpret_cast<MmaFloats&>(low[r][i]) = Element::widen(v & 0xffffu);
                reinterpret_cast<MmaFloats&>(high[r][i]) = Element::widen(v >> 16);
            }
        }
    }

    static void gather(const ftj_cpu_lane* lanes_in, Operands& operands) {
        alignas(16) float low[a_words][lanes], high[a_words][lanes];
        widen<a_words>(lanes_in, 4, low, high);
        for (int r = 0; r < a_words; r++) {
            for (int i = 0; i < lanes; i++) {
                float* a = &operands.a[i / 4 + 8 * (r % 2)][2 * (i % 4) + 8 * (r / 2)];
                a[0] = low[r][i];
                a[1] = high[r][i];
            }
        }
        widen<b_words>(lanes_in, 4 + a_words, low, high);
        for (int r = 0; r < b_words; r++) {
            for (int i = 0; i < lanes; i++) {
                operands.b[2 * (i % 4) + 8 * r][i / 4] = low[r][i];
                operands.b[2 * (i % 4) + 8 * r + 1][i / 4] = high[r][i];
            }
        }
    }

    // Row `row` of C, over the four lanes that hold it.
    static void accumulate_row(ftj_cpu_lane* lanes_of_row, int word, const float* a,
                               const Operands& operands) {
        MmaFloats c[columns];
        for (int n = 0; n < 8; n++)
            c[n / vector][n % vector] = bits_float(lanes_of_row[n / 2].w[word + n % 2]);
        for (int k = 0; k < depth; k++) {
            for (int j = 0; j < columns; j++)
                c[j] += a[k] * reinterpret_cast<const MmaFloats&>(operands.b[k][vector * j]);
        }
        for (int n = 0; n < 8; n++)
            lanes_of_row[n / 2].w[word + n % 2] = float_bits(c[n / vector][n % vector]);
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
