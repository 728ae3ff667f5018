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

// A constant that stays in a register: the assembler, too, takes it for something it cannot know.
FTJ_DEVICE uint32_t opaque(uint32_t v) {
    uint32_t r;
    asm("{\n.reg .u32 none;\nmov.u32 none, %%dynamic_smem_size;\nshr.u32 none, none, 24;\n"
        "add.u32 %0, %1, none;\n}"
        : "=r"(r)
        : "r"(v));
    return r;
}

// ---- wgmma -------------------------------------------------------------------------------------
// d[64 x n] (+)= a[64 x 16] * b[16 x n] by the four warps of a warpgroup, fp32 accumulated. PTX ISA
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

// Both operands in shared memory, both with k along the rows. x, y, z, h: where the operands a, b,
// accumulate and the descriptors' high half come in the list.
#define FTJ_WGMMA_SS(n, type, x, y, z, h)                                                          \
    asm volatile("{\n.reg .pred p;\n.reg .b64 a, b;\n"                                             \
                 "mov.b64 a, {%" #x ", %" #h "};\nmov.b64 b, {%" #y ", %" #h "};\n"                \
                 "setp.ne.b32 p, %" #z ", 0;\n"                                                    \
                 "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type                   \
                 " " FTJ_WGMMA_D##n ", a, b, p, 1, 1, 0, 0;\n}"                                    \
                 : FTJ_WGMMA_OUT##n                                                                \
                 : "r"(a), "r"(b), "r"(uint32_t(accumulate)), "n"(wgmma_descriptor_high))
// a in registers, b in shared memory with n along the rows. w to z: of a[4]; b, p: of b,
// accumulate.
#define FTJ_WGMMA_RS(n, type, w, x, y, z, b_, p_, h)                                               \
    asm volatile("{\n.reg .pred p;\n.reg .b64 b;\nmov.b64 b, {%" #b_ ", %" #h "};\n"               \
                 "setp.ne.b32 p, %" #p_ ", 0;\n"                                                   \
                 "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type                   \
                 " " FTJ_WGMMA_D##n ", {%" #w ", %" #x ", %" #y ", %" #z "}, b, p, 1, 1, 1;\n}"    \
                 : FTJ_WGMMA_OUT##n                                                                \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "r"(uint32_t(accumulate)),  \
                   "n"(wgmma_descriptor_high))
#define FTJ_WGMMA_FUNCTIONS(name, type)                                                            \
    template <int n>                                                                               \
    FTJ_DEVICE void wgmma_ss_##name(float(&d)[n / 2], uint32_t a, uint32_t b, bool accumulate) {   \
        static_assert(n == 64 || n == 128, "the widths there are");                                \
        if constexpr (n == 64)                                                                     \
            FTJ_WGMMA_SS(64, type, 32, 33, 34, 35);                                                \
        else                                                                                       \
            FTJ_WGMMA_SS(128, type, 64, 65, 66, 67);                                               \
    }                                                                                              \
    template <int n>                                                                               \
    FTJ_DEVICE void wgmma_rs_##name(float(&d)[n / 2], const uint32_t* a, uint32_t b,               \
                                    bool accumulate) {                                             \
        static_assert(n == 64 || n == 128 || n == 256, "the widths there are");                    \
        if constexpr (n == 64)                                                                     \
            FTJ_WGMMA_RS(64, type, 32, 33, 34, 35, 36, 37, 38);                                    \
        else if constexpr (n == 128)                                                               \
            FTJ_WGMMA_RS(128, type, 64, 65, 66, 67, 68, 69, 70);                                   \
        else                                                                                       \
            FTJ_WGMMA_RS(256, type, 128, 129, 130, 131, 132, 133, 134);                            \
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
#undef FTJ_WGMMA_SS
#undef FTJ_WGMMA_RS
#undef FTJ_WGMMA_FUNCTIONS

}  // namespace ptx
}  // namespace ftj
