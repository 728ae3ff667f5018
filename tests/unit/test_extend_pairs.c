/* SPDX-License-Identifier: MIT */
/* When an extend is launched in pairs of blocks, with a fake driver and a fake compiler. */
#include <criterion/criterion.h>

#include "fake_context.h"
#include "runtime/attention_state.h"

#define BLOCKS 8u

static struct fake_context fake;

static void set_up(void)
{
    fake_context_init(&fake);
}

static void tear_down(void)
{
    fake_context_finish(&fake);
}

TestSuite(extend_pairs, .init = set_up, .fini = tear_down);

static ftj_attention *create_of(ftj_kv_format v_format, uint32_t head_dim, uint32_t max_blocks)
{
    ftj_attention *attn = NULL;
    ftj_attention_desc desc = {.ops = FTJ_OP_EXTEND, .num_q_heads = 8, .max_blocks = max_blocks};
    const ftj_kv_shape shape = {.k_format = FTJ_KV_FP8,
                                .v_format = v_format,
                                .num_kv_heads = 2,
                                .head_dim = head_dim,
                                .page_size = 64};
    cr_assert_eq(ftj_kv_layout_init(&desc.kv, &shape), FTJ_OK);
    cr_assert_eq(ftj_attention_create(fake.ctx, &desc, &attn), FTJ_OK, "%s", fake.catcher.last);
    return attn;
}

/* A query tile is 48 queries of 4 heads each. */
static ftj_attention *create(ftj_kv_format v_format, uint32_t max_blocks)
{
    return create_of(v_format, 128, max_blocks);
}

static bool is_in_pairs(ftj_attention *attn, uint32_t num_queries, uint32_t max_queries)
{
    const ftj_extend_args args = {
        .cache = {.packed = fake.memory, .num_pages = 7},
        .requests = {.batch = 3,
                     .lengths = fake.memory,
                     .block_table = fake.memory,
                     .block_table_stride = 1},
        .qo_indptr = fake.memory,
        .num_queries = num_queries,
        .max_queries = max_queries,
        .q = fake.memory,
        .o = fake.memory,
        .workspace = fake.memory,
        .workspace_bytes = ftj_attention_workspace_bytes(attn),
    };
    cr_assert_eq(ftj_attention_extend(attn, &args, NULL), FTJ_OK, "%s", fake.catcher.last);
    cr_expect_eq(fake.last_launch()->cluster_blocks, 1, "its combine is not");
    return fake.launch_before_last()->cluster_blocks == 2;
}

/* Eight blocks, two and a half rounds: twenty units, ten query tiles of two heads. */
Test(extend_pairs, are_launched_where_a_request_may_be_dealt_in_rounds)
{
    static const struct {
        uint32_t num_queries, max_queries;
        bool in_pairs;
    } rows[] = {
        {9 * 48, 0, false},    {9 * 48 + 1, 0, true},    {9 * 48 + 1, 9 * 48, false},
        {3000, 9 * 48, false}, {3000, 9 * 48 + 1, true}, {9 * 48, 9 * 48 + 1, false},
        {3000, 128, false},    {3000, 0, true},          {1, 0, false},
    };
    ftj_attention *attn = create(FTJ_KV_NVFP4, BLOCKS);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        cr_expect_eq(is_in_pairs(attn, rows[i].num_queries, rows[i].max_queries), rows[i].in_pairs,
                     "row %zu", i);
    ftj_attention_destroy(attn);
}

Test(extend_pairs, are_not_of_kernels_without)
{
    ftj_attention *attn = create(FTJ_KV_FP8, BLOCKS);
    cr_expect_not(is_in_pairs(attn, 100000, 0));
    ftj_attention_destroy(attn);
}

Test(extend_pairs, are_not_of_one_block)
{
    ftj_attention *attn = create(FTJ_KV_NVFP4, 1);
    cr_expect_not(is_in_pairs(attn, 100000, 0));
    ftj_attention_destroy(attn);
}

/* A part of a device may have no two SMs that are neighbours. */
Test(extend_pairs, are_not_where_no_two_blocks_reach_each_other)
{
    setenv("FAKE_CUDA_ODD_SMS", "132", 1);
    ftj_attention *attn = create(FTJ_KV_NVFP4, 0);
    cr_expect_not(is_in_pairs(attn, 100000, 0));
    ftj_attention_destroy(attn);
}

/* Behind any kernel: in pairs, alone, and by mma.sync. Those write what the combine of the call
 * before reads, and are launched in order. */
Test(extend_pairs, are_added_up_by_what_is_launched_before_they_have_ended)
{
    static const struct {
        ftj_kv_format v_format;
        uint32_t head_dim;
        bool in_pairs;
        uint32_t chunks; /* of the rows of a query tile, the last one shorter in the last row */
    } rows[] = {{FTJ_KV_NVFP4, 128, true, 192 / 16},
                {FTJ_KV_FP8, 128, false, 192 / 16},
                {FTJ_KV_FP8, 80, false, 128 / 24 + 1}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        ftj_attention *attn = create_of(rows[i].v_format, rows[i].head_dim, BLOCKS);
        cr_expect_eq(is_in_pairs(attn, 3000, 0), rows[i].in_pairs, "row %zu", i);
        cr_expect_not(fake.launch_before_last()->overlaps_previous, "row %zu", i);
        cr_expect(fake.last_launch()->overlaps_previous, "row %zu", i);
        cr_expect_eq(fake.last_launch()->num_blocks,
                     fake.launch_before_last()->num_blocks * rows[i].chunks, "row %zu: %u, %u", i,
                     fake.last_launch()->num_blocks, fake.launch_before_last()->num_blocks);
        ftj_attention_destroy(attn);
    }
}
