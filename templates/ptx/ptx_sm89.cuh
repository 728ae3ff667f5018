// SPDX-License-Identifier: MIT
// What sm_89 adds: conversions to and from E4M3.
#pragma once
#include "ptx/ptx_sm80.cuh"

#if __CUDA_ARCH__ < 890
#error "ptx_sm89.cuh needs sm_89"
#endif

namespace ftj {
namespace ptx {

// cvt.rn.satfinite.e4m3x2.f32: two codes, `low` in the low byte. PTX ISA 7.8 (sm_90), 8.1 (sm_89).
FTJ_DEVICE uint32_t cvt_rn_satfinite_e4m3x2_f32(float low, float high) {
    uint16_t r;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(high), "f"(low));
    return r;
}
// cvt.rn.f16x2.e4m3x2: two codes to two fp16, exactly.
FTJ_DEVICE uint32_t cvt_rn_f16x2_e4m3x2(uint32_t codes) {
    uint32_t r;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"(static_cast<uint16_t>(codes)));
    return r;
}
// The same of the upper two of four codes. The instruction reads either half of a register; of a
// shift it would make a shift.
FTJ_DEVICE uint32_t cvt_rn_f16x2_e4m3x2_high(uint32_t codes) {
    uint32_t r;
    asm("{\n"
        ".reg .b16 low, high;\n"
        "mov.b32 {low, high}, %1;\n"
        "cvt.rn.f16x2.e4m3x2 %0, high;\n"
        "}"
        : "=r"(r)
        : "r"(codes));
    return r;
}

}  // namespace ptx
}  // namespace ftj
