/* SPDX-License-Identifier: MIT */
/* The way from process start to the first launch, in its steps. */
#include <string.h>

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

/* An ftj_kernel_event_fn: notes what each kernel's compile took. */
static void note_compile(void *data, const ftj_kernel_event *event)
{
    static const struct {
        const char *kernel; /* what its name starts with */
        size_t at;
    } notes[] = {
        {"kv_store", offsetof(struct bench_start, store_compile_ms)},
        {"attn_decode", offsetof(struct bench_start, decode_compile_ms)},
        {"attn_combine", offsetof(struct bench_start, combine_compile_ms)},
    };
    for (size_t i = 0; i < sizeof(notes) / sizeof(*notes); i++) {
        if (!strncmp(event->kernel, notes[i].kernel, strlen(notes[i].kernel))) {
            const double ms = 1e-3 * event->compile_us;
            memcpy((char *)data + notes[i].at, &ms, sizeof(ms));
        }
    }
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
    ftj_settings noting = *settings;
    noting.on_kernel = note_compile;
    noting.on_kernel_data = &done;
    uint64_t begin = bench_now_ns();
    status = ftj_context_create(&noting, &ctx);
    done.context_ms = ms_since(begin);
    if (status)
        goto cleanup;
    begin = bench_now_ns();
    status = bench_tiny_attention(&tiny, ctx, format, FTJ_OP_STORE | FTJ_OP_DECODE);
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
