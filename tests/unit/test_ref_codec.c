/* SPDX-License-Identifier: MIT */
/* The reference codecs against vectors from outside, and against a search of all codes. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "tests/golden/codec_vectors.h"
#include "tests/ref/ref_codec.h"

/* Code of the nearest magnitude among the first `num_codes`, ties to the even code. */
static uint8_t nearest_code(float (*decode)(uint8_t), uint8_t num_codes, double magnitude)
{
    uint8_t best = 0;
    for (uint8_t code = 1; code < num_codes; code++) {
        const double distance = fabs(decode(code) - magnitude);
        const double best_distance = fabs(decode(best) - magnitude);
        if (distance < best_distance || (distance == best_distance && code % 2 == 0))
            best = code;
    }
    return best;
}

static void expect_nearest_e4m3(float value)
{
    uint8_t wanted = nearest_code(ref_e4m3_decode, 0x7f, fabs(value));
    if (value < 0.0f && wanted != 0)
        wanted |= 0x80;
    const uint8_t got = ref_e4m3_encode(value);
    cr_assert(got == wanted, "%a became %02x, nearest is %02x", value, got, wanted);
}

static void expect_nearest_e2m1(float value)
{
    const uint8_t sign = value < 0.0f ? 8 : 0;
    const uint8_t wanted = nearest_code(ref_e2m1_decode, 8, fabs(value)) | sign;
    const uint8_t got = ref_e2m1_encode(value);
    cr_assert(got == wanted, "%a became %x, nearest is %x", value, got, wanted);
}

/* The value, its two neighbours in fp32, and the three negated. */
static void expect_around(float value, void (*expect)(float))
{
    const float around[3] = {value, nextafterf(value, INFINITY), nextafterf(value, -INFINITY)};
    for (int i = 0; i < 3; i++) {
        expect(around[i]);
        expect(-around[i]);
    }
}

Test(ref_codec, e4m3_encodes_the_golden_values)
{
    for (size_t i = 0; i < num_codec_e4m3_vectors; i++) {
        const struct codec_e4m3_vector *vector = &codec_e4m3_vectors[i];
        const uint8_t got = ref_e4m3_encode(vector->value);
        cr_expect(got == vector->code, "%a became %02x, not %02x", vector->value, got,
                  vector->code);
    }
}

Test(ref_codec, e4m3_encodes_to_the_nearest_code_at_every_grid_point_and_midpoint)
{
    for (uint8_t code = 0; code < 0x7e; code++) {
        const float here = ref_e4m3_decode(code);
        expect_around(here, expect_nearest_e4m3);
        expect_around((here + ref_e4m3_decode(code + 1)) / 2, expect_nearest_e4m3);
    }
    expect_around(448.0f, expect_nearest_e4m3);
}

Test(ref_codec, e4m3_encodes_to_the_nearest_code_of_many_floats)
{
    /* Every 4099th pattern from 0 to 448: all exponents, all roundings. */
    for (uint32_t bits = 0; bits <= ref_bits_of_float(448.0f); bits += 4099) {
        expect_nearest_e4m3(ref_float_of_bits(bits));
        expect_nearest_e4m3(-ref_float_of_bits(bits));
    }
}

Test(ref_codec, e4m3_saturates_and_never_writes_a_nan_or_a_negative_zero)
{
    const float values[] = {448.5f, 480.0f, 1e30f, INFINITY};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        cr_expect(ref_e4m3_encode(values[i]) == 0x7e);
        cr_expect(ref_e4m3_encode(-values[i]) == 0xfe);
    }
    cr_expect(ref_e4m3_encode(NAN) == 0x7e);
    cr_expect(ref_e4m3_encode(-NAN) == 0x7e);
    cr_expect(ref_e4m3_encode(-0x1p-10f) == 0x00);
    cr_expect(ref_e4m3_encode(-0x1p-149f) == 0x00);
}

Test(ref_codec, e4m3_decodes_the_fields_of_every_code)
{
    for (int code = 0; code < 256; code++) {
        const int exponent = (code & 0x78) / 8;
        const int mantissa = code & 7;
        double wanted =
            exponent ? pow(2, exponent - 7) * (1 + mantissa / 8.0) : pow(2, -6) * mantissa / 8;
        wanted = code >= 128 ? -wanted : wanted;
        if ((code & 0x7f) == 0x7f)
            continue;
        const float got = ref_e4m3_decode((uint8_t)code);
        cr_expect(got == wanted && (signbit(got) != 0) == (code >= 128), "code %02x gave %a", code,
                  got);
        cr_expect(ref_e4m3_encode(got) == (code == 0x80 ? 0 : code), "code %02x", code);
    }
    cr_expect(isnan(ref_e4m3_decode(0x7f)));
    cr_expect(isnan(ref_e4m3_decode(0xff)));
}

Test(ref_codec, e2m1_encodes_to_the_nearest_code_with_the_sign_of_what_is_below_zero)
{
    for (uint8_t code = 0; code < 7; code++) {
        const float here = ref_e2m1_decode(code);
        expect_around(here, expect_nearest_e2m1);
        expect_around((here + ref_e2m1_decode(code + 1)) / 2, expect_nearest_e2m1);
    }
    expect_around(6.0f, expect_nearest_e2m1);
    cr_expect(ref_e2m1_encode(-0.0f) == 0);
    cr_expect(ref_e2m1_encode(-0x1p-149f) == 8);
    cr_expect(ref_e2m1_encode(-1e30f) == 15);
    cr_expect(ref_e2m1_encode(NAN) == 0);
}

Test(ref_codec, e2m1_decodes_the_documented_values)
{
    const float wanted[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                              -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
    for (uint8_t code = 0; code < 16; code++)
        cr_expect(ref_bits_of_float(ref_e2m1_decode(code)) == ref_bits_of_float(wanted[code]));
}

/* Both 16-bit types: consecutive patterns are consecutive values, so the middle of two must go to
 * the even one, and its neighbours to the nearer one. */
static void expect_16bit_rounding(ftj_dtype dtype, uint16_t infinity)
{
    for (uint16_t bits = 0; bits < infinity; bits++) {
        const float here = ref_16bit_widen(dtype, bits);
        cr_assert(ref_16bit_narrow(dtype, here) == bits, "pattern %04x", bits);
        cr_assert(ref_16bit_narrow(dtype, -here) == (bits | 0x8000), "pattern %04x", bits);
        if (bits + 1 == infinity)
            break;
        const float middle = here + (ref_16bit_widen(dtype, bits + 1) - here) / 2;
        const uint16_t even = (uint16_t)(bits + (bits & 1));
        cr_assert(ref_16bit_narrow(dtype, middle) == even, "after pattern %04x", bits);
        if (nextafterf(middle, INFINITY) == middle || nextafterf(middle, 0.0f) <= here)
            continue;
        cr_assert(ref_16bit_narrow(dtype, nextafterf(middle, INFINITY)) == bits + 1);
        cr_assert(ref_16bit_narrow(dtype, nextafterf(middle, 0.0f)) == bits);
    }
}

Test(ref_codec, sixteen_bit_types_round_to_nearest_even)
{
    expect_16bit_rounding(FTJ_DTYPE_BF16, 0x7f80);
    expect_16bit_rounding(FTJ_DTYPE_FP16, 0x7c00);
}

Test(ref_codec, sixteen_bit_types_have_the_documented_patterns)
{
    cr_expect(ref_fp16_narrow(1.0f) == 0x3c00 && ref_bf16_narrow(1.0f) == 0x3f80);
    cr_expect(ref_fp16_narrow(65504.0f) == 0x7bff);
    cr_expect(ref_fp16_narrow(nextafterf(65520.0f, 0.0f)) == 0x7bff);
    cr_expect(ref_fp16_narrow(65520.0f) == 0x7c00);
    cr_expect(ref_fp16_narrow(-INFINITY) == 0xfc00 && ref_bf16_narrow(-INFINITY) == 0xff80);
    cr_expect(ref_fp16_narrow(0x1p-25f) == 0x0000 && ref_fp16_narrow(0x1.8p-24f) == 0x0002);
    cr_expect(ref_fp16_widen(0x3555) == 0x1.554p-2f);
    cr_expect(ref_bf16_narrow(0x1.fffffep127f) == 0x7f80);
    cr_expect(isnan(ref_fp16_widen(ref_fp16_narrow(NAN))));
    cr_expect(isnan(ref_bf16_widen(ref_bf16_narrow(ref_float_of_bits(0x7f800001)))));
    cr_expect(isinf(ref_fp16_widen(0xfc00)) && isinf(ref_bf16_widen(0x7f80)));
}

Test(ref_codec, rows_become_the_golden_bytes_T2_T8_T15_T16_T17_O03_O04_O05)
{
    for (size_t i = 0; i < num_codec_vectors; i++) {
        const struct codec_vector *vector = &codec_vectors[i];
        struct ref_row row;
        ref_row_encode(vector->format, FTJ_DTYPE_BF16, vector->values, vector->head_dim, &row);
        cr_expect(ref_bits_of_float(row.row_scale) == vector->row_scale_bits,
                  "%s: row scale %08x, not %08x", vector->name, ref_bits_of_float(row.row_scale),
                  vector->row_scale_bits);
        for (size_t byte = 0; byte < sizeof(vector->codes); byte++)
            cr_expect(row.codes[byte] == vector->codes[byte], "%s: byte %zu is %02x, not %02x",
                      vector->name, byte, row.codes[byte], vector->codes[byte]);
        cr_expect_arr_eq(row.block_scales, vector->block_scales, sizeof(vector->block_scales),
                         "%s: block scales", vector->name);
    }
}

Test(ref_codec, constant_rows_become_the_golden_bytes_T1)
{
    for (size_t i = 0; i < num_codec_constant_vectors; i++) {
        const struct codec_constant_vector *vector = &codec_constant_vectors[i];
        for (uint32_t head_dim = 32; head_dim <= 512; head_dim += 16) {
            float values[512];
            for (uint32_t d = 0; d < head_dim; d++)
                values[d] = vector->value;
            struct ref_row fp8, nvfp4;
            ref_row_encode(FTJ_KV_FP8, FTJ_DTYPE_BF16, values, head_dim, &fp8);
            ref_row_encode(FTJ_KV_NVFP4, FTJ_DTYPE_BF16, values, head_dim, &nvfp4);
            cr_expect(ref_bits_of_float(fp8.row_scale) == vector->fp8_scale_bits);
            cr_expect(ref_bits_of_float(nvfp4.row_scale) == vector->nvfp4_scale_bits);
            for (uint32_t d = 0; d < head_dim; d++) {
                cr_expect(fp8.codes[d] == 0x7e && nvfp4.codes[d / 2] == 0x77);
                cr_expect(nvfp4.block_scales[d / 16] == 0x7e);
            }
        }
    }
}

Test(ref_codec, rows_decode_to_code_times_scales)
{
    /* O05: the row scale is 1, the block scales 448 and 1. */
    const float row[32] = {2688, 0, 0,     0,     0,      0,      0,     0,     0,     0,     0,
                           0,    0, 0,     0,     0,      6,      .25f,  .75f,  1.25f, 1.75f, 2.5f,
                           3.5f, 5, -.25f, -.75f, -1.25f, -1.75f, -2.5f, -3.5f, -5,    .5f};
    const double wanted[32] = {2688, 0, 0, 0, 0, 0, 0, 0, 0,    0,  0,  0,  0,  0,  0,  0,
                               6,    0, 1, 1, 2, 2, 4, 4, -0.0, -1, -1, -2, -2, -4, -4, .5};
    struct ref_row bytes;
    double got[32];
    ref_row_encode(FTJ_KV_NVFP4, FTJ_DTYPE_BF16, row, 32, &bytes);
    ref_row_decode(FTJ_KV_NVFP4, FTJ_DTYPE_BF16, &bytes, 32, got);
    cr_expect_arr_eq(got, wanted, sizeof(wanted));

    /* fp8: one rounding, in fp32. */
    const float third[32] = {1.0f, -1.0f / 3};
    ref_row_encode(FTJ_KV_FP8, FTJ_DTYPE_BF16, third, 32, &bytes);
    ref_row_decode(FTJ_KV_FP8, FTJ_DTYPE_BF16, &bytes, 32, got);
    cr_expect(bytes.codes[1] == 0xf1);
    cr_expect(got[0] == (float)(448.0 * ref_float_of_bits(0x3b124925)));
    cr_expect(got[1] == (float)(-144.0 * ref_float_of_bits(0x3b124925)));
}

Test(ref_codec, sixteen_bit_rows_are_little_endian_values_of_the_dtype)
{
    const float row[32] = {1.0f, -2.0f, 0x1.01p0f};
    const uint8_t bf16[6] = {0x80, 0x3f, 0x00, 0xc0, 0x80, 0x3f};
    const uint8_t fp16[6] = {0x00, 0x3c, 0x00, 0xc0, 0x04, 0x3c};
    struct ref_row bytes;
    double got[32];
    ref_row_encode(FTJ_KV_16BIT, FTJ_DTYPE_BF16, row, 32, &bytes);
    cr_expect_arr_eq(bytes.codes, bf16, sizeof(bf16));
    ref_row_decode(FTJ_KV_16BIT, FTJ_DTYPE_BF16, &bytes, 32, got);
    cr_expect(got[0] == 1.0 && got[1] == -2.0 && got[2] == 1.0 && got[31] == 0.0);
    ref_row_encode(FTJ_KV_16BIT, FTJ_DTYPE_FP16, row, 32, &bytes);
    cr_expect_arr_eq(bytes.codes, fp16, sizeof(fp16));
    ref_row_decode(FTJ_KV_16BIT, FTJ_DTYPE_FP16, &bytes, 32, got);
    cr_expect(got[2] == 0x1.01p0);
}
