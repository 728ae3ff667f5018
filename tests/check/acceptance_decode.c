/* SPDX-License-Identifier: MIT */
/* O07 .. O20: what a decode answers, in numbers that can be worked out by hand. */
#include <math.h>
#include <string.h>

#include "ftjit/memory.h"
#include "tests/check/acceptance.h"

static const ftj_kv_format formats[3] = {FTJ_KV_16BIT, FTJ_KV_FP8, FTJ_KV_NVFP4};

static float value_j(uint32_t request, uint32_t kv_head, uint32_t j)
{
    (void)request;
    (void)kv_head;
    return (float)j;
}

void acceptance_o07_stale_nan_after_the_end(struct check_row *row)
{
    static const int32_t pages[2] = {3, 1};
    static const uint32_t blocks[2] = {1, 4};
    const double o = 9, lse = 2.944439;
    for (int f = 0; f < 3; f++) {
        for (int b = 0; b < 2; b++) {
            struct attention_shape shape = acceptance_small_shape(formats[f], 19);
            shape.max_blocks = blocks[b];
            shape.pages = pages;
            shape.pages_width = 2;
            shape.num_pages = 4;
            acceptance_expect_mean(row, &shape, value_j, &o, &lse);
        }
    }
}

static float value_j_plus_1(uint32_t request, uint32_t kv_head, uint32_t j)
{
    (void)request;
    (void)kv_head;
    return (float)(j + 1);
}

void acceptance_o08_request_with_no_keys(struct check_row *row)
{
    static const uint32_t blocks[2] = {1, 8};
    double o[3 * 8], lse[3 * 8];
    for (int i = 0; i < 24; i++) {
        o[i] = i < 8 ? 2 : i < 16 ? 0 : 3;
        lse[i] = i < 8 ? 1.098612 : i < 16 ? -INFINITY : 1.609438;
    }
    for (int f = 0; f < 3; f++) {
        for (int b = 0; b < 2; b++) {
            struct attention_shape shape = acceptance_small_shape(formats[f], 3);
            shape.head_dim = 128;
            shape.num_kv_heads = 2;
            shape.group = 4;
            shape.max_blocks = blocks[b];
            shape.batch = 3;
            shape.lengths[2] = 5;
            acceptance_expect_mean(row, &shape, value_j_plus_1, o, lse);
        }
    }
}

static float value_o09(uint32_t request, uint32_t kv_head, uint32_t j)
{
    (void)kv_head;
    return (float)(j % 4) * (request == 1 ? 2 : 1);
}

static void merge_empty_states(struct check_row *row)
{
    struct check_buffer buffers[6] = {{0}};
    uint16_t o_a[2 * 64] = {0};
    uint16_t o_b[2 * 64] = {0};
    const float lse_a[2] = {-INFINITY, -INFINITY};
    const float lse_b[2] = {-INFINITY, 0.75f};
    ftj_attention_desc desc = {.ops = FTJ_OP_MERGE};
    ftj_attention *attn = NULL;
    for (int d = 0; d < 64; d++)
        o_b[64 + d] = ref_bf16_narrow(2.5f);
    if (!check_ok(row,
                  ftj_kv_layout_init(
                      &desc.kv, &(ftj_kv_shape){.num_kv_heads = 1, .head_dim = 64, .page_size = 1}),
                  "ftj_kv_layout_init") ||
        !check_ok(row, ftj_attention_create(row->ctx, &desc, &attn), "ftj_attention_create") ||
        !check_buffer_init_with(&buffers[0], row, "o_a", o_a, sizeof(o_a)) ||
        !check_buffer_init_with(&buffers[1], row, "lse_a", lse_a, sizeof(lse_a)) ||
        !check_buffer_init_with(&buffers[2], row, "o_b", o_b, sizeof(o_b)) ||
        !check_buffer_init_with(&buffers[3], row, "lse_b", lse_b, sizeof(lse_b)) ||
        !check_buffer_init(&buffers[4], row, "o", sizeof(o_a)) ||
        !check_buffer_init(&buffers[5], row, "lse", sizeof(lse_a)))
        goto cleanup;
    const ftj_merge_args args = {.o_a = buffers[0].device,
                                 .lse_a = buffers[1].device,
                                 .o_b = buffers[2].device,
                                 .lse_b = buffers[3].device,
                                 .o = buffers[4].device,
                                 .lse = buffers[5].device,
                                 .rows = 2};
    uint16_t o[2 * 64];
    float lse[2];
    if (!check_ok(row, ftj_state_merge(attn, &args, NULL), "ftj_state_merge") ||
        !check_ok(row, ftj_stream_synchronize(row->ctx, NULL), "ftj_stream_synchronize") ||
        !check_buffer_read(&buffers[4], row, o) || !check_buffer_read(&buffers[5], row, lse))
        goto cleanup;
    for (int i = 0; i < 2 * 64; i++) {
        if (ref_bf16_widen(o[i]) != (i < 64 ? 0.0f : 2.5f))
            check_fail(row, "merged o[%d] is %g", i, (double)ref_bf16_widen(o[i]));
    }
    if (lse[0] != -INFINITY || fabsf(lse[1] - 0.75f) > 1e-6f)
        check_fail(row, "merged lse is %g, %g; expected -inf, 0.75", (double)lse[0],
                   (double)lse[1]);

cleanup:
    for (int i = 0; i < 6; i++)
        check_buffer_finish(&buffers[i], row);
    ftj_attention_destroy(attn);
}

/* One unit that every block of a large device has a part of: more than the threads of a combine
 * read in one round. */
static void more_parts_than_a_round(struct check_row *row)
{
    const double o = 1.5, lse = 9.704061;
    for (int f = 0; f < 3; f++) {
        struct attention_shape shape = acceptance_small_shape(formats[f], 16384);
        shape.page_size = 64;
        shape.head_dim = 128;
        acceptance_expect_mean(row, &shape, value_o09, &o, &lse);
    }
}

void acceptance_o09_every_split_count(struct check_row *row)
{
    static const uint32_t blocks[6] = {1, 2, 3, 7, 64, 0};
    double o[3 * 4], lse[3 * 4];
    for (int i = 0; i < 12; i++) {
        o[i] = i < 4 ? 1.5 : i < 8 ? 3 : 1.2;
        lse[i] = i < 8 ? 6.931472 : 1.609438;
    }
    for (int b = 0; b < 6; b++) {
        struct attention_shape shape = acceptance_small_shape(FTJ_KV_16BIT, 1024);
        shape.num_kv_heads = 4;
        shape.page_size = 256;
        shape.max_blocks = blocks[b];
        shape.batch = 3;
        shape.lengths[1] = 1024;
        shape.lengths[2] = 5;
        acceptance_expect_mean(row, &shape, value_o09, o, lse);
    }
    more_parts_than_a_round(row);
    merge_empty_states(row);
}

void acceptance_o10_lse_base_and_sign(struct check_row *row)
{
    static const float q[2] = {1, 0};
    static const float k[2][2] = {{1, 0}, {2, 0}};
    static const float v[2] = {1, 3};
    for (int f = 0; f < 3; f++) {
        for (uint32_t blocks = 1; blocks <= 2; blocks++) {
            struct attention_shape shape = acceptance_small_shape(formats[f], 2);
            shape.sm_scale = 1;
            shape.max_blocks = blocks;
            acceptance_expect_pair(row, &shape, q, k, v, 2.462117, 2.313262, 1e-3);
        }
    }
}

static float value_o12a(uint32_t request, uint32_t kv_head, uint32_t j)
{
    (void)request;
    (void)j;
    return (float)(kv_head + 1);
}

static float value_o12c(uint32_t request, uint32_t kv_head, uint32_t j)
{
    (void)request;
    (void)kv_head;
    return j < 784 ? 4 : j < 1568 ? 8 : 16;
}

/* (b), the store of head_dim 96, is a row of the codec test; its numbers are checked here. */
static void expect_o12b(struct check_row *row)
{
    static const float heads[2] = {0.5f, 64};
    for (int f = 1; f < 3; f++) {
        float values[REF_MAX_HEAD_DIM];
        double decoded[REF_MAX_HEAD_DIM];
        struct attention_shape shape = acceptance_small_shape(formats[f], 1);
        struct attention_case c = {0};
        shape.head_dim = 96;
        shape.num_kv_heads = 2;
        if (attention_case_init(&c, row, &shape)) {
            for (uint32_t h = 0; h < 2; h++) {
                acceptance_constant_row(heads[h], values);
                check_cache_encode(&c.cache, CHECK_V, attention_case_slot(&c, 0, 0), h, values);
                check_cache_encode(&c.cache, CHECK_K, attention_case_slot(&c, 0, 0), h, values);
                check_cache_decode(&c.cache, CHECK_V, attention_case_slot(&c, 0, 0), h, decoded);
                for (int d = 0; d < 96; d++) {
                    if (!(fabs(decoded[d] - (double)heads[h]) <= 1e-5 * (double)heads[h]))
                        check_fail(row, "head %u [%d] decodes to %g", h, d, decoded[d]);
                }
            }
            memset(c.q, 0, c.q_bytes);
            acceptance_expect(row, &c, (double[2]){0.5, 64}, (double[2]){0, 0}, 1e-3);
        }
        attention_case_finish(&c);
    }
}

void acceptance_o12_odd_geometry(struct check_row *row)
{
    static const int32_t pages[3] = {2, 0, 1};
    double o[24], lse[24];
    for (int h = 0; h < 24; h++) {
        o[h] = h / 6 + 1;
        lse[h] = 4.605170;
    }
    const double o_c = 6.2, lse_c = 7.377759;
    for (int f = 0; f < 3; f++) {
        struct attention_shape a = acceptance_small_shape(formats[f], 100);
        a.head_dim = 128;
        a.num_kv_heads = 4;
        a.group = 6;
        acceptance_expect_mean(row, &a, value_o12a, o, lse);
        struct attention_shape c = acceptance_small_shape(formats[f], 1600);
        c.page_size = 784;
        c.pages = pages;
        c.pages_width = 3;
        c.num_pages = 3;
        acceptance_expect_mean(row, &c, value_o12c, &o_c, &lse_c);
    }
    expect_o12b(row);
}

void acceptance_o13_scores_far_below_zero(struct check_row *row)
{
    static const float q[2] = {1, 1};
    static const float k[2][2] = {{-65536, 0}, {-65536, -1}};
    static const float v[2] = {1, 0};
    for (uint32_t blocks = 1; blocks <= 2; blocks++) {
        struct attention_shape shape = acceptance_small_shape(FTJ_KV_16BIT, 2);
        shape.sm_scale = 1;
        shape.max_blocks = blocks;
        acceptance_expect_pair(row, &shape, q, k, v, 0.731059, -65535.686738, 0.02);
    }
}

void acceptance_o15_window_counts_itself(struct check_row *row)
{
    const double o = 7.5, lse = 1.386294;
    for (int f = 0; f < 3; f++) {
        struct attention_shape shape = acceptance_small_shape(formats[f], 10);
        shape.window = 4;
        acceptance_expect_mean(row, &shape, value_j, &o, &lse);
        shape.table = FTJ_TABLE_SLOTS;
        acceptance_expect_mean(row, &shape, value_j, &o, &lse);
    }
}

static float value_mod_4(uint32_t request, uint32_t kv_head, uint32_t j)
{
    (void)request;
    (void)kv_head;
    return (float)(j % 4);
}

/* Warps of a block that share keys or lines of memory. Rows of several kv heads side by side: pages
 * of one token (by table and by slot), pages smaller than a tile, and NHD; then groups of more
 * query heads than a warp holds. Ends of requests, and a window's beginning, inside a tile. */
void acceptance_shared_keys(struct check_row *row)
{
    static const struct {
        ftj_kv_order order;
        ftj_kv_table table;
        uint32_t page_size, num_kv_heads, group, window;
    } layouts[] = {
        {FTJ_KV_PACKED, FTJ_TABLE_BLOCKS, 1, 8, 4, 0},
        {FTJ_KV_PACKED, FTJ_TABLE_SLOTS, 1, 2, 4, 600},
        {FTJ_KV_PACKED, FTJ_TABLE_BLOCKS, 16, 6, 4, 0},
        {FTJ_KV_PACKED, FTJ_TABLE_BLOCKS, 32, 4, 4, 600},
        {FTJ_KV_NHD, FTJ_TABLE_BLOCKS, 64, 8, 4, 0},
        {FTJ_KV_NHD, FTJ_TABLE_BLOCKS, 32, 4, 4, 600},
        {FTJ_KV_NHD, FTJ_TABLE_SLOTS, 1, 4, 4, 0},
        {FTJ_KV_NHD, FTJ_TABLE_BLOCKS, 1, 8, 4, 600},
        {FTJ_KV_PACKED, FTJ_TABLE_BLOCKS, 64, 2, 64, 600},
        {FTJ_KV_HND, FTJ_TABLE_BLOCKS, 64, 1, 42, 0},
    };
    static const struct {
        ftj_kv_format k, v;
    } pairs[3] = {
        {FTJ_KV_16BIT, FTJ_KV_FP8}, {FTJ_KV_FP8, FTJ_KV_FP8}, {FTJ_KV_NVFP4, FTJ_KV_NVFP4}};
    for (size_t i = 0; i < sizeof(layouts) / sizeof(*layouts); i++) {
        struct attention_shape shape = acceptance_small_shape(pairs[i % 3].k, 777);
        shape.v_format = pairs[i % 3].v;
        shape.order = layouts[i].order;
        shape.table = layouts[i].table;
        shape.page_size = layouts[i].page_size;
        shape.num_kv_heads = layouts[i].num_kv_heads;
        shape.group = layouts[i].group;
        shape.window = layouts[i].window;
        shape.head_dim = layouts[i].group > 32 ? 128 : 64;
        shape.has_sinks = i % 2;
        shape.batch = 4;
        shape.lengths[1] = 1;
        shape.lengths[3] = 97;
        shape.max_blocks = i % 2 ? 3 : 0;
        acceptance_decode_random(row, &shape);
    }
}

/* A lane deals a run of them, and of up to 64 or 128 blocks look their first tiles up early. */
void acceptance_many_requests(struct check_row *row)
{
    static const uint32_t batches[4] = {33, 64, 97, ATTENTION_MAX_BATCH};
    for (int i = 0; i < 4; i++) {
        struct attention_shape shape = acceptance_small_shape(formats[i % 3], 0);
        shape.page_size = i == 2 ? 16 : 64;
        shape.num_kv_heads = 2;
        shape.group = 4;
        shape.batch = batches[i];
        for (uint32_t r = 0; r < shape.batch; r++)
            shape.lengths[r] = r % 9 == 4 ? 0 : 1 + r * 37 % 190;
        acceptance_decode_random(row, &shape);
    }
}

/* The eager half of O20: tests/gpu has the captured one. */
void acceptance_o20_other_lengths_in_place(struct check_row *row)
{
    static const struct {
        int32_t lengths[2];
        double o[2];
        double lse[2];
    } steps[4] = {
        {{17, 1}, {24.0 / 17, 0}, {2.833213, 0}},
        {{4097, 900}, {1.499634, 1.5}, {8.318010, 6.802395}},
        {{0, 1}, {0, 0}, {-INFINITY, 0}},
        {{17, 1}, {24.0 / 17, 0}, {2.833213, 0}},
    };
    struct attention_shape shape = acceptance_small_shape(FTJ_KV_FP8, 4097);
    struct attention_case c = {0};
    struct attention_device device = {0};
    shape.num_kv_heads = 2;
    shape.group = 4;
    shape.batch = 2;
    shape.lengths[1] = 900;
    if (!attention_case_init(&c, row, &shape))
        return;
    acceptance_fill_mean(&c, value_mod_4);
    if (attention_device_init(&device, row, &c)) {
        for (int step = 0; step < 4; step++) {
            struct attention_result result = {0};
            double o[16], lse[16];
            for (int i = 0; i < 16; i++) {
                o[i] = steps[step].o[i / 8];
                lse[i] = steps[step].lse[i / 8];
            }
            if (check_buffer_write(&device.lengths, row, steps[step].lengths) &&
                attention_decode(&device, row, &c, &result))
                acceptance_compare(row, &c, &result, o, lse, 1e-3);
            attention_result_finish(&result);
        }
    }
    attention_device_finish(&device, row);
    attention_case_finish(&c);
}
