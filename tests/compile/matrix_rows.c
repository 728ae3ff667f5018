/* SPDX-License-Identifier: MIT */
/* The problems the compile matrix builds. */
#include "tests/compile/matrix_rows.h"

#include <stdio.h>

#include "codegen/problem.h"
#include "codegen/tune.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

enum { kv_heads = 2 };

/* Each row is here for a reason, and each kernel that once failed to compile adds a row. */
static const struct matrix_row chosen[] = {
    /* the shape that most models have, in every format */
    {FTJ_DTYPE_BF16, FTJ_KV_16BIT, FTJ_KV_16BIT, 128, 4, 64, FTJ_KV_PACKED, FTJ_TABLE_BLOCKS, 0, 0},
    {FTJ_DTYPE_BF16, FTJ_KV_FP8, FTJ_KV_FP8, 128, 4, 64, FTJ_KV_PACKED, FTJ_TABLE_BLOCKS, 0, 0},
    {FTJ_DTYPE_BF16, FTJ_KV_NVFP4, FTJ_KV_NVFP4, 128, 4, 64, FTJ_KV_PACKED, FTJ_TABLE_BLOCKS, 0, 0},
    {FTJ_DTYPE_BF16, FTJ_KV_FP8, FTJ_KV_NVFP4, 128, 4, 64, FTJ_KV_PACKED, FTJ_TABLE_BLOCKS, 0, 0},
    /* FreeToken's layout: slots of one token, heads innermost */
    {FTJ_DTYPE_FP16, FTJ_KV_16BIT, FTJ_KV_16BIT, 64, 8, 1, FTJ_KV_NHD, FTJ_TABLE_SLOTS, 0, 0},
    {FTJ_DTYPE_BF16, FTJ_KV_FP8, FTJ_KV_NVFP4, 256, 8, 1, FTJ_KV_NHD, FTJ_TABLE_SLOTS, 0, 0},
    /* a head_dim that is no power of two: tails of rows */
    {FTJ_DTYPE_BF16, FTJ_KV_FP8, FTJ_KV_FP8, 80, 8, 64, FTJ_KV_NHD, FTJ_TABLE_BLOCKS, 0, 0},
    {FTJ_DTYPE_FP16, FTJ_KV_NVFP4, FTJ_KV_NVFP4, 80, 4, 1, FTJ_KV_PACKED, FTJ_TABLE_SLOTS, 0, 0},
    /* three tiles of query heads: the most registers a usual group takes */
    {FTJ_DTYPE_BF16, FTJ_KV_16BIT, FTJ_KV_16BIT, 256, 24, 64, FTJ_KV_PACKED, FTJ_TABLE_BLOCKS, 0,
     0},
    {FTJ_DTYPE_FP16, FTJ_KV_NVFP4, FTJ_KV_NVFP4, 64, 24, 1, FTJ_KV_NHD, FTJ_TABLE_SLOTS, 30,
     FTJ_DTYPE_FP32},
    /* the widest head: the most shared memory */
    {FTJ_DTYPE_BF16, FTJ_KV_16BIT, FTJ_KV_16BIT, 512, 8, 64, FTJ_KV_NHD, FTJ_TABLE_BLOCKS, 0, 0},
    {FTJ_DTYPE_BF16, FTJ_KV_NVFP4, FTJ_KV_NVFP4, 512, 24, 64, FTJ_KV_PACKED, FTJ_TABLE_BLOCKS, 50,
     FTJ_DTYPE_FP32},
    /* kv heads side by side by bulk copies: records of a token; a group of two halves; Q in memory
     */
    {FTJ_DTYPE_BF16, FTJ_KV_NVFP4, FTJ_KV_NVFP4, 128, 4, 1, FTJ_KV_PACKED, FTJ_TABLE_BLOCKS, 0, 0},
    {FTJ_DTYPE_BF16, FTJ_KV_16BIT, FTJ_KV_16BIT, 128, 64, 64, FTJ_KV_HND, FTJ_TABLE_BLOCKS, 0, 0},
    {FTJ_DTYPE_BF16, FTJ_KV_NVFP4, FTJ_KV_NVFP4, 128, 16, 64, FTJ_KV_HND, FTJ_TABLE_BLOCKS, 0, 0},
};

static const struct {
    ftj_dtype dtype;
    ftj_kv_format k;
    ftj_kv_format v;
} formats[] = {
    {FTJ_DTYPE_BF16, FTJ_KV_16BIT, FTJ_KV_16BIT}, {FTJ_DTYPE_FP16, FTJ_KV_16BIT, FTJ_KV_16BIT},
    {FTJ_DTYPE_BF16, FTJ_KV_FP8, FTJ_KV_FP8},     {FTJ_DTYPE_BF16, FTJ_KV_NVFP4, FTJ_KV_NVFP4},
    {FTJ_DTYPE_BF16, FTJ_KV_FP8, FTJ_KV_NVFP4},
};
static const uint32_t head_dims[] = {64, 80, 128, 256, 512};
static const uint32_t groups[] = {4, 8, 24};
static const uint32_t page_sizes[] = {1, 64};
static const ftj_kv_order orders[] = {FTJ_KV_PACKED, FTJ_KV_NHD};
static const ftj_kv_table tables[] = {FTJ_TABLE_BLOCKS, FTJ_TABLE_SLOTS};

size_t matrix_num_rows(bool all)
{
    if (!all)
        return COUNT(chosen);
    return COUNT(formats) * COUNT(head_dims) * COUNT(groups) * COUNT(page_sizes) * COUNT(orders) *
           COUNT(tables);
}

/* The next digit of a number whose digits have the bases of the lists. */
static size_t digit(size_t *number, size_t base)
{
    const size_t value = *number % base;
    *number /= base;
    return value;
}

struct matrix_row matrix_row_at(bool all, size_t index)
{
    if (!all)
        return chosen[index];
    const size_t format = digit(&index, COUNT(formats));
    struct matrix_row row = {
        .dtype = formats[format].dtype,
        .k_format = formats[format].k,
        .v_format = formats[format].v,
    };
    row.head_dim = head_dims[digit(&index, COUNT(head_dims))];
    row.group = groups[digit(&index, COUNT(groups))];
    row.page_size = page_sizes[digit(&index, COUNT(page_sizes))];
    row.order = orders[digit(&index, COUNT(orders))];
    row.table = tables[digit(&index, COUNT(tables))];
    return row;
}

/* As many as decode's kernels take, up to 8: the most registers. */
static uint32_t short_queries(const struct matrix_row *row)
{
    const ftj_kv_shape shape = {
        .k_format = row->k_format, .v_format = row->v_format, .head_dim = row->head_dim};
    uint32_t queries = 8;
    while (queries > 1 && !ftj_runs_pay(&shape, row->group, queries))
        queries--;
    return queries;
}

ftj_status matrix_row_desc(const struct matrix_row *row, ftj_attention_desc *desc)
{
    const ftj_kv_shape shape = {
        .k_format = row->k_format,
        .v_format = row->v_format,
        .order = row->order,
        .num_kv_heads = kv_heads,
        .head_dim = row->head_dim,
        .page_size = row->page_size,
    };
    *desc = (ftj_attention_desc){
        .ops = FTJ_OP_STORE | FTJ_OP_DECODE | FTJ_OP_MERGE | FTJ_OP_GENERIC | FTJ_OP_EXTEND,
        .short_queries = short_queries(row),
        .table = row->table,
        .num_q_heads = kv_heads * row->group,
        .dtype = row->dtype,
        .softcap = row->softcap,
        .store_dtype = row->io_dtype,
        .generic_dtype = row->io_dtype,
    };
    const ftj_status status = ftj_kv_layout_init(&desc->kv, &shape);
    if (status)
        return status;
    return ftj_desc_check(desc, NULL);
}

void matrix_row_text(const struct matrix_row *row, char *text, size_t size)
{
    snprintf(text, size, "%s+%s %s d%u g%u p%u %s %s%s", ftj_kv_format_name(row->k_format),
             ftj_kv_format_name(row->v_format), row->dtype == FTJ_DTYPE_FP16 ? "fp16" : "bf16",
             row->head_dim, row->group, row->page_size, ftj_kv_order_name(row->order),
             row->table == FTJ_TABLE_SLOTS ? "slots" : "blocks",
             row->softcap > 0 ? " softcap" : "");
}
