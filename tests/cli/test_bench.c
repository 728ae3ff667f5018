/* SPDX-License-Identifier: MIT */
/* The parts of the bench that need no device: statistics, formats and the tables of workloads. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench_random.h"
#include "bench/bench_session.h"
#include "bench/bench_stats.h"

Test(bench_stats, median_and_quartiles_of_odd_and_even_counts)
{
    double odd[] = {9, 1, 5, 3, 7};
    const struct bench_stats of_odd = bench_stats_of(odd, 5);
    cr_expect_eq(of_odd.median, 5);
    cr_expect_eq(of_odd.low, 3);
    cr_expect_eq(of_odd.high, 7);

    double even[] = {4, 1, 3, 2};
    cr_expect_eq(bench_stats_of(even, 4).median, 2.5);
    double one[] = {6};
    cr_expect_eq(bench_stats_of(one, 1).median, 6);
}

Test(bench_format, takes_every_format_and_every_pair_of_one_16bit_type)
{
    static const struct {
        const char *text;
        ftj_kv_format k;
        ftj_kv_format v;
        ftj_dtype dtype;
        const char *name;
    } rows[] = {
        {"bf16", FTJ_KV_16BIT, FTJ_KV_16BIT, FTJ_DTYPE_BF16, "bf16"},
        {"fp16", FTJ_KV_16BIT, FTJ_KV_16BIT, FTJ_DTYPE_FP16, "fp16"},
        {"fp8", FTJ_KV_FP8, FTJ_KV_FP8, FTJ_DTYPE_BF16, "fp8"},
        {"nvfp4+nvfp4", FTJ_KV_NVFP4, FTJ_KV_NVFP4, FTJ_DTYPE_BF16, "nvfp4"},
        {"fp8+nvfp4", FTJ_KV_FP8, FTJ_KV_NVFP4, FTJ_DTYPE_BF16, "fp8+nvfp4"},
        {"nvfp4+fp16", FTJ_KV_NVFP4, FTJ_KV_16BIT, FTJ_DTYPE_FP16, "nvfp4+fp16"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct bench_format format;
        cr_assert(bench_format_parse(rows[i].text, strlen(rows[i].text), &format), "%s",
                  rows[i].text);
        cr_expect_eq(format.k, rows[i].k, "%s", rows[i].text);
        cr_expect_eq(format.v, rows[i].v, "%s", rows[i].text);
        cr_expect_eq(format.dtype, rows[i].dtype, "%s", rows[i].text);
        cr_expect_str_eq(format.name, rows[i].name);
    }
}

Test(bench_format, refuses_what_is_no_format)
{
    static const char *const texts[] = {"",      "int3", "FP8",  "fp8+",     "+fp8",
                                        "fp8+x", "fp",   "fp88", "bf16+fp16"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        struct bench_format format = {.dtype = FTJ_DTYPE_FP32};
        cr_expect_not(bench_format_parse(texts[i], strlen(texts[i]), &format), "%s", texts[i]);
        cr_expect_eq(format.dtype, FTJ_DTYPE_FP32, "%s changed the format", texts[i]);
    }
}

Test(bench_shapes, names_are_unique_and_every_shape_has_a_cache)
{
    for (int op = 0; op < BENCH_NUM_OPS; op++) {
        size_t count;
        const struct bench_shape *shapes = bench_shapes((enum bench_op)op, &count);
        for (size_t i = 0; i < count; i++) {
            const struct bench_shape *shape = &shapes[i];
            struct bench_case run = {.op = (enum bench_op)op, .shape = shape, .page = shape->page};
            ftj_attention_desc desc;
            cr_assert(bench_format_parse("fp8+nvfp4", 9, &run.format));
            cr_expect_eq(bench_case_desc(&run, &desc), FTJ_OK, "%s", shape->name);
            cr_expect_eq(shape->q_heads % shape->kv_heads, 0, "%s", shape->name);
            cr_expect_leq(shape->fresh, shape->context, "%s", shape->name);
            cr_expect_leq(shape->more_fresh, shape->more_context, "%s", shape->name);
            if (op != BENCH_DECODE)
                cr_expect_eq(shape->fresh > 0, op == BENCH_EXTEND, "%s", shape->name);
            for (size_t j = 0; j < i; j++)
                cr_expect_str_neq(shapes[i].name, shapes[j].name);
        }
    }
}

static const struct bench_shape *shape_named(enum bench_op op, const char *name)
{
    size_t count;
    const struct bench_shape *shapes = bench_shapes(op, &count);
    for (size_t i = 0; i < count; i++) {
        if (!strcmp(shapes[i].name, name))
            return &shapes[i];
    }
    cr_assert_fail("there is no workload %s", name);
    return NULL;
}

Test(bench_shapes, are_found_by_name_and_by_each_of_their_sets)
{
    const struct bench_shape *shape = shape_named(BENCH_DECODE, "1x1k");
    static const char *const found[] = {"1x1k", "main", "small", "context", "all"};
    static const char *const other[] = {"", "mai", "mainly", "main,small", "1x1", "cpu"};
    for (size_t i = 0; i < sizeof(found) / sizeof(*found); i++)
        cr_expect(bench_shape_matches(shape, found[i]), "%s", found[i]);
    for (size_t i = 0; i < sizeof(other) / sizeof(*other); i++)
        cr_expect_not(bench_shape_matches(shape, other[i]), "%s", other[i]);
}

static uint64_t tokens_of(const struct bench_shape *shape)
{
    uint64_t tokens = 0;
    for (uint32_t i = 0; i < bench_shape_batch(shape); i++)
        tokens += bench_shape_context(shape, i);
    return tokens;
}

Test(bench_shapes, mixed_batches_have_as_many_tokens_as_the_equal_ones_beside_them)
{
    cr_expect_eq(tokens_of(shape_named(BENCH_DECODE, "1x128k+31x4k")),
                 tokens_of(shape_named(BENCH_DECODE, "32x8064")));
    cr_expect_eq(tokens_of(shape_named(BENCH_DECODE, "1x16k+15x64")),
                 tokens_of(shape_named(BENCH_DECODE, "16x1084")));
}

Test(bench_shapes, count_what_each_query_sees)
{
    /* 3 queries over 2 + 3 keys see 3, 4 and 5; with a window of 4, 3, 4 and 4. */
    struct bench_shape shape = {
        .head_dim = 1, .q_heads = 1, .kv_heads = 1, .batch = 1, .context = 5, .fresh = 3};
    cr_expect_eq(bench_shape_flops(&shape), 4 * (3 + 4 + 5));
    shape.window = 4;
    cr_expect_eq(bench_shape_flops(&shape), 4 * (3 + 4 + 4));
    /* Two more requests of one query and two keys. */
    shape.more_batch = 2;
    shape.more_context = 2;
    shape.more_fresh = 1;
    shape.head_dim = 8;
    cr_expect_eq(bench_shape_flops(&shape), 4 * 8 * (3 + 4 + 4 + 2 * 2));
    /* A window bounds the work, not the context. */
    cr_expect_eq(bench_shape_flops(shape_named(BENCH_EXTEND, "window-2k-of-8k")),
                 bench_shape_flops(shape_named(BENCH_EXTEND, "window-2k-of-128k")));
}

Test(bench_shapes, all_leaves_out_what_is_made_for_the_cpu)
{
    size_t count;
    size_t in_all = 0;
    const struct bench_shape *shapes = bench_shapes(BENCH_DECODE, &count);
    for (size_t i = 0; i < count; i++) {
        const bool is_in_all = bench_shape_matches(&shapes[i], "all");
        in_all += is_in_all;
        cr_expect_neq(is_in_all, bench_shape_matches(&shapes[i], "cpu"), "%s", shapes[i].name);
    }
    cr_expect_gt(in_all, 6);
}

Test(bench_sets, rotate_past_the_l2_within_the_memory)
{
    const struct bench_session session = {
        .info = {.kind = FTJ_DEVICE_CUDA, .l2_bytes = 60u << 20, .memory_bytes = 128ull << 30}};
    const uint32_t small = bench_num_sets(&session, 1u << 20, 1u << 20, 2);
    cr_expect_geq(small, 4 * 60);
    cr_expect_eq(bench_num_calls(&session, small) % small, 0);
    cr_expect_eq(bench_num_sets(&session, 1ull << 30, 1ull << 30, 0), 2);
    cr_expect_eq(bench_num_calls(&session, 2), 20);
    /* A large pool is asked for, and had as far as there is room. */
    cr_expect_eq(bench_num_sets(&session, 64u << 20, 64u << 20, 512), 512);
    cr_expect_eq(bench_num_sets(&session, 1ull << 30, 1ull << 30, 512), 64);
    /* A window over a long context: few bytes a call, much memory a set. */
    cr_expect_leq(bench_num_sets(&session, 1u << 20, 8ull << 30, 0), 8);
}

Test(bench_clock, is_the_mean_over_the_sms_that_both_notes_have)
{
    const struct bench_mark begin[] = {{1000, 5000}, {7, 5000}, {9000, 5000}, {0, 0}};
    const struct bench_mark end[] = {{19000, 15000}, {0, 0}, {25000, 15000}, {800, 15000}};
    /* 18,000 and 16,000 cycles in 10 us each. */
    cr_expect_eq(bench_clock_mean(begin, end, 4), 1700);
    cr_expect_eq(bench_clock_mean(begin, end, 1), 1800);
    cr_expect_eq(bench_clock_mean(&begin[3], &end[3], 1), 0);
    cr_expect_eq(bench_clock_mean(begin, begin, 4), 0);
}

Test(bench_random, slots_are_whole_runs_each_once)
{
    struct bench_random random = {7};
    bool seen[1024] = {false};
    int32_t *slots = bench_random_slots(&random, 1000, 64); /* the last run is cut short */
    size_t moved = 0;
    cr_assert_not_null(slots);
    for (size_t i = 0; i < 1000; i++) {
        cr_assert(slots[i] >= 0 && slots[i] < 1024 && !seen[slots[i]]);
        seen[slots[i]] = true;
        cr_expect_eq(slots[i] % 64, (int32_t)(i % 64));
        cr_expect_eq(slots[i] / 64, slots[i - i % 64] / 64);
        moved += slots[i] != (int32_t)i;
    }
    cr_expect_gt(moved, 0u);
    free(slots);
}

Test(bench_random, permutations_hold_every_number_once_and_values_are_normal)
{
    struct bench_random random = {7};
    bool seen[1000] = {false};
    int32_t *order = bench_random_permutation(&random, 1000);
    cr_assert_not_null(order);
    for (size_t i = 0; i < 1000; i++) {
        cr_assert(order[i] >= 0 && order[i] < 1000 && !seen[order[i]]);
        seen[order[i]] = true;
    }
    free(order);

    double sum = 0;
    double squares = 0;
    for (int i = 0; i < 100000; i++) {
        const double value = bench_random_normal(&random);
        sum += value;
        squares += value * value;
    }
    cr_expect_float_eq(sum / 100000, 0, 0.02);
    cr_expect_float_eq(squares / 100000, 1, 0.02);
}
