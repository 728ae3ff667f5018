/* SPDX-License-Identifier: MIT */
/* Which kernels a call of a few queries goes to, with a fake driver and a fake compiler. */
#include <criterion/criterion.h>
#include <string.h>

#include "codegen/tune.h"
#include "fake_context.h"
#include "runtime/attention_state.h"
#include "templates/block/params.h"

#define BATCH 3

static struct fake_context fake;

static void set_up(void)
{
    fake_context_init(&fake);
}

static void tear_down(void)
{
    fake_context_finish(&fake);
}

TestSuite(short_runs, .init = set_up, .fini = tear_down);

static ftj_attention *create(uint32_t ops, uint32_t short_queries)
{
    const ftj_kv_shape shape = {
        .k_format = FTJ_KV_FP8, .num_kv_heads = 2, .head_dim = 128, .page_size = 64};
    ftj_attention_desc desc = {.ops = ops, .num_q_heads = 8, .short_queries = short_queries};
    ftj_attention *attn = NULL;
    cr_assert_eq(ftj_kv_layout_init(&desc.kv, &shape), FTJ_OK);
    cr_assert_eq(ftj_attention_create(fake.ctx, &desc, &attn), FTJ_OK, "%s", fake.catcher.last);
    return attn;
}

static ftj_extend_args args_of(const ftj_attention *attn, uint32_t num_queries)
{
    return (ftj_extend_args){
        .cache = {.packed = fake.memory, .num_pages = 1},
        .requests = {.batch = BATCH,
                     .lengths = fake.memory,
                     .block_table = fake.memory,
                     .block_table_stride = 1},
        .qo_indptr = fake.memory,
        .num_queries = num_queries,
        .q = fake.memory,
        .o = fake.memory,
        .workspace = fake.memory,
        .workspace_bytes = ftj_attention_workspace_bytes(attn),
    };
}

/* The parameters of the call's last launch, its combine, tell decode's kernels from extend's. */
static bool is_short(ftj_attention *attn, const ftj_extend_args *args)
{
    cr_assert_eq(ftj_attention_extend(attn, args, NULL), FTJ_OK, "%s", fake.catcher.last);
    return fake.last_launch()->params_bytes == sizeof(ftj_decode_params);
}

Test(short_runs, go_to_decodes_kernels)
{
    ftj_attention *attn = create(FTJ_OP_EXTEND, 4);
    ftj_extend_args args = args_of(attn, BATCH * 4);
    cr_expect(is_short(attn, &args));
    args.num_queries = 1;
    cr_expect(is_short(attn, &args));
    args.num_queries = 1000; /* spare rows, for nobody has more than four */
    args.max_queries = 4;
    cr_expect(is_short(attn, &args));

    ftj_decode_params params;
    memcpy(&params, fake.last_launch()->params, sizeof(params));
    cr_expect_eq(params.qo_indptr, (uintptr_t)fake.memory);
    cr_expect_eq(params.requests.batch, BATCH);
    cr_expect_eq(params.q_row_stride, 8 * 128);
    ftj_attention_destroy(attn);
}

Test(short_runs, longer_ones_and_keys_beside_the_cache_go_to_extends)
{
    ftj_attention *attn = create(FTJ_OP_EXTEND, 4);
    ftj_extend_args args = args_of(attn, BATCH * 4 + 1); /* somebody has five, or rows are spare */
    cr_expect_not(is_short(attn, &args));
    args = args_of(attn, BATCH);
    args.max_queries = 5;
    cr_expect_not(is_short(attn, &args));
    args = args_of(attn, BATCH);
    args.k_new = args.v_new = fake.memory;
    cr_expect_not(is_short(attn, &args));
    ftj_attention_destroy(attn);
}

Test(short_runs, are_extends_where_nothing_else_was_built)
{
    const uint32_t none[] = {0, 1, 64}; /* 64: 256 columns */
    for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++) {
        ftj_attention *attn = create(FTJ_OP_EXTEND, none[i]);
        const ftj_extend_args args = args_of(attn, BATCH);
        cr_expect_null(attn->kernels[FTJ_KERNEL_SHORT], "short_queries %u", none[i]);
        cr_expect_not(is_short(attn, &args), "short_queries %u", none[i]);
        ftj_attention_destroy(attn);
    }
    ftj_attention *decode = create(FTJ_OP_DECODE, 4);
    cr_expect_null(decode->kernels[FTJ_KERNEL_SHORT], "a decode has no runs");
    ftj_attention_destroy(decode);
}

Test(short_runs, have_room_in_the_workspace)
{
    ftj_attention *attn = create(FTJ_OP_EXTEND, 8);
    ftj_extend_args args = args_of(attn, BATCH);
    const size_t parts = (size_t)2 * attn->short_runs.blocks * attn->short_runs.unit_columns;
    cr_expect_eq(attn->short_runs.unit_columns, 32);
    cr_expect_geq(args.workspace_bytes, parts * (128 + 2) * sizeof(float));
    args.workspace_bytes = parts * 128 * sizeof(float);
    cr_expect_eq(ftj_attention_extend(attn, &args, NULL), FTJ_E_INVALID);
    ftj_attention_destroy(attn);
}

/* One request of 2 kv heads and 16 or 32 columns: a row a block or more, for all fit. Of many
 * requests blocks have more rows, and if they do not fit even so, take turns. */
Test(short_runs, have_a_combine_that_fits)
{
    static const struct {
        uint32_t queries, batch;
    } rows[] = {{4, 1}, {8, 1}, {4, 64}, {8, 64}, {8, 4096}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        ftj_attention *attn = create(FTJ_OP_EXTEND, rows[i].queries);
        ftj_extend_args args = args_of(attn, rows[i].queries * rows[i].batch);
        const struct ftj_decode_plan *plan = &attn->short_runs;
        ftj_decode_params params;
        args.requests.batch = rows[i].batch;
        cr_assert(is_short(attn, &args));
        memcpy(&params, fake.last_launch()->params, sizeof(params));
        const uint32_t most_units =
            2 * rows[i].batch < plan->blocks ? 2 * rows[i].batch : plan->blocks;
        const uint32_t blocks = params.combine_units * params.combine_chunks;
        cr_expect_leq(blocks, plan->combine_blocks, "row %zu: %u blocks", i, blocks);
        cr_expect_leq(params.combine_units, most_units, "row %zu", i);
        cr_expect_geq(params.combine_chunks * params.combine_rows, plan->unit_columns, "row %zu",
                      i);
        cr_expect_leq(params.combine_few_rows, plan->most_combine_rows, "row %zu", i);
        if (params.combine_units < most_units)
            cr_expect_gt(2 * params.combine_rows, plan->most_combine_rows, "row %zu", i);
        ftj_attention_destroy(attn);
    }
}

Test(short_runs, pay_up_to_a_number_of_columns)
{
    static const struct {
        ftj_kv_format v_format;
        uint32_t head_dim, group, queries;
        bool pays;
    } rows[] = {
        {FTJ_KV_16BIT, 128, 4, 1, false}, /* a decode */
        {FTJ_KV_16BIT, 128, 4, 2, true},  {FTJ_KV_16BIT, 128, 4, 8, true},
        {FTJ_KV_NVFP4, 128, 4, 8, true},  {FTJ_KV_NVFP4, 128, 4, 9, false},
        {FTJ_KV_FP8, 64, 8, 4, true},     {FTJ_KV_FP8, 64, 8, 5, false},
        {FTJ_KV_16BIT, 256, 8, 2, true},  {FTJ_KV_16BIT, 256, 8, 3, false}, /* two passes */
        {FTJ_KV_FP8, 256, 8, 4, true},    {FTJ_KV_FP8, 512, 8, 2, true},
        {FTJ_KV_FP8, 512, 8, 3, false}, /* three passes */
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const ftj_kv_shape shape = {.v_format = rows[i].v_format, .head_dim = rows[i].head_dim};
        cr_expect_eq(ftj_runs_pay(&shape, rows[i].group, rows[i].queries), rows[i].pays,
                     "row %zu: head_dim %u, group %u, %u queries", i, rows[i].head_dim,
                     rows[i].group, rows[i].queries);
    }
}

Test(short_runs, of_more_than_64_queries_are_refused)
{
    const ftj_kv_shape shape = {.num_kv_heads = 1, .head_dim = 64, .page_size = 16};
    ftj_attention_desc desc = {.ops = FTJ_OP_EXTEND, .short_queries = 65};
    ftj_attention *attn = NULL;
    cr_assert_eq(ftj_kv_layout_init(&desc.kv, &shape), FTJ_OK);
    cr_expect_eq(ftj_attention_create(fake.ctx, &desc, &attn), FTJ_E_INVALID);
    cr_expect_not_null(strstr(fake.catcher.last, "short_queries is 65"), "%s", fake.catcher.last);
}
