/* SPDX-License-Identifier: MIT */
/*
 * Extend against the references. Even rows read every key from the cache, odd ones the same shape
 * with the queries' own keys beside it.
 *
 * First the shapes of the specification, then each main format pair with every value of every axis,
 * then the full matrix.
 */
#include "tests/check/check_extend.h"

static const struct {
    ftj_kv_format k;
    ftj_kv_format v;
} pairs[6] = {
    {FTJ_KV_16BIT, FTJ_KV_16BIT}, {FTJ_KV_FP8, FTJ_KV_FP8},   {FTJ_KV_NVFP4, FTJ_KV_NVFP4},
    {FTJ_KV_FP8, FTJ_KV_NVFP4},   {FTJ_KV_16BIT, FTJ_KV_FP8}, {FTJ_KV_NVFP4, FTJ_KV_16BIT},
};
static const uint32_t head_dims[8] = {128, 64, 80, 256, 32, 96, 192, 512};
static const uint32_t groups[7] = {4, 1, 6, 8, 7, 3, 12};
static const uint32_t page_sizes[4] = {64, 1, 16, 784};

#define NUM_PAIRS    6
#define NUM_COVERING (8 * 4 + 8) /* the main pairs four times eight, the others four each */
#define NUM_MATRIX   (NUM_PAIRS * 8 * 7 * 4 * 3)
#define NUM_QUICK    14 /* of the covering ones */

/* The specification's own shapes (part D.9). */
static const struct extend_shape specified[] = {
    {.attention = {.head_dim = 256, .num_kv_heads = 8, .group = 2, .lengths = {5, 3}},
     .q_lens = {5, 3}},
    {.attention = {.head_dim = 256, .num_kv_heads = 8, .group = 2, .window = 4, .lengths = {7, 5}},
     .q_lens = {4, 3}},
    {.attention = {.head_dim = 512, .num_kv_heads = 2, .group = 8, .lengths = {5, 6}},
     .q_lens = {3, 2}},
    {.attention =
         {.head_dim = 256, .num_kv_heads = 1, .group = 4, .has_sinks = true, .lengths = {3, 3}},
     .q_lens = {2, 1}},
    {.attention = {.k_format = FTJ_KV_FP8,
                   .v_format = FTJ_KV_FP8,
                   .head_dim = 64,
                   .num_kv_heads = 2,
                   .group = 4,
                   .lengths = {7, 4}},
     .q_lens = {3, 2}},
    {.attention = {.k_format = FTJ_KV_NVFP4,
                   .v_format = FTJ_KV_NVFP4,
                   .dtype = FTJ_DTYPE_FP16,
                   .head_dim = 128,
                   .num_kv_heads = 2,
                   .group = 3,
                   .lengths = {67, 0}},
     .q_lens = {32, 0}},
    /* Not the specification's: no query at all; */
    {.attention = {.head_dim = 64, .num_kv_heads = 1, .group = 1, .lengths = {5, 0}}},
    /* of the H200's shapes the one with a single stage; */
    {.attention = {.head_dim = 384, .num_kv_heads = 1, .group = 3, .lengths = {140, 70}},
     .q_lens = {30, 3}},
    /* windows that hide nothing, as -1 and as the largest int, also before key 0; */
    {.attention =
         {.head_dim = 64, .num_kv_heads = 1, .group = 2, .window = UINT32_MAX, .lengths = {40, 5}},
     .q_lens = {9, 12}},
    {.attention =
         {.head_dim = 64, .num_kv_heads = 1, .group = 2, .window = INT32_MAX, .lengths = {40, 5}},
     .q_lens = {9, 12}},
    /* queries that need a power of two of their own beside codes, and a cap on what comes of it. */
    {.attention = {.k_format = FTJ_KV_NVFP4,
                   .v_format = FTJ_KV_NVFP4,
                   .head_dim = 128,
                   .num_kv_heads = 1,
                   .group = 4,
                   .softcap = 2.0f,
                   .q_log2 = 11.0f,
                   .sm_scale = 0x1p-14f,
                   .lengths = {140, 70}},
     .q_lens = {30, 3}},
    {.attention = {.k_format = FTJ_KV_FP8,
                   .v_format = FTJ_KV_FP8,
                   .head_dim = 64,
                   .num_kv_heads = 1,
                   .group = 4,
                   .softcap = 2.0f,
                   .q_log2 = -12.0f,
                   .sm_scale = 0x1p9f,
                   .lengths = {140, 70}},
     .q_lens = {30, 3}},
};
#define NUM_SPECIFIED (sizeof(specified) / sizeof(*specified))

void extend_rotate_options(struct attention_shape *shape, uint32_t i)
{
    static const uint32_t windows[5] = {0, 33, 0, 1, 130};
    static const uint32_t blocks[4] = {0, 1, 0, 5};
    shape->table = (i ^ (i >> 2)) & 1 ? FTJ_TABLE_SLOTS : FTJ_TABLE_BLOCKS;
    shape->dtype = ((i >> 1) ^ (i >> 3)) & 1 ? FTJ_DTYPE_FP16 : FTJ_DTYPE_BF16;
    shape->window = windows[i % 5];
    shape->max_blocks = blocks[(i / 3) % 4];
    shape->softcap = i % 4 == 3 ? 15.0f : 0;
    shape->sm_scale = i % 7 == 2 ? 0.05f : i % 7 == 5 ? -0.07f : 0;
    shape->has_sinks = i % 3 == 1;
    shape->wide_strides = ((i >> 2) ^ i) & 1;
    shape->no_lse = i % 11 == 10;
    shape->num_kv_heads = 1 + (i / 2) % 2;
}

/* Ragged: nothing to do, all new, one query, more queries than keys, past a tile of rows, one query
 * over a long prefix. */
static void choose_lengths(struct extend_shape *shape, uint32_t i)
{
    static const struct {
        uint32_t q_len;
        uint32_t length;
    } runs[3][6] = {
        {{0, 9}, {1, 1}, {17, 17}, {40, 71}, {5, 3}, {1, 350}},
        {{33, 65}, {0, 0}, {1, 64}, {3, 0}, {2, 200}, {16, 16}},
        {{1, 5}, {9, 130}, {0, 1}, {65, 66}, {4, 260}, {1, 0}},
    };
    struct attention_shape *attention = &shape->attention;
    attention->batch = 3 + i % 4;
    for (uint32_t r = 0; r < attention->batch; r++) {
        shape->q_lens[r] = runs[i % 3][r].q_len;
        attention->lengths[r] = runs[i % 3][r].length;
    }
    if (attention->page_size > 64) {
        shape->q_lens[attention->batch] = 3 + i % 7;
        attention->lengths[attention->batch++] = attention->page_size + i % 5;
    }
}

static void choose_axes(struct attention_shape *shape, uint32_t index, uint32_t *turn)
{
    uint32_t pair = index % 4;
    uint32_t i = index / 4;
    if (index >= 32) {
        pair = 4 + index % 2;
        i = (index - 32) / 2 * 2;
    }
    if (index < NUM_COVERING) {
        shape->head_dim = head_dims[i];
        shape->group = groups[(i + pair) % 7];
        shape->page_size = page_sizes[(i + i / 4 + pair) % 4];
        shape->order = (ftj_kv_order)((i + pair) % 3);
        *turn = i + 3 * pair;
    } else {
        uint32_t rest = index - NUM_COVERING;
        pair = rest % NUM_PAIRS;
        rest /= NUM_PAIRS;
        shape->order = (ftj_kv_order)(rest % 3);
        rest /= 3;
        shape->page_size = page_sizes[rest % 4];
        rest /= 4;
        shape->group = groups[rest % 7];
        shape->head_dim = head_dims[rest / 7 % 8];
        *turn = index * 2654435761u >> 7;
    }
    shape->k_format = pairs[pair].k;
    shape->v_format = pairs[pair].v;
}

static struct extend_shape shape_of(uint64_t row)
{
    const uint32_t index = (uint32_t)(row / 2);
    struct extend_shape shape = {0};
    if (index < NUM_SPECIFIED) {
        shape = specified[index];
        shape.attention.batch = 2;
        if (!shape.attention.dtype)
            shape.attention.dtype = FTJ_DTYPE_BF16;
        shape.attention.page_size = 1;
        shape.attention.order = FTJ_KV_NHD;
        shape.attention.table = FTJ_TABLE_SLOTS;
    } else {
        uint32_t turn = 0;
        choose_axes(&shape.attention, index - NUM_SPECIFIED, &turn);
        extend_rotate_options(&shape.attention, turn);
        choose_lengths(&shape, turn);
    }
    shape.has_new = row % 2;
    return shape;
}

static uint64_t num_rows(const struct check_options *options)
{
    (void)options;
    return 2 * (NUM_SPECIFIED + NUM_COVERING + NUM_MATRIX);
}

static uint64_t num_quick(const struct check_options *options)
{
    return 2 * (NUM_SPECIFIED + (options->kind == FTJ_DEVICE_CPU ? NUM_QUICK : NUM_COVERING));
}

static void describe(struct check_row *row)
{
    const struct extend_shape shape = shape_of(row->index);
    extend_describe(row, &shape);
}

static void *prepare(struct check_row *row)
{
    const struct extend_shape shape = shape_of(row->index);
    return extend_case_random(row, &shape);
}

static bool has_fp8(uint64_t row)
{
    const struct extend_shape shape = shape_of(row);
    const bool is_16bit =
        shape.attention.k_format == FTJ_KV_16BIT && shape.attention.v_format == FTJ_KV_16BIT;
    return !is_16bit && row % 3 == 0;
}

const struct check_test check_extend_test = {
    .name = "extend",
    .op = FTJ_KERNEL_EXTEND,
    .num_rows = num_rows,
    .num_quick = num_quick,
    .prepare = prepare,
    .finish = extend_case_free,
    .run = extend_case_run,
    .describe = describe,
    .has_fp8 = has_fp8,
};
