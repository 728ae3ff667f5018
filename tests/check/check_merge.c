/* SPDX-License-Identifier: MIT */
/* ftj_state_merge against its formula, with empty states, states far apart, and in place. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ftjit/memory.h"
#include "tests/check/check_attention.h"
#include "tests/ref/ref_attention.h"

struct merge_shape {
    ftj_dtype dtype;
    uint32_t head_dim;
    uint32_t rows;
    bool in_place;
    bool no_lse;
};

static const struct merge_shape shapes[] = {
    /* the smallest */
    {FTJ_DTYPE_BF16, 32, 1, false, false},
    /* more rows than a block takes, in place */
    {FTJ_DTYPE_BF16, 128, 133, true, false},
    /* head_dims that are no power of two, without LSE */
    {FTJ_DTYPE_FP16, 80, 50, false, true},
    {FTJ_DTYPE_FP16, 96, 17, true, false},
    {FTJ_DTYPE_BF16, 192, 9, false, false},
    /* the widest */
    {FTJ_DTYPE_FP16, 512, 40, false, false},
    /* no work */
    {FTJ_DTYPE_BF16, 64, 0, false, false},
};

struct merge_buffers {
    struct check_buffer o_a, lse_a, o_b, lse_b, o, lse;
};

static uint64_t num_rows(const struct check_options *options)
{
    (void)options;
    return sizeof(shapes) / sizeof(*shapes);
}

static void describe(struct check_row *row)
{
    const struct merge_shape *shape = &shapes[row->index];
    snprintf(row->shape, sizeof(row->shape), "d%u %u rows %s%s%s", shape->head_dim, shape->rows,
             shape->dtype == FTJ_DTYPE_FP16 ? "fp16" : "bf16", shape->in_place ? " in place" : "",
             shape->no_lse ? " no lse" : "");
}

/* Row i is empty on neither side, a, b or both, in turn; else states lie up to 40 apart. */
static void fill(struct check_row *row, const struct merge_shape *shape, bool side_b, uint16_t *o,
                 float *lse)
{
    for (uint32_t i = 0; i < shape->rows; i++) {
        const bool empty = side_b ? i % 7 == 2 || i % 7 == 4 : i % 7 == 3 || i % 7 == 4;
        lse[i] = empty ? -INFINITY : check_random_uniform(&row->random, -20, 20);
        for (uint32_t d = 0; d < shape->head_dim; d++)
            o[i * shape->head_dim + d] =
                empty ? 0 : ref_16bit_narrow(shape->dtype, check_random_gaussian(&row->random));
    }
}

static void compare(struct check_row *row, const struct merge_shape *shape, const uint16_t *o_a,
                    const float *lse_a, const uint16_t *o_b, const float *lse_b,
                    const uint16_t *got, const float *got_lse)
{
    const double epsilon = shape->dtype == FTJ_DTYPE_FP16 ? 0x1p-10 : 0x1p-7;
    double a[REF_MAX_HEAD_DIM], b[REF_MAX_HEAD_DIM], exact[REF_MAX_HEAD_DIM], lse;
    for (uint32_t i = 0; i < shape->rows; i++) {
        for (uint32_t d = 0; d < shape->head_dim; d++) {
            a[d] = (double)ref_16bit_widen(shape->dtype, o_a[i * shape->head_dim + d]);
            b[d] = (double)ref_16bit_widen(shape->dtype, o_b[i * shape->head_dim + d]);
        }
        ref_state_merge(a, (double)lse_a[i], b, (double)lse_b[i], shape->head_dim, exact, &lse);
        for (uint32_t d = 0; d < shape->head_dim; d++) {
            const double value =
                (double)ref_16bit_widen(shape->dtype, got[i * shape->head_dim + d]);
            if (!(fabs(value - exact[d]) <= epsilon * fabs(exact[d]) + 1e-6))
                check_fail(row, "o[%u][%u]: got %.7g, exact %.7g", i, d, value, exact[d]);
        }
        if (shape->no_lse)
            continue;
        const double value = (double)got_lse[i];
        if (isinf(lse) ? value != lse : !(fabs(value - lse) <= 1e-5 * (1 + fabs(lse))))
            check_fail(row, "lse[%u]: got %.7g, exact %.7g", i, value, lse);
    }
}

static bool init_buffers(struct check_row *row, const struct merge_shape *shape,
                         struct merge_buffers *buffers, const uint16_t *o_a, const float *lse_a,
                         const uint16_t *o_b, const float *lse_b)
{
    const size_t o_bytes = (size_t)shape->rows * shape->head_dim * sizeof(uint16_t);
    const size_t lse_bytes = shape->rows * sizeof(float);
    return check_buffer_init_with(&buffers->o_a, row, "o_a", o_a, o_bytes) &&
           check_buffer_init_with(&buffers->lse_a, row, "lse_a", lse_a, lse_bytes) &&
           check_buffer_init_with(&buffers->o_b, row, "o_b", o_b, o_bytes) &&
           check_buffer_init_with(&buffers->lse_b, row, "lse_b", lse_b, lse_bytes) &&
           check_buffer_init(&buffers->o, row, "o", o_bytes) &&
           check_buffer_init(&buffers->lse, row, "lse", lse_bytes);
}

static ftj_status create(struct check_row *row, const struct merge_shape *shape,
                         ftj_attention **attn)
{
    ftj_attention_desc desc = {.ops = FTJ_OP_MERGE, .dtype = shape->dtype};
    const ftj_status status = ftj_kv_layout_init(
        &desc.kv, &(ftj_kv_shape){.num_kv_heads = 1, .head_dim = shape->head_dim, .page_size = 16});
    return status ? status : ftj_attention_create(row->ctx, &desc, attn);
}

/* Values are read in pairs, and rows are counted. */
static void refuse(struct check_row *row, ftj_attention *attn, const ftj_merge_args *good)
{
    ftj_merge_args bad[3] = {*good, *good, *good};
    bad[0].o_b = (const uint8_t *)good->o_b + 2;
    bad[1].o = (uint8_t *)good->o + 2;
    bad[2].rows = UINT64_MAX;
    check_refused(row, ftj_state_merge(attn, &bad[0], NULL), FTJ_E_INVALID, "o_b is|aligned to 4");
    check_refused(row, ftj_state_merge(attn, &bad[1], NULL), FTJ_E_INVALID, "o is|aligned to 4");
    check_refused(row, ftj_state_merge(attn, &bad[2], NULL), FTJ_E_INVALID, "rows is|2^40");
}

static void run(struct check_row *row, void *prepared)
{
    (void)prepared;
    const struct merge_shape *shape = &shapes[row->index];
    const size_t values = (size_t)shape->rows * shape->head_dim;
    struct merge_buffers buffers = {0};
    ftj_attention *attn = NULL;
    uint16_t *o_a = check_alloc(values * sizeof(*o_a));
    uint16_t *o_b = check_alloc(values * sizeof(*o_b));
    uint16_t *got = check_alloc(values * sizeof(*got));
    float *lse_a = check_alloc(shape->rows * sizeof(*lse_a));
    float *lse_b = check_alloc(shape->rows * sizeof(*lse_b));
    float *got_lse = check_alloc(shape->rows * sizeof(*got_lse));
    fill(row, shape, false, o_a, lse_a);
    fill(row, shape, true, o_b, lse_b);

    if (!check_ok(row, create(row, shape, &attn), "ftj_attention_create") ||
        !init_buffers(row, shape, &buffers, o_a, lse_a, o_b, lse_b))
        goto cleanup;
    const struct check_buffer *out = shape->in_place ? &buffers.o_a : &buffers.o;
    const struct check_buffer *out_lse = shape->in_place ? &buffers.lse_a : &buffers.lse;
    const ftj_merge_args args = {
        .o_a = buffers.o_a.device,
        .lse_a = buffers.lse_a.device,
        .o_b = buffers.o_b.device,
        .lse_b = buffers.lse_b.device,
        .o = out->device,
        .lse = shape->no_lse ? NULL : out_lse->device,
        .rows = shape->rows,
    };
    if (shape->rows > 0)
        refuse(row, attn, &args);
    if (check_ok(row, ftj_state_merge(attn, &args, NULL), "ftj_state_merge") &&
        check_ok(row, ftj_stream_synchronize(row->ctx, NULL), "ftj_stream_synchronize") &&
        check_buffer_read(out, row, got) && check_buffer_read(out_lse, row, got_lse))
        compare(row, shape, o_a, lse_a, o_b, lse_b, got, got_lse);

cleanup:
    check_buffer_finish(&buffers.o_a, row);
    check_buffer_finish(&buffers.lse_a, row);
    check_buffer_finish(&buffers.o_b, row);
    check_buffer_finish(&buffers.lse_b, row);
    check_buffer_finish(&buffers.o, row);
    check_buffer_finish(&buffers.lse, row);
    ftj_attention_destroy(attn);
    free(o_a);
    free(o_b);
    free(got);
    free(lse_a);
    free(lse_b);
    free(got_lse);
}

const struct check_test check_merge_test = {
    .name = "merge",
    .op = FTJ_KERNEL_MERGE,
    .num_rows = num_rows,
    .num_quick = num_rows,
    .run = run,
    .describe = describe,
};
