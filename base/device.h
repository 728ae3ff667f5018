/* SPDX-License-Identifier: MIT */
/* What the probe found, and the names of what a device can do. Only runtime/probe.c (and the CPU
 * target's own description) fills it in. */
#ifndef FTJ_BASE_DEVICE_H
#define FTJ_BASE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "ftjit/context.h"

/* X(name, bit, spelling in FTJIT_FEATURES and `ftjit info`, what it means) */
#define FTJ_FEATURE_MAP(X)                                                                         \
    X(FTJ_HAS_MMA_F16, 0, "mma_f16", "mma.sync m16n8k8 fp16, movmatrix (sm_75)")                   \
    X(FTJ_HAS_CP_ASYNC, 1, "cp_async", "cp.async (sm_80)")                                         \
    X(FTJ_HAS_MMA_BF16, 2, "mma_bf16", "mma.sync m16n8k16, bf16 too (sm_80)")                      \
    X(FTJ_HAS_FP8_CONVERT, 3, "fp8_convert", "cvt to and from e4m3x2 (sm_89)")                     \
    X(FTJ_HAS_TMA, 4, "tma", "bulk copies and mbarrier transactions (sm_90)")                      \
    X(FTJ_HAS_WGMMA, 5, "wgmma", "wgmma and setmaxnreg (sm_90a)")                                  \
    X(FTJ_HAS_FP4_CONVERT, 6, "fp4_convert", "cvt to and from e2m1x2 (sm_100a, sm_120a)")

enum ftj_feature {
#define FTJ_FEATURE_ENUM(name, bit, text, meaning) name = 1u << (bit),
    FTJ_FEATURE_MAP(FTJ_FEATURE_ENUM)
#undef FTJ_FEATURE_ENUM
};

struct ftj_device {
    ftj_device_kind kind;
    int ordinal;
    char name[128];
    int capability_major;
    int capability_minor;
    int driver_version;
    char target[16];   /* "sm_90a", "cpu" */
    uint32_t features; /* after narrowing */
    uint32_t probed;   /* before */
    uint32_t num_sms;
    uint32_t smem_bytes; /* per block, opted in */
    uint32_t smem_per_sm_bytes;
    uint32_t registers_per_sm;
    uint64_t l2_bytes;
    uint64_t memory_bytes;
};

/* Describe a device that is not there, from the name of its target: "sm_90a", "90a", "cpu". The
 * target is kept as written ("sm_90" has no wgmma, "sm_90a" has); sizes are those typical of the
 * part, l2_bytes and memory_bytes stay 0. FTJ_E_INVALID lists the known targets. */
FTJ_NODISCARD ftj_status ftj_device_of_target(const char *target, const struct ftj_log *log,
                                              struct ftj_device *device);

/* The same from a compute capability, with the exact target compiled for it (9.0: "sm_90a"). One
 * newer than every known part gets the nearest older part's features, without those that only an
 * arch-specific target has, and target "sm_<major><minor>"; one older than 7.5 gets none. For the
 * probe, which then overwrites the sizes with what the device answers. */
void ftj_device_from_capability(int major, int minor, struct ftj_device *device);

/* Remove features: "none", or names separated by commas, each optionally led by "-". */
FTJ_NODISCARD ftj_status ftj_features_narrow(uint32_t *features, const char *names,
                                             const struct ftj_log *log);

/* "mma_f16,cp_async,..." into text; "none" when there are none. */
void ftj_features_text(uint32_t features, char *text, size_t size);

#endif
