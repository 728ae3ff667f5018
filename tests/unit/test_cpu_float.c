/* SPDX-License-Identifier: MIT */
/* The CPU target: conversions and arithmetic against values worked out from the formats' fields. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu_kernel.h"

/* A small binary format: `codes` non-negative finite ones, in order of value. */
struct format {
    int mantissa_bits, bias, codes;
    uint32_t past_largest; /* what a larger value becomes: infinity, or the largest */
    uint32_t nan;
    int sign_bit;
};
static const struct format fp16 = {10, 15, 0x7c00, 0x7c00, 0x7fff, 15};
static const struct format bf16 = {7, 127, 0x7f80, 0x7f80, 0x7fff, 15};
static const struct format e4m3 = {3, 7, 0x7f, 0x7e, 0x7f, 7};

static double value_of(const struct format *format, int code)
{
    const int exponent = code >> format->mantissa_bits;
    const int one = 1 << format->mantissa_bits;
    const int whole = exponent ? code % one + one : code % one;
    return ldexp(whole, (exponent ? exponent : 1) - format->bias - format->mantissa_bits);
}

/* The nearest code, ties to the even one, by bisection over all of them. */
static uint32_t nearest(const struct format *format, float value)
{
    if (isnan(value))
        return format->nan;
    const uint32_t sign = signbit(value) ? 1u << format->sign_bit : 0;
    const double magnitude = fabs((double)value);
    int low = 0, high = format->codes;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (value_of(format, middle) <= magnitude)
            low = middle;
        else
            high = middle;
    }
    /* Past the largest, the next code would be as far again. */
    const double below = value_of(format, low), above = value_of(format, low + 1);
    const bool is_up = magnitude - below > above - magnitude ||
                       (magnitude - below == above - magnitude && low % 2 == 1);
    const int code = low + is_up;
    return sign | (code < format->codes ? (uint32_t)code : format->past_largest);
}

/* Every code's value, its neighbours in fp32, the half-ways and theirs, both signs; then specials
 * and a spread of bit patterns. */
enum { MAX_VALUES = 1 << 20 };
static float values[MAX_VALUES];
static uint32_t num_values;

static void add_with_neighbours(double value)
{
    const float v = (float)value;
    const float all[] = {v, nextafterf(v, 0), nextafterf(v, INFINITY)};
    for (int i = 0; i < 3; i++) {
        values[num_values++] = all[i];
        values[num_values++] = -all[i];
    }
}

static void collect_values(const struct format *format)
{
    const float specials[] = {INFINITY, -INFINITY, NAN, 0.0f, -0.0f, 1e-45f, 3.4e38f, -3.4e38f};
    num_values = 0;
    for (int code = 0; code < format->codes; code++) {
        add_with_neighbours(value_of(format, code));
        add_with_neighbours((value_of(format, code) + value_of(format, code + 1)) / 2);
    }
    for (size_t i = 0; i < sizeof(specials) / sizeof(*specials); i++)
        values[num_values++] = specials[i];
    for (uint32_t i = 0; i < 200000; i++) {
        const uint32_t bits = i * 2654435761u;
        memcpy(&values[num_values++], &bits, 4);
    }
    num_values = (num_values + 1023) / 1024 * 1024;
}

static uint32_t got[MAX_VALUES];

/* Lanes of 32 blocks stride over what `in` holds. */
static void map(const char *expression, const void *in, uint32_t count)
{
    struct ftj_text body = {0};
    ftj_text_printf(&body,
                    "for (uint32_t i = block * 32 + thread; i < %u; i += 1024)\n"
                    "    out[i] = %s;\n",
                    count, expression);
    cpu_kernel_run(body.data, 32, 32, 0, in, got);
    ftj_text_finish(&body);
}

static void check_narrowing(const struct format *format, const char *name, int shift)
{
    struct ftj_text expression = {0};
    ftj_text_printf(&expression, "ptx::%s(0.25f, ptx::bits_float(in[i]))", name);
    collect_values(format);
    map(expression.data, values, num_values);
    ftj_text_finish(&expression);
    const uint32_t quarter = nearest(format, 0.25f);
    for (uint32_t i = 0; i < num_values; i++) {
        cr_assert_eq(got[i], quarter | nearest(format, values[i]) << shift, "%s of %a is %#x", name,
                     (double)values[i], got[i]);
    }
}

Test(cpu_float, narrows_to_fp16_as_the_format_says)
{
    check_narrowing(&fp16, "cvt_rn_f16x2_f32", 16);
}

Test(cpu_float, narrows_to_bf16_as_the_format_says)
{
    check_narrowing(&bf16, "cvt_rn_bf16x2_f32", 16);
}

Test(cpu_float, narrows_to_e4m3_as_the_format_says)
{
    check_narrowing(&e4m3, "cvt_rn_satfinite_e4m3x2_f32", 8);
}

Test(cpu_float, widens_every_fp16_exactly)
{
    static uint32_t codes[65536];
    for (uint32_t i = 0; i < 65536; i++)
        codes[i] = i;
    map("ptx::float_bits(ptx::cvt_f32_f16(in[i]))", codes, 65536);
    for (uint32_t i = 0; i < 65536; i++) {
        const int magnitude = (int)(i & 0x7fff);
        float v;
        memcpy(&v, &got[i], 4);
        if (magnitude > fp16.codes)
            cr_assert(isnan(v), "code %#x", i);
        else if (magnitude == fp16.codes)
            cr_assert_eq(v, i & 0x8000 ? -INFINITY : INFINITY, "code %#x", i);
        else
            cr_assert(copysign(value_of(&fp16, magnitude), i & 0x8000 ? -1 : 1) == (double)v &&
                          (signbit(v) != 0) == (i >> 15 != 0),
                      "code %#x is %a", i, (double)v);
    }
}

Test(cpu_float, widens_every_e4m3_exactly)
{
    uint32_t codes[256];
    for (uint32_t i = 0; i < 256; i++)
        codes[i] = i << 8 | (255 - i);
    map("ptx::cvt_rn_f16x2_e4m3x2(in[i])", codes, 256);
    for (uint32_t i = 0; i < 256; i++) {
        const double v = value_of(&e4m3, (int)(i & 0x7f));
        const uint32_t sign = i & 0x80 ? 0x8000 : 0;
        const uint32_t want = (i & 0x7f) == 0x7f ? 0x7fff : sign | nearest(&fp16, (float)v);
        cr_expect_eq(got[i] >> 16, want, "code %#x in the high half", i);
        cr_expect_eq(got[255 - i] & 0xffff, want, "code %#x in the low half", i);
    }
}

Test(cpu_float, multiplies_pairs_of_fp16_with_one_rounding)
{
    static uint32_t pairs[65536];
    for (uint32_t i = 0; i < 65536; i++)
        pairs[i] = i * 2654435761u & 0xbfffbfffu; /* finite */
    map("ptx::mul_f16x2(in[i], in[i ^ 1])", pairs, 65536);
    for (uint32_t i = 0; i < 65536; i++) {
        uint32_t want = 0;
        for (int half = 0; half < 2; half++) {
            const uint32_t a = pairs[i] >> 16 * half & 0xffff,
                           b = pairs[i ^ 1] >> 16 * half & 0xffff;
            const double product = value_of(&fp16, a & 0x7fff) * value_of(&fp16, b & 0x7fff);
            want |= nearest(&fp16, copysignf((float)product, (a ^ b) & 0x8000 ? -1 : 1))
                    << 16 * half;
        }
        cr_assert_eq(got[i], want, "%#x * %#x is %#x, not %#x", pairs[i], pairs[i ^ 1], got[i],
                     want);
    }
}

struct unary {
    const char *expression;
    uint32_t want;
};

Test(cpu_float, does_what_each_instruction_says)
{
    /* clang-format off */
    static const struct unary rows[] = {
        /* bytes of {b, a} = 77665544 33221100; bit 3 of a selector spreads the sign */
        {"ptx::prmt(0x33221100u, 0x77665544u, 0x7531u)", 0x77553311},
        {"ptx::prmt(0x33221100u, 0xf7665544u, 0x0f84u)", 0x00ff0044},
        {"ptx::lop3<0xEA>(0x0ff0u, 0xff00u, 0x000fu)", 0x0f0f}, /* (a & b) | c */
        {"ptx::lop3<0x96>(0x0ff0u, 0xff00u, 0x000fu)", 0xf0ff}, /* a ^ b ^ c */
        {"ptx::float_bits(ptx::max_f32(ptx::bits_float(0x7fc00000u), -1.0f))", 0xbf800000},
        {"ptx::float_bits(ptx::max_f32(2.0f, ptx::bits_float(0x7fc00000u)))", 0x40000000},
        {"ptx::float_bits(ptx::max_f32(-0.0f, 0.0f))", 0},
        {"ptx::float_bits(ptx::max_f32(-3.0f, -2.0f))", 0xc0000000},
        {"ptx::float_bits(ptx::min_f32(ptx::bits_float(0x7fc00000u), -1.0f))", 0xbf800000},
        {"ptx::float_bits(ptx::min_f32(2.0f, ptx::bits_float(0x7fc00000u)))", 0x40000000},
        {"ptx::float_bits(ptx::min_f32(0.0f, -0.0f))", 0x80000000},
        {"ptx::float_bits(ptx::min_f32(-3.0f, -2.0f))", 0xc0400000},
        {"ptx::float_bits(ptx::abs_f32(-0.0f))", 0},
        {"ptx::float_bits(ptx::fma_rn_sat(2.0f, 0.125f, 0.5f))", 0x3f400000},
        {"ptx::float_bits(ptx::fma_rn_sat(2.0f, -1.0f, 0.5f))", 0},
        {"ptx::float_bits(ptx::fma_rn_sat(2.0f, 1.0f, 0.5f))", 0x3f800000},
        {"ptx::float_bits(ptx::fma_rn_sat(ptx::bits_float(0x7fc00000u), 1.0f, 0.5f))", 0},
        /* (1 + 2^-12)^2 - 1 - 2^-11 is 2^-24, which two roundings lose */
        {"ptx::float_bits(ptx::fma_rn(1.000244140625f, 1.000244140625f, -1.00048828125f))", 0x33800000},
        {"ptx::float_bits(ptx::add_rn(ptx::mul_rn(1.000244140625f, 1.000244140625f), -1.00048828125f))", 0},
        /* (1 + 2^-10)^2 - 1 - 2^-9 is 2^-20, and 1 - (1 + 2^-10) */
        {"ptx::fma_f16x2(0x3c013c00u, 0x3c013c00u, 0xbc02bc01u)", 0x00109400},
        {"ptx::low_twice(0x12345678u)", 0x56785678},
        {"ptx::high_twice(0x12345678u)", 0x12341234},
        {"ptx::max_of_warp(7 * (ptx::thread_index() ^ 5))", 217},
        {"ptx::float_bits(ptx::div_rn(1.0f, 3.0f))", 0x3eaaaaab},
        {"ptx::float_bits(ptx::ex2_approx(-3.0f))", 0x3e000000},
        {"ptx::float_bits(ptx::ex2_approx(-130.0f))", 0}, /* subnormal results are flushed */
        {"ptx::float_bits(ptx::ex2_approx(ptx::bits_float(0xff800000u)))", 0},
        {"ptx::float_bits(ptx::lg2_approx(8.0f))", 0x40400000},
        {"ptx::float_bits(ptx::lg2_approx(1e-40f))", 0xff800000}, /* and so are operands */
        {"ptx::float_bits(ptx::tanh_f32(ptx::bits_float(0x7f800000u)))", 0x3f800000},
    };
    /* clang-format on */
    const size_t num_rows = sizeof(rows) / sizeof(*rows);
    struct ftj_text body = {0};
    for (size_t i = 0; i < num_rows; i++)
        ftj_text_printf(&body, "out[%zu] = %s;\n", i, rows[i].expression);
    cpu_kernel_run(body.data, 1, 32, 0, NULL, got);
    ftj_text_finish(&body);
    for (size_t i = 0; i < num_rows; i++)
        cr_expect_eq(got[i], rows[i].want, "%s is %#x", rows[i].expression, got[i]);
}
