// SPDX-License-Identifier: MIT
// One function per instruction or built-in that every target has (sm_75 and up). The CPU target
// offers the same names in ptx_cpu.cuh; kernels use these and nothing else of the machine.
#pragma once
#include "block/params.h"

#define FTJ_DEVICE static __device__ __forceinline__

namespace ftj {
namespace ptx {

// ---- where a thread stands ---------------------------------------------------------------------
FTJ_DEVICE uint32_t thread_index() { return threadIdx.x; }
FTJ_DEVICE uint32_t block_index() { return blockIdx.x; }
FTJ_DEVICE uint32_t num_blocks() { return gridDim.x; }

// ---- shared memory -----------------------------------------------------------------------------
// The block's dynamic shared memory.
FTJ_DEVICE unsigned char* dynamic_shared() {
    extern __shared__ __align__(1024) unsigned char ftj_dynamic_shared[];
    return ftj_dynamic_shared;
}

// cvta.to.shared: a pointer into shared memory as the 32-bit address the functions below take.
FTJ_DEVICE uint32_t shared_address(const void* pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

struct alignas(16) Words4 {
    uint32_t w[4];
};
struct alignas(8) Words2 {
    uint32_t w[2];
};

// ld.shared: 16, 8, 4, 2 and 1 bytes; volatile, so that a load stays behind the wait before it.
FTJ_DEVICE Words4 ld_shared_v4(uint32_t address) {
    Words4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3])
                 : "r"(address));
    return v;
}
FTJ_DEVICE Words2 ld_shared_v2(uint32_t address) {
    Words2 v;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v.w[0]), "=r"(v.w[1]) : "r"(address));
    return v;
}
FTJ_DEVICE uint32_t ld_shared_u32(uint32_t address) {
    uint32_t v;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(address));
    return v;
}
FTJ_DEVICE uint32_t ld_shared_u16(uint32_t address) {
    uint16_t v;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(address));
    return v;
}
FTJ_DEVICE uint32_t ld_shared_u8(uint32_t address) {
    uint32_t v;
    asm volatile("ld.shared.u8 %0, [%1];" : "=r"(v) : "r"(address));
    return v;
}
FTJ_DEVICE float ld_shared_f32(uint32_t address) {
    float v;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(address));
    return v;
}

// st.shared: the same widths.
FTJ_DEVICE void st_shared_v4(uint32_t address, Words4 v) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};"
                 :
                 : "r"(address), "r"(v.w[0]), "r"(v.w[1]), "r"(v.w[2]), "r"(v.w[3])
                 : "memory");
}
FTJ_DEVICE void st_shared_v2(uint32_t address, Words2 v) {
    asm volatile("st.shared.v2.u32 [%0], {%1, %2};"
                 :
                 : "r"(address), "r"(v.w[0]), "r"(v.w[1])
                 : "memory");
}
FTJ_DEVICE void st_shared_u32(uint32_t address, uint32_t v) {
    asm volatile("st.shared.u32 [%0], %1;" : : "r"(address), "r"(v) : "memory");
}
FTJ_DEVICE void st_shared_u16(uint32_t address, uint32_t v) {
    asm volatile("st.shared.u16 [%0], %1;"
                 :
                 : "r"(address), "h"(static_cast<uint16_t>(v))
                 : "memory");
}
FTJ_DEVICE void st_shared_u8(uint32_t address, uint32_t v) {
    asm volatile("st.shared.u8 [%0], %1;" : : "r"(address), "r"(v) : "memory");
}

// ---- warps and blocks --------------------------------------------------------------------------
constexpr uint32_t all_lanes = 0xffffffffu;

FTJ_DEVICE void sync_warp() { __syncwarp(); }
FTJ_DEVICE void sync_block() { __syncthreads(); }

// shfl.sync over the whole warp.
FTJ_DEVICE uint32_t shfl(uint32_t v, uint32_t lane) { return __shfl_sync(all_lanes, v, lane); }
FTJ_DEVICE float shfl(float v, uint32_t lane) { return __shfl_sync(all_lanes, v, lane); }
FTJ_DEVICE uint32_t shfl_xor(uint32_t v, uint32_t mask) {
    return __shfl_xor_sync(all_lanes, v, mask);
}
FTJ_DEVICE float shfl_xor(float v, uint32_t mask) { return __shfl_xor_sync(all_lanes, v, mask); }
FTJ_DEVICE uint32_t shfl_up(uint32_t v, uint32_t delta) {
    return __shfl_up_sync(all_lanes, v, delta);
}
// vote.sync.any
FTJ_DEVICE bool any(bool predicate) { return __any_sync(all_lanes, predicate); }
// The first lane whose predicate holds; one must.
FTJ_DEVICE uint32_t first_lane(bool predicate) {
    return __ffs(__ballot_sync(all_lanes, predicate)) - 1;
}

// movmatrix.sync.m8n8.trans.b16: transpose an 8 x 8 matrix of 16-bit values, a row to 4 lanes.
FTJ_DEVICE uint32_t movmatrix_trans(uint32_t v) {
    uint32_t r;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(v));
    return r;
}

// ldmatrix.sync.m8n8.x4.trans.b16: four 8 x 8 matrices of 16-bit values. Lane 8 * m + r has the
// address of row r of matrix m, 16 bytes; lane (g, c) gets rows 2c and 2c + 1 of column g of each.
FTJ_DEVICE Words4 ldmatrix_trans(uint32_t address) {
    Words4 v;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3])
                 : "r"(address));
    return v;
}

// mma.sync m16n8k8, fp16 in, fp32 accumulated: c[4] += a[2] * b[1].
FTJ_DEVICE void mma_m16n8k8_f16(float* c, uint32_t a0, uint32_t a1, uint32_t b0) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(b0));
}

// ---- bits --------------------------------------------------------------------------------------
FTJ_DEVICE uint32_t float_bits(float v) { return __float_as_uint(v); }
FTJ_DEVICE float bits_float(uint32_t v) { return __uint_as_float(v); }

// prmt: byte i of the result is byte selector[4i..4i+2] of {b, a}; a constant selector.
FTJ_DEVICE uint32_t prmt(uint32_t a, uint32_t b, uint32_t selector) {
    return __byte_perm(a, b, selector);
}

// mov.b32 of one half twice: products of halves read it in place.
FTJ_DEVICE uint32_t low_twice(uint32_t v) {
    uint32_t r;
    asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %1;\nmov.b32 %0, {low, low};\n}"
        : "=r"(r)
        : "r"(v));
    return r;
}
FTJ_DEVICE uint32_t high_twice(uint32_t v) {
    uint32_t r;
    asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %1;\nmov.b32 %0, {high, high};\n}"
        : "=r"(r)
        : "r"(v));
    return r;
}

// lop3: any bitwise function of three words; `table` is its truth table, 0xF0 & 0xCC | 0xAA.
template <uint32_t table>
FTJ_DEVICE uint32_t lop3(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t r;
    asm("lop3.b32 %0, %1, %2, %3, %4;" : "=r"(r) : "r"(a), "r"(b), "r"(c), "n"(table));
    return r;
}

// A constant that stays in a register: the assembler, too, takes it for something it cannot know.
FTJ_DEVICE uint32_t opaque(uint32_t v) {
    uint32_t r;
    asm("{\n.reg .u32 none;\nmov.u32 none, %%dynamic_smem_size;\nshr.u32 none, none, 24;\n"
        "add.u32 %0, %1, none;\n}"
        : "=r"(r)
        : "r"(v));
    return r;
}
// A copy the compiler knows nothing about, so that it keeps the value instead of making it again.
FTJ_DEVICE void keep(uint32_t& v) { asm("mov.b32 %0, %0;" : "+r"(v)); }
FTJ_DEVICE void keep(uint64_t& v) { asm("mov.b64 %0, %0;" : "+l"(v)); }
// No instruction: what is made of it is made anew in every turn of a loop, not kept or spilled.
FTJ_DEVICE uint32_t made_anew(uint32_t v) {
    asm volatile("" : "+r"(v));
    return v;
}

// ---- arithmetic --------------------------------------------------------------------------------
// IEEE, never contracted.
FTJ_DEVICE float add_rn(float a, float b) { return __fadd_rn(a, b); }
FTJ_DEVICE float mul_rn(float a, float b) { return __fmul_rn(a, b); }
FTJ_DEVICE float div_rn(float a, float b) { return __fdiv_rn(a, b); }
FTJ_DEVICE float rcp_rn(float v) { return __frcp_rn(v); }
// mul.rz: rounded towards 0.
// Rounded up.
FTJ_DEVICE float mul_rp(float a, float b) { return __fmul_ru(a, b); }
FTJ_DEVICE float mul_rz(float a, float b) { return __fmul_rz(a, b); }
FTJ_DEVICE float fma_rn(float a, float b, float c) { return __fmaf_rn(a, b, c); }
// max.f32 and min.f32: a NaN loses against a number.
FTJ_DEVICE float max_f32(float a, float b) { return fmaxf(a, b); }
FTJ_DEVICE float min_f32(float a, float b) { return fminf(a, b); }
// The largest of three words, as integers: one instruction on sm_90.
FTJ_DEVICE int32_t max_bits(int32_t most, float a, float b) {
    return __vimax3_s32(most, __float_as_int(a), __float_as_int(b));
}
// abs.f32
FTJ_DEVICE float abs_f32(float v) { return fabsf(v); }
// fma.rn.sat: a * b + c, rounded once, then held to [0, 1]; a NaN becomes 0.
FTJ_DEVICE float fma_rn_sat(float a, float b, float c) {
    float r;
    asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(r) : "f"(a), "f"(b), "f"(c));
    return r;
}
// tanh to 2 ulp (a few instructions, not tanh.approx).
FTJ_DEVICE float tanh_f32(float v) { return tanhf(v); }

// div.approx: a / b to 2 ulp, for |b| from 2^-126 to 2^126; above, 0.
FTJ_DEVICE float div_approx(float a, float b) { return __fdividef(a, b); }

// ex2.approx.ftz: 2^x to 2 ulp.
FTJ_DEVICE float ex2_approx(float x) {
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}
// lg2.approx.ftz: log2(x).
FTJ_DEVICE float lg2_approx(float x) {
    float r;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}

// mul.f16x2
FTJ_DEVICE uint32_t mul_f16x2(uint32_t a, uint32_t b) {
    uint32_t r;
    asm("mul.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
}
// fma.rn.f16x2
FTJ_DEVICE uint32_t fma_f16x2(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t r;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    return r;
}
// cvt.rn.f16.f32 and back
FTJ_DEVICE uint32_t cvt_rn_f16_f32(float v) {
    uint16_t r;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(v));
    return r;
}
FTJ_DEVICE float cvt_f32_f16(uint32_t v) {
    float r;
    asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(static_cast<uint16_t>(v)));
    return r;
}

// cvt.rn to two 16-bit values: `low` in the low half. PTX ISA 7.0, sm_80; before it, one by one.
FTJ_DEVICE uint32_t cvt_rn_f16x2_f32(float low, float high) {
#if __CUDA_ARCH__ >= 800
    uint32_t r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
#else
    return cvt_rn_f16_f32(low) | cvt_rn_f16_f32(high) << 16;
#endif
}
#if __CUDA_ARCH__ >= 800
FTJ_DEVICE uint32_t cvt_rn_bf16x2_f32(float low, float high) {
    uint32_t r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}
#else
FTJ_DEVICE uint32_t cvt_rn_bf16_f32(float v) {
    const uint32_t bits = float_bits(v);
    return v != v ? 0x7fffu : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}
FTJ_DEVICE uint32_t cvt_rn_bf16x2_f32(float low, float high) {
    return cvt_rn_bf16_f32(low) | cvt_rn_bf16_f32(high) << 16;
}
#endif

// ---- global memory -----------------------------------------------------------------------------
// ld.relaxed: what the L2 has now, whatever the L1 has. PTX ISA 6.0.
FTJ_DEVICE uint32_t ld_past_l1(const int32_t* global, uint32_t) {
    uint32_t v;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(global));
    return v;
}
FTJ_DEVICE uint32_t atomic_add(uint32_t* address, uint32_t v) { return atomicAdd(address, v); }

// ---- hints -----------------------------------------------------------------------------------
// What all lanes have, for the compiler to know that they have it: in a register of the warp's, of
// which there are enough. redux.sync: sm_80.
FTJ_DEVICE uint32_t uniform(uint32_t v) {
#if __CUDA_ARCH__ >= 800
    return __reduce_min_sync(all_lanes, v);
#else
    return v;
#endif
}

}  // namespace ptx
}  // namespace ftj
