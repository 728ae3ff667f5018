/* SPDX-License-Identifier: MIT */
/* O21: work on another context, or another GPU, than the thread's current one. */
#include <stdio.h>
#include <string.h>

#include "ftjit/memory.h"
#include "tests/check/acceptance.h"
#include "tests/gpu/gpu_driver.h"

/* The case of O10 on a context's own memory. */
struct pair {
    struct attention_case c;
    struct attention_device device;
};

static bool pair_init(struct pair *pair, struct check_row *row)
{
    const struct attention_shape shape = {
        .k_format = FTJ_KV_FP8,
        .v_format = FTJ_KV_NVFP4,
        .dtype = FTJ_DTYPE_BF16,
        .head_dim = 64,
        .num_kv_heads = 1,
        .group = 1,
        .page_size = 16,
        .sm_scale = 1,
        .batch = 1,
        .lengths = {2},
    };
    *pair = (struct pair){0};
    if (!attention_case_init(&pair->c, row, &shape))
        return false;
    memset(pair->c.q, 0, pair->c.q_bytes);
    pair->c.q[0] = ref_bf16_narrow(1);
    for (uint32_t j = 0; j < 2; j++) {
        float values[REF_MAX_HEAD_DIM] = {(float)(j + 1)};
        check_cache_encode(&pair->c.cache, CHECK_K, attention_case_slot(&pair->c, 0, j), 0, values);
        acceptance_constant_row((float)(2 * j + 1), values);
        check_cache_encode(&pair->c.cache, CHECK_V, attention_case_slot(&pair->c, 0, j), 0, values);
    }
    return attention_device_init(&pair->device, row, &pair->c);
}

static void pair_finish(struct pair *pair, struct check_row *row)
{
    attention_device_finish(&pair->device, row);
    attention_case_finish(&pair->c);
}

/* O10's numbers, and the thread's current context as it was. */
static void pair_check(struct pair *pair, struct check_row *row, const struct gpu_driver *driver)
{
    static const double o = 2.462117, lse = 2.313262;
    struct attention_result result = {0};
    struct CUctx_st *before = NULL;
    struct CUctx_st *after = NULL;
    driver->context_current(&before);
    if (attention_decode(&pair->device, row, &pair->c, &result))
        acceptance_compare(row, &pair->c, &result, &o, &lse, 1e-3);
    driver->context_current(&after);
    if (before != after)
        check_fail(row, "the thread's current context is %p, was %p", (void *)after,
                   (void *)before);
    attention_result_finish(&result);
}

/* Two ways to have a second context. The first one's stays current throughout. */
static void check_both(struct check_row *row, const struct gpu_driver *driver,
                       const ftj_settings *second)
{
    struct check_row other = *row;
    struct pair here = {0};
    struct pair there = {0};
    other.ctx = NULL;
    if (!check_ok(row, ftj_context_create(second, &other.ctx), "ftj_context_create"))
        return;
    if (pair_init(&here, row) && pair_init(&there, &other)) {
        pair_check(&here, row, driver);
        pair_check(&there, &other, driver);
        /* The other's memory through this one's kernels: refused, both named; then still right. */
        ftj_decode_args mixed = here.device.args;
        mixed.q = there.device.args.q;
        check_refused(row, ftj_attention_decode(here.device.attn, &mixed, NULL), FTJ_E_INVALID,
                      "q");
        struct CUstream_st *stream = NULL;
        if (check_ok(row, ftj_stream_create(other.ctx, &stream), "ftj_stream_create"))
            check_refused(row, ftj_attention_decode(here.device.attn, &here.device.args, stream),
                          FTJ_E_INVALID, "stream");
        ftj_stream_destroy(other.ctx, stream);
        pair_check(&there, &other, driver);
        pair_check(&here, row, driver);
    }
    pair_finish(&there, &other);
    pair_finish(&here, row);
    ftj_context_destroy(other.ctx);
    if (other.outcome == CHECK_FAILED)
        check_fail(row, "on the other one: %s", other.message);
}

static void o21_two_contexts_on_one_gpu(struct check_row *row, const struct gpu_driver *driver)
{
    struct CUctx_st *context = NULL;
    if (!gpu_ok(row, driver->context_create(&context, 0, 0), "cuCtxCreate") ||
        !gpu_ok(row, driver->context_pop(&context), "cuCtxPopCurrent"))
        return;
    check_both(row, driver, &(ftj_settings){.cuda_context = context});
    driver->context_destroy(context);
}

static void o21_two_gpus(struct check_row *row, const struct gpu_driver *driver)
{
    int count = 0;
    driver->device_get_count(&count);
    if (count < 2) {
        check_skip(row, "there is one GPU");
        return;
    }
    check_both(row, driver, &(ftj_settings){.device = 1});
}

int main(void)
{
    static const struct gpu_test tests[] = {
        {"O21 two contexts on one GPU", o21_two_contexts_on_one_gpu},
        {"O21 two GPUs", o21_two_gpus},
    };
    return gpu_run(tests, sizeof(tests) / sizeof(*tests));
}
