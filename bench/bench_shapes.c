/* SPDX-License-Identifier: MIT */
/* The workloads: the shapes by which kernels are judged, and one or two of each model served. */
#include "bench/bench_shapes.h"

#include <stdio.h>
#include <string.h>

// clang-format off
static const struct bench_shape decode_shapes[] = {
    {"1x128k", "main", "one long request", 128, 32, 8, 1, 131072, 64, 0, false},
    {"16x16k", "main", "a batch of long requests", 128, 32, 8, 16, 16384, 64, 0, false},
    {"64x4k", "main", "a batch of chats", 128, 32, 8, 64, 4096, 64, 0, false},
    {"8x32k", "main", "a few long requests", 128, 32, 8, 8, 32768, 64, 0, false},
    {"1x1k", "main", "latency of one chat", 128, 32, 8, 1, 1024, 64, 0, false},
    {"8x1k", "main", "latency of a few chats", 128, 32, 8, 8, 1024, 64, 0, false},

    {"qwen3-30b-a3b", "models", "group 8", 128, 32, 4, 16, 8192, 1, 0, false},
    {"qwen3.6-35b-a3b", "models", "head_dim 256, group 8", 256, 16, 2, 16, 8192, 1, 0, false},
    {"qwen3.6-27b", "models", "head_dim 256, group 6", 256, 24, 4, 16, 8192, 1, 0, false},
    {"qwen3.8-flash-next", "models", "group 12, its full layers", 256, 24, 2, 16, 8192, 64, 0, false},
    {"gemma-4-26b-swa", "models", "window 1024", 256, 16, 8, 16, 8192, 1, 1024, false},
    {"gemma-4-26b-full", "models", "head_dim 512, group 8", 512, 16, 2, 16, 8192, 1, 0, false},
    {"gpt-oss-swa", "models", "head_dim 64, window 128, sinks", 64, 64, 8, 64, 8192, 1, 128, true},
    {"gpt-oss-full", "models", "head_dim 64, group 8, sinks", 64, 64, 8, 16, 8192, 1, 0, true},
    {"muse-glimmer-30b-swa", "models", "group 16, window 2048", 128, 32, 2, 16, 8192, 1, 2048, false},
    {"muse-glimmer-30b-full", "models", "group 16", 128, 32, 2, 16, 8192, 1, 0, false},
    {"glm-4.7", "models", "group 12", 128, 96, 8, 16, 8192, 1, 0, false},
    {"minimax-m2.5", "models", "group 6", 128, 48, 8, 16, 8192, 1, 0, false},
    {"llama-3.1-8b", "models", "Qwen3-8B, Mistral-7B too", 128, 32, 8, 16, 8192, 1, 0, false},
    {"qwen2-7b", "models", "group 7", 128, 28, 4, 16, 8192, 1, 0, false},

    {"cpu", "cpu", "small enough for the CPU device", 64, 4, 2, 2, 96, 16, 0, false},
};

static const struct bench_shape store_shapes[] = {
    {"8k", "main", "a prefill chunk", 128, 0, 8, 8192, 0, 64, 0, false},
    {"64k", "main", "a long prefill", 128, 0, 8, 65536, 0, 64, 0, false},
    {"8k-page1", "main", "a prefill chunk into scattered slots", 128, 0, 8, 8192, 0, 1, 0, false},
    {"64", "main", "one decode step of 64 requests", 128, 0, 8, 64, 0, 64, 0, false},
    {"8k-d64", "models", "gpt-oss", 64, 0, 8, 8192, 0, 1, 0, false},
    {"8k-d256", "models", "qwen3.6-35b-a3b", 256, 0, 2, 8192, 0, 1, 0, false},
    {"8k-d512", "models", "gemma-4-26b, its full layers", 512, 0, 2, 8192, 0, 1, 0, false},

    {"cpu", "cpu", "small enough for the CPU device", 64, 0, 2, 64, 0, 16, 0, false},
};
// clang-format on

const struct bench_shape *bench_shapes(enum bench_op op, size_t *count)
{
    if (op == BENCH_STORE) {
        *count = sizeof(store_shapes) / sizeof(*store_shapes);
        return store_shapes;
    }
    *count = sizeof(decode_shapes) / sizeof(*decode_shapes);
    return decode_shapes;
}

bool bench_shape_matches(const struct bench_shape *shape, const char *name)
{
    if (!strcmp(name, "all"))
        return strcmp(shape->set, "cpu") != 0;
    return !strcmp(name, shape->name) || !strcmp(name, shape->set);
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
    return op == BENCH_STORE ? "store" : "decode";
}
