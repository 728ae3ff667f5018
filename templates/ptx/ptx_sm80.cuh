// SPDX-License-Identifier: MIT
// What sm_80 adds: cp.async, barriers in memory, and matrix products of depth 16 and of bf16.
#pragma once
#include "ptx/ptx_sm75.cuh"

#if __CUDA_ARCH__ < 800
#error "ptx_sm80.cuh needs sm_80"
#endif

namespace ftj {
namespace ptx {

// mma.sync m16n8k16: c[4] += a[4] * b[2], fp32 accumulated. PTX ISA 7.0.
FTJ_DEVICE void mma_m16n8k16_f16(float* c, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                                 uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
FTJ_DEVICE void mma_m16n8k16_bf16(float* c, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                                  uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// prmt whose constant selector has bytes with bit 3 set: those are eight times the byte's top bit.
template <uint32_t selector>
FTJ_DEVICE uint32_t prmt_signs(uint32_t a, uint32_t b) {
    uint32_t r;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "n"(selector));
    return r;
}
// fma.rn.bf16x2: rounded once, subnormals kept. PTX ISA 7.0.
FTJ_DEVICE uint32_t fma_bf16x2(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t r;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    return r;
}
// mul.rn.bf16x2: subnormals are kept. PTX ISA 7.8, sm_90; before it, the same less a zero.
FTJ_DEVICE uint32_t mul_bf16x2(uint32_t a, uint32_t b) {
#if __CUDA_ARCH__ >= 900
    uint32_t r;
    asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
#else
    return fma_bf16x2(a, b, 0x80008000u);
#endif
}

// cp.async of 16 (past L1), 8 and 4 bytes, global to shared. PTX ISA 7.0.
FTJ_DEVICE void cp_async_16(uint32_t shared, const void* global) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 :
                 : "r"(shared), "l"(global)
                 : "memory");
}
// The same so many bytes further on, on both sides.
template <int to, int from>
FTJ_DEVICE void cp_async_16_past(uint32_t shared, const void* global) {
    asm volatile("cp.async.cg.shared.global [%0 + %2], [%1 + %3], 16;"
                 :
                 : "r"(shared), "l"(global), "n"(to), "n"(from)
                 : "memory");
}
FTJ_DEVICE void cp_async_8(uint32_t shared, const void* global) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;"
                 :
                 : "r"(shared), "l"(global)
                 : "memory");
}
FTJ_DEVICE void cp_async_4(uint32_t shared, const void* global) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
                 :
                 : "r"(shared), "l"(global)
                 : "memory");
}
// cp.async of `chunk` (16, 8 or 4) bytes, of which the first `bytes` are read and the rest are
// zeros. PTX ISA 7.0.
template <uint32_t chunk>
FTJ_DEVICE void cp_async_of(uint32_t shared, const void* global, uint32_t bytes) {
    static_assert(chunk == 16 || chunk == 8 || chunk == 4, "what cp.async can move");
    if constexpr (chunk == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     :
                     : "r"(shared), "l"(global), "r"(bytes)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;"
                     :
                     : "r"(shared), "l"(global), "r"(bytes), "n"(chunk)
                     : "memory");
}
// The same of 16 bytes; the L2 may fetch the 128 around them. PTX ISA 7.4.
FTJ_DEVICE void cp_async_of_line(uint32_t shared, const void* global, uint32_t bytes) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
                 :
                 : "r"(shared), "l"(global), "r"(bytes)
                 : "memory");
}
// cp.async.commit_group: what was issued since the last one becomes a group.
FTJ_DEVICE void cp_async_commit() { asm volatile("cp.async.commit_group;" : : : "memory"); }
// cp.async.wait_group: at most `pending` of this thread's groups are still under way.
template <int pending>
FTJ_DEVICE void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" : : "n"(pending) : "memory");
}

// cp.async.mbarrier.arrive.noinc: one of the arrivals, made when all copies that this thread has
// issued have come. PTX ISA 7.0.
FTJ_DEVICE void cp_async_mbarrier_arrive(uint32_t barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];"
                 :
                 : "r"(barrier)
                 : "memory");
}

// mbarrier.init: a barrier whose phase ends after `arrivals` arrivals. PTX ISA 7.0.
FTJ_DEVICE void mbarrier_init(uint32_t barrier, uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                 :
                 : "r"(barrier), "r"(arrivals)
                 : "memory");
}
// mbarrier.arrive: one of the arrivals of the phase. PTX ISA 7.1.
FTJ_DEVICE void mbarrier_arrive(uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"(barrier) : "memory");
}
// mbarrier.test_wait.parity until the phase of that parity has ended; on sm_90 try_wait, which may
// sleep a while. PTX ISA 7.1 and 7.8.
FTJ_DEVICE void mbarrier_wait(uint32_t barrier, uint32_t parity) {
    uint32_t ended;
    do {
        asm volatile("{\n"
                     ".reg .pred ended;\n"
#if __CUDA_ARCH__ >= 900
                     "mbarrier.try_wait.parity.shared::cta.b64 ended, [%1], %2;\n"
#else
                     "mbarrier.test_wait.parity.shared::cta.b64 ended, [%1], %2;\n"
#endif
                     "selp.u32 %0, 1, 0, ended;\n"
                     "}"
                     : "=r"(ended)
                     : "r"(barrier), "r"(parity)
                     : "memory");
    } while (!ended);
}

}  // namespace ptx
}  // namespace ftj
