/* SPDX-License-Identifier: MIT */
/* The window that kernels are told of, with a fake driver and a fake compiler. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "fake_gpu.h"
#include "ftjit/memory.h"
#include "runtime/attention_state.h"
#include "temp_dir.h"
#include "templates/block/params.h"
#include "tests/fake/fake_cuda.h"

static struct log_catcher catcher;
static char dir[256];
static ftj_context *ctx;
static void *memory; /* all pointers of all calls */
static const struct fake_launch *(*last_launch)(void);

static void set_up(void)
{
    temp_dir_init(dir);
    setenv("FAKE_CUDA_ARCH", "90", 1);
    setenv("FTJIT_CC", FTJIT_CC_PATH, 1);
    const ftj_settings settings = fake_gpu_settings(FAKE_CUDA_PATH, dir, &catcher);
    cr_assert_eq(ftj_context_create(&settings, &ctx), FTJ_OK, "%s", catcher.last);
    cr_assert_eq(ftj_memory_alloc(ctx, 65536, &memory), FTJ_OK, "%s", catcher.last);
    fake_gpu_find(FAKE_CUDA_PATH, "fake_cuda_last_launch", &last_launch);
}

static void tear_down(void)
{
    ftj_memory_free(ctx, memory);
    ftj_context_destroy(ctx);
    temp_dir_finish(dir);
}

TestSuite(window, .init = set_up, .fini = tear_down);

static ftj_attention *create(uint32_t window)
{
    ftj_attention *attn = NULL;
    ftj_attention_desc desc = {
        .ops = FTJ_OP_DECODE | FTJ_OP_EXTEND | FTJ_OP_GENERIC, .num_q_heads = 8, .window = window};
    const ftj_kv_shape shape = {.num_kv_heads = 2, .head_dim = 128, .page_size = 64};
    cr_assert_eq(ftj_kv_layout_init(&desc.kv, &shape), FTJ_OK);
    cr_assert_eq(ftj_attention_create(ctx, &desc, &attn), FTJ_OK, "%s", catcher.last);
    return attn;
}

static ftj_requests requests(void)
{
    return (ftj_requests){
        .batch = 3, .lengths = memory, .block_table = memory, .block_table_stride = 1};
}

static uint32_t of_decode(ftj_attention *attn)
{
    const ftj_decode_args args = {
        .cache = {.packed = memory, .num_pages = 7},
        .requests = requests(),
        .q = memory,
        .o = memory,
        .workspace = memory,
        .workspace_bytes = ftj_attention_workspace_bytes(attn),
    };
    ftj_decode_params params;
    cr_assert_eq(ftj_attention_decode(attn, &args, NULL), FTJ_OK, "%s", catcher.last);
    memcpy(&params, last_launch()->params, sizeof(params));
    return params.requests.window;
}

static uint32_t of_extend(ftj_attention *attn)
{
    const ftj_extend_args args = {
        .cache = {.packed = memory, .num_pages = 7},
        .requests = requests(),
        .qo_indptr = memory,
        .num_queries = 100,
        .q = memory,
        .o = memory,
        .workspace = memory,
        .workspace_bytes = ftj_attention_workspace_bytes(attn),
    };
    ftj_extend_params params;
    cr_assert_eq(ftj_attention_extend(attn, &args, NULL), FTJ_OK, "%s", catcher.last);
    memcpy(&params, last_launch()->params, sizeof(params));
    return params.requests.window;
}

static uint32_t of_generic(ftj_attention *attn)
{
    const ftj_generic_args args = {
        .cache = {.packed = memory, .num_pages = 7},
        .requests = requests(),
        .q = memory,
        .o = memory,
        .num_queries = 3,
    };
    ftj_generic_params params;
    cr_assert_eq(ftj_attention_generic(attn, &args, NULL), FTJ_OK, "%s", catcher.last);
    memcpy(&params, last_launch()->params, sizeof(params));
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
