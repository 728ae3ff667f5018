/* SPDX-License-Identifier: MIT */
/* What an extend tells the copy engine of the caller's memory, with a fake driver, whose maps are
 * the tensors that were described, and a fake compiler. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "fake_gpu.h"
#include "ftjit/memory.h"
#include "library_copy.h"
#include "runtime/attention_state.h"
#include "temp_dir.h"
#include "templates/block/params.h"
#include "tests/fake/fake_cuda.h"

#define BATCH 3

static struct log_catcher catcher;
static char dir[256];

struct session {
    ftj_context *ctx;
    ftj_attention *attn;
    unsigned char *memory; /* all pointers of all calls */
    const struct fake_launch *(*last_launch)(void);
};

static void set_up(void)
{
    temp_dir_init(dir);
    setenv("FAKE_CUDA_ARCH", "90", 1);
    setenv("FTJIT_CC", FTJIT_CC_PATH, 1);
}

static void tear_down(void)
{
    temp_dir_finish(dir);
}

TestSuite(extend_tensors, .init = set_up, .fini = tear_down);

static struct session open_session(const char *driver, const ftj_kv_shape *shape,
                                   uint32_t short_queries)
{
    struct session session = {0};
    void *memory;
    const ftj_settings settings = fake_gpu_settings(driver, dir, &catcher);
    ftj_attention_desc desc = {
        .ops = FTJ_OP_EXTEND, .num_q_heads = 8, .short_queries = short_queries};
    cr_assert_eq(ftj_context_create(&settings, &session.ctx), FTJ_OK, "%s", catcher.last);
    cr_assert_eq(ftj_memory_alloc(session.ctx, 65536, &memory), FTJ_OK, "%s", catcher.last);
    session.memory = memory;
    cr_assert_eq(ftj_kv_layout_init(&desc.kv, shape), FTJ_OK);
    cr_assert_eq(ftj_attention_create(session.ctx, &desc, &session.attn), FTJ_OK, "%s",
                 catcher.last);
    fake_gpu_find(driver, "fake_cuda_last_launch", &session.last_launch);
    return session;
}

static void close_session(struct session *session)
{
    ftj_memory_free(session->ctx, session->memory);
    ftj_attention_destroy(session->attn);
    ftj_context_destroy(session->ctx);
}

static ftj_extend_args args_of(const struct session *session)
{
    unsigned char *memory = session->memory;
    return (ftj_extend_args){
        .cache = {.packed = memory + 1024, .num_pages = 7},
        .requests = {.batch = BATCH,
                     .lengths = (const int32_t *)(void *)memory,
                     .block_table = (const int32_t *)(void *)memory,
                     .block_table_stride = 1},
        .qo_indptr = (const int32_t *)(void *)memory,
        .num_queries = 100,
        .q = memory,
        .o = memory,
        .workspace = memory,
        .workspace_bytes = ftj_attention_workspace_bytes(session->attn),
    };
}

static ftj_tensor tensor_of(const ftj_tensor_map *map)
{
    ftj_tensor tensor;
    memcpy(&tensor, map, sizeof(tensor));
    return tensor;
}

static void expect_tensor(const ftj_tensor *got, const ftj_tensor *right)
{
    cr_expect_eq(got->base, right->base);
    for (int i = 0; i < 3; i++)
        cr_expect_eq(got->strides[i], right->strides[i], "stride %d: %llu, not %llu", i,
                     (unsigned long long)got->strides[i], (unsigned long long)right->strides[i]);
    cr_expect_eq(got->dims, right->dims);
    cr_expect_eq(got->slots, right->slots);
    cr_expect_eq(got->heads, right->heads);
    cr_expect_eq(got->pages, right->pages);
    cr_expect_eq(got->box_dims, right->box_dims);
    cr_expect_eq(got->box_slots, right->box_slots);
}

Test(extend_tensors, describe_the_cache_and_the_rows_beside_it)
{
    const ftj_kv_shape shape = {.num_kv_heads = 2, .head_dim = 128, .page_size = 64};
    struct session session = open_session(FAKE_CUDA_PATH, &shape, 0);
    ftj_extend_args args = args_of(&session);
    args.k_new = session.memory + 4096;
    args.v_new = session.memory + 8192;
    args.k_new_token_stride = 640;
    args.k_new_head_stride = 136;
    cr_assert_eq(ftj_attention_extend(session.attn, &args, NULL), FTJ_OK, "%s", catcher.last);
    ftj_extend_params params;
    memcpy(&params, session.last_launch()->params, sizeof(params));

    const uint64_t rows = 64 * 256; /* of a page and head, K or V */
    const ftj_tensor k = {.base = (uintptr_t)(session.memory + 1024),
                          .strides = {256, 2 * rows, 4 * rows},
                          .dims = 128,
                          .slots = 64,
                          .heads = 2,
                          .pages = 7,
                          .box_dims = 64,
                          .box_slots = 64};
    ftj_tensor right = k;
    ftj_tensor got = tensor_of(&params.k_tensor);
    expect_tensor(&got, &right);
    right.base += rows;
    got = tensor_of(&params.v_tensor);
    expect_tensor(&got, &right);

    right.base = (uintptr_t)args.k_new;
    right.slots = 100;
    right.pages = 1;
    right.strides[0] = 1280;
    right.strides[1] = 272;
    right.strides[2] = 1280;
    got = tensor_of(&params.k_new_tensor);
    expect_tensor(&got, &right);
    right.base = (uintptr_t)args.v_new;
    right.strides[0] = 512; /* dense */
    right.strides[1] = 256;
    right.strides[2] = 512;
    got = tensor_of(&params.v_new_tensor);
    expect_tensor(&got, &right);
    close_session(&session);
}

/* Of a cache of codes nothing is described, but the rows beside it, by whole tiles. */
Test(extend_tensors, describe_the_rows_beside_codes)
{
    const ftj_kv_shape shape = {.k_format = FTJ_KV_FP8,
                                .v_format = FTJ_KV_NVFP4,
                                .num_kv_heads = 2,
                                .head_dim = 128,
                                .page_size = 8};
    struct session session = open_session(FAKE_CUDA_PATH, &shape, 0);
    ftj_extend_args args = args_of(&session);
    args.k_new = session.memory + 4096;
    args.v_new = session.memory + 8192;
    cr_assert_eq(ftj_attention_extend(session.attn, &args, NULL), FTJ_OK, "%s", catcher.last);
    ftj_extend_params params;
    memcpy(&params, session.last_launch()->params, sizeof(params));

    ftj_tensor right = {.base = (uintptr_t)args.k_new,
                        .strides = {512, 256, 512},
                        .dims = 128,
                        .slots = 100,
                        .heads = 2,
                        .pages = 1,
                        .box_dims = 64,
                        .box_slots = 64};
    ftj_tensor got = tensor_of(&params.k_new_tensor);
    expect_tensor(&got, &right);
    right.base = (uintptr_t)args.v_new;
    got = tensor_of(&params.v_new_tensor);
    expect_tensor(&got, &right);
    const ftj_tensor none = {0};
    got = tensor_of(&params.k_tensor);
    expect_tensor(&got, &none);
    got = tensor_of(&params.v_tensor);
    expect_tensor(&got, &none);
    close_session(&session);
}

/* No copy of a few rows, and none of codes. */
Test(extend_tensors, are_only_made_where_the_kernel_reads_them)
{
    const ftj_kv_shape shapes[] = {
        {.num_kv_heads = 2, .head_dim = 128, .page_size = 8},
        {.k_format = FTJ_KV_FP8,
         .v_format = FTJ_KV_FP8,
         .num_kv_heads = 2,
         .head_dim = 128,
         .page_size = 64},
        {.num_kv_heads = 2, .head_dim = 80, .page_size = 64},
    };
    for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
        struct session session = open_session(FAKE_CUDA_PATH, &shapes[i], 0);
        const ftj_extend_args args = args_of(&session);
        setenv("FAKE_CUDA_FAIL", "cuTensorMapEncodeTiled", 1);
        cr_expect_eq(ftj_attention_extend(session.attn, &args, NULL), FTJ_OK, "%zu: %s", i,
                     catcher.last);
        unsetenv("FAKE_CUDA_FAIL");
        close_session(&session);
    }
}

Test(extend_tensors, are_not_made_for_a_call_that_goes_another_way)
{
    const ftj_kv_shape shape = {.num_kv_heads = 2, .head_dim = 128, .page_size = 64};
    struct session session = open_session(FAKE_CUDA_PATH, &shape, 4);
    ftj_extend_args args = args_of(&session);
    setenv("FAKE_CUDA_FAIL", "cuTensorMapEncodeTiled", 1);
    args.max_queries = 5;
    cr_expect_eq(ftj_attention_extend(session.attn, &args, NULL), FTJ_E_DRIVER);
    args.max_queries = 4;
    cr_expect_eq(ftj_attention_extend(session.attn, &args, NULL), FTJ_OK, "%s", catcher.last);
    unsetenv("FAKE_CUDA_FAIL");
    close_session(&session);
}

Test(extend_tensors, that_cannot_be_made_are_a_sentence_and_no_launch)
{
    const ftj_kv_shape shape = {.num_kv_heads = 2, .head_dim = 128, .page_size = 64};
    struct session session = open_session(FAKE_CUDA_PATH, &shape, 0);
    const ftj_extend_args args = args_of(&session);
    setenv("FAKE_CUDA_FAIL", "cuTensorMapEncodeTiled:1", 1);
    cr_expect_eq(ftj_attention_extend(session.attn, &args, NULL), FTJ_E_DRIVER);
    cr_expect_not_null(strstr(catcher.last, "cuTensorMapEncodeTiled: the driver answered"), "%s",
                       catcher.last);
    cr_expect_eq(session.last_launch()->num_blocks, 0, "nothing was launched");
    unsetenv("FAKE_CUDA_FAIL");
    close_session(&session);

    char old[512];
    snprintf(old, sizeof(old), "%s/old.so", dir);
    cr_assert(library_copy(FAKE_CUDA_PATH, old, "cuTensorMapEncodeTiled"));
    session = open_session(old, &shape, 0);
    const ftj_extend_args of_old = args_of(&session);
    cr_expect_eq(ftj_attention_extend(session.attn, &of_old, NULL), FTJ_E_DRIVER);
    cr_expect_not_null(strstr(catcher.last, "needs the driver of CUDA 12 or newer"), "%s",
                       catcher.last);
    close_session(&session);
}
