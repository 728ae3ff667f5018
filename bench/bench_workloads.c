/* SPDX-License-Identifier: MIT */
/* The workloads: the shapes by which kernels are judged, and one or two of each model served. */
#include "bench/bench_shapes.h"

// clang-format off
/* name, sets, about, head_dim, q_heads, kv_heads, batch, context, fresh */
static const struct bench_shape decode_shapes[] = {
    {"1x128k", "main,context", "one long request", 128, 32, 8, 1, 131072, .page = 64},
    {"16x16k", "main,geometry", "a batch of long requests", 128, 32, 8, 16, 16384, .page = 64},
    {"64x4k", "main", "a batch of chats", 128, 32, 8, 64, 4096, .page = 64},
    {"8x32k", "main", "a few long requests", 128, 32, 8, 8, 32768, .page = 64},
    {"1x1k", "main,small,context", "latency of one chat", 128, 32, 8, 1, 1024, .page = 64},
    {"8x1k", "main,small", "latency of a few chats", 128, 32, 8, 8, 1024, .page = 64},

    {"2x1k", "small", "latency of two chats", 128, 32, 8, 2, 1024, .page = 64},
    {"4x1k", "small", "latency of four chats", 128, 32, 8, 4, 1024, .page = 64},

    {"1x4k", "context", "time against context", 128, 32, 8, 1, 4096, .page = 64},
    {"1x16k", "context", "time against context", 128, 32, 8, 1, 16384, .page = 64},
    {"1x16k-of-8m", "context", "1x16k in a pool of 8M tokens", 128, 32, 8, 1, 16384, .page = 64,
     .pool_sets = 512},
    {"1x64k", "context", "time against context", 128, 32, 8, 1, 65536, .page = 64},
    {"1x256k", "context", "time against context", 128, 32, 8, 1, 262144, .page = 64},
    {"1x1m", "context", "time against context", 128, 32, 8, 1, 1048576, .page = 64},

    /* Speculated tokens beside the last one, causal among themselves. */
    {"16x16k-q2", "speculative", "2 queries a request", 128, 32, 8, 16, 16384, 2, .page = 64},
    {"16x16k-q4", "speculative", "4 queries a request", 128, 32, 8, 16, 16384, 4, .page = 64},
    {"16x16k-q8", "speculative", "8 queries a request", 128, 32, 8, 16, 16384, 8, .page = 64},
    {"1x16k-q2", "speculative", "2 queries of one request", 128, 32, 8, 1, 16384, 2, .page = 64},
    {"1x16k-q4", "speculative", "4 queries of one request", 128, 32, 8, 1, 16384, 4, .page = 64},
    {"1x16k-q8", "speculative", "8 queries of one request", 128, 32, 8, 1, 16384, 8, .page = 64},
    {"d64-g8-q4", "speculative", "4 queries, head_dim 64", 64, 64, 8, 16, 16384, 4, .page = 64},
    {"d256-g8-q4", "speculative", "4 queries, head_dim 256", 256, 16, 2, 16, 16384, 4, .page = 64},

    /* A mixed batch, and one of equal lengths with as many tokens. */
    {"1x128k+31x4k", "mixed", "one long, many short", 128, 32, 8, 1, 131072, .page = 64,
     .more_batch = 31, .more_context = 4096},
    {"32x8064", "mixed", "equal to 1x128k+31x4k", 128, 32, 8, 32, 8064, .page = 64},
    {"1x16k+15x64", "mixed", "one long, some tiny", 128, 32, 8, 1, 16384, .page = 64,
     .more_batch = 15, .more_context = 64},
    {"16x1084", "mixed", "equal to 1x16k+15x64", 128, 32, 8, 16, 1084, .page = 64},

    /* About as many bytes each as 16x16k, so that shares compare. */
    {"d64", "geometry", "head_dim 64", 64, 32, 8, 32, 16384, .page = 64},
    {"d80", "geometry", "head_dim 80", 80, 32, 8, 26, 16384, .page = 64},
    {"d96", "geometry", "head_dim 96", 96, 32, 8, 21, 16384, .page = 64},
    {"d112", "geometry", "head_dim 112", 112, 32, 8, 18, 16384, .page = 64},
    {"d192", "geometry", "head_dim 192", 192, 32, 8, 11, 16384, .page = 64},
    {"d256", "geometry", "head_dim 256", 256, 16, 4, 16, 16384, .page = 64},
    {"d512", "geometry", "head_dim 512", 512, 16, 2, 16, 16384, .page = 64},
    {"group-1", "geometry", "a kv head for every head", 128, 8, 8, 16, 16384, .page = 64},
    {"group-8", "geometry", "8 heads to a kv head", 128, 64, 8, 16, 16384, .page = 64},
    {"group-16", "geometry", "16 heads to a kv head", 128, 64, 4, 32, 16384, .page = 64},
    {"group-64", "geometry", "64 heads to a kv head", 128, 128, 2, 64, 16384, .page = 64},
    {"hnd", "geometry", "order HND", 128, 32, 8, 16, 16384, .page = 64, .order = FTJ_KV_HND},
    {"nhd", "geometry", "order NHD", 128, 32, 8, 16, 16384, .page = 64, .order = FTJ_KV_NHD},
    {"page-128", "geometry", "128 tokens a page", 128, 32, 8, 16, 16384, .page = 128},
    {"page-16", "geometry", "16 tokens a page", 128, 32, 8, 16, 16384, .page = 16},
    {"page-1", "geometry", "one token a page", 128, 32, 8, 16, 16384, .page = 1},
    {"page-1-nhd", "geometry", "one token a page, NHD", 128, 32, 8, 16, 16384, .page = 1,
     .order = FTJ_KV_NHD},
    {"window-4k", "geometry", "4096 visible keys of 16384", 128, 32, 8, 64, 16384, .page = 64,
     .window = 4096},

    {"qwen3-30b-a3b", "models", "group 8", 128, 32, 4, 16, 8192, .page = 1},
    {"qwen3.6-35b-a3b", "models", "head_dim 256, group 8", 256, 16, 2, 16, 8192, .page = 1},
    {"qwen3.6-27b", "models", "head_dim 256, group 6", 256, 24, 4, 16, 8192, .page = 1},
    {"qwen3.8-flash-next", "models", "group 12, its full layers", 256, 24, 2, 16, 8192, .page = 64},
    {"gemma-4-26b-swa", "models", "window 1024", 256, 16, 8, 16, 8192, .page = 1, .window = 1024},
    {"gemma-4-26b-full", "models", "head_dim 512, group 8", 512, 16, 2, 16, 8192, .page = 1},
    {"gpt-oss-swa", "models", "head_dim 64, window 128, sinks", 64, 64, 8, 64, 8192, .page = 1,
     .window = 128, .sinks = true},
    {"gpt-oss-full", "models", "head_dim 64, group 8, sinks", 64, 64, 8, 16, 8192, .page = 1,
     .sinks = true},
    {"muse-glimmer-30b-swa", "models", "group 16, window 2048", 128, 32, 2, 16, 8192, .page = 1,
     .window = 2048},
    {"muse-glimmer-30b-full", "models", "group 16", 128, 32, 2, 16, 8192, .page = 1},
    {"glm-4.7", "models", "group 12", 128, 96, 8, 16, 8192, .page = 1},
    {"minimax-m2.5", "models", "group 6", 128, 48, 8, 16, 8192, .page = 1},
    {"qwen2-7b", "models", "group 7", 128, 28, 4, 16, 8192, .page = 1},

    {"cpu", "cpu", "small enough for the CPU device", 64, 4, 2, 2, 96, .page = 16},
    {"cpu-mixed", "cpu", "two lengths", 64, 4, 2, 1, 96, .page = 16, .more_batch = 2,
     .more_context = 17},
    {"cpu-q3", "cpu", "3 queries a request", 64, 4, 2, 2, 96, 3, .page = 16},
};

static const struct bench_shape store_shapes[] = {
    {"8k", "main", "a prefill chunk", 128, 0, 8, 8192, .page = 64},
    {"64k", "main", "a long prefill", 128, 0, 8, 65536, .page = 64},
    {"8k-page1", "main", "a prefill chunk into scattered slots", 128, 0, 8, 8192, .page = 1},
    {"64", "main", "one decode step of 64 requests", 128, 0, 8, 64, .page = 64},
    {"8k-d64", "models", "gpt-oss", 64, 0, 8, 8192, .page = 1},
    {"8k-d256", "models", "qwen3.6-35b-a3b", 256, 0, 2, 8192, .page = 1},
    {"8k-d512", "models", "gemma-4-26b, its full layers", 512, 0, 2, 8192, .page = 1},

    {"cpu", "cpu", "small enough for the CPU device", 64, 0, 2, 64, .page = 16},
};

/* name, sets, about, head_dim, q_heads, kv_heads, batch, context, fresh */
static const struct bench_shape extend_shapes[] = {
    {"16k", "main", "a prefill in one call", 128, 32, 8, 1, 16384, 16384, .page = 64},
    {"2k-over-30k", "main", "a chunk of a long one", 128, 32, 8, 1, 32768, 2048, .page = 64},
    {"8k-d256", "main", "head_dim 256, group 8", 256, 16, 2, 1, 8192, 8192, .page = 64},
    {"8k-d64", "main", "head_dim 64", 64, 32, 8, 1, 8192, 8192, .page = 64},
    {"8k+63x128", "main,ragged", "a prefill among short ones", 128, 32, 8, 1, 8192, 8192, .page = 64,
     .more_batch = 63, .more_context = 128, .more_fresh = 128},

    {"8k", "ragged", "the same prefill alone", 128, 32, 8, 1, 8192, 8192, .page = 64},
    {"64x128", "ragged", "short ones alone", 128, 32, 8, 64, 128, 128, .page = 64},

    /* The same work whatever the context. */
    {"window-2k-of-8k", "window", "2048 visible keys", 128, 32, 8, 1, 8192, 4096, .page = 64,
     .window = 2048},
    {"window-2k-of-32k", "window", "2048 visible keys", 128, 32, 8, 1, 32768, 4096, .page = 64,
     .window = 2048},
    {"window-2k-of-128k", "window", "2048 visible keys", 128, 32, 8, 1, 131072, 4096, .page = 64,
     .window = 2048},

    /* The prefill of "16k", in calls. */
    {"16k-by-1k", "chunked", "calls of 1024", 128, 32, 8, 1, 16384, 16384, .page = 64,
     .chunk = 1024},
    {"16k-by-1001", "chunked", "calls of 1001", 128, 32, 8, 1, 16384, 16384, .page = 64,
     .chunk = 1001},
    {"16k-by-4k", "chunked", "calls of 4096", 128, 32, 8, 1, 16384, 16384, .page = 64,
     .chunk = 4096},

    /* Between decode and prefill. */
    {"1-over-16k", "short", "one query", 128, 32, 8, 16, 16384, 1, .page = 64},
    {"4-over-16k", "short", "speculated tokens", 128, 32, 8, 16, 16384, 4, .page = 64},
    {"16-over-16k", "short", "a few queries", 128, 32, 8, 16, 16384, 16, .page = 64},
    {"64-over-16k", "short", "a short chunk", 128, 32, 8, 16, 16384, 64, .page = 64},

    {"cpu", "cpu", "small enough for the CPU device", 64, 4, 2, 1, 96, 40, .page = 16},
    {"cpu-ragged", "cpu", "two lengths", 64, 4, 2, 1, 96, 96, .page = 16, .more_batch = 2,
     .more_context = 17, .more_fresh = 17},
    {"cpu-window", "cpu", "16 visible keys", 64, 4, 2, 1, 96, 40, .page = 16, .window = 16},
    {"cpu-chunked", "cpu", "calls of 33", 64, 4, 2, 1, 96, 96, .page = 16, .chunk = 33},
};
// clang-format on

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

const struct bench_shape *bench_shapes(enum bench_op op, size_t *count)
{
    switch (op) {
    case BENCH_STORE:
        *count = COUNT(store_shapes);
        return store_shapes;
    case BENCH_EXTEND:
        *count = COUNT(extend_shapes);
        return extend_shapes;
    default:
        *count = COUNT(decode_shapes);
        return decode_shapes;
    }
}
