/* SPDX-License-Identifier: MIT */
/*
 * The fp8 conversions, which may be the hardware's or software: every code that can be read
 * (fp8_codes), and floats on and around every rounding boundary (fp8_floats). Each tier is held to
 * the same exact answers, so hardware and software agree bit for bit when both pass.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/check/check_attention.h"
#include "tests/check/check_store.h"

/* fp8_codes: one key per request, so O is the V row and LSE the score. */
static const struct {
    ftj_kv_format format;
    ftj_dtype dtype;
    bool generic;
    bool nan_keys; /* 7F and FF, which no encoder writes, in K too: nothing but NaN comes out */
} code_rows[] = {
    {FTJ_KV_FP8, FTJ_DTYPE_BF16, false, false},   {FTJ_KV_FP8, FTJ_DTYPE_FP16, false, false},
    {FTJ_KV_NVFP4, FTJ_DTYPE_BF16, false, false}, {FTJ_KV_NVFP4, FTJ_DTYPE_FP16, false, false},
    {FTJ_KV_FP8, FTJ_DTYPE_BF16, true, false},    {FTJ_KV_NVFP4, FTJ_DTYPE_FP16, true, false},
    {FTJ_KV_FP8, FTJ_DTYPE_FP16, false, true},    {FTJ_KV_NVFP4, FTJ_DTYPE_BF16, false, true},
    {FTJ_KV_FP8, FTJ_DTYPE_FP16, true, true},     {FTJ_KV_NVFP4, FTJ_DTYPE_BF16, true, true},
};
#define NUM_CODE_ROWS (sizeof(code_rows) / sizeof(*code_rows))
#define HEAD_DIM      32
#define BATCH         8

static uint64_t num_code_rows(const struct check_options *options)
{
    (void)options;
    return NUM_CODE_ROWS;
}

static void describe_codes(struct check_row *row)
{
    const bool is_fp8 = code_rows[row->index].format == FTJ_KV_FP8;
    snprintf(row->shape, sizeof(row->shape), "all %s%s %s %s",
             is_fp8 ? "256 fp8 codes" : "nvfp4 block scales",
             code_rows[row->index].nan_keys ? ", a NaN in every key" : "",
             code_rows[row->index].dtype == FTJ_DTYPE_FP16 ? "fp16" : "bf16",
             code_rows[row->index].generic ? "generic" : "decode");
}

/* V of a request and head is `row`. K is the same, but for its NaN patterns: the score is a sum
 * over the whole row, so one of them is seen by itself (`spoiled`), or none at all. */
static void put_rows(struct attention_case *c, uint32_t r, uint32_t h, struct ref_row *row,
                     uint8_t *last_code, bool spoiled)
{
    const uint64_t slot = attention_case_slot(c, r, 0);
    check_cache_put(&c->cache, CHECK_V, slot, h, row);
    if (spoiled)
        *last_code |= 0x7f;
    else if ((*last_code & 0x7f) == 0x7f)
        --*last_code;
    check_cache_put(&c->cache, CHECK_K, slot, h, row);
}

/* Request r reads codes 32 r .. 32 r + 31; query head g asks for element g. */
static void fill_fp8(struct attention_case *c, bool nan_keys)
{
    for (uint32_t r = 0; r < BATCH; r++) {
        struct ref_row row = {.row_scale = 1};
        for (uint32_t d = 0; d < HEAD_DIM; d++)
            row.codes[d] = (uint8_t)(r * HEAD_DIM + d);
        put_rows(c, r, 0, &row, &row.codes[HEAD_DIM - 1], nan_keys);
        for (uint32_t g = 0; g < c->shape.group; g++) {
            for (uint32_t d = 0; d < HEAD_DIM; d++)
                attention_case_q(c, r, g)[d] = ref_16bit_narrow(c->shape.dtype, d == g);
        }
    }
}

/* Every element is 1 (code 2) times its block's scale, 0 .. 127. */
static void fill_nvfp4(struct attention_case *c, bool nan_keys)
{
    for (uint32_t r = 0; r < BATCH; r++) {
        for (uint32_t h = 0; h < c->shape.num_kv_heads; h++) {
            struct ref_row row = {.row_scale = 1};
            for (uint32_t i = 0; i < HEAD_DIM / 2; i++)
                row.codes[i] = 0x22;
            for (uint32_t b = 0; b < 2; b++)
                row.block_scales[b] = (uint8_t)((r * c->shape.num_kv_heads + h) * 2 + b);
            put_rows(c, r, h, &row, &row.block_scales[1], nan_keys);
            for (uint32_t g = 0; g < c->shape.group; g++) {
                uint16_t *q = attention_case_q(c, r, h * c->shape.group + g);
                for (uint32_t d = 0; d < HEAD_DIM; d++)
                    q[d] = ref_16bit_narrow(c->shape.dtype, d == 16 * g);
            }
        }
    }
}

/* `wanted`, or any NaN where that is one. */
static bool is_value(double got, double wanted, double tolerance)
{
    return isnan(wanted) ? isnan(got) : fabs(got - wanted) <= tolerance;
}

/* Exact values in, exact values out: no tolerance but the last bit of LSE, which passes through
 * base 2. One key has the weight 1, or NaN. */
static void check_codes(const struct attention_case *c, struct check_row *row,
                        const struct attention_result *result)
{
    const bool nan_keys = code_rows[row->index].nan_keys;
    double k[HEAD_DIM], v[HEAD_DIM];
    for (uint32_t r = 0; r < BATCH; r++) {
        for (uint32_t head = 0; head < c->num_q_heads; head++) {
            const uint32_t kv_head = head / c->shape.group;
            const size_t index = r * (size_t)c->num_q_heads + head;
            check_cache_decode(&c->cache, CHECK_K, attention_case_slot(c, r, 0), kv_head, k);
            check_cache_decode(&c->cache, CHECK_V, attention_case_slot(c, r, 0), kv_head, v);
            for (uint32_t d = 0; d < HEAD_DIM; d++) {
                const double got =
                    (double)ref_16bit_widen(c->shape.dtype, result->o[index * HEAD_DIM + d]);
                if (!is_value(got, nan_keys ? (double)NAN : v[d], 0))
                    check_fail(row, "V of request %u head %u element %u: read %.9g, is %.9g", r,
                               kv_head, d, got, v[d]);
            }
            const uint32_t element =
                head % c->shape.group * (c->shape.k_format == FTJ_KV_FP8 ? 1 : 16);
            const double score = nan_keys ? (double)NAN : k[element];
            if (!is_value((double)result->lse[index], score, 1e-6 * fabs(score)))
                check_fail(row, "K of request %u head %u element %u: read %.9g, is %.9g", r,
                           kv_head, element, (double)result->lse[index], score);
        }
    }
}

static void run_codes(struct check_row *row, void *prepared)
{
    (void)prepared;
    const bool is_fp8 = code_rows[row->index].format == FTJ_KV_FP8;
    const struct attention_shape shape = {
        .k_format = code_rows[row->index].format,
        .v_format = code_rows[row->index].format,
        .dtype = code_rows[row->index].dtype,
        .head_dim = HEAD_DIM,
        .num_kv_heads = is_fp8 ? 1 : 8,
        .group = is_fp8 ? HEAD_DIM : 2,
        .page_size = 1,
        .sm_scale = 1,
        .batch = BATCH,
        .lengths = {1, 1, 1, 1, 1, 1, 1, 1},
        .with_generic = code_rows[row->index].generic,
    };
    struct attention_case c = {0};
    struct attention_device device = {0};
    struct attention_result result = {0};
    if (attention_case_init(&c, row, &shape)) {
        if (is_fp8)
            fill_fp8(&c, code_rows[row->index].nan_keys);
        else
            fill_nvfp4(&c, code_rows[row->index].nan_keys);
        if (attention_device_init(&device, row, &c) &&
            (shape.with_generic ? attention_generic : attention_decode)(&device, row, &c, &result))
            check_codes(&c, row, &result);
    }
    attention_result_finish(&result);
    attention_device_finish(&device, row);
    attention_case_finish(&c);
}

static bool has_fp8(uint64_t index)
{
    (void)index;
    return true;
}

const struct check_test check_fp8_codes_test = {
    .name = "fp8_codes",
    .op = FTJ_KERNEL_DECODE,
    .num_rows = num_code_rows,
    .num_quick = num_code_rows,
    .run = run_codes,
    .describe = describe_codes,
    .has_fp8 = has_fp8,
};

/* fp8_floats: row 0, boundaries; row 1, random floats; row 2, block scales on boundaries. */
static uint64_t num_float_rows(const struct check_options *options)
{
    (void)options;
    return 3;
}

static void describe_floats(struct check_row *row)
{
    static const char *const names[] = {"fp8 rounding boundaries and their neighbours",
                                        "fp8 of random floats", "nvfp4 block scale boundaries"};
    snprintf(row->shape, sizeof(row->shape), "%s", names[row->index]);
}

/* Between code i and the next: the midpoint, and the floats beside it; i below 126. */
static float boundary(uint32_t i, uint32_t which)
{
    const float low = ref_e4m3_decode((uint8_t)i);
    const float middle = (low + ref_e4m3_decode((uint8_t)(i + 1))) / 2;
    return which == 0 ? middle : nextafterf(middle, which == 1 ? 500.0f : 0.0f);
}

static float float_for(struct check_row *row, uint32_t token, uint32_t d)
{
    const float sign = d % 2 ? -1.0f : 1.0f;
    if (row->index == 0)
        return sign * boundary((token * 511 + d) / 2 % 126, (token * 511 + d) / 252 % 3);
    if (token % 2)
        return check_random_uniform(&row->random, -448, 448);
    return sign * exp2f(check_random_uniform(&row->random, -14, 8.8f));
}

/* Block b's largest value is 6 times a boundary, so that its scale is the boundary itself. */
static void fill_blocks(uint32_t token, float *values)
{
    for (uint32_t d = 0; d < 512; d++) {
        const uint32_t block = token * 31 + d / 16;
        values[d] = d % 16 == 3 ? 6 * boundary(block % 126, block / 126 % 3) : 0;
    }
    values[511] = 2688;
}

static void run_floats(struct check_row *row, void *prepared)
{
    (void)prepared;
    const uint32_t num_tokens =
        row->options->kind == FTJ_DEVICE_CUDA && row->index == 1 ? 4096 : 16;
    const ftj_kv_format format = row->index == 2 ? FTJ_KV_NVFP4 : FTJ_KV_FP8;
    int64_t *slots = check_alloc(num_tokens * sizeof(*slots));
    for (uint32_t t = 0; t < num_tokens; t++)
        slots[t] = t;
    const struct store_shape shape = {
        .kv = {.k_format = format,
               .v_format = format,
               .num_kv_heads = 1,
               .head_dim = 512,
               .page_size = 16},
        .dtype = FTJ_DTYPE_BF16,
        .store_dtype = FTJ_DTYPE_FP32,
        .num_pages = num_tokens / 16,
        .num_tokens = num_tokens,
        .slots = slots,
    };
    struct store_case c = {0};
    float values[512];
    if (store_case_init(&c, row, &shape)) {
        for (uint32_t t = 0; t < num_tokens; t++) {
            values[0] = 448; /* the scale is 1 */
            for (uint32_t d = 1; d < 512; d++)
                values[d] = float_for(row, t, d);
            if (row->index == 2)
                fill_blocks(t, values);
            store_case_set(&c, CHECK_K, t, 0, values);
            store_case_set(&c, CHECK_V, t, 0, values);
        }
        store_case_run(&c, row, NULL);
    }
    store_case_finish(&c);
    free(slots);
}

const struct check_test check_fp8_floats_test = {
    .name = "fp8_floats",
    .op = FTJ_KERNEL_STORE,
    .num_rows = num_float_rows,
    .num_quick = num_float_rows,
    .run = run_floats,
    .describe = describe_floats,
    .has_fp8 = has_fp8,
};
