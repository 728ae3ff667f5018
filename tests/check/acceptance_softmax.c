/* SPDX-License-Identifier: MIT */
/* What the weights of an extend are relative to: logits that leave a float's range, and rows of one
 * warp that see their first keys in different tiles. And queries that another type could not hold.
 */
#include <math.h>
#include <string.h>

#include "runtime/attention_state.h"
#include "tests/check/acceptance.h"
#include "tests/check/check_extend.h"

typedef void fill_case(struct extend_case *c, struct check_row *row);

static const ftj_kv_format formats[3] = {FTJ_KV_16BIT, FTJ_KV_FP8, FTJ_KV_NVFP4};

static void fill_random(struct extend_case *c, struct check_row *row)
{
    extend_case_fill_random(c, &row->random);
}

/* By a kernel of this variant only, where one is named. */
static void check_filled(struct check_row *row, struct extend_case *c, const char *variant)
{
    struct extend_device device = {0};
    struct extend_result result = {0};
    extend_case_solve(c);
    if (extend_device_init(&device, row, c)) {
        const struct ftj_kernel *extend = device.attention.attn->kernels[FTJ_KERNEL_EXTEND];
        if ((!variant || strcmp(extend->variant->name, variant) == 0) &&
            extend_run(&device, row, c, &result))
            extend_check(c, row, &result);
    }
    extend_result_finish(&result);
    extend_device_finish(&device, row);
}

static void check_extend(struct check_row *row, const struct extend_shape *shape, fill_case *fill)
{
    struct extend_case c = {0};
    if (extend_case_init(&c, row, shape)) {
        fill(&c, row);
        check_filled(row, &c, NULL);
    }
    extend_case_finish(&c);
}

/* Of standard deviation 60 and more: whatever a kernel subtracts from a tile's scores is wrong for
 * the next tile's, by far more than an exponent holds. */
void acceptance_extend_of_large_logits(struct check_row *row)
{
    for (int i = 0; i < 6; i++) {
        struct extend_shape shape = {.attention = acceptance_small_shape(formats[i / 2], 700),
                                     .q_lens = {150}};
        shape.attention.head_dim = 128;
        shape.attention.group = 2;
        shape.attention.sm_scale = i % 2 ? -5.0f : 5.0f;
        shape.has_new = i >= 3;
        check_extend(row, &shape, fill_random);
    }
}

/* Keys whose scores rise by e^3.6 from one to the next: a tile's are past every sum of those before
 * it, whatever they were taken relative to. A second request of ordinary ones, in the same blocks.
 */
static void fill_rising(struct extend_case *c, struct check_row *row)
{
    const struct attention_shape *shape = &c->shape.attention;
    float k[REF_MAX_HEAD_DIM], v[REF_MAX_HEAD_DIM];
    extend_case_fill_random(c, &row->random);
    for (uint32_t t = 0; t < shape->lengths[0]; t++) {
        for (uint32_t d = 0; d < shape->head_dim; d++) {
            k[d] = 4.0f * (float)t / (float)shape->lengths[0];
            v[d] = (float)((int)((t * 7 + d * 3) % 31) - 15) / 8.0f;
        }
        for (uint32_t h = 0; h < shape->num_kv_heads; h++)
            extend_case_put(c, 0, t, h, k, v);
    }
    const size_t row_values = (size_t)c->attention.num_q_heads * shape->head_dim;
    const size_t end = (size_t)c->qo_indptr[1] * row_values;
    for (size_t i = (size_t)c->qo_indptr[0] * row_values; i < end; i++)
        c->q[i] = ref_bf16_narrow(1);
}

void acceptance_extend_of_rising_logits(struct check_row *row)
{
    static const uint32_t head_dims[3] = {64, 128, 256};
    for (int i = 0; i < 9; i++) {
        const uint32_t head_dim = head_dims[i / 3];
        struct extend_shape shape = {.attention = acceptance_small_shape(formats[i % 3], 700),
                                     .q_lens = {290, 200}};
        shape.attention.batch = 2;
        shape.attention.lengths[1] = 300;
        shape.attention.head_dim = head_dim;
        shape.attention.group = 2;
        shape.attention.sm_scale = 640.0f / (float)head_dim;
        check_extend(row, &shape, fill_rising);
    }
}

/* A window whose beginning crosses into the next tile of keys between two queries of a warp's 16
 * rows, for every place in them: of a warp's rows some then see no key of their first tile. */
void acceptance_extend_of_staggered_windows(struct check_row *row)
{
    for (int i = 0; i < 12; i++) {
        struct extend_shape shape = {.attention = acceptance_small_shape(formats[i % 3], 400),
                                     .q_lens = {300}};
        shape.attention.head_dim = 128;
        shape.attention.group = 1u << i / 3 % 2;
        shape.attention.window = i < 6 ? 97 : 130;
        shape.attention.has_sinks = i % 2;
        check_extend(row, &shape, fill_random);
    }
}

/* Queries of one tile times powers of two, some of them nothing, with logits as ever: over codes a
 * kernel may not have them in a type of less range, nor take one row by another's measure. */
static void scale_queries(struct extend_case *c, const int *powers)
{
    const size_t row_values = (size_t)c->attention.num_q_heads * c->shape.attention.head_dim;
    for (size_t q = (size_t)c->qo_indptr[0]; q < (size_t)c->qo_indptr[1]; q++) {
        const double factor = q % 11 == 5 ? 0 : ldexp(1, powers[q % 4]);
        for (size_t i = q * row_values; i < (q + 1) * row_values; i++)
            c->q[i] = ref_bf16_narrow((float)(ref_bf16_widen(c->q[i]) * factor));
    }
}

static void fill_small(struct extend_case *c, struct check_row *row)
{
    extend_case_fill_random(c, &row->random);
    scale_queries(c, (const int[4]){-30, -31, -9, -29});
}

static void fill_large(struct extend_case *c, struct check_row *row)
{
    extend_case_fill_random(c, &row->random);
    scale_queries(c, (const int[4]){50, 49, 48, 51});
}

static void fill_mixed(struct extend_case *c, struct check_row *row)
{
    extend_case_fill_random(c, &row->random);
    scale_queries(c, (const int[4]){0, 10, -9, 1});
}

void acceptance_extend_of_any_queries(struct check_row *row)
{
    static const uint32_t head_dims[3] = {128, 64, 256};
    static const struct {
        fill_case *fill;
        float sm_scale;
    } cases[3] = {{fill_small, 0x1p27f}, {fill_large, 0x1p-53f}, {fill_mixed, 0.09f}};
    for (int i = 0; i < 18; i++) {
        struct extend_shape shape = {.attention = acceptance_small_shape(formats[1 + i % 2], 300),
                                     .q_lens = {110}};
        shape.attention.head_dim = head_dims[i / 6];
        shape.attention.group = 2;
        shape.attention.sm_scale = cases[i / 2 % 3].sm_scale;
        shape.has_new = i % 2;
        check_extend(row, &shape, cases[i / 2 % 3].fill);
        shape.has_new = !shape.has_new;
        check_extend(row, &shape, cases[i / 2 % 3].fill);
    }
}

/* What a token is in a request of values of any size: a logit, and V times a power of two. */
struct token_kind {
    float logit;
    int power;
};
typedef struct token_kind token_kinds(uint32_t token);

/* Large rows among the others in every tile, in which nobody sees them for their logits. */
static struct token_kind hidden_large(uint32_t token)
{
    return token % 7 == 3 ? (struct token_kind){-160, 30} : (struct token_kind){0, 0};
}

/* Tiles that contribute as much as each other, by weight or by size: 2^50 are 34.66 in a logit. */
static struct token_kind tiles_apart(uint32_t token)
{
    return token / 64 % 2 ? (struct token_kind){-34.5f, 50} : (struct token_kind){0, 0};
}

/* So far apart that of the small ones nothing but their weights is left. */
static struct token_kind tiles_far_apart(uint32_t token)
{
    return (struct token_kind){0, token / 64 % 3 ? -16 : 112};
}

static struct token_kind all_large(uint32_t token)
{
    return (struct token_kind){(float)(token % 5), 66 + (int)(token % 3)};
}

/* Rows of nothing, which have a scale all the same. */
static struct token_kind some_nothing(uint32_t token)
{
    return (struct token_kind){(float)(token % 3), token % 4 ? 0 : -200};
}

/* Weights past every sum, of values that are the smaller for it. */
static struct token_kind rising_and_falling(uint32_t token)
{
    return (struct token_kind){(float)(token / 4 * 4), 48 - 4 * (int)(token / 64)};
}

static void fill_kinds(struct extend_case *c, struct check_row *row, token_kinds *kind_of)
{
    const struct attention_shape *shape = &c->shape.attention;
    float k[REF_MAX_HEAD_DIM], v[REF_MAX_HEAD_DIM];
    extend_case_fill_random(c, &row->random);
    for (uint32_t t = 0; t < shape->lengths[0]; t++) {
        const struct token_kind kind = kind_of(t);
        attention_random_row(&row->random, shape->head_dim, -1, 1, v);
        for (uint32_t d = 0; d < shape->head_dim; d++) {
            k[d] = kind.logit / (float)shape->head_dim;
            v[d] = ldexpf(v[d], kind.power);
        }
        extend_case_put(c, 0, t, 0, k, v);
    }
    const size_t row_values = (size_t)c->attention.num_q_heads * shape->head_dim;
    const size_t end = (size_t)c->qo_indptr[1] * row_values;
    for (size_t i = (size_t)c->qo_indptr[0] * row_values; i < end; i++)
        c->q[i] = ref_bf16_narrow(1);
}

/* Over codes a kernel may have V in a type of less range than bf16, or add up weights that have
 * something of V's size in them. Those that put V's row scales on weights of fp16 lose what is 2^30
 * below another. */
void acceptance_extend_of_any_values(struct check_row *row)
{
    static token_kinds *const kinds[] = {hidden_large, tiles_apart,  tiles_far_apart,
                                         all_large,    some_nothing, rising_and_falling};
    for (int i = 0; i < 12; i++) {
        const char *variant = i < 6 ? "attn_extend_sm90" : NULL;
        struct extend_shape shape = {.attention = acceptance_small_shape(formats[1 + i % 2], 500),
                                     .q_lens = {130}};
        shape.attention.head_dim = 128;
        shape.attention.group = 2;
        shape.attention.sm_scale = 1;
        shape.has_new = i / 2 % 2;
        struct extend_case c = {0};
        if (extend_case_init(&c, row, &shape)) {
            fill_kinds(&c, row, kinds[i / 2]);
            check_filled(row, &c, variant);
        }
        extend_case_finish(&c);
    }
}
