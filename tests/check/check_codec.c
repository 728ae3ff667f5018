/* SPDX-License-Identifier: MIT */
/*
 * The store kernel's bytes against the C reference, on rows of every kind and magnitude.
 *
 * Rows 0 .. 23: each format as K with each head_dim. 24 .. 71: with the other source types too.
 * The other options rotate; every row stores K and V of different formats' policies in one launch.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/check/check_store.h"

static const uint32_t head_dims[8] = {32, 64, 80, 96, 128, 192, 256, 512};
static const ftj_dtype sources[3] = {FTJ_DTYPE_BF16, FTJ_DTYPE_FP16, FTJ_DTYPE_FP32};
static const uint32_t page_sizes[4] = {16, 1, 64, 784};

#define NUM_QUICK       24
#define NUM_ROWS        72
#define ROWS_PER_FORMAT (NUM_ROWS / 3)
#define MIN_TOKENS      24

struct codec_case {
    struct store_case store;
    int64_t *slots;
};

static struct store_shape shape_of(uint64_t index)
{
    const uint32_t i = (uint32_t)index;
    const uint32_t format = i % 3;
    const uint32_t dim = i / 3 % 8;
    const uint32_t round = i / NUM_QUICK;
    return (struct store_shape){
        .kv = {.k_format = (ftj_kv_format)format,
               .v_format = (ftj_kv_format)((format + dim + dim / 3 + round) % 3),
               .order = (ftj_kv_order)((dim + format + round) % 3),
               .num_kv_heads = 1 + (i + dim) % 3,
               .head_dim = head_dims[dim],
               .page_size = page_sizes[(dim + round + format) % 4]},
        .dtype = (i / 2 + round) % 2 ? FTJ_DTYPE_FP16 : FTJ_DTYPE_BF16,
        .store_dtype = sources[(format + dim + round) % 3],
        .slots_are_int64 = (i + dim) % 2,
        .wide_k = i % 2 == 0,
        .wide_v = i % 4 == 1,
        .wide_cache = (i / 4 + dim) % 3 == 1,
    };
}

static uint64_t num_rows(const struct check_options *options)
{
    (void)options;
    return NUM_ROWS;
}

static uint64_t num_quick(const struct check_options *options)
{
    (void)options;
    return NUM_QUICK;
}

static void describe(struct check_row *row)
{
    static const char *const names[] = {"", "bf16", "fp16", "fp32"};
    const struct store_shape shape = shape_of(row->index);
    snprintf(row->shape, sizeof(row->shape), "%s+%s d%u h%u p%u %s from %s%s%s%s",
             ftj_kv_format_name(shape.kv.k_format), ftj_kv_format_name(shape.kv.v_format),
             shape.kv.head_dim, shape.kv.num_kv_heads, shape.kv.page_size,
             ftj_kv_order_name(shape.kv.order), names[shape.store_dtype],
             shape.wide_k ? " K slice" : "", shape.wide_v ? " V slice" : "",
             shape.wide_cache ? " strided" : "");
}

static uint32_t tokens_of(const struct check_options *options, const struct store_shape *shape)
{
    uint64_t values = options->codec_values;
    if (!values)
        values = options->kind == FTJ_DEVICE_CUDA ? 1u << 24 : 1u << 17;
    const uint64_t row_values = (uint64_t)shape->kv.num_kv_heads * shape->kv.head_dim;
    const uint64_t tokens = values / ROWS_PER_FORMAT / row_values;
    return tokens > MIN_TOKENS ? (uint32_t)tokens : MIN_TOKENS;
}

/* Finite fp32 of any exponent. */
static float random_float(struct check_random *random)
{
    const float value = ref_float_of_bits((uint32_t)check_random_bits(random));
    return isfinite(value) ? value : 1.0f;
}

/* Rows of one kind each; `kind` counts up, so that every launch has them all. */
static void random_row(struct check_random *random, uint32_t kind, uint32_t head_dim, float limit,
                       float *row)
{
    const float gain_exponent = check_random_uniform(random, -13, 13);
    const float gain = exp2f(gain_exponent);
    for (uint32_t d = 0; d < head_dim; d++) {
        const float gaussian = check_random_gaussian(random);
        switch (kind % 11) {
        case 0: /* all of one magnitude, from far below one to far above */
        case 1:
            row[d] = gain * gaussian;
            break;
        case 2: /* a few outliers above the rest */
            row[d] = gaussian * (check_random_below(random, 32) == 0 ? 100.0f : 0.5f);
            break;
        case 3: /* every magnitude in one row: block scales underflow */
            row[d] = gaussian * exp2f(check_random_uniform(random, -30, 8));
            break;
        case 4: /* multiples of 1/16: ties */
            row[d] = (float)((int32_t)check_random_below(random, 257) - 128) / 16;
            break;
        case 5: /* blocks of zeros of either sign between others */
            row[d] = (d / 16) % 2 ? gaussian : (d % 2 ? -0.0f : 0.0f);
            break;
        case 6: /* below the smallest scale, down to subnormals */
            row[d] = gaussian * exp2f(check_random_uniform(random, -140, -30));
            break;
        case 7: /* fp16's subnormals */
            row[d] = gaussian * 0x1p-20f;
            break;
        case 8: /* one value */
            row[d] = gain;
            break;
        case 9: /* far above one: what is divided by is brought down first */
            row[d] = gaussian * exp2f(80 + gain_exponent);
            break;
        default: /* any bits */
            row[d] = random_float(random);
            break;
        }
        row[d] = fminf(fmaxf(row[d], -limit), limit); /* finite in the source's type */
    }
}

/* Distinct slots in a random order; some tokens are padding, some lie past the last page. */
static int64_t *random_slots(struct check_random *random, uint32_t num_tokens, uint32_t num_slots)
{
    uint32_t *order = check_alloc(num_slots * sizeof(*order));
    int64_t *slots = check_alloc(num_tokens * sizeof(*slots));
    check_random_permutation(random, order, num_slots);
    for (uint32_t t = 0; t < num_tokens; t++)
        slots[t] = t % 7 == 5 ? -1 - (int64_t)t : t % 19 == 18 ? num_slots + t % 4 : order[t];
    free(order);
    return slots;
}

static void *prepare(struct check_row *row)
{
    struct codec_case *c = check_alloc(sizeof(*c));
    struct store_shape shape = shape_of(row->index);
    shape.num_tokens = tokens_of(row->options, &shape);
    shape.num_pages = (shape.num_tokens + 3) / shape.kv.page_size + 2;
    c->slots = random_slots(&row->random, shape.num_tokens,
                            (uint32_t)shape.num_pages * shape.kv.page_size);
    shape.slots = c->slots;
    if (!store_case_init(&c->store, row, &shape))
        return c;
    float values[REF_MAX_HEAD_DIM];
    const float limit = shape.store_dtype == FTJ_DTYPE_FP16 ? 60000.0f : 3e38f;
    for (uint32_t t = 0; t < shape.num_tokens; t++) {
        for (uint32_t h = 0; h < shape.kv.num_kv_heads; h++) {
            random_row(&row->random, t + h, shape.kv.head_dim, limit, values);
            store_case_set(&c->store, CHECK_K, t, h, values);
            random_row(&row->random, 3 * t + h, shape.kv.head_dim, limit, values);
            store_case_set(&c->store, CHECK_V, t, h, values);
        }
    }
    return c;
}

static void finish(void *prepared)
{
    struct codec_case *c = prepared;
    store_case_finish(&c->store);
    free(c->slots);
    free(c);
}

static void run(struct check_row *row, void *prepared)
{
    const struct codec_case *c = prepared;
    if (row->outcome == CHECK_PASSED)
        store_case_run(&c->store, row, NULL);
}

static bool has_fp8(uint64_t index)
{
    const struct store_shape shape = shape_of(index);
    return shape.kv.k_format != FTJ_KV_16BIT || shape.kv.v_format != FTJ_KV_16BIT;
}

const struct check_test check_codec_test = {
    .name = "codec",
    .op = FTJ_KERNEL_STORE,
    .num_rows = num_rows,
    .num_quick = num_quick,
    .prepare = prepare,
    .finish = finish,
    .run = run,
    .describe = describe,
    .has_fp8 = has_fp8,
};
