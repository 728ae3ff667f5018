// SPDX-License-Identifier: MIT
// What only sm_90a has: the warpgroup's matrix products, and registers that move between warps. And
// the arrivals that cp.async makes at an mbarrier.
#pragma once
#include "ptx/ptx_sm90.cuh"

#if !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#error "ptx_sm90a.cuh needs sm_90a"
#endif

namespace ftj {
namespace ptx {

// setmaxnreg: the warps of this warpgroup give registers back, or wait until there are so many. PTX
// ISA 8.0.
template <int registers>
FTJ_DEVICE void setmaxnreg_dec() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(registers));
}
template <int registers>
FTJ_DEVICE void setmaxnreg_inc() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(registers));
}

// redux.sync.max.u32: in a uniform register. PTX ISA 7.0.
FTJ_DEVICE uint32_t max_of_warp(uint32_t v) { return __reduce_max_sync(all_lanes, v); }

// ---- wgmma -------------------------------------------------------------------------------------
// d[64 x n] (+)= a[64 x 64] * b[64 x n] by the four warps of a warpgroup, fp32 accumulated. PTX ISA
// 8.0. Thread t of warp w holds of d, in d[4 * i + e], row 16 * w + t % 32 / 4 + 8 * (e / 2),
// column 8 * i + 2 * (t % 4) + e % 2; a in registers is the A operand of mma.sync m16n8k16 for each
// warp.
//
// A matrix in shared memory is told by the low half of its descriptor: its address / 16, and the
// leading byte offset / 16 << 16. The high half is the same for all here: rows of 128 bytes in
// swizzled groups of 8 (block/swizzled.cuh).
constexpr uint32_t wgmma_descriptor_high = 0x40000040u;  // stride 1024 bytes, swizzle of 128 bytes

// wgmma.fence: registers and shared memory are as the products are to find them.
FTJ_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" : : : "memory"); }
// wgmma.commit_group: what was issued since the last one becomes a group.
FTJ_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory"); }
// wgmma.wait_group: at most `pending` groups are still under way.
template <int pending>
FTJ_DEVICE void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(pending) : "memory");
}
// No instruction: what the products write is not moved across it.
template <int count>
FTJ_DEVICE void wgmma_keep(float (&d)[count]) {
#pragma unroll
    for (int i = 0; i < count; i++)
        asm volatile("" : "+f"(d[i]) : : "memory");
}

// Likewise what they read: all of it is made before this.
template <int count>
FTJ_DEVICE void wgmma_keep(uint32_t (&a)[count]) {
#pragma unroll
    for (int i = 0; i < count; i++)
        asm volatile("" : "+r"(a[i]) : : "memory");
}

#define FTJ_WGMMA_D64                                                                              \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "       \
    "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"
#define FTJ_WGMMA_D128                                                                             \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "       \
    "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "        \
    "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, "        \
    "%53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}"
#define FTJ_WGMMA_D256                                                                             \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "       \
    "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "        \
    "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, "        \
    "%53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, "        \
    "%70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, "        \
    "%87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, "          \
    "%103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, "         \
    "%117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}"
#define FTJ_WGMMA_8(i)                                                                             \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]),    \
        "+f"(d[i + 6]), "+f"(d[i + 7])
#define FTJ_WGMMA_32(i)  FTJ_WGMMA_8(i), FTJ_WGMMA_8(i + 8), FTJ_WGMMA_8(i + 16), FTJ_WGMMA_8(i + 24)
#define FTJ_WGMMA_OUT64  FTJ_WGMMA_32(0)
#define FTJ_WGMMA_OUT128 FTJ_WGMMA_32(0), FTJ_WGMMA_32(32)
#define FTJ_WGMMA_OUT256 FTJ_WGMMA_32(0), FTJ_WGMMA_32(32), FTJ_WGMMA_32(64), FTJ_WGMMA_32(96)

// A statement is four products, over k of 64: as each statement takes and returns all of d, one a
// product took a twentieth longer to compile, to the same instructions. h: where the descriptors'
// high half comes in the list of operands.
//
// Both operands in shared memory, both with k along the rows, of 128 bytes. x, y, z: where a, b and
// accumulate come.
#define FTJ_WGMMA_SS_STEP(n, type, x, y, h, step)                                                  \
    "add.u32 low, %" #x ", 2 * " #step ";\nmov.b64 a, {low, %" #h "};\n"                           \
    "add.u32 low, %" #y ", 2 * " #step ";\nmov.b64 b, {low, %" #h "};\n"                           \
    "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " " FTJ_WGMMA_D##n             \
        ", a, b, p, 1, 1, 0, 0;\n"
#define FTJ_WGMMA_SS_BEGIN(z)                                                                      \
    "{\n.reg .pred p;\n.reg .b64 a, b;\n.reg .b32 low;\nsetp.ne.b32 p, %" #z ", 0;\n"
#define FTJ_WGMMA_SS_OPERANDS(n, a, b, accumulate)                                                 \
    FTJ_WGMMA_OUT##n : "r"(a), "r"(b), "r"(uint32_t(accumulate)), "n"(wgmma_descriptor_high)
#define FTJ_WGMMA_SS128(type)                                                                      \
    asm volatile(FTJ_WGMMA_SS_BEGIN(66) FTJ_WGMMA_SS_STEP(                                         \
                     128, type, 64, 65, 67,                                                        \
                     0) "setp.eq.b32 p, 0, 0;\n" FTJ_WGMMA_SS_STEP(128, type, 64, 65, 67, 1)       \
                     FTJ_WGMMA_SS_STEP(128, type, 64, 65, 67, 2)                                   \
                         FTJ_WGMMA_SS_STEP(128, type, 64, 65, 67, 3) "}"                           \
                 : FTJ_WGMMA_SS_OPERANDS(128, a, b, accumulate))
#define FTJ_WGMMA_SS64(type)                                                                       \
    asm volatile(                                                                                  \
        FTJ_WGMMA_SS_BEGIN(34)                                                                     \
            FTJ_WGMMA_SS_STEP(64, type, 32, 33, 35, 0) "setp.eq.b32 p, 0, 0;\n" FTJ_WGMMA_SS_STEP( \
                64, type, 32, 33, 35, 1) FTJ_WGMMA_SS_STEP(64, type, 32, 33, 35, 2)                \
                FTJ_WGMMA_SS_STEP(64, type, 32, 33, 35, 3) "}"                                     \
        : FTJ_WGMMA_SS_OPERANDS(64, a, b, accumulate))
// a in registers, b in shared memory with n along the rows, of which a step has 16. w to z: where
// the step's a[4] comes.
#define FTJ_WGMMA_RS_STEP(n, type, w, x, y, z, b, h, step)                                         \
    "add.u32 low, %" #b ", 128 * " #step ";\nmov.b64 b, {low, %" #h "};\n"                         \
    "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " " FTJ_WGMMA_D##n             \
        ", {%" #w ", %" #x ", %" #y ", %" #z "}, b, p, 1, 1, 1;\n"
#define FTJ_WGMMA_RS(n, type, steps)                                                               \
    asm volatile("{\n.reg .pred p;\n.reg .b64 b;\n.reg .b32 low;\nsetp.eq.b32 p, 0, 0;\n" steps    \
                 "}"                                                                               \
                 : FTJ_WGMMA_OUT##n                                                                \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[4]), "r"(a[5]), "r"(a[6]),    \
                   "r"(a[7]), "r"(a[8]), "r"(a[9]), "r"(a[10]), "r"(a[11]), "r"(a[12]),            \
                   "r"(a[13]), "r"(a[14]), "r"(a[15]), "r"(b), "n"(wgmma_descriptor_high))
#define FTJ_WGMMA_RS64(type)                                                                       \
    FTJ_WGMMA_RS(64, type,                                                                         \
                 FTJ_WGMMA_RS_STEP(64, type, 32, 33, 34, 35, 48, 49, 0)                            \
                     FTJ_WGMMA_RS_STEP(64, type, 36, 37, 38, 39, 48, 49, 1)                        \
                         FTJ_WGMMA_RS_STEP(64, type, 40, 41, 42, 43, 48, 49, 2)                    \
                             FTJ_WGMMA_RS_STEP(64, type, 44, 45, 46, 47, 48, 49, 3))
#define FTJ_WGMMA_RS128(type)                                                                      \
    FTJ_WGMMA_RS(128, type,                                                                        \
                 FTJ_WGMMA_RS_STEP(128, type, 64, 65, 66, 67, 80, 81, 0)                           \
                     FTJ_WGMMA_RS_STEP(128, type, 68, 69, 70, 71, 80, 81, 1)                       \
                         FTJ_WGMMA_RS_STEP(128, type, 72, 73, 74, 75, 80, 81, 2)                   \
                             FTJ_WGMMA_RS_STEP(128, type, 76, 77, 78, 79, 80, 81, 3))
#define FTJ_WGMMA_RS256(type)                                                                      \
    FTJ_WGMMA_RS(256, type,                                                                        \
                 FTJ_WGMMA_RS_STEP(256, type, 128, 129, 130, 131, 144, 145, 0)                     \
                     FTJ_WGMMA_RS_STEP(256, type, 132, 133, 134, 135, 144, 145, 1)                 \
                         FTJ_WGMMA_RS_STEP(256, type, 136, 137, 138, 139, 144, 145, 2)             \
                             FTJ_WGMMA_RS_STEP(256, type, 140, 141, 142, 143, 144, 145, 3))
#define FTJ_WGMMA_FUNCTIONS(name, type)                                                            \
    template <int n>                                                                               \
    FTJ_DEVICE void wgmma_ss_k64_##name(float(&d)[n / 2], uint32_t a, uint32_t b,                  \
                                        bool accumulate) {                                         \
        static_assert(n == 64 || n == 128, "the widths there are");                                \
        if constexpr (n == 64) {                                                                   \
            FTJ_WGMMA_SS64(type);                                                                  \
        } else {                                                                                   \
            FTJ_WGMMA_SS128(type);                                                                 \
        }                                                                                          \
    }                                                                                              \
    template <int n>                                                                               \
    FTJ_DEVICE void wgmma_rs_k64_##name(float(&d)[n / 2], const uint32_t* a, uint32_t b) {         \
        static_assert(n == 64 || n == 128 || n == 256, "the widths there are");                    \
        if constexpr (n == 64)                                                                     \
            FTJ_WGMMA_RS64(type);                                                                  \
        else if constexpr (n == 128)                                                               \
            FTJ_WGMMA_RS128(type);                                                                 \
        else                                                                                       \
            FTJ_WGMMA_RS256(type);                                                                 \
    }
FTJ_WGMMA_FUNCTIONS(f16, "f16")
FTJ_WGMMA_FUNCTIONS(bf16, "bf16")

#undef FTJ_WGMMA_D64
#undef FTJ_WGMMA_D128
#undef FTJ_WGMMA_D256
#undef FTJ_WGMMA_8
#undef FTJ_WGMMA_32
#undef FTJ_WGMMA_OUT64
#undef FTJ_WGMMA_OUT128
#undef FTJ_WGMMA_OUT256
#undef FTJ_WGMMA_SS_STEP
#undef FTJ_WGMMA_SS_BEGIN
#undef FTJ_WGMMA_SS_OPERANDS
#undef FTJ_WGMMA_SS128
#undef FTJ_WGMMA_SS64
#undef FTJ_WGMMA_RS_STEP
#undef FTJ_WGMMA_RS
#undef FTJ_WGMMA_RS64
#undef FTJ_WGMMA_RS128
#undef FTJ_WGMMA_RS256
#undef FTJ_WGMMA_FUNCTIONS

}  // namespace ptx
}  // namespace ftj
