/* SPDX-License-Identifier: MIT */
/* Named workloads, and the formats they are run in. */
#ifndef FTJ_BENCH_SHAPES_H
#define FTJ_BENCH_SHAPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ftjit/attention.h"

enum bench_op { BENCH_DECODE, BENCH_STORE, BENCH_EXTEND, BENCH_NUM_OPS };

struct bench_shape {
    const char *name;
    const char *sets;  /* separated by commas; "cpu" is what suits the CPU device */
    const char *about; /* for --list */
    uint32_t head_dim;
    uint32_t q_heads; /* 0 for a store */
    uint32_t kv_heads;
    uint32_t batch;   /* requests; a store: tokens */
    uint32_t context; /* keys of each request, its new ones included; 0 for a store */
    uint32_t fresh;   /* extend: queries of each request, which are its last tokens; likewise of a
                         speculative decode, 0 of others */
    uint32_t page;
    uint32_t window; /* visible keys; 0: all */
    bool sinks;
    ftj_kv_order order;
    uint32_t pool_sets; /* the pool holds at least so many times these requests */
    /* Beside those, requests of other sizes. */
    uint32_t more_batch;
    uint32_t more_context;
    uint32_t more_fresh;
    /* Extend of one request: its queries come in calls of so many, each over all before it; the
     * time is that of all calls. 0: in one call. */
    uint32_t chunk;
};

/* All requests, and the sizes of one of them. */
uint32_t bench_shape_batch(const struct bench_shape *shape);
uint32_t bench_shape_context(const struct bench_shape *shape, uint32_t request);
uint32_t bench_shape_fresh(const struct bench_shape *shape, uint32_t request);

/* Keys that the last query of a request sees. */
uint32_t bench_shape_visible(const struct bench_shape *shape, uint32_t request);

/* Floating point operations of an extend, 4 * head_dim * q_heads for every key a query sees. */
double bench_shape_flops(const struct bench_shape *shape);

/* The table of an operation. */
const struct bench_shape *bench_shapes(enum bench_op op, size_t *count);

/* True when `name` is the shape's name, one of its sets, or "all" (every shape but those of "cpu").
 */
bool bench_shape_matches(const struct bench_shape *shape, const char *name);

/* A cache's formats by name: "bf16", "fp16", "fp8", "nvfp4", or a pair for K and V, "fp8+nvfp4". */
struct bench_format {
    ftj_kv_format k;
    ftj_kv_format v;
    ftj_dtype dtype; /* of Q, O and a 16-bit side */
    char name[24];
};

/* False, with `format` untouched, when `text` (size bytes) names none. */
bool bench_format_parse(const char *text, size_t size, struct bench_format *format);

/* What bench_format_parse() takes, for sentences. */
extern const char bench_format_names[];

const char *bench_op_name(enum bench_op op);

#endif
