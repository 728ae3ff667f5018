/* SPDX-License-Identifier: MIT */
/*
 * The store kernel against golden rows from outside this project's code: the figures are the
 * formats' published test vectors. Traps T1, T2, T8, T15, T16, T17 are among them.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/check/check_store.h"
#include "tests/check/check_vectors.h"

/* Rows past the table of vectors. */
enum {
    ROW_RAMP = CHECK_NUM_VECTORS,
    ROW_CONSTANT,
    ROW_E4M3_GRID,
    ROW_E2M1_TIES,
    ROW_NOT_FINITE,
    NUM_ROWS
};

static uint64_t num_rows(const struct check_options *options)
{
    (void)options;
    return NUM_ROWS;
}

static void describe(struct check_row *row)
{
    static const char *const names[] = {"ramp as fp8 and nvfp4", "constant rows, K a wide slice",
                                        "all 254 finite E4M3 codes", "all E2M1 ties",
                                        "NaN and infinity in a row"};
    snprintf(row->shape, sizeof(row->shape), "%s",
             row->index < CHECK_NUM_VECTORS ? check_vectors[row->index].name
                                            : names[row->index - ROW_RAMP]);
}

static void expect_bytes(struct check_row *row, const char *what, const uint8_t *got,
                         const uint8_t *expected, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (got[i] != expected[i])
            check_fail(row, "%s %zu: got %02x, expected %02x", what, i, got[i], expected[i]);
    }
}

static void expect_scale(struct check_row *row, float got, uint32_t expected)
{
    if (ref_bits_of_float(got) != expected)
        check_fail(row, "row scale: got %08x, expected %08x", ref_bits_of_float(got), expected);
}

/* Store with K and V alike from `shape`, values by `set`; `got` receives the cache. */
static bool store(struct check_row *row, const struct store_shape *shape,
                  void (*set)(struct store_case *c, const void *data), const void *data,
                  struct check_cache *got)
{
    struct store_case c = {0};
    *got = (struct check_cache){0};
    if (store_case_init(&c, row, shape)) {
        set(&c, data);
        store_case_run(&c, row, got);
    }
    store_case_finish(&c);
    return got->images[0] != NULL;
}

static void set_vector(struct store_case *c, const void *data)
{
    const struct check_vector *vector = data;
    store_case_set(c, CHECK_K, 0, 0, vector->values);
    store_case_set(c, CHECK_V, 0, 0, vector->values);
}

static void run_vector(struct check_row *row, const struct check_vector *vector)
{
    static const int64_t slot = 9;
    struct check_cache got;
    const struct store_shape shape = {
        .kv = {.k_format = vector->format,
               .v_format = vector->format,
               .num_kv_heads = 1,
               .head_dim = vector->head_dim,
               .page_size = 16},
        .store_dtype = vector->dtype,
        .dtype = FTJ_DTYPE_BF16,
        .num_pages = 1,
        .num_tokens = 1,
        .slots = &slot,
    };
    if (store(row, &shape, set_vector, vector, &got)) {
        for (int side = CHECK_K; side <= CHECK_V; side++) {
            struct ref_row stored;
            check_cache_get(&got, (enum check_side)side, (uint64_t)slot, 0, &stored);
            expect_bytes(row, "code", stored.codes, vector->codes, vector->num_codes);
            expect_scale(row, stored.row_scale, vector->row_scale);
            if (vector->format == FTJ_KV_NVFP4)
                expect_bytes(row, "block scale", stored.block_scales, vector->block_scales,
                             vector->head_dim / 16);
        }
    }
    check_cache_finish(&got);
}

static void set_ramp(struct store_case *c, const void *data)
{
    (void)data;
    float values[128];
    for (int d = 0; d < 128; d++)
        values[d] = (float)(d - 64) / 16;
    store_case_set(c, CHECK_K, 0, 0, values);
    store_case_set(c, CHECK_V, 0, 0, values);
}

static void run_ramp(struct check_row *row)
{
    static const int64_t slot = 3;
    static const uint8_t blocks[8] = {0x7e, 0x7a, 0x76, 0x6e, 0x6d, 0x76, 0x7a, 0x7e};
    struct check_cache got;
    struct ref_row stored;
    const struct store_shape shape = {
        .kv = {.k_format = FTJ_KV_FP8,
               .v_format = FTJ_KV_NVFP4,
               .num_kv_heads = 1,
               .head_dim = 128,
               .page_size = 16},
        .dtype = FTJ_DTYPE_BF16,
        .store_dtype = FTJ_DTYPE_BF16,
        .num_pages = 1,
        .num_tokens = 1,
        .slots = &slot,
    };
    if (store(row, &shape, set_ramp, NULL, &got)) {
        check_cache_get(&got, CHECK_K, (uint64_t)slot, 0, &stored);
        expect_bytes(row, "fp8 code", stored.codes, check_ramp_fp8, sizeof(check_ramp_fp8));
        expect_scale(row, stored.row_scale, 0x3c124925);
        check_cache_get(&got, CHECK_V, (uint64_t)slot, 0, &stored);
        expect_bytes(row, "nvfp4 codes", stored.codes, check_ramp_nvfp4, sizeof(check_ramp_nvfp4));
        expect_bytes(row, "block scale", stored.block_scales, blocks, sizeof(blocks));
        expect_scale(row, stored.row_scale, 0x3ac30c31);
    }
    check_cache_finish(&got);
}

/* T1: K and V have different pitches, row t is all t + 1. */
static void set_constant(struct store_case *c, const void *data)
{
    (void)data;
    float values[128];
    for (uint32_t t = 0; t < c->shape.num_tokens; t++) {
        for (int d = 0; d < 128; d++)
            values[d] = (float)(t + 1);
        for (uint32_t h = 0; h < c->shape.kv.num_kv_heads; h++) {
            store_case_set(c, CHECK_K, t, h, values);
            store_case_set(c, CHECK_V, t, h, values);
        }
    }
}

static void check_constant(struct check_row *row, const struct check_cache *got,
                           enum check_side side, bool is_fp8, const int64_t *slots)
{
    static const uint32_t nvfp4_scales[8] = {0x39c30c31, 0x3a430c31, 0x3a924925, 0x3ac30c31,
                                             0x3af3cf3d, 0x3b124925, 0x3b2aaaab, 0x3b430c31};
    static const uint32_t fp8_scales[8] = {0x3b124925, 0x3b924925, 0x3bdb6db8, 0x3c124925,
                                           0x3c36db6e, 0x3c5b6db8, 0x3c800000, 0x3c924925};
    uint8_t codes[128];
    struct ref_row stored;
    memset(codes, is_fp8 ? 0x7e : 0x77, sizeof(codes));
    for (uint32_t t = 0; t < 8; t++) {
        for (uint32_t h = 0; h < 3; h++) {
            check_cache_get(got, side, (uint64_t)slots[t], h, &stored);
            expect_bytes(row, "code", stored.codes, codes, is_fp8 ? 128 : 64);
            expect_scale(row, stored.row_scale, is_fp8 ? fp8_scales[t] : nvfp4_scales[t]);
        }
    }
}

static void run_constant(struct check_row *row)
{
    static const int64_t slots[8] = {7, 1, 20, 31, 12, 0, 16, 15};
    for (int wide_k = 0; wide_k < 2; wide_k++) {
        for (int nvfp4 = 0; nvfp4 < 2; nvfp4++) {
            struct check_cache got;
            const ftj_kv_format format = nvfp4 ? FTJ_KV_NVFP4 : FTJ_KV_FP8;
            const struct store_shape shape = {
                .kv = {.k_format = format,
                       .v_format = format,
                       .order = FTJ_KV_NHD,
                       .num_kv_heads = 3,
                       .head_dim = 128,
                       .page_size = 16},
                .dtype = FTJ_DTYPE_BF16,
                .store_dtype = FTJ_DTYPE_BF16,
                .num_pages = 2,
                .num_tokens = 8,
                .slots = slots,
                .wide_k = wide_k,
                .wide_v = !wide_k,
            };
            if (store(row, &shape, set_constant, NULL, &got)) {
                check_constant(row, &got, CHECK_K, !nvfp4, slots);
                check_constant(row, &got, CHECK_V, !nvfp4, slots);
            }
            check_cache_finish(&got);
        }
    }
}

/* Finite code i of the grid: 0 .. 126 positive, then the negative ones. */
static uint8_t grid_code(uint32_t i)
{
    return (uint8_t)(i < 127 ? i : i + 1);
}

static void set_grid(struct store_case *c, const void *data)
{
    (void)data;
    float values[256] = {448};
    for (uint32_t i = 0; i < 254; i++)
        values[1 + i] = ref_e4m3_decode(grid_code(i));
    store_case_set(c, CHECK_K, 0, 0, values);
    store_case_set(c, CHECK_V, 0, 0, values);
}

static void run_grid(struct check_row *row)
{
    static const int64_t slot = 0;
    struct check_cache got;
    struct ref_row stored;
    const struct store_shape shape = {
        .kv = {.k_format = FTJ_KV_FP8,
               .v_format = FTJ_KV_FP8,
               .num_kv_heads = 1,
               .head_dim = 256,
               .page_size = 1},
        .dtype = FTJ_DTYPE_BF16,
        .store_dtype = FTJ_DTYPE_BF16,
        .num_pages = 1,
        .num_tokens = 1,
        .slots = &slot,
    };
    if (store(row, &shape, set_grid, NULL, &got)) {
        check_cache_get(&got, CHECK_K, 0, 0, &stored);
        expect_scale(row, stored.row_scale, 0x3f800000);
        for (uint32_t i = 0; i < 254; i++) {
            const uint8_t code = grid_code(i) == 0x80 ? 0 : grid_code(i);
            expect_bytes(row, "code", &stored.codes[1 + i], &code, 1);
        }
    }
    check_cache_finish(&got);
}

/* The magnitudes 0, .25, ... 6 and their neighbours in fp32, of both signs: 90 rows and more. */
static float tie_value(uint32_t i)
{
    const float magnitude = 0.25f * (float)(i / 6);
    const float step = i / 2 % 3 == 0   ? magnitude
                       : i / 2 % 3 == 1 ? nextafterf(magnitude, 8)
                                        : nextafterf(magnitude, 0);
    return i % 2 ? -step : step;
}
#define NUM_TIES 150

static void set_ties(struct store_case *c, const void *data)
{
    (void)data;
    float values[32] = {[15] = 6, [31] = 2688};
    for (uint32_t t = 0; t < NUM_TIES; t++) {
        values[0] = tie_value(t);
        store_case_set(c, CHECK_K, t, 0, values);
        store_case_set(c, CHECK_V, t, 0, values);
    }
}

static void run_ties(struct check_row *row)
{
    static const float edges[7] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5};
    int64_t slots[NUM_TIES];
    struct check_cache got;
    struct ref_row stored;
    for (int t = 0; t < NUM_TIES; t++)
        slots[t] = NUM_TIES - 1 - t;
    const struct store_shape shape = {
        .kv = {.k_format = FTJ_KV_NVFP4,
               .v_format = FTJ_KV_NVFP4,
               .num_kv_heads = 1,
               .head_dim = 32,
               .page_size = 50},
        .dtype = FTJ_DTYPE_BF16,
        .store_dtype = FTJ_DTYPE_FP32,
        .num_pages = 3,
        .num_tokens = NUM_TIES,
        .slots = slots,
    };
    if (store(row, &shape, set_ties, NULL, &got)) {
        for (uint32_t t = 0; t < NUM_TIES; t++) {
            /* Codes 1, 3, 5, 7 begin just above their edge, 2, 4, 6 on it. */
            uint8_t code = 0;
            while (code < 7 && (code % 2 ? fabsf(tie_value(t)) >= edges[code]
                                         : fabsf(tie_value(t)) > edges[code]))
                code++;
            code |= tie_value(t) < 0 ? 8 : 0;
            check_cache_get(&got, CHECK_K, (uint64_t)slots[t], 0, &stored);
            expect_bytes(row, "code", stored.codes, &code, 1);
        }
    }
    check_cache_finish(&got);
}

/* What docs/formats.md says of rows that no engine should store; their neighbours are unharmed. */
static void set_not_finite(struct store_case *c, const void *data)
{
    (void)data;
    for (uint32_t t = 0; t < c->shape.num_tokens; t++) {
        float values[64];
        for (int d = 0; d < 64; d++)
            values[d] = (float)(d - 20) / 8;
        if (t % 4 == 1)
            values[3] = values[40] = NAN;
        if (t % 4 == 2)
            values[17] = t < 4 ? INFINITY : -INFINITY;
        store_case_set(c, CHECK_K, t, 0, values);
        store_case_set(c, CHECK_V, t, 0, values);
    }
}

static void run_not_finite(struct check_row *row)
{
    static const int64_t slots[8] = {0, 3, 1, 7, 4, 2, 6, 5};
    struct check_cache got;
    struct ref_row stored;
    const struct store_shape shape = {
        .kv = {.k_format = FTJ_KV_FP8,
               .v_format = FTJ_KV_NVFP4,
               .num_kv_heads = 1,
               .head_dim = 64,
               .page_size = 8},
        .dtype = FTJ_DTYPE_BF16,
        .store_dtype = FTJ_DTYPE_FP32,
        .num_pages = 1,
        .num_tokens = 8,
        .slots = slots,
    };
    if (store(row, &shape, set_not_finite, NULL, &got)) {
        static const uint8_t largest = 0x7e;
        static const uint8_t zero = 0;
        check_cache_get(&got, CHECK_K, (uint64_t)slots[1], 0, &stored);
        expect_bytes(row, "code of a NaN", &stored.codes[3], &largest, 1);
        check_cache_get(&got, CHECK_K, (uint64_t)slots[2], 0, &stored);
        expect_scale(row, stored.row_scale, 0x7f800000);
        expect_bytes(row, "code of infinity", &stored.codes[17], &largest, 1);
        expect_bytes(row, "code beside infinity", &stored.codes[63], &zero, 1);
        check_cache_get(&got, CHECK_V, (uint64_t)slots[2], 0, &stored);
        expect_scale(row, stored.row_scale, 0x7f800000);
        expect_bytes(row, "code beside infinity", &stored.codes[31], &zero, 1);
    }
    check_cache_finish(&got);
}

static void run(struct check_row *row, void *prepared)
{
    (void)prepared;
    if (row->index < CHECK_NUM_VECTORS)
        run_vector(row, &check_vectors[row->index]);
    else if (row->index == ROW_RAMP)
        run_ramp(row);
    else if (row->index == ROW_CONSTANT)
        run_constant(row);
    else if (row->index == ROW_E4M3_GRID)
        run_grid(row);
    else if (row->index == ROW_E2M1_TIES)
        run_ties(row);
    else
        run_not_finite(row);
}

static bool has_fp8(uint64_t index)
{
    (void)index;
    return true;
}

const struct check_test check_codec_vectors_test = {
    .name = "codec_vectors",
    .op = FTJ_KERNEL_STORE,
    .num_rows = num_rows,
    .num_quick = num_rows,
    .run = run,
    .describe = describe,
    .has_fp8 = has_fp8,
};
