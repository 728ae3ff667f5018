/* SPDX-License-Identifier: MIT */
/* Graph replays between two events on a GPU; the monotonic clock on the CPU. */
#include "bench/bench_timer.h"

/* Thread-local: another thread's allocation must not break a capture, but a call that is not
 * allowed in one must. */
#define CAPTURE_THREAD_LOCAL 1

#define NUM_REPLAYS          11 /* timed by bench_time(); two more warm up */

static ftj_status open_device(struct bench_timer *timer, const ftj_device_info *info)
{
    struct bench_driver *driver = &timer->driver;
    ftj_status status =
        bench_driver_init(driver, info->driver_path[0] ? info->driver_path : NULL, info->ordinal);
    if (!status)
        status =
            bench_driver_check(driver, driver->event_create(&timer->begin, 0), "cuEventCreate");
    if (!status)
        status = bench_driver_check(driver, driver->event_create(&timer->end, 0), "cuEventCreate");
    if (!status) {
        bench_clock_init(&timer->clock, timer->ctx, driver);
        bench_driver_release(timer->driver_release, sizeof(timer->driver_release));
    }
    return status;
}

ftj_status bench_timer_init(struct bench_timer *timer, ftj_context *ctx)
{
    ftj_device_info info;
    *timer = (struct bench_timer){.ctx = ctx};
    ftj_context_info(ctx, &info);

    ftj_status status = info.kind == FTJ_DEVICE_CUDA ? open_device(timer, &info) : FTJ_OK;
    if (!status)
        status = ftj_stream_create(ctx, &timer->stream);
    if (status)
        bench_timer_finish(timer);
    return status;
}

void bench_timer_finish(struct bench_timer *timer)
{
    if (timer->ctx && timer->stream)
        ftj_stream_destroy(timer->ctx, timer->stream);
    if (timer->begin)
        timer->driver.event_destroy(timer->begin);
    if (timer->end)
        timer->driver.event_destroy(timer->end);
    bench_clock_finish(&timer->clock);
    bench_driver_finish(&timer->driver);
    *timer = (struct bench_timer){0};
}

static ftj_status run_calls(const struct bench_replay *replay)
{
    for (uint32_t i = 0; i < replay->num_calls; i++) {
        const ftj_status status = replay->call(replay->data, i, replay->timer->stream);
        if (status)
            return status;
    }
    return FTJ_OK;
}

/* A capture is always ended, or the stream would stay unusable. */
static ftj_status capture(struct bench_replay *replay)
{
    const struct bench_driver *driver = &replay->timer->driver;
    struct CUstream_st *stream = replay->timer->stream;
    ftj_status status = bench_driver_check(
        driver, driver->capture_begin(stream, CAPTURE_THREAD_LOCAL), "cuStreamBeginCapture");
    if (status)
        return status;
    status = run_calls(replay);
    const int ended = driver->capture_end(stream, &replay->graph);
    return status ? status : bench_driver_check(driver, ended, "cuStreamEndCapture");
}

ftj_status bench_replay_init(struct bench_replay *replay, struct bench_timer *timer,
                             bench_call call, void *data, uint32_t num_calls)
{
    const struct bench_driver *driver = &timer->driver;
    *replay = (struct bench_replay){timer, call, data, num_calls, NULL, NULL};
    if (!driver->library)
        return FTJ_OK;
    ftj_status status = capture(replay);
    if (!status)
        status =
            bench_driver_check(driver, driver->graph_instantiate(&replay->exec, replay->graph, 0),
                               "cuGraphInstantiate");
    if (status)
        bench_replay_finish(replay);
    return status;
}

void bench_replay_finish(struct bench_replay *replay)
{
    if (replay->exec)
        replay->timer->driver.graph_exec_destroy(replay->exec);
    if (replay->graph)
        replay->timer->driver.graph_destroy(replay->graph);
    *replay = (struct bench_replay){0};
}

static ftj_status run_on_gpu(struct bench_replay *replay, uint32_t times, double *us, unsigned *mhz)
{
    struct bench_timer *timer = replay->timer;
    const struct bench_driver *driver = &timer->driver;
    ftj_status status = mhz ? bench_clock_begin(&timer->clock, timer->stream) : FTJ_OK;
    if (status)
        return status;

    int result = driver->event_record(timer->begin, timer->stream);
    for (uint32_t i = 0; i < times && !result; i++)
        result = driver->graph_launch(replay->exec, timer->stream);
    if (!result)
        result = driver->event_record(timer->end, timer->stream);
    if (mhz && !result)
        status = bench_clock_end(&timer->clock, timer->stream);
    if (!result)
        result = driver->stream_synchronize(timer->stream);
    float ms = 0;
    if (!result)
        result = driver->event_elapsed(&ms, timer->begin, timer->end);
    if (mhz && !result && !status)
        *mhz = bench_clock_mhz(&timer->clock);
    *us = 1e3 * ms;
    return status ? status : bench_driver_check(driver, result, "replaying a graph");
}

static ftj_status run_on_host(const struct bench_replay *replay, uint32_t times, double *us)
{
    const uint64_t begin = bench_now_ns();
    ftj_status status = FTJ_OK;
    for (uint32_t i = 0; i < times && !status; i++)
        status = run_calls(replay);
    if (!status)
        status = ftj_stream_synchronize(replay->timer->ctx, replay->timer->stream);
    *us = 1e-3 * (double)(bench_now_ns() - begin);
    return status;
}

ftj_status bench_replay_run(struct bench_replay *replay, uint32_t times, double *us, unsigned *mhz)
{
    if (mhz)
        *mhz = 0;
    return replay->exec ? run_on_gpu(replay, times, us, mhz) : run_on_host(replay, times, us);
}

ftj_status bench_time(struct bench_timer *timer, bench_call call, void *data, uint32_t num_calls,
                      struct bench_stats *us)
{
    struct bench_replay replay;
    double samples[NUM_REPLAYS] = {0};
    ftj_status status = bench_replay_init(&replay, timer, call, data, num_calls);
    for (int i = -2; i < NUM_REPLAYS && !status; i++) {
        double total_us;
        status = bench_replay_run(&replay, 1, &total_us, NULL);
        if (i >= 0)
            samples[i] = total_us / num_calls;
    }
    bench_replay_finish(&replay);
    *us = bench_stats_of(samples, NUM_REPLAYS);
    return status;
}

ftj_status bench_count_launches(struct bench_timer *timer, bench_call call, void *data,
                                uint32_t *launches)
{
    struct bench_replay replay;
    *launches = 1;
    ftj_status status = bench_replay_init(&replay, timer, call, data, 1);
    if (!status && replay.graph) {
        size_t nodes = 0;
        status = bench_driver_check(&timer->driver,
                                    timer->driver.graph_nodes(replay.graph, NULL, &nodes),
                                    "cuGraphGetNodes");
        if (!status && nodes)
            *launches = (uint32_t)nodes;
    }
    bench_replay_finish(&replay);
    return status;
}
