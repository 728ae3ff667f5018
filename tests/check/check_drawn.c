/* SPDX-License-Identifier: MIT */
/*
 * Attention at random: rows draw all that a caller may choose, within what a reference has time
 * for. Another --seed draws other rows, not only other numbers.
 *
 * A row is one descriptor, whose kernels are compiled once, and some calls of other lengths. The
 * first row runs on every tier, the others on the device's first choice, unless --variant says
 * more.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/tune.h"
#include "tests/check/check_extend.h"

#define NUM_ROWS  48
#define NUM_QUICK 3 /* on the CPU device */
#define NUM_CALLS 3
/* Of a call's queries with the values of K that they see. */
#define MAX_PRODUCTS (1u << 24)

enum kind { DECODE, EXTEND, SHORT };

struct drawn {
    struct extend_case calls[NUM_CALLS];
};

#define PICK(random, list) (list)[check_random_below(random, sizeof(list) / sizeof(*(list)))]

static bool draw_bit(struct check_random *random, uint32_t one_in)
{
    return check_random_below(random, one_in) == 0;
}

/* What the layout says. Each axis has its usual values, and now and then any. */
static void draw_cache(struct attention_shape *shape, struct check_random *random)
{
    static const uint32_t head_dims[] = {64, 80, 96, 128, 128, 192, 256};
    static const uint32_t page_sizes[] = {1, 16, 16, 32, 64, 64, 128};
    shape->k_format = (ftj_kv_format)check_random_below(random, 3);
    shape->v_format =
        draw_bit(random, 2) ? shape->k_format : (ftj_kv_format)check_random_below(random, 3);
    shape->order = (ftj_kv_order)check_random_below(random, 3);
    shape->table = (ftj_kv_table)check_random_below(random, 2);
    shape->dtype = draw_bit(random, 2) ? FTJ_DTYPE_FP16 : FTJ_DTYPE_BF16;
    shape->head_dim =
        draw_bit(random, 4) ? 16 * (2 + check_random_below(random, 31)) : PICK(random, head_dims);
    shape->page_size =
        draw_bit(random, 3) ? 1 + check_random_below(random, 200) : PICK(random, page_sizes);
    shape->num_kv_heads = 1 + check_random_below(random, draw_bit(random, 4) ? 8 : 3);
    shape->wide_strides = draw_bit(random, 3);
}

static void draw_attention(struct attention_shape *shape, struct check_random *random)
{
    static const uint32_t windows[] = {1, 2, 16, 17, 64, 130, INT32_MAX, UINT32_MAX};
    static const float scales[] = {0.05f, -0.07f, 1.0f, -0.5f};
    static const float caps[] = {1.0f, 15.0f, 50.0f};
    shape->group = 1 + check_random_below(random, draw_bit(random, 4) ? 64 : 8);
    if (draw_bit(random, 2))
        shape->window =
            draw_bit(random, 2) ? 1 + check_random_below(random, 300) : PICK(random, windows);
    if (draw_bit(random, 2))
        shape->max_blocks = 1 + check_random_below(random, 9);
    if (draw_bit(random, 2))
        shape->sm_scale = PICK(random, scales);
    if (draw_bit(random, 3))
        shape->softcap = PICK(random, caps);
    if (draw_bit(random, 4)) { /* queries of another size, and scores as ever */
        shape->q_log2 = draw_bit(random, 2) ? 10.0f : -10.0f;
        shape->sm_scale = exp2f(-shape->q_log2) / sqrtf((float)shape->head_dim);
    }
    shape->has_sinks = draw_bit(random, 3);
    shape->no_lse = draw_bit(random, 8);
}

/* As many queries as decode's kernels take of this group, or of a smaller one. */
static void draw_short_queries(struct extend_shape *shape, struct check_random *random)
{
    struct attention_shape *attention = &shape->attention;
    const ftj_kv_shape kv = {.k_format = attention->k_format,
                             .v_format = attention->v_format,
                             .head_dim = attention->head_dim};
    shape->short_queries = 2 + check_random_below(random, 7);
    while (!ftj_runs_pay(&kv, attention->group, shape->short_queries)) {
        if (shape->short_queries > 2)
            shape->short_queries--;
        else
            attention->group--;
    }
}

static struct extend_shape draw_shape(enum kind kind, struct check_random *random)
{
    struct extend_shape shape = {0};
    draw_cache(&shape.attention, random);
    draw_attention(&shape.attention, random);
    if (kind == SHORT)
        draw_short_queries(&shape, random);
    return shape;
}

/* Around a tile, a few, none, or many; all of a request's keys fit `most`. */
static uint32_t draw_length(struct check_random *random, uint32_t most)
{
    static const uint32_t edges[] = {0, 1, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129};
    const uint32_t length =
        draw_bit(random, 3) ? PICK(random, edges) : check_random_below(random, most + 1);
    return length < most ? length : most;
}

static uint32_t draw_queries(enum kind kind, const struct extend_shape *shape, uint32_t length,
                             struct check_random *random)
{
    if (kind == DECODE)
        return 1;
    if (kind == SHORT) /* now and then longer than was said */
        return check_random_below(random, shape->short_queries + (draw_bit(random, 8) ? 9 : 1));
    switch (check_random_below(random, 5)) {
    case 0:
        return length; /* all of it is new */
    case 1:
        return length / 2;
    case 2:
        return 1;
    default:
        return check_random_below(random, 40); /* more than there are keys, at times */
    }
}

/* A call's requests: ragged, fewer keys where queries are many and wide. */
static void draw_requests(enum kind kind, struct extend_shape *shape, struct check_random *random)
{
    struct attention_shape *attention = &shape->attention;
    const uint32_t token = attention->head_dim * attention->num_kv_heads * attention->group;
    uint32_t left = MAX_PRODUCTS / token; /* of a query and a key */
    attention->batch = 1 + check_random_below(random, draw_bit(random, 6) ? 40 : 6);
    shape->has_new = kind == EXTEND && draw_bit(random, 2);
    for (uint32_t r = 0; r < attention->batch; r++) {
        const uint32_t most = attention->batch > 6 ? 40 : 400;
        const uint32_t length = draw_length(random, most < left ? most : left);
        uint32_t queries = draw_queries(kind, shape, length, random);
        if (kind != DECODE && queries * length > left)
            queries = left / length;
        left -= queries * length;
        attention->lengths[r] = length;
        shape->q_lens[r] = queries;
    }
}

/* ---- the harness' rows ------------------------------------------------------------------------
 */

static uint64_t num_rows(const struct check_options *options)
{
    (void)options;
    return NUM_ROWS;
}

static uint64_t num_quick(const struct check_options *options)
{
    return options->kind == FTJ_DEVICE_CPU ? NUM_QUICK : NUM_ROWS / 3;
}

/* The descriptor of a row, which is known before its inputs are. */
static struct extend_shape shape_of(const struct check_row *row, enum kind kind)
{
    const uint64_t seed = row->options->seed + 1000; /* the row's own stream is of `seed` */
    struct check_random random = check_random_of(seed, row->test, row->index);
    return draw_shape(kind, &random);
}

static void describe(struct check_row *row, enum kind kind)
{
    const struct extend_shape shape = shape_of(row, kind);
    attention_shape_text(&shape.attention, row->shape, sizeof(row->shape));
    const size_t used = strlen(row->shape);
    if (kind == SHORT)
        snprintf(row->shape + used, sizeof(row->shape) - used, " %u queries", shape.short_queries);
}

static void *prepare(struct check_row *row, enum kind kind)
{
    struct drawn *drawn = check_alloc(sizeof(*drawn));
    struct extend_shape shape = shape_of(row, kind);
    for (int i = 0; i < NUM_CALLS; i++) {
        struct extend_case *c = &drawn->calls[i];
        draw_requests(kind, &shape, &row->random);
        if (kind != DECODE) {
            if (extend_case_init(c, row, &shape)) {
                extend_case_fill_random(c, &row->random);
                extend_case_solve(c);
            }
        } else if (attention_case_init(&c->attention, row, &shape.attention)) {
            attention_case_fill_random(&c->attention, &row->random);
            attention_case_solve(&c->attention);
        }
    }
    return drawn;
}

static void finish(void *prepared)
{
    struct drawn *drawn = prepared;
    for (int i = 0; i < NUM_CALLS; i++)
        extend_case_finish(&drawn->calls[i]);
    free(drawn);
}

static void run_decode(struct check_row *row, void *prepared)
{
    struct drawn *drawn = prepared;
    for (int i = 0; i < NUM_CALLS; i++) {
        const struct attention_case *c = &drawn->calls[i].attention;
        struct attention_device device = {0};
        struct attention_result result = {0};
        if (attention_device_init(&device, row, c) && attention_decode(&device, row, c, &result))
            attention_check(c, row, &result);
        attention_result_finish(&result);
        attention_device_finish(&device, row);
    }
}

static void run_extend(struct check_row *row, void *prepared)
{
    struct drawn *drawn = prepared;
    for (int i = 0; i < NUM_CALLS; i++) {
        struct extend_device device = {0};
        extend_case_check(&drawn->calls[i], row, &device);
        extend_device_finish(&device, row);
    }
}

static void describe_decode(struct check_row *row)
{
    describe(row, DECODE);
}

static void describe_extend(struct check_row *row)
{
    describe(row, EXTEND);
}

static void describe_short(struct check_row *row)
{
    describe(row, SHORT);
}

static void *prepare_decode(struct check_row *row)
{
    return prepare(row, DECODE);
}

static void *prepare_extend(struct check_row *row)
{
    return prepare(row, EXTEND);
}

static void *prepare_short(struct check_row *row)
{
    return prepare(row, SHORT);
}

const struct check_test check_drawn_decode_test = {
    .name = "random_decode",
    .op = FTJ_KERNEL_DECODE,
    .num_rows = num_rows,
    .num_quick = num_quick,
    .prepare = prepare_decode,
    .finish = finish,
    .run = run_decode,
    .describe = describe_decode,
    .rows_on_every_tier = 1,
};

const struct check_test check_drawn_extend_test = {
    .name = "random_extend",
    .op = FTJ_KERNEL_EXTEND,
    .num_rows = num_rows,
    .num_quick = num_quick,
    .prepare = prepare_extend,
    .finish = finish,
    .run = run_extend,
    .describe = describe_extend,
    .rows_on_every_tier = 1,
};

const struct check_test check_drawn_short_test = {
    .name = "random_short",
    .op = FTJ_KERNEL_DECODE,
    .num_rows = num_rows,
    .num_quick = num_quick,
    .prepare = prepare_short,
    .finish = finish,
    .run = run_extend,
    .describe = describe_short,
    .rows_on_every_tier = 1,
};
