/* SPDX-License-Identifier: MIT */
/* Every step is one correctly rounded fp32 operation, in the order that docs/formats.md states. */
#include "tests/ref/ref_codec.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const float fp8_max = 448.0f;
static const float e4m3_smallest_normal = 0x1p-6f;
static const float least_amax = 1e-10f; /* a zero row still has a scale above zero */

float ref_float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

uint32_t ref_bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* 2^exponent, of a normal number. */
static float power_of_two(int exponent)
{
    return ref_float_of_bits((uint32_t)(exponent + 127) << 23);
}

/* Of a normal number. */
static int exponent_of(float magnitude)
{
    return (int)(ref_bits_of_float(magnitude) >> 23) - 127;
}

/* The nearest integer, ties to even, of 0 <= x < 2^22. */
static float nearest(float x)
{
    return x + 0x1p23f - 0x1p23f;
}

uint8_t ref_e4m3_encode(float value)
{
    /* A NaN is not below the largest, and becomes it. */
    const float magnitude = fabsf(value) < fp8_max ? fabsf(value) : fp8_max;
    uint32_t code;
    if (magnitude < e4m3_smallest_normal) {
        code = (uint32_t)nearest(magnitude * 0x1p9f); /* 8 is the smallest normal's code */
    } else {
        const int exponent = exponent_of(magnitude);
        const float eighths = nearest(magnitude * power_of_two(3 - exponent)); /* 8 to 16 */
        code = ((uint32_t)(exponent + 7) << 3) + (uint32_t)eighths - 8u;
    }
    return (uint8_t)(value < 0.0f && code != 0 ? code | 0x80u : code);
}

float ref_e4m3_decode(uint8_t code)
{
    const int exponent = code >> 3 & 15;
    const int mantissa = code & 7;
    if ((code & 0x7f) == 0x7f)
        return NAN;
    const float magnitude = exponent == 0 ? (float)mantissa * 0x1p-9f
                                          : (float)(8 + mantissa) * power_of_two(exponent - 10);
    return code & 0x80 ? -magnitude : magnitude;
}

uint8_t ref_e2m1_encode(float value)
{
    const float n = fabsf(value);
    /* One for each middle of two neighbours that n is past; a tie goes to the even code. */
    const int code = (n > 0.25f) + (n >= 0.75f) + (n > 1.25f) + (n >= 1.75f) + (n > 2.5f) +
                     (n >= 3.5f) + (n > 5.0f);
    return (uint8_t)(value < 0.0f ? code | 8 : code);
}

float ref_e2m1_decode(uint8_t code)
{
    static const float magnitudes[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
    const float magnitude = magnitudes[code & 7];
    return code & 8 ? -magnitude : magnitude;
}

float ref_bf16_widen(uint16_t bits)
{
    return ref_float_of_bits((uint32_t)bits << 16);
}

uint16_t ref_bf16_narrow(float value)
{
    const uint32_t bits = ref_bits_of_float(value);
    if (isnan(value))
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

float ref_fp16_widen(uint16_t bits)
{
    const int exponent = bits >> 10 & 31;
    const int mantissa = bits & 0x3ff;
    float magnitude;
    if (exponent == 31)
        magnitude = mantissa ? NAN : INFINITY;
    else if (exponent == 0)
        magnitude = (float)mantissa * 0x1p-24f;
    else
        magnitude = (float)(0x400 + mantissa) * power_of_two(exponent - 25);
    return bits & 0x8000 ? -magnitude : magnitude;
}

uint16_t ref_fp16_narrow(float value)
{
    const uint32_t sign = ref_bits_of_float(value) >> 16 & 0x8000u;
    const float magnitude = fabsf(value);
    uint32_t code;
    if (isnan(value)) {
        code = 0x7e00u;
    } else if (magnitude >= 65520.0f) {
        code = 0x7c00u; /* half way past the largest value rounds to infinity */
    } else if (magnitude < 0x1p-14f) {
        code = (uint32_t)nearest(magnitude * 0x1p24f);
    } else {
        const int exponent = exponent_of(magnitude);
        const float steps = nearest(magnitude * power_of_two(10 - exponent)); /* 1024 to 2048 */
        code = ((uint32_t)(exponent + 15) << 10) + (uint32_t)steps - 1024u;
    }
    return (uint16_t)(sign | code);
}

float ref_16bit_widen(ftj_dtype dtype, uint16_t bits)
{
    assert(dtype == FTJ_DTYPE_BF16 || dtype == FTJ_DTYPE_FP16);
    return dtype == FTJ_DTYPE_BF16 ? ref_bf16_widen(bits) : ref_fp16_widen(bits);
}

uint16_t ref_16bit_narrow(ftj_dtype dtype, float value)
{
    assert(dtype == FTJ_DTYPE_BF16 || dtype == FTJ_DTYPE_FP16);
    return dtype == FTJ_DTYPE_BF16 ? ref_bf16_narrow(value) : ref_fp16_narrow(value);
}

/* Largest magnitude; a NaN counts for nothing. */
static float amax_of(const float *values, uint32_t num_values)
{
    float amax = 0.0f;
    for (uint32_t i = 0; i < num_values; i++)
        amax = fabsf(values[i]) > amax ? fabsf(values[i]) : amax;
    return amax;
}

static void encode_16bit(ftj_dtype dtype, const float *row, uint32_t head_dim, struct ref_row *out)
{
    for (uint32_t i = 0; i < head_dim; i++) {
        const uint16_t bits = ref_16bit_narrow(dtype, row[i]);
        out->codes[2 * i] = (uint8_t)(bits & 0xff);
        out->codes[2 * i + 1] = (uint8_t)(bits >> 8);
    }
}

static void encode_fp8(const float *row, uint32_t head_dim, struct ref_row *out)
{
    const float amax = fmaxf(amax_of(row, head_dim), least_amax);
    out->row_scale = amax * ref_float_of_bits(REF_FP8_RECIPROCAL);
    for (uint32_t i = 0; i < head_dim; i++)
        out->codes[i] = ref_e4m3_encode(row[i] / out->row_scale);
}

/* 16 values against the block scale as it will be read back. */
static uint8_t encode_nvfp4_block(const float *block, float row_scale, uint8_t *codes)
{
    const float wanted = fminf(amax_of(block, 16) / (6.0f * row_scale), fp8_max);
    const uint8_t block_code = ref_e4m3_encode(wanted);
    const float unit = ref_e4m3_decode(block_code) * row_scale;
    for (uint32_t i = 0; i < 16; i += 2) {
        const uint8_t low = block_code ? ref_e2m1_encode(block[i] / unit) : 0;
        const uint8_t high = block_code ? ref_e2m1_encode(block[i + 1] / unit) : 0;
        codes[i / 2] = (uint8_t)(high << 4 | low);
    }
    return block_code;
}

static void encode_nvfp4(const float *row, uint32_t head_dim, struct ref_row *out)
{
    const float amax = fmaxf(amax_of(row, head_dim), least_amax);
    out->row_scale = amax * ref_float_of_bits(REF_NVFP4_RECIPROCAL);
    for (uint32_t i = 0; i < head_dim; i += 16)
        out->block_scales[i / 16] = encode_nvfp4_block(row + i, out->row_scale, out->codes + i / 2);
}

void ref_row_encode(ftj_kv_format format, ftj_dtype dtype, const float *row, uint32_t head_dim,
                    struct ref_row *out)
{
    assert(head_dim % 16 == 0 && head_dim <= REF_MAX_HEAD_DIM);
    memset(out, 0, sizeof(*out));
    if (format == FTJ_KV_16BIT)
        encode_16bit(dtype, row, head_dim, out);
    else if (format == FTJ_KV_FP8)
        encode_fp8(row, head_dim, out);
    else
        encode_nvfp4(row, head_dim, out);
}

static void decode_16bit(ftj_dtype dtype, const struct ref_row *row, uint32_t head_dim, double *out)
{
    for (uint32_t i = 0; i < head_dim; i++) {
        const uint32_t bits = row->codes[2 * i] | (uint32_t)row->codes[2 * i + 1] << 8;
        out[i] = (double)ref_16bit_widen(dtype, (uint16_t)bits);
    }
}

static void decode_nvfp4(const struct ref_row *row, uint32_t head_dim, double *out)
{
    for (uint32_t block = 0; block < head_dim / 16; block++) {
        const float block_scale = ref_e4m3_decode(row->block_scales[block]);
        for (uint32_t i = 16 * block; i < 16 * (block + 1); i++) {
            const uint8_t nibble = row->codes[i / 2] >> (i % 2 * 4) & 15;
            out[i] = (double)(ref_e2m1_decode(nibble) * block_scale * row->row_scale);
        }
    }
}

void ref_row_decode(ftj_kv_format format, ftj_dtype dtype, const struct ref_row *row,
                    uint32_t head_dim, double *out)
{
    assert(head_dim % 16 == 0 && head_dim <= REF_MAX_HEAD_DIM);
    if (format == FTJ_KV_16BIT) {
        decode_16bit(dtype, row, head_dim, out);
    } else if (format == FTJ_KV_NVFP4) {
        decode_nvfp4(row, head_dim, out);
    } else {
        for (uint32_t i = 0; i < head_dim; i++)
            out[i] = (double)(ref_e4m3_decode(row->codes[i]) * row->row_scale);
    }
}
