/* SPDX-License-Identifier: MIT */
/* The way from process start to the first launch, in its steps. */
#include "bench/bench_driver.h"
#include "bench/bench_launch.h"
#include "bench/bench_tiny.h"

static double ms_since(uint64_t begin)
{
    return 1e-6 * (double)(bench_now_ns() - begin);
}

/* The driver's own share, taken first so that the library's steps show only what they add. The
 * context stays open through `driver`. */
static ftj_status start_driver(const ftj_settings *settings, struct bench_driver *driver,
                               double *ms)
{
    const uint64_t begin = bench_now_ns();
    if (settings->kind != FTJ_DEVICE_CUDA)
        return FTJ_OK;
    const ftj_status status = bench_driver_init(driver, settings->driver_path, settings->device);
    *ms = ms_since(begin);
    return status;
}

/* Store first, and then with decode, so that the counters tell what the decode costs. */
static ftj_status create_attentions(struct bench_tiny *tiny, ftj_context *ctx,
                                    const struct bench_format *format, double *decode_compile_ms)
{
    struct bench_tiny store_only = {0};
    ftj_stats before;
    ftj_stats after;
    ftj_status status = bench_tiny_attention(&store_only, ctx, format, FTJ_OP_STORE);
    ftj_context_stats(ctx, &before);
    if (!status)
        status = bench_tiny_attention(tiny, ctx, format, FTJ_OP_STORE | FTJ_OP_DECODE);
    ftj_context_stats(ctx, &after);
    *decode_compile_ms = 1e-3 * (double)(after.compile_us - before.compile_us);
    bench_tiny_finish(&store_only);
    return status;
}

static ftj_status first_launch(struct bench_tiny *tiny, double *ms)
{
    ftj_status status = bench_tiny_inputs(tiny);
    if (status)
        return status;
    const uint64_t begin = bench_now_ns();
    status = ftj_attention_decode(tiny->attn, &tiny->decode, NULL);
    if (!status)
        status = ftj_stream_synchronize(tiny->ctx, NULL);
    *ms = ms_since(begin);
    return status;
}

ftj_status bench_start_run(const ftj_settings *settings, const struct bench_format *format,
                           struct bench_start *out)
{
    struct bench_driver driver = {0};
    struct bench_tiny tiny = {0};
    struct bench_start done = {0};
    ftj_context *ctx = NULL;

    ftj_status status = start_driver(settings, &driver, &done.driver_ms);
    if (status)
        goto cleanup;
    uint64_t begin = bench_now_ns();
    status = ftj_context_create(settings, &ctx);
    done.context_ms = ms_since(begin);
    if (status)
        goto cleanup;
    begin = bench_now_ns();
    status = create_attentions(&tiny, ctx, format, &done.decode_compile_ms);
    done.attention_ms = ms_since(begin);
    if (!status)
        status = first_launch(&tiny, &done.launch_ms);
    if (!status) {
        ftj_context_stats(ctx, &done.stats);
        *out = done;
    }

cleanup:
    bench_tiny_finish(&tiny);
    ftj_context_destroy(ctx);
    bench_driver_finish(&driver);
    return status;
}
