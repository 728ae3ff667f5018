/* SPDX-License-Identifier: MIT */
/* Graph replays between two events on a GPU; the monotonic clock on the CPU. */
#include "bench/bench_timer.h"

#include "bench/bench_clock.h"
#include "ftjit/memory.h"

/* Thread-local: another thread's allocation must not break a capture, but a call that is not
 * allowed in one must. */
#define CAPTURE_THREAD_LOCAL 1

ftj_status bench_timer_init(struct bench_timer *timer, ftj_context *ctx)
{
    struct bench_timer made = {.ctx = ctx};
    ftj_device_info info;
    ftj_context_info(ctx, &info);

    ftj_status status = FTJ_OK;
    if (info.kind == FTJ_DEVICE_CUDA) {
        status = bench_driver_init(&made.driver, info.driver_path[0] ? info.driver_path : NULL,
                                   info.ordinal);
        if (!status)
            status = bench_driver_check(&made.driver, made.driver.event_create(&made.begin, 0),
                                        "cuEventCreate");
        if (!status)
            status = bench_driver_check(&made.driver, made.driver.event_create(&made.end, 0),
                                        "cuEventCreate");
        if (!status)
            bench_clock_open(&made);
    }
    if (!status)
        status = ftj_stream_create(ctx, &made.stream);
    if (status) {
        bench_timer_finish(&made);
        return status;
    }
    *timer = made;
    return FTJ_OK;
}

void bench_timer_finish(struct bench_timer *timer)
{
    if (timer->ctx && timer->stream)
        ftj_stream_destroy(timer->ctx, timer->stream);
    if (timer->begin)
        timer->driver.event_destroy(timer->begin);
    if (timer->end)
        timer->driver.event_destroy(timer->end);
    bench_clock_close(timer);
    bench_driver_finish(&timer->driver);
    *timer = (struct bench_timer){0};
}

static ftj_status run_calls(struct bench_timer *timer, bench_call call, void *data,
                            uint32_t num_calls)
{
    for (uint32_t i = 0; i < num_calls; i++) {
        const ftj_status status = call(data, i, timer->stream);
        if (status)
            return status;
    }
    return FTJ_OK;
}

/* The caller destroys the graph. A capture is always ended, or the stream would stay unusable. */
static ftj_status capture(struct bench_timer *timer, bench_call call, void *data,
                          uint32_t num_calls, struct CUgraph_st **graph)
{
    const struct bench_driver *driver = &timer->driver;
    ftj_status status = bench_driver_check(
        driver, driver->capture_begin(timer->stream, CAPTURE_THREAD_LOCAL), "cuStreamBeginCapture");
    if (status)
        return status;
    status = run_calls(timer, call, data, num_calls);
    const int ended = driver->capture_end(timer->stream, graph);
    return status ? status : bench_driver_check(driver, ended, "cuStreamEndCapture");
}

static ftj_status replay_us(struct bench_timer *timer, struct CUgraphExec_st *exec, double *us)
{
    const struct bench_driver *driver = &timer->driver;
    int result = driver->event_record(timer->begin, timer->stream);
    if (!result)
        result = driver->graph_launch(exec, timer->stream);
    if (!result)
        result = driver->event_record(timer->end, timer->stream);
    if (!result)
        result = driver->event_synchronize(timer->end);
    float ms = 0;
    if (!result)
        result = driver->event_elapsed(&ms, timer->begin, timer->end);
    *us = 1e3 * ms;
    return bench_driver_check(driver, result, "replaying a graph");
}

/* The clock is asked while a last replay runs: a moment after it the card has already rested. */
static ftj_status clock_under_load(struct bench_timer *timer, struct CUgraphExec_st *exec,
                                   unsigned *mhz)
{
    const int launched = timer->driver.graph_launch(exec, timer->stream);
    if (mhz)
        *mhz = bench_clock_mhz(timer);
    const int ended = timer->driver.stream_synchronize(timer->stream);
    return bench_driver_check(&timer->driver, launched ? launched : ended, "replaying a graph");
}

static ftj_status time_graph(struct bench_timer *timer, bench_call call, void *data,
                             uint32_t num_calls, struct bench_stats *us, unsigned *mhz)
{
    const struct bench_driver *driver = &timer->driver;
    struct CUgraph_st *graph = NULL;
    struct CUgraphExec_st *exec = NULL;
    double samples[BENCH_REPLAYS] = {0};

    ftj_status status = capture(timer, call, data, num_calls, &graph);
    if (status)
        goto cleanup;
    status = bench_driver_check(driver, driver->graph_instantiate(&exec, graph, 0),
                                "cuGraphInstantiate");
    if (status)
        goto cleanup;
    for (int i = -2; i < BENCH_REPLAYS; i++) {
        double total_us;
        status = replay_us(timer, exec, &total_us);
        if (status)
            goto cleanup;
        if (i >= 0)
            samples[i] = total_us / num_calls;
    }
    status = clock_under_load(timer, exec, mhz);
    *us = bench_stats_of(samples, BENCH_REPLAYS);

cleanup:
    if (exec)
        driver->graph_exec_destroy(exec);
    if (graph)
        driver->graph_destroy(graph);
    return status;
}

static ftj_status time_host(struct bench_timer *timer, bench_call call, void *data,
                            uint32_t num_calls, struct bench_stats *us)
{
    double samples[BENCH_REPLAYS];
    for (int i = 0; i < BENCH_REPLAYS; i++) {
        const uint64_t begin = bench_now_ns();
        ftj_status status = run_calls(timer, call, data, num_calls);
        if (!status)
            status = ftj_stream_synchronize(timer->ctx, timer->stream);
        if (status)
            return status;
        samples[i] = 1e-3 * (double)(bench_now_ns() - begin) / num_calls;
    }
    *us = bench_stats_of(samples, BENCH_REPLAYS);
    return FTJ_OK;
}

ftj_status bench_time(struct bench_timer *timer, bench_call call, void *data, uint32_t num_calls,
                      struct bench_stats *us, unsigned *mhz)
{
    if (mhz)
        *mhz = 0;
    return timer->driver.library ? time_graph(timer, call, data, num_calls, us, mhz)
                                 : time_host(timer, call, data, num_calls, us);
}

ftj_status bench_count_launches(struct bench_timer *timer, bench_call call, void *data,
                                uint32_t *launches)
{
    *launches = 1;
    if (!timer->driver.library)
        return FTJ_OK;

    struct CUgraph_st *graph = NULL;
    size_t nodes = 0;
    ftj_status status = capture(timer, call, data, 1, &graph);
    if (!status)
        status = bench_driver_check(&timer->driver, timer->driver.graph_nodes(graph, NULL, &nodes),
                                    "cuGraphGetNodes");
    if (!status && nodes)
        *launches = (uint32_t)nodes;
    if (graph)
        timer->driver.graph_destroy(graph);
    return status;
}
