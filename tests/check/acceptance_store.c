/* SPDX-License-Identifier: MIT */
/* O01 .. O05: what a store writes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check/acceptance.h"
#include "tests/check/check_store.h"

/* fl(1/448) times amax, as the format has it. */
static float fp8_scale(float amax)
{
    return amax * ref_float_of_bits(REF_FP8_RECIPROCAL);
}

static void expect_bytes(struct check_row *row, const char *what, const uint8_t *got,
                         const uint8_t *expected, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (got[i] != expected[i])
            check_fail(row, "%s, byte %zu: got %02x, expected %02x", what, i, got[i], expected[i]);
    }
}

static void expect_scale(struct check_row *row, const char *what, float got, float expected)
{
    if (got != expected)
        check_fail(row, "%s: scale is %.9g, expected %.9g", what, (double)got, (double)expected);
}

void acceptance_o01_different_row_pitches(struct check_row *row)
{
    static const int64_t slots[5] = {9, 3, 0, 14, 6};
    static const uint8_t v_codes[4] = {0x7e, 0x76, 0x6e, 0x66};
    static const uint8_t k_codes[4] = {0xfe, 0xf6, 0xee, 0xe6};
    const struct store_shape shape = {
        .kv = {.k_format = FTJ_KV_FP8,
               .v_format = FTJ_KV_FP8,
               .order = FTJ_KV_NHD,
               .num_kv_heads = 2,
               .head_dim = 64,
               .page_size = 16},
        .dtype = FTJ_DTYPE_BF16,
        .store_dtype = FTJ_DTYPE_BF16,
        .num_pages = 1,
        .num_tokens = 5,
        .slots = slots,
        .k_pitch = 640,
    };
    struct store_case c = {0};
    struct check_cache got = {0};
    struct ref_row stored;
    float k[64], v[64];
    if (!store_case_init(&c, row, &shape))
        return;
    for (uint32_t t = 0; t < 5; t++) {
        for (uint32_t h = 0; h < 2; h++) {
            for (int d = 0; d < 64; d++) {
                v[d] = ldexpf((float)(t + 1), (int)h - d % 4);
                k[d] = -v[d];
            }
            store_case_set(&c, CHECK_K, t, h, k);
            store_case_set(&c, CHECK_V, t, h, v);
        }
    }
    store_case_run(&c, row, &got);
    for (uint32_t t = 0; got.images[0] && t < 5; t++) {
        for (uint32_t h = 0; h < 2; h++) {
            const float scale = fp8_scale(ldexpf((float)(t + 1), (int)h));
            check_cache_get(&got, CHECK_V, (uint64_t)slots[t], h, &stored);
            expect_scale(row, "V", stored.row_scale, scale);
            for (int d = 0; d < 64; d += 4)
                expect_bytes(row, "V codes", stored.codes + d, v_codes, 4);
            check_cache_get(&got, CHECK_K, (uint64_t)slots[t], h, &stored);
            expect_scale(row, "K", stored.row_scale, scale);
            for (int d = 0; d < 64; d += 4)
                expect_bytes(row, "K codes", stored.codes + d, k_codes, 4);
        }
    }
    check_cache_finish(&got);
    store_case_finish(&c);
}

/* K and V alike from `rows`, [num_tokens][64] and one head; `got` receives the cache. */
static bool store_rows(struct check_row *row, struct store_shape *shape, const float *rows,
                       struct check_cache *got)
{
    struct store_case c = {0};
    shape->kv.num_kv_heads = 1;
    shape->dtype = FTJ_DTYPE_BF16;
    *got = (struct check_cache){0};
    if (store_case_init(&c, row, shape)) {
        for (uint32_t t = 0; t < shape->num_tokens; t++) {
            store_case_set(&c, CHECK_K, t, 0, rows + t * shape->kv.head_dim);
            store_case_set(&c, CHECK_V, t, 0, rows + t * shape->kv.head_dim);
        }
        store_case_run(&c, row, got);
    }
    store_case_finish(&c);
    return got->images[0] != NULL;
}

void acceptance_o02_padding_slot(struct check_row *row)
{
    static const int64_t slots[4] = {5, -1, -1, 0};
    struct check_cache got;
    struct ref_row stored;
    uint8_t codes[64];
    float rows[4 * 64];
    for (int t = 0; t < 4; t++) {
        for (int d = 0; d < 64; d++)
            rows[t * 64 + d] = (float)(t + 1);
    }
    memset(codes, 0x7e, sizeof(codes));
    for (int wide = 0; wide < 2; wide++) {
        struct store_shape shape = {
            .kv = {.k_format = FTJ_KV_FP8, .v_format = FTJ_KV_FP8, .head_dim = 64, .page_size = 16},
            .store_dtype = FTJ_DTYPE_BF16,
            .num_pages = 2,
            .num_tokens = 4,
            .slots = slots,
            .slots_are_int64 = wide,
        };
        /* The whole cache is compared: slots 31 and 15 and the bytes before it are among the rest.
         */
        if (store_rows(row, &shape, rows, &got)) {
            check_cache_get(&got, CHECK_K, 5, 0, &stored);
            expect_bytes(row, "slot 5", stored.codes, codes, 64);
            expect_scale(row, "slot 5", stored.row_scale, fp8_scale(1));
            check_cache_get(&got, CHECK_V, 0, 0, &stored);
            expect_bytes(row, "slot 0", stored.codes, codes, 64);
            expect_scale(row, "slot 0", stored.row_scale, fp8_scale(4));
        }
        check_cache_finish(&got);
    }
}

/* Decode over the four rows just stored, q all ones. */
static void decode_o03(struct check_row *row, const struct check_cache *stored)
{
    static const int32_t pages[1] = {0};
    const struct attention_shape shape = {
        .k_format = FTJ_KV_FP8,
        .v_format = FTJ_KV_FP8,
        .order = stored->layout.shape.order,
        .dtype = FTJ_DTYPE_BF16,
        .head_dim = 64,
        .num_kv_heads = 1,
        .group = 1,
        .page_size = 16,
        .sm_scale = 1,
        .batch = 1,
        .lengths = {4},
        .pages = pages,
        .pages_width = 1,
        .num_pages = 1,
    };
    struct attention_case c = {0};
    struct attention_device device = {0};
    struct attention_result result = {0};
    if (!attention_case_init(&c, row, &shape))
        return;
    check_cache_finish(&c.cache);
    check_cache_copy(&c.cache, stored);
    for (int d = 0; d < 64; d++)
        c.q[d] = ref_bf16_narrow(1);
    if (attention_device_init(&device, row, &c) && attention_decode(&device, row, &c, &result)) {
        for (int d = 0; d < 64; d++) {
            const double got = (double)ref_bf16_widen(result.o[d]);
            const double expected = d == 17 ? 0.475367 : 0;
            if (!(fabs(got - expected) <= (d == 17 ? 2e-3 + 1e-3 : 1e-10)))
                check_fail(row, "o[%d]: got %.7g, expected %.7g", d, got, expected);
        }
        if (!(fabs((double)result.lse[0] - 1.743668) <= 1e-3))
            check_fail(row, "lse: got %.7g, expected 1.743668", (double)result.lse[0]);
    }
    attention_result_finish(&result);
    attention_device_finish(&device, row);
    attention_case_finish(&c);
}

void acceptance_o03_zero_and_vanishing_rows(struct check_row *row)
{
    static const int64_t slots[4] = {0, 1, 2, 3};
    struct check_cache got;
    struct ref_row stored;
    double values[64];
    float rows[4 * 64] = {0};
    struct store_shape shape = {
        .kv = {.k_format = FTJ_KV_FP8, .v_format = FTJ_KV_FP8, .head_dim = 64, .page_size = 16},
        .store_dtype = FTJ_DTYPE_BF16,
        .num_pages = 1,
        .num_tokens = 4,
        .slots = slots,
    };
    for (int d = 0; d < 64; d++) {
        rows[64 + d] = -0.0f;
        rows[128 + d] = d % 2 ? -0x1p-126f : 0x1p-126f;
    }
    rows[192 + 17] = 1;
    if (store_rows(row, &shape, rows, &got)) {
        for (uint64_t slot = 0; slot < 4; slot++) {
            check_cache_get(&got, CHECK_V, slot, 0, &stored);
            check_cache_decode(&got, CHECK_V, slot, 0, values);
            if (!isfinite(stored.row_scale) || !(stored.row_scale > 0))
                check_fail(row, "row %d: scale is %g", (int)slot, (double)stored.row_scale);
            for (int d = 0; d < 64; d++) {
                const double expected = slot == 3 && d == 17;
                const double tolerance = slot < 2 ? 0 : slot == 2 ? 1e-10 : 1e-6;
                if ((stored.codes[d] & 0x7f) == 0x7f || fabs(values[d] - expected) > tolerance)
                    check_fail(row, "row %d element %d: code %02x reads as %g", (int)slot, d,
                               stored.codes[d], values[d]);
            }
        }
        decode_o03(row, &got);
    }
    check_cache_finish(&got);
}

void acceptance_o04_e4m3_bytes(struct check_row *row)
{
    static const int64_t slots[1] = {11};
    static const float values[64] = {448,     200,       208,       216,     232,      248,
                                     272,     304,       336,       432,     -200,     -304,
                                     17,      19,        21,        0x1p-9f, 0x1p-10f, 0x3p-10f,
                                     0x7p-9f, 0x7.8p-9f, -0x3p-10f, 1.0625f, 1.1875f,  -448};
    static const uint8_t codes[64] = {0x7e, 0x74, 0x75, 0x76, 0x76, 0x78, 0x78, 0x7a,
                                      0x7a, 0x7e, 0xf4, 0xfa, 0x58, 0x5a, 0x5a, 0x01,
                                      0x00, 0x02, 0x07, 0x08, 0x82, 0x38, 0x3a, 0xfe};
    struct check_cache got;
    struct ref_row stored;
    struct store_shape shape = {
        .kv = {.k_format = FTJ_KV_FP8, .v_format = FTJ_KV_FP8, .head_dim = 64, .page_size = 16},
        .store_dtype = FTJ_DTYPE_FP32,
        .num_pages = 1,
        .num_tokens = 1,
        .slots = slots,
    };
    if (store_rows(row, &shape, values, &got)) {
        check_cache_get(&got, CHECK_K, 11, 0, &stored);
        expect_bytes(row, "codes", stored.codes, codes, 64);
        expect_scale(row, "row", stored.row_scale, 1);
    }
    check_cache_finish(&got);
}

void acceptance_o05_nvfp4_bytes(struct check_row *row)
{
    static const int64_t slots[1] = {2};
    static const float values[32] = {2688,  [16] = 6, .25f,   .75f,   1.25f, 1.75f, 2.5f, 3.5f, 5,
                                     -.25f, -.75f,    -1.25f, -1.75f, -2.5f, -3.5f, -5,   .5f};
    static const uint8_t codes[16] = {0x07, 0,    0,    0,    0,    0,    0,    0,
                                      0x07, 0x22, 0x44, 0x66, 0xa8, 0xca, 0xec, 0x1e};
    static const uint8_t blocks[2] = {0x7e, 0x38};
    struct check_cache got;
    struct ref_row stored;
    struct store_shape shape = {
        .kv = {.k_format = FTJ_KV_NVFP4, .v_format = FTJ_KV_NVFP4, .head_dim = 32, .page_size = 16},
        .store_dtype = FTJ_DTYPE_BF16,
        .num_pages = 1,
        .num_tokens = 1,
        .slots = slots,
    };
    if (store_rows(row, &shape, values, &got)) {
        check_cache_get(&got, CHECK_V, 2, 0, &stored);
        expect_bytes(row, "codes", stored.codes, codes, 16);
        expect_bytes(row, "block scales", stored.block_scales, blocks, 2);
        expect_scale(row, "row", stored.row_scale, 1);
    }
    check_cache_finish(&got);
}
