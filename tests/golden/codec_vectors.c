/* SPDX-License-Identifier: MIT */
/* Rows and the bytes they must become, as the system that ftjit replaces writes them; measured
 * and worked out outside this code base. T and O numbers are those of the acceptance cases. */
#include "tests/golden/codec_vectors.h"

#include <math.h>

// clang-format off
/* Values, codes and block scales that are not given are zero. */
const struct codec_vector codec_vectors[] = {
    {
        .name = "ramp in nvfp4",
        .format = FTJ_KV_NVFP4,
        .head_dim = 128,
        .values = {
            -4, -3.9375f, -3.875f, -3.8125f, -3.75f, -3.6875f, -3.625f, -3.5625f, -3.5f, -3.4375f,
            -3.375f, -3.3125f, -3.25f, -3.1875f, -3.125f, -3.0625f, -3, -2.9375f, -2.875f, -2.8125f,
            -2.75f, -2.6875f, -2.625f, -2.5625f, -2.5f, -2.4375f, -2.375f, -2.3125f, -2.25f,
            -2.1875f, -2.125f, -2.0625f, -2, -1.9375f, -1.875f, -1.8125f, -1.75f, -1.6875f, -1.625f,
            -1.5625f, -1.5f, -1.4375f, -1.375f, -1.3125f, -1.25f, -1.1875f, -1.125f, -1.0625f, -1,
            -0.9375f, -0.875f, -0.8125f, -0.75f, -0.6875f, -0.625f, -0.5625f, -0.5f, -0.4375f,
            -0.375f, -0.3125f, -0.25f, -0.1875f, -0.125f, -0.0625f, 0, 0.0625f, 0.125f, 0.1875f,
            0.25f, 0.3125f, 0.375f, 0.4375f, 0.5f, 0.5625f, 0.625f, 0.6875f, 0.75f, 0.8125f, 0.875f,
            0.9375f, 1, 1.0625f, 1.125f, 1.1875f, 1.25f, 1.3125f, 1.375f, 1.4375f, 1.5f, 1.5625f,
            1.625f, 1.6875f, 1.75f, 1.8125f, 1.875f, 1.9375f, 2, 2.0625f, 2.125f, 2.1875f, 2.25f,
            2.3125f, 2.375f, 2.4375f, 2.5f, 2.5625f, 2.625f, 2.6875f, 2.75f, 2.8125f, 2.875f,
            2.9375f, 3, 3.0625f, 3.125f, 3.1875f, 3.25f, 3.3125f, 3.375f, 3.4375f, 3.5f, 3.5625f,
            3.625f, 3.6875f, 3.75f, 3.8125f, 3.875f, 3.9375f,
        },
        .row_scale_bits = 0x3ac30c31,
        .codes = {
            0xff, 0xff, 0xff, 0xff, 0xff, 0xef, 0xee, 0xee, 0xff, 0xff, 0xff, 0xff, 0xff, 0xee,
            0xee, 0xee, 0xff, 0xff, 0xff, 0xee, 0xee, 0xee, 0xee, 0xdd, 0xff, 0xef, 0xee, 0xde,
            0xdd, 0xcc, 0xab, 0x9a, 0x10, 0x22, 0x43, 0x54, 0x65, 0x66, 0x76, 0x77, 0x55, 0x65,
            0x66, 0x66, 0x66, 0x76, 0x77, 0x77, 0x66, 0x66, 0x66, 0x76, 0x77, 0x77, 0x77, 0x77,
            0x66, 0x66, 0x66, 0x77, 0x77, 0x77, 0x77, 0x77,
        },
        .block_scales = {
            0x7e, 0x7a, 0x76, 0x6e, 0x6d, 0x76, 0x7a, 0x7e,
        },
    },
    {
        .name = "ramp in fp8",
        .format = FTJ_KV_FP8,
        .head_dim = 128,
        .values = {
            -4, -3.9375f, -3.875f, -3.8125f, -3.75f, -3.6875f, -3.625f, -3.5625f, -3.5f, -3.4375f,
            -3.375f, -3.3125f, -3.25f, -3.1875f, -3.125f, -3.0625f, -3, -2.9375f, -2.875f, -2.8125f,
            -2.75f, -2.6875f, -2.625f, -2.5625f, -2.5f, -2.4375f, -2.375f, -2.3125f, -2.25f,
            -2.1875f, -2.125f, -2.0625f, -2, -1.9375f, -1.875f, -1.8125f, -1.75f, -1.6875f, -1.625f,
            -1.5625f, -1.5f, -1.4375f, -1.375f, -1.3125f, -1.25f, -1.1875f, -1.125f, -1.0625f, -1,
            -0.9375f, -0.875f, -0.8125f, -0.75f, -0.6875f, -0.625f, -0.5625f, -0.5f, -0.4375f,
            -0.375f, -0.3125f, -0.25f, -0.1875f, -0.125f, -0.0625f, 0, 0.0625f, 0.125f, 0.1875f,
            0.25f, 0.3125f, 0.375f, 0.4375f, 0.5f, 0.5625f, 0.625f, 0.6875f, 0.75f, 0.8125f, 0.875f,
            0.9375f, 1, 1.0625f, 1.125f, 1.1875f, 1.25f, 1.3125f, 1.375f, 1.4375f, 1.5f, 1.5625f,
            1.625f, 1.6875f, 1.75f, 1.8125f, 1.875f, 1.9375f, 2, 2.0625f, 2.125f, 2.1875f, 2.25f,
            2.3125f, 2.375f, 2.4375f, 2.5f, 2.5625f, 2.625f, 2.6875f, 2.75f, 2.8125f, 2.875f,
            2.9375f, 3, 3.0625f, 3.125f, 3.1875f, 3.25f, 3.3125f, 3.375f, 3.4375f, 3.5f, 3.5625f,
            3.625f, 3.6875f, 3.75f, 3.8125f, 3.875f, 3.9375f,
        },
        .row_scale_bits = 0x3c124925,
        .codes = {
            0xfe, 0xfe, 0xfe, 0xfd, 0xfd, 0xfd, 0xfd, 0xfc, 0xfc, 0xfc, 0xfc, 0xfc, 0xfb, 0xfb,
            0xfb, 0xfb, 0xfa, 0xfa, 0xfa, 0xfa, 0xfa, 0xf9, 0xf9, 0xf9, 0xf9, 0xf9, 0xf8, 0xf8,
            0xf8, 0xf7, 0xf7, 0xf6, 0xf6, 0xf6, 0xf5, 0xf5, 0xf4, 0xf4, 0xf3, 0xf3, 0xf2, 0xf2,
            0xf2, 0xf1, 0xf1, 0xf0, 0xf0, 0xef, 0xee, 0xed, 0xec, 0xeb, 0xea, 0xea, 0xe9, 0xe8,
            0xe6, 0xe4, 0xe2, 0xe1, 0xde, 0xda, 0xd6, 0xce, 0x00, 0x4e, 0x56, 0x5a, 0x5e, 0x61,
            0x62, 0x64, 0x66, 0x68, 0x69, 0x6a, 0x6a, 0x6b, 0x6c, 0x6d, 0x6e, 0x6f, 0x70, 0x70,
            0x71, 0x71, 0x72, 0x72, 0x72, 0x73, 0x73, 0x74, 0x74, 0x75, 0x75, 0x76, 0x76, 0x76,
            0x77, 0x77, 0x78, 0x78, 0x78, 0x79, 0x79, 0x79, 0x79, 0x79, 0x7a, 0x7a, 0x7a, 0x7a,
            0x7a, 0x7b, 0x7b, 0x7b, 0x7b, 0x7c, 0x7c, 0x7c, 0x7c, 0x7c, 0x7d, 0x7d, 0x7d, 0x7d,
            0x7e, 0x7e,
        },
    },
    {
        .name = "ties to even",
        .format = FTJ_KV_NVFP4,
        .head_dim = 32,
        .values = {
            2.5f, -2.5f, 5, -0.25f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            0, 0, 0, 0, 0, 0, 2688,
        },
        .row_scale_bits = 0x3f800000,
        .codes = {
            0xc4, 0x86, 0x00, 0x00, 0x00, 0x00, 0x00, 0x70, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x70,
        },
        .block_scales = {
            0x38, 0x7e,
        },
    },
    {
        .name = "grid, ties and signs (values are bf16)",
        .format = FTJ_KV_NVFP4,
        .head_dim = 32,
        .values = {
            2688, 6, 0, -0.0f, 0.25f, -0.25f, 0.75f, -0.75f, 1.25f, -1.25f, 1.75f, 2.5f, 3.5f, 5,
            -5, 6, 1, 2, 3, 4, -1, -2, -3, -4, 0.5f, 0.10009765625f, -0.10009765625f,
            0.010009765625f, 0, 1.5f, -1.5f, 8,
        },
        .row_scale_bits = 0x3f800000,
        .codes = {
            0x07, 0x00, 0x80, 0x80, 0x80, 0x00, 0x00, 0x08, 0x31, 0x54, 0xb9, 0xdc, 0x01, 0x08,
            0x20, 0x7a,
        },
        .block_scales = {
            0x7e, 0x3b,
        },
    },
    {
        .name = "T15: quantised against the stored block scale",
        .format = FTJ_KV_NVFP4,
        .head_dim = 32,
        .values = {
            1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.50390625f, 0.0625f,
        },
        .row_scale_bits = 0x39c30c31,
        .codes = {
            0x07, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x27,
        },
        .block_scales = {
            0x7e, 0x76,
        },
    },
    {
        .name = "T2: reciprocal row scale in nvfp4",
        .format = FTJ_KV_NVFP4,
        .head_dim = 32,
        .values = {
            1.03125f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.2578125f, 0.01611328125f,
            0.0322265625f,
        },
        .row_scale_bits = 0x39c92493,
        .codes = {
            0x07, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x17, 0x01,
        },
        .block_scales = {
            0x7e, 0x6e,
        },
    },
    {
        .name = "T2: reciprocal row scale in fp8",
        .format = FTJ_KV_FP8,
        .head_dim = 64,
        .values = {
            1.203125f, 0.81640625f,
        },
        .row_scale_bits = 0x3b300001,
        .codes = {
            0x7e, 0x79,
        },
    },
    {
        .name = "T16: low nibble first",
        .format = FTJ_KV_NVFP4,
        .head_dim = 32,
        .values = {
            6, 0.5f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            0, 0, 0, 2688,
        },
        .row_scale_bits = 0x3f800000,
        .codes = {
            0x17, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x70,
        },
        .block_scales = {
            0x38, 0x7e,
        },
    },
    {
        .name = "T17: zero row in nvfp4",
        .format = FTJ_KV_NVFP4,
        .head_dim = 32,
        .row_scale_bits = 0x29278b6d,
    },
    {
        .name = "T17: row of negative zeros in nvfp4",
        .format = FTJ_KV_NVFP4,
        .head_dim = 32,
        .values = {
            -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f,
            -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f,
            -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f,
        },
        .row_scale_bits = 0x29278b6d,
    },
    {
        .name = "T17: -0.0 is code 0, -0.1 is code 8",
        .format = FTJ_KV_NVFP4,
        .head_dim = 32,
        .values = {
            -0.0f, -0.1f, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            0, 0, 0, 0, 2688,
        },
        .row_scale_bits = 0x3f800000,
        .codes = {
            0x80, 0x07, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x70,
        },
        .block_scales = {
            0x38, 0x7e,
        },
    },
    {
        .name = "T8: a vanishing negative value is 00",
        .format = FTJ_KV_FP8,
        .head_dim = 64,
        .values = {
            448, -0x1p-11f,
        },
        .row_scale_bits = 0x3f800000,
        .codes = {
            0x7e, 0x00,
        },
    },
    {
        .name = "O03: zero row",
        .format = FTJ_KV_FP8,
        .head_dim = 64,
        .row_scale_bits = 0x2a7b5124,
    },
    {
        .name = "O03: row of negative zeros",
        .format = FTJ_KV_FP8,
        .head_dim = 64,
        .values = {
            -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f,
            -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f,
            -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f,
            -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f,
            -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f,
            -0.0f, -0.0f, -0.0f, -0.0f,
        },
        .row_scale_bits = 0x2a7b5124,
    },
    {
        .name = "O03: smallest normal numbers of either sign",
        .format = FTJ_KV_FP8,
        .head_dim = 64,
        .values = {
            0x1p-126f, -0x1p-126f, 0x1p-126f, -0x1p-126f, 0x1p-126f, -0x1p-126f, 0x1p-126f,
            -0x1p-126f, 0x1p-126f, -0x1p-126f, 0x1p-126f, -0x1p-126f, 0x1p-126f, -0x1p-126f,
            0x1p-126f, -0x1p-126f, 0x1p-126f, -0x1p-126f, 0x1p-126f, -0x1p-126f, 0x1p-126f,
            -0x1p-126f, 0x1p-126f, -0x1p-126f, 0x1p-126f, -0x1p-126f, 0x1p-126f, -0x1p-126f,
            0x1p-126f, -0x1p-126f, 0x1p-126f, -0x1p-126f, 0x1p-126f, -0x1p-126f, 0x1p-126f,
            -0x1p-126f, 0x1p-126f, -0x1p-126f, 0x1p-126f, -0x1p-126f, 0x1p-126f, -0x1p-126f,
            0x1p-126f, -0x1p-126f, 0x1p-126f, -0x1p-126f, 0x1p-126f, -0x1p-126f, 0x1p-126f,
            -0x1p-126f, 0x1p-126f, -0x1p-126f, 0x1p-126f, -0x1p-126f, 0x1p-126f, -0x1p-126f,
            0x1p-126f, -0x1p-126f, 0x1p-126f, -0x1p-126f, 0x1p-126f, -0x1p-126f, 0x1p-126f,
            -0x1p-126f,
        },
        .row_scale_bits = 0x2a7b5124,
    },
    {
        .name = "O03: a single one",
        .format = FTJ_KV_FP8,
        .head_dim = 64,
        .values = {
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
        },
        .row_scale_bits = 0x3b124925,
        .codes = {
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x7e,
        },
    },
    {
        .name = "O04: rounding, saturation, subnormals",
        .format = FTJ_KV_FP8,
        .head_dim = 64,
        .values = {
            448, 200, 208, 216, 232, 248, 272, 304, 336, 432, -200, -304, 17, 19, 21, 0x1p-9f,
            0x1p-10f, 0x3p-10f, 0x7p-9f, 0xfp-10f, -0x3p-10f, 1.0625f, 1.1875f, -448,
        },
        .row_scale_bits = 0x3f800000,
        .codes = {
            0x7e, 0x74, 0x75, 0x76, 0x76, 0x78, 0x78, 0x7a, 0x7a, 0x7e, 0xf4, 0xfa, 0x58, 0x5a,
            0x5a, 0x01, 0x00, 0x02, 0x07, 0x08, 0x82, 0x38, 0x3a, 0xfe,
        },
    },
    {
        .name = "O05: ties, nibble order, block scale",
        .format = FTJ_KV_NVFP4,
        .head_dim = 32,
        .values = {
            2688, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 6, 0.25f, 0.75f, 1.25f, 1.75f, 2.5f,
            3.5f, 5, -0.25f, -0.75f, -1.25f, -1.75f, -2.5f, -3.5f, -5, 0.5f,
        },
        .row_scale_bits = 0x3f800000,
        .codes = {
            0x07, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x07, 0x22, 0x44, 0x66, 0xa8, 0xca,
            0xec, 0x1e,
        },
        .block_scales = {
            0x7e, 0x38,
        },
    },
    {
        .name = "block scales that vanish",
        .format = FTJ_KV_NVFP4,
        .head_dim = 64,
        .values = {
            1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x1p-17f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            0, 0, 0, 0, 0, 0x1p-18f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x1p-19f,
        },
        .row_scale_bits = 0x39c30c31,
        .codes = {
            0x07, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x07, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x07,
        },
        .block_scales = {
            0x7e, 0x02, 0x01, 0x00,
        },
    },
    {
        .name = "a NaN becomes the largest value of an fp8 row",
        .format = FTJ_KV_FP8,
        .head_dim = 64,
        .values = {
            1, NAN, -1,
        },
        .row_scale_bits = 0x3b124925,
        .codes = {
            0x7e, 0x7e, 0xfe,
        },
    },
    {
        .name = "a NaN is nothing in an nvfp4 row",
        .format = FTJ_KV_NVFP4,
        .head_dim = 32,
        .values = {
            1, NAN, -1,
        },
        .row_scale_bits = 0x39c30c31,
        .codes = {
            0x07, 0x0f,
        },
        .block_scales = {
            0x7e, 0x00,
        },
    },
    {
        .name = "an infinity takes its fp8 row with it",
        .format = FTJ_KV_FP8,
        .head_dim = 64,
        .values = {
            1, INFINITY, -1,
        },
        .row_scale_bits = 0x7f800000,
        .codes = {
            0x00, 0x7e, 0x00,
        },
    },
    {
        .name = "an infinity takes its nvfp4 row with it",
        .format = FTJ_KV_NVFP4,
        .head_dim = 32,
        .values = {
            1, INFINITY, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1,
        },
        .row_scale_bits = 0x7f800000,
        .block_scales = {
            0x7e, 0x00,
        },
    },
};
const size_t num_codec_vectors = sizeof(codec_vectors) / sizeof(codec_vectors[0]);

const struct codec_constant_vector codec_constant_vectors[] = {
    {1, 0x3b124925, 0x39c30c31},
    {2, 0x3b924925, 0x3a430c31},
    {3, 0x3bdb6db8, 0x3a924925},
    {4, 0x3c124925, 0x3ac30c31},
    {5, 0x3c36db6e, 0x3af3cf3d},
    {6, 0x3c5b6db8, 0x3b124925},
    {7, 0x3c800000, 0x3b2aaaab},
    {8, 0x3c924925, 0x3b430c31},
};
const size_t num_codec_constant_vectors =
    sizeof(codec_constant_vectors) / sizeof(codec_constant_vectors[0]);

const struct codec_e4m3_vector codec_e4m3_vectors[] = {
    {0.0f, 0x00}, {-0.0f, 0x00}, {0x1p-10f, 0x00}, {0x1.000002p-10f, 0x01}, {0x1p-9f, 0x01},
    {0x3p-10f, 0x02}, {0x5p-10f, 0x02}, {0xfp-10f, 0x08}, {0x1p-6f, 0x08}, {0x11p-10f, 0x08},
    {0.3f, 0x2a}, {0x1.555556p-2f, 0x2b}, {1.0625f, 0x38}, {1.1875f, 0x3a}, {100.0f, 0x6c},
    {400.0f, 0x7c}, {432.0f, 0x7e}, {448.0f, 0x7e}, {-448.0f, 0xfe}, {-7.5f, 0xcf},
    {-0x1p-10f, 0x00}, {-0x3p-10f, 0x82},
};
const size_t num_codec_e4m3_vectors = sizeof(codec_e4m3_vectors) / sizeof(codec_e4m3_vectors[0]);
// clang-format on
