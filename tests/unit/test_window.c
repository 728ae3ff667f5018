/* SPDX-License-Identifier: MIT */
/* The window that kernels are told of, with a fake driver and a fake compiler. */
#include <criterion/criterion.h>
#include <string.h>

#include "fake_context.h"
#include "runtime/attention_state.h"
#include "templates/block/params.h"

static struct fake_context fake;

static void set_up(void)
{
    fake_context_init(&fake);
}

static void tear_down(void)
{
    fake_context_finish(&fake);
}

TestSuite(window, .init = set_up, .fini = tear_down);

static ftj_attention *create(uint32_t window)
{
    ftj_attention *attn = NULL;
    ftj_attention_desc desc = {
        .ops = FTJ_OP_DECODE | FTJ_OP_EXTEND | FTJ_OP_GENERIC, .num_q_heads = 8, .window = window};
    const ftj_kv_shape shape = {.num_kv_heads = 2, .head_dim = 128, .page_size = 64};
    cr_assert_eq(ftj_kv_layout_init(&desc.kv, &shape), FTJ_OK);
    cr_assert_eq(ftj_attention_create(fake.ctx, &desc, &attn), FTJ_OK, "%s", fake.catcher.last);
    return attn;
}

static ftj_requests requests(void)
{
    return (ftj_requests){
        .batch = 3, .lengths = fake.memory, .block_table = fake.memory, .block_table_stride = 1};
}

static uint32_t of_decode(ftj_attention *attn)
{
    const ftj_decode_args args = {
        .cache = {.packed = fake.memory, .num_pages = 7},
        .requests = requests(),
        .q = fake.memory,
        .o = fake.memory,
        .workspace = fake.memory,
        .workspace_bytes = ftj_attention_workspace_bytes(attn),
    };
    ftj_decode_params params;
    cr_assert_eq(ftj_attention_decode(attn, &args, NULL), FTJ_OK, "%s", fake.catcher.last);
    memcpy(&params, fake.last_launch()->params, sizeof(params));
    return params.requests.window;
}

static uint32_t of_extend(ftj_attention *attn)
{
    const ftj_extend_args args = {
        .cache = {.packed = fake.memory, .num_pages = 7},
        .requests = requests(),
        .qo_indptr = fake.memory,
        .num_queries = 100,
        .q = fake.memory,
        .o = fake.memory,
        .workspace = fake.memory,
        .workspace_bytes = ftj_attention_workspace_bytes(attn),
    };
    ftj_extend_params params;
    cr_assert_eq(ftj_attention_extend(attn, &args, NULL), FTJ_OK, "%s", fake.catcher.last);
    memcpy(&params, fake.last_launch()->params, sizeof(params));
    return params.requests.window;
}

static uint32_t of_generic(ftj_attention *attn)
{
    const ftj_generic_args args = {
        .cache = {.packed = fake.memory, .num_pages = 7},
        .requests = requests(),
        .q = fake.memory,
        .o = fake.memory,
        .num_queries = 3,
    };
    ftj_generic_params params;
    cr_assert_eq(ftj_attention_generic(attn, &args, NULL), FTJ_OK, "%s", fake.catcher.last);
    memcpy(&params, fake.last_launch()->params, sizeof(params));
    return params.requests.window;
}

/* Lengths are below 2^31. */
Test(window, that_no_length_exceeds_is_none)
{
    static const struct {
        uint32_t window, told;
    } rows[] = {
        {0, 0},
        {1, 1},
        {INT32_MAX - 1, INT32_MAX - 1},
        {INT32_MAX, 0},
        {(uint32_t)INT32_MAX + 1, 0},
        {UINT32_MAX, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        ftj_attention *attn = create(rows[i].window);
        cr_expect_eq(of_decode(attn), rows[i].told, "decode, row %zu", i);
        cr_expect_eq(of_extend(attn), rows[i].told, "extend, row %zu", i);
        cr_expect_eq(of_generic(attn), rows[i].told, "generic, row %zu", i);
        ftj_attention_destroy(attn);
    }
}
