/* SPDX-License-Identifier: MIT */
/* The CPU target: mma.sync against a naive product, with matrices packed into the fragments that
 * the PTX manual draws. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "cpu_kernel.h"

enum element { FP16, BF16 };

/* The value of a 16-bit code, from its fields. */
static float value_of(enum element element, uint16_t code)
{
    const int mantissa_bits = element == FP16 ? 10 : 7;
    const int bias = element == FP16 ? 15 : 127;
    const int exponent = (code & 0x7fff) >> mantissa_bits;
    const int mantissa = code & ((1 << mantissa_bits) - 1);
    const int whole = exponent ? mantissa | 1 << mantissa_bits : mantissa;
    const double magnitude = ldexp(whole, (exponent ? exponent : 1) - bias - mantissa_bits);
    return (float)(code & 0x8000 ? -magnitude : magnitude);
}

/* Finite codes of every exponent but the largest ones, whose products would overflow; those of fp16
 * include subnormals. */
static uint16_t random_code(enum element element, uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    const uint32_t bits = *state >> 8;
    if (element == FP16)
        return (uint16_t)((bits & 0x83ff) | (bits >> 16) % 24 << 10);
    return (uint16_t)((bits & 0x807f) | (100 + (bits >> 16) % 48) << 7);
}

struct product {
    uint16_t a[16][16], b[16][8];
    float c[16][8];
};

static void product_init(struct product *product, enum element element, uint32_t seed)
{
    memset(product, 0, sizeof(*product));
    uint32_t state = seed;
    for (int m = 0; m < 16; m++) {
        for (int k = 0; k < 16; k++)
            product->a[m][k] = random_code(element, &state);
        for (int n = 0; n < 8; n++)
            product->c[m][n] = value_of(element, random_code(element, &state));
    }
    for (int k = 0; k < 16; k++) {
        for (int n = 0; n < 8; n++)
            product->b[k][n] = random_code(element, &state);
    }
}

static uint32_t pair(uint16_t low, uint16_t high)
{
    return low | (uint32_t)high << 16;
}

/* Ten words a lane: c0..c3, a0..a3, b0, b1. */
static void pack(const struct product *product, uint32_t words[32][10])
{
    for (int lane = 0; lane < 32; lane++) {
        const int group = lane / 4, first = lane % 4 * 2;
        memcpy(&words[lane][0], &product->c[group][first], 8);
        memcpy(&words[lane][2], &product->c[group + 8][first], 8);
        for (int r = 0; r < 4; r++) {
            const uint16_t *a = &product->a[group + (r & 1 ? 8 : 0)][first + (r & 2 ? 8 : 0)];
            words[lane][4 + r] = pair(a[0], a[1]);
        }
        for (int r = 0; r < 2; r++) {
            words[lane][8 + r] =
                pair(product->b[first + 8 * r][group], product->b[first + 8 * r + 1][group]);
        }
    }
}

/* In the order that ptx_cpu_mma.cuh promises, so that every bit must agree. */
static float expected(const struct product *product, enum element element, int depth, int m, int n)
{
    volatile float sum = product->c[m][n];
    for (int k = 0; k < depth; k++)
        sum += value_of(element, product->a[m][k]) * value_of(element, product->b[k][n]);
    return sum;
}

static void check(const char *name, const char *operands, enum element element, int depth)
{
    struct ftj_text body = {0};
    ftj_text_printf(&body,
                    "const uint32_t* w = in + (block * 32 + thread) * 10;\n"
                    "float c[4];\n"
                    "for (int i = 0; i < 4; i++)\n"
                    "    c[i] = ptx::bits_float(w[i]);\n"
                    "ptx::%s(c, %s);\n"
                    "for (int i = 0; i < 4; i++)\n"
                    "    out[(block * 32 + thread) * 4 + i] = ptx::float_bits(c[i]);\n",
                    name, operands);
    enum { PRODUCTS = 50 };
    static struct product products[PRODUCTS];
    static uint32_t in[PRODUCTS][32][10];
    static float out[PRODUCTS][32][4];
    for (uint32_t i = 0; i < PRODUCTS; i++) {
        product_init(&products[i], element, 7 * i + 1);
        pack(&products[i], in[i]);
    }
    cpu_kernel_run(body.data, PRODUCTS, 32, 0, in, out);
    ftj_text_finish(&body);

    for (int i = 0; i < PRODUCTS; i++) {
        for (int lane = 0; lane < 32; lane++) {
            for (int r = 0; r < 4; r++) {
                const int m = lane / 4 + (r & 2 ? 8 : 0), n = lane % 4 * 2 + (r & 1);
                const float want = expected(&products[i], element, depth, m, n);
                cr_assert(memcmp(&out[i][lane][r], &want, 4) == 0, "%s: c[%d][%d] is %a, not %a",
                          name, m, n, (double)out[i][lane][r], (double)want);
            }
        }
    }
}

Test(cpu_mma, m16n8k8_f16_is_the_product)
{
    check("mma_m16n8k8_f16", "w[4], w[5], w[8]", FP16, 8);
}

Test(cpu_mma, m16n8k16_f16_is_the_product)
{
    check("mma_m16n8k16_f16", "w[4], w[5], w[6], w[7], w[8], w[9]", FP16, 16);
}

Test(cpu_mma, m16n8k16_bf16_is_the_product)
{
    check("mma_m16n8k16_bf16", "w[4], w[5], w[6], w[7], w[8], w[9]", BF16, 16);
}

/* One infinity or NaN in A must reach its own row and no other. */
Test(cpu_mma, infinities_and_nans_stay_in_their_row)
{
    static const struct {
        uint16_t code;
        const char *operation;
    } rows[] = {
        {0x7c00, "ptx::mma_m16n8k16_f16(c, a, 0, 0, 0, 0x3c003c00u, 0);"},
        {0x7e00, "ptx::mma_m16n8k16_f16(c, a, 0, 0, 0, 0x3c003c00u, 0);"},
        {0x7f80, "ptx::mma_m16n8k16_bf16(c, a, 0, 0, 0, 0x3f803f80u, 0);"},
        {0x7fc0, "ptx::mma_m16n8k16_bf16(c, a, 0, 0, 0, 0x3f803f80u, 0);"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct ftj_text body = {0};
        ftj_text_printf(&body,
                        "float c[4] = {};\n"
                        "const uint32_t a = thread == 12 ? %uu : 0u;\n"
                        "%s\n"
                        "for (int i = 0; i < 4; i++)\n"
                        "    out[thread * 4 + i] = ptx::float_bits(c[i]);\n",
                        rows[i].code, rows[i].operation);
        float out[32][4];
        cpu_kernel_run(body.data, 1, 32, 0, NULL, out);
        ftj_text_finish(&body);
        const bool is_infinity = i % 2 == 0;
        for (int lane = 0; lane < 32; lane++) {
            for (int r = 0; r < 4; r++) {
                const float v = out[lane][r];
                const bool is_its_row = lane / 4 == 3 && r < 2;
                cr_expect(is_its_row ? (is_infinity ? v == INFINITY : isnan(v)) : v == 0,
                          "row %zu, lane %d, c%d is %g", i, lane, r, (double)v);
            }
        }
    }
}
