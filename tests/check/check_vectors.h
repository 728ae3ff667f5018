/* SPDX-License-Identifier: MIT */
/* Golden rows of the formats, from outside this project's code. */
#ifndef FTJ_TESTS_CHECK_VECTORS_H
#define FTJ_TESTS_CHECK_VECTORS_H

#include "ftjit/attention.h"

/* One row in, its stored bytes out. Values past those given are 0. */
struct check_vector {
    const char *name;
    ftj_kv_format format;
    ftj_dtype dtype; /* of the source */
    uint32_t head_dim;
    uint32_t row_scale; /* bits */
    float values[32];
    uint8_t codes[32]; /* the first ones; see num_codes */
    uint32_t num_codes;
    uint8_t block_scales[8]; /* nvfp4: head_dim / 16 of them */
};

#define CHECK_NUM_VECTORS 11
extern const struct check_vector check_vectors[CHECK_NUM_VECTORS];

/* x_i = (i - 64) / 16, i below 128, in both formats. */
extern const uint8_t check_ramp_nvfp4[64];
extern const uint8_t check_ramp_fp8[128];

#endif
