/* SPDX-License-Identifier: MIT */
/* Host cost of calls, beside a bare launch on the same stream. */
#include "bench/bench_launch.h"

#include "bench/bench_ceiling.h"
#include "bench/bench_tiny.h"

/* Few enough calls that the driver's queue never makes one wait, many enough for the clock. */
#define CALLS_PER_SAMPLE 64
#define NUM_SAMPLES      51

static const char empty_source[] = "extern \"C\" __global__ void ftj_bench_empty() {}\n";

static ftj_status call_decode(void *data, uint32_t index, struct CUstream_st *stream)
{
    struct bench_tiny *tiny = data;
    (void)index;
    return ftj_attention_decode(tiny->attn, &tiny->decode, stream);
}

static ftj_status call_store(void *data, uint32_t index, struct CUstream_st *stream)
{
    struct bench_tiny *tiny = data;
    (void)index;
    return ftj_kv_store(tiny->attn, &tiny->store, stream);
}

struct bare_launch {
    const struct bench_driver *driver;
    struct CUfunc_st *function;
};

static ftj_status call_bare(void *data, uint32_t index, struct CUstream_st *stream)
{
    const struct bare_launch *bare = data;
    (void)index;
    return bench_driver_check(
        bare->driver,
        bare->driver->launch(bare->function, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL),
        "cuLaunchKernel");
}

/* Median time of a call on the host; the device drains between samples. */
static ftj_status host_ns(struct bench_session *session, bench_call call, void *data, double *ns)
{
    const uint32_t calls = session->info.kind == FTJ_DEVICE_CUDA ? CALLS_PER_SAMPLE : 1;
    struct CUstream_st *stream = session->timer.stream;
    double samples[NUM_SAMPLES];
    for (int i = 0; i < NUM_SAMPLES; i++) {
        const uint64_t begin = bench_now_ns();
        for (uint32_t j = 0; j < calls; j++) {
            const ftj_status status = call(data, j, stream);
            if (status)
                return status;
        }
        samples[i] = (double)(bench_now_ns() - begin) / calls;
        const ftj_status status = ftj_stream_synchronize(session->ctx, stream);
        if (status)
            return status;
    }
    *ns = bench_stats_of(samples, NUM_SAMPLES).median;
    return FTJ_OK;
}

static ftj_status bare_ns(struct bench_session *session, double *ns)
{
    struct CUmod_st *module = NULL;
    struct bare_launch bare = {.driver = &session->timer.driver};
    if (session->info.kind != FTJ_DEVICE_CUDA)
        return FTJ_OK;
    ftj_status status =
        bench_kernel_load(session, "bench_empty", empty_source, &module, &bare.function);
    if (!status)
        status = host_ns(session, call_bare, &bare, ns);
    if (module)
        bare.driver->module_unload(module);
    return status;
}

ftj_status bench_launch_run(struct bench_session *session, const struct bench_format *format,
                            struct bench_launch *out)
{
    struct bench_tiny tiny = {0};
    struct bench_launch done = {0};
    struct bench_timer *timer = &session->timer;

    ftj_status status =
        bench_tiny_attention(&tiny, session->ctx, format, FTJ_OP_STORE | FTJ_OP_DECODE);
    if (!status)
        status = bench_tiny_inputs(&tiny);
    if (!status)
        status = host_ns(session, call_decode, &tiny, &done.decode_ns);
    if (!status)
        status = host_ns(session, call_store, &tiny, &done.store_ns);
    if (!status)
        status = bench_count_launches(timer, call_decode, &tiny, &done.decode_launches);
    if (!status)
        status = bench_count_launches(timer, call_store, &tiny, &done.store_launches);
    if (!status)
        status = bare_ns(session, &done.bare_ns);
    if (!status)
        *out = done;
    bench_tiny_finish(&tiny);
    return status;
}
