/* SPDX-License-Identifier: MIT */
/*
 * The cache's formats in plain C, bit exact: what every store and every read is compared with.
 *
 * Written for clarity, not speed, and from the numbers of docs/formats.md alone: nothing here is
 * shared with the kernels. Compiled without FMA contraction.
 */
#ifndef FTJ_TESTS_REF_CODEC_H
#define FTJ_TESTS_REF_CODEC_H

#include <stdint.h>

#include "ftjit/attention.h"

#define REF_MAX_HEAD_DIM 512

/* fl(1 / 448) and fl(1 / 2688): row scales are amax times these, never a division. */
#define REF_FP8_RECIPROCAL   0x3b124925u
#define REF_NVFP4_RECIPROCAL 0x39c30c31u

/* E4M3, nearest, ties to even, in one rounding. Saturates at +-448 (a NaN becomes +448, 0x7e).
 * Zeros and what rounds to zero give 0x00, never 0x80. */
uint8_t ref_e4m3_encode(float value);

/* Exact. 0x7f and 0xff, which no encoder writes, are NaN. */
float ref_e4m3_decode(uint8_t code);

/* E2M1 in the low four bits, nearest, ties to even, saturates at +-6. The sign bit is set for
 * every value below zero, so a small negative one gives 8; -0.0 and NaN give 0. */
uint8_t ref_e2m1_encode(float value);

/* Exact; code 8 is -0.0. Bits above the low four are ignored. */
float ref_e2m1_decode(uint8_t code);

/* 16-bit types as bits. Narrowing is to nearest, ties to even; a NaN stays a (quiet) NaN. */
float ref_bf16_widen(uint16_t bits);
uint16_t ref_bf16_narrow(float value);
float ref_fp16_widen(uint16_t bits);
uint16_t ref_fp16_narrow(float value);

/* The same by type. `dtype` is BF16 or FP16. */
float ref_16bit_widen(ftj_dtype dtype, uint16_t bits);
uint16_t ref_16bit_narrow(ftj_dtype dtype, float value);

float ref_float_of_bits(uint32_t bits);
uint32_t ref_bits_of_float(float value);

/* One stored row, K or V of one (token, kv head). Arrays a format lacks are zero. */
struct ref_row {
    uint8_t codes[2 * REF_MAX_HEAD_DIM];         /* 16-bit: little-endian values */
    float row_scale;                             /* fp8, nvfp4 */
    uint8_t block_scales[REF_MAX_HEAD_DIM / 16]; /* nvfp4 */
};

/* Encode a row already widened to fp32. `dtype` (BF16 or FP16) is what a 16-bit cache holds and
 * is not looked at otherwise. head_dim: a multiple of 16, at most REF_MAX_HEAD_DIM. */
void ref_row_encode(ftj_kv_format format, ftj_dtype dtype, const float *row, uint32_t head_dim,
                    struct ref_row *out);

/* The fp32 values that a reader gets, as doubles: for fp8 fl(code * row scale), for nvfp4
 * fl((e2m1 * block scale) * row scale). */
void ref_row_decode(ftj_kv_format format, ftj_dtype dtype, const struct ref_row *row,
                    uint32_t head_dim, double *out);

#endif
