/* SPDX-License-Identifier: MIT */
/* Golden vectors of the row formats: any encoder, on any device, must write these bytes. */
#ifndef FTJ_TESTS_CODEC_VECTORS_H
#define FTJ_TESTS_CODEC_VECTORS_H

#include <stddef.h>
#include <stdint.h>

#include "ftjit/kv_layout.h"

/* An fp32 row and its bytes. What lies past the row, or is not given, is zero. */
struct codec_vector {
    const char *name;
    ftj_kv_format format; /* FP8 or NVFP4 */
    uint32_t head_dim;
    float values[128];
    uint32_t row_scale_bits;
    uint8_t codes[128];
    uint8_t block_scales[8];
};

/* A row, of any head_dim, with one value everywhere (trap T1): every fp8 code is 0x7e; in nvfp4
 * every byte of codes is 0x77 and every block scale 0x7e. */
struct codec_constant_vector {
    float value;
    uint32_t fp8_scale_bits;
    uint32_t nvfp4_scale_bits;
};

/* One value by itself. */
struct codec_e4m3_vector {
    float value;
    uint8_t code;
};

extern const struct codec_vector codec_vectors[];
extern const size_t num_codec_vectors;
extern const struct codec_constant_vector codec_constant_vectors[];
extern const size_t num_codec_constant_vectors;
extern const struct codec_e4m3_vector codec_e4m3_vectors[];
extern const size_t num_codec_e4m3_vectors;

#endif
