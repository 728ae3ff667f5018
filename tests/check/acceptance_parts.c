/* SPDX-License-Identifier: MIT */
/* What the weights of the parts of a cut unit are relative to, over codes on Hopper: seen in the
 * partial results that blocks leave in the workspace. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/attention_state.h"
#include "runtime/workspace.h"
#include "tests/check/acceptance.h"
#include "tests/check/check_extend.h"

#define VARIANT "attn_extend_sm90"
#define TOKENS  64u /* of a tile of keys */
#define LOG2E   1.44269504f

/* Of a token, log2. */
typedef float token_logit(uint32_t token);

/* What a block tells of a unit that it leaves to others (block/query_tile.cuh). */
struct split {
    uint32_t first_query, first_row, end_row, head, slot, parts, unused[2];
};
struct state {
    float max, sum;
};
typedef void check_state(struct check_row *row, struct state state);

static void fill_logits(struct extend_case *c, struct check_row *row, token_logit *logit)
{
    const struct attention_shape *shape = &c->shape.attention;
    float k[REF_MAX_HEAD_DIM], v[REF_MAX_HEAD_DIM];
    extend_case_fill_random(c, &row->random);
    for (uint32_t t = extend_case_first(c, 0); t < shape->lengths[0]; t++) {
        attention_random_row(&row->random, shape->head_dim, -1, 1, v);
        for (uint32_t d = 0; d < shape->head_dim; d++)
            k[d] = logit(t) / LOG2E / (float)shape->head_dim;
        extend_case_put(c, 0, t, 0, k, v);
    }
    const size_t row_values = (size_t)c->attention.num_q_heads * shape->head_dim;
    const size_t end = (size_t)c->qo_indptr[1] * row_values;
    for (size_t i = (size_t)c->qo_indptr[0] * row_values; i < end; i++)
        c->q[i] = ref_bf16_narrow(1);
}

/* Of the parts after the first of every unit, rows with some weight. How many those are. */
static uint32_t check_parts(const unsigned char *workspace, const struct ftj_attention *attn,
                            struct check_row *row, check_state *check)
{
    const struct ftj_extend_workspace plan = ftj_extend_workspace_plan(attn);
    uint32_t count = 0;
    for (size_t block = 0; plan.splits + (block + 1) * sizeof(struct split) <= plan.bytes;
         block++) {
        struct split split;
        memcpy(&split, workspace + plan.splits + block * sizeof(split), sizeof(split));
        if (split.parts == UINT32_MAX) /* nobody's: poison */
            continue;
        for (uint32_t i = 1; i < split.parts; i++) {
            for (uint32_t r = 0; r < split.end_row - split.first_row; r++) {
                const size_t at = 2 * (block + i) * attn->extend_rows + r;
                struct state state;
                memcpy(&state, workspace + plan.partial_state + at * sizeof(state), sizeof(state));
                if (state.sum == 0)
                    continue;
                check(row, state);
                count++;
            }
        }
    }
    return count;
}

/* One request of a few query tiles, which is cut; its results, and what its parts have left. */
static void check_logits(struct check_row *row, const struct extend_shape *shape,
                         token_logit *logit, check_state *check)
{
    struct extend_case c = {0};
    struct extend_device device = {0};
    struct extend_result result = {0};
    if (extend_case_init(&c, row, shape)) {
        fill_logits(&c, row, logit);
        const struct ftj_attention *attn = NULL;
        if (extend_device_init(&device, row, &c))
            attn = device.attention.attn;
        if (attn && strcmp(attn->kernels[FTJ_KERNEL_EXTEND]->variant->name, VARIANT) == 0 &&
            extend_run(&device, row, &c, &result)) {
            extend_case_solve(&c);
            extend_check(&c, row, &result);
            unsigned char *workspace = check_alloc(device.attention.workspace.bytes);
            if (check && check_buffer_read(&device.attention.workspace, row, workspace) &&
                check_parts(workspace, attn, row, check) == 0)
                check_fail(row, "no part of a unit begins past its first key");
            free(workspace);
        }
    }
    extend_result_finish(&result);
    extend_device_finish(&device, row);
    extend_case_finish(&c);
}

static struct extend_shape shape_of(ftj_kv_format format, uint32_t length)
{
    struct extend_shape shape = {.attention = acceptance_small_shape(format, length),
                                 .q_lens = {130}};
    shape.attention.head_dim = 128;
    shape.attention.page_size = TOKENS;
    shape.attention.group = 2;
    shape.attention.sm_scale = 1;
    return shape;
}

/* What a part is relative to, but for whole powers of two: what brought its sum near 1, and V's
 * unit. */
static void expect_reference(struct check_row *row, struct state state, float logit,
                             const char *what)
{
    const float above = state.max - logit;
    if (!(fabsf(above - roundf(above)) < 0.0625f))
        check_fail(row, "a part is relative to 2^%g, not to %s", (double)state.max, what);
}

/* The first tile is told by its fraction from all others, which some weights of fp16 would hold
 * relative to it, and not all relative to each other. */
static float apart_from_first(uint32_t token)
{
    const uint32_t tile = token / TOKENS;
    return tile == 0 ? 20.25f : tile % 2 ? 24.75f : 10.0f;
}
static void expect_first(struct check_row *row, struct state state)
{
    expect_reference(row, state, 20.25f, "the first keys of the request");
}

/* As the dot product of a query of ones and a new row has it, which is bf16. */
static bool is_of_new_rows(struct state state, float logit)
{
    const float element = ref_bf16_widen(ref_bf16_narrow(logit / LOG2E / 128));
    return fabsf(state.max - element * LOG2E * 128) < 0.001f;
}
/* With new rows, a part may begin among those. Their weights are bf16, whose range is enough: it is
 * relative to its own first tile. Where cuts fall depends on the number of blocks. */
static void expect_first_or_new(struct check_row *row, struct state state)
{
    if (!is_of_new_rows(state, 10.0f) && !is_of_new_rows(state, 24.75f))
        expect_first(row, state);
}

/* Every other tile is 2^10.5 times the one before it: what fp16 still holds, relative to that. */
static float odd_above_even(uint32_t token)
{
    return token / TOKENS % 2 ? 14.5f : 4.0f;
}
static float even_above_odd(uint32_t token)
{
    return odd_above_even(token + TOKENS);
}
static void expect_largest(struct check_row *row, struct state state)
{
    const bool sees_large = state.max + log2f(state.sum) > 14.0f;
    expect_reference(row, state, sees_large ? 14.5f : 4.0f, "the largest of its own, by a window");
}

void acceptance_extend_of_parts(struct check_row *row)
{
    for (int i = 0; i < 4; i++) {
        struct extend_shape shape = shape_of(i % 2 ? FTJ_KV_NVFP4 : FTJ_KV_FP8, 1000);
        shape.has_new = i / 2;
        check_logits(row, &shape, apart_from_first,
                     shape.has_new ? expect_first_or_new : expect_first);
        shape.has_new = false;
        shape.attention.window = 600;
        check_logits(row, &shape, i / 2 ? odd_above_even : even_above_odd, expect_largest);
    }
}

/* Of the keys that parts are relative to some are 63 nats above all others, or all are as far below
 * them: weights of nothing, and weights past every sum. Those are keys whose row scale is a number
 * of few digits, as a kernel may round it. */
static float sink(uint32_t token)
{
    return token < 3 ? 63 * LOG2E : (float)(token % 4);
}
static float pit(uint32_t token)
{
    return token < TOKENS ? -63 * LOG2E : (float)(token % 4);
}
/* Of the others fp16 has but the last digits of the weights. */
static float small_sink(uint32_t token)
{
    return token < 3 ? 15.75f * LOG2E : (float)(token % 4);
}

void acceptance_extend_of_sinks(struct check_row *row)
{
    static token_logit *const logits[] = {sink, pit, small_sink};
    for (int i = 0; i < 12; i++) {
        struct extend_shape shape = shape_of(i % 2 ? FTJ_KV_NVFP4 : FTJ_KV_FP8, 900);
        shape.has_new = i / 2 % 2;
        shape.attention.has_sinks = i % 3 == 1;
        check_logits(row, &shape, logits[i / 4], NULL);
    }
}
