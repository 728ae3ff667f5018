/* SPDX-License-Identifier: MIT */
/* Names and sizes of workloads, and of the formats they are run in. */
#include "bench/bench_shapes.h"

#include <stdio.h>
#include <string.h>

uint32_t bench_shape_batch(const struct bench_shape *shape)
{
    return shape->batch + shape->more_batch;
}

uint32_t bench_shape_context(const struct bench_shape *shape, uint32_t request)
{
    return request < shape->batch ? shape->context : shape->more_context;
}

uint32_t bench_shape_fresh(const struct bench_shape *shape, uint32_t request)
{
    return request < shape->batch ? shape->fresh : shape->more_fresh;
}

uint32_t bench_shape_visible(const struct bench_shape *shape, uint32_t request)
{
    const uint32_t context = bench_shape_context(shape, request);
    return shape->window && shape->window < context ? shape->window : context;
}

double bench_shape_flops(const struct bench_shape *shape)
{
    double pairs = 0;
    for (uint32_t i = 0; i < bench_shape_batch(shape); i++) {
        const uint32_t context = bench_shape_context(shape, i);
        const uint32_t window = shape->window ? shape->window : context;
        for (uint32_t keys = context - bench_shape_fresh(shape, i) + 1; keys <= context; keys++)
            pairs += keys < window ? keys : window;
    }
    return 4.0 * shape->head_dim * shape->q_heads * pairs;
}

bool bench_shape_matches(const struct bench_shape *shape, const char *name)
{
    const size_t size = strlen(name);
    if (!strcmp(name, "all"))
        return strcmp(shape->sets, "cpu") != 0;
    if (!strcmp(name, shape->name))
        return true;
    for (const char *set = shape->sets; *set; set += *set == ',') {
        const size_t set_size = strcspn(set, ",");
        if (set_size == size && !memcmp(set, name, size))
            return true;
        set += set_size;
    }
    return false;
}

const char bench_format_names[] =
    "bf16, fp16, fp8, nvfp4, or one for K and one for V: fp8+nvfp4, bf16+fp8, ...";

/* False when it is no format. `dtype` is set by bf16 and fp16 only. */
static bool side_parse(const char *text, size_t size, ftj_kv_format *format, ftj_dtype *dtype)
{
    static const struct {
        const char *name;
        ftj_kv_format format;
        ftj_dtype dtype;
    } names[] = {
        {"bf16", FTJ_KV_16BIT, FTJ_DTYPE_BF16},
        {"fp16", FTJ_KV_16BIT, FTJ_DTYPE_FP16},
        {"fp8", FTJ_KV_FP8, FTJ_DTYPE_DEFAULT},
        {"nvfp4", FTJ_KV_NVFP4, FTJ_DTYPE_DEFAULT},
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        if (strlen(names[i].name) != size || memcmp(names[i].name, text, size) != 0)
            continue;
        *format = names[i].format;
        *dtype = names[i].dtype;
        return true;
    }
    return false;
}

bool bench_format_parse(const char *text, size_t size, struct bench_format *format)
{
    struct bench_format parsed = {.dtype = FTJ_DTYPE_BF16};
    ftj_dtype k_dtype;
    ftj_dtype v_dtype;
    const char *plus = memchr(text, '+', size);
    const size_t k_size = plus ? (size_t)(plus - text) : size;
    const char *v_text = plus ? plus + 1 : text;
    const size_t v_size = plus ? size - k_size - 1 : size;

    if (!side_parse(text, k_size, &parsed.k, &k_dtype) ||
        !side_parse(v_text, v_size, &parsed.v, &v_dtype))
        return false;
    /* A cache has one 16-bit type. */
    if (k_dtype && v_dtype && k_dtype != v_dtype)
        return false;
    if (k_dtype || v_dtype)
        parsed.dtype = k_dtype ? k_dtype : v_dtype;

    const bool is_pair = k_size != v_size || memcmp(text, v_text, k_size) != 0;
    snprintf(parsed.name, sizeof(parsed.name), "%.*s", is_pair ? (int)size : (int)k_size, text);
    *format = parsed;
    return true;
}

const char *bench_op_name(enum bench_op op)
{
    static const char *const names[BENCH_NUM_OPS] = {"decode", "store", "extend"};
    return names[op];
}
