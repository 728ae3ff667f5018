/* SPDX-License-Identifier: MIT */
/* Setting up a run, and how far its rows rotate. */
#include "bench/bench_session.h"

#include "bench/bench_ceiling.h"

#define MAX_SETS        512
#define CALLS_PER_GRAPH 20

ftj_status bench_session_init(struct bench_session *session, ftj_context *ctx, uint64_t seed)
{
    *session = (struct bench_session){.ctx = ctx, .seed = seed};
    ftj_context_info(ctx, &session->info);
    ftj_status status = bench_timer_init(&session->timer, ctx);
    if (!status)
        status = bench_ceiling_init(session);
    if (status)
        bench_session_finish(session);
    return status;
}

void bench_session_finish(struct bench_session *session)
{
    bench_ceiling_finish(session);
    bench_timer_finish(&session->timer);
    *session = (struct bench_session){0};
}

ftj_status bench_case_layout(const struct bench_case *run, ftj_kv_layout *layout)
{
    const ftj_kv_shape shape = {
        .k_format = run->format.k,
        .v_format = run->format.v,
        .order = run->order,
        .num_kv_heads = run->shape->kv_heads,
        .head_dim = run->shape->head_dim,
        .page_size = run->page,
    };
    return ftj_kv_layout_init(layout, &shape);
}

uint32_t bench_num_sets(const struct bench_session *session, uint64_t bytes_per_call,
                        uint64_t memory_per_set)
{
    if (session->info.kind != FTJ_DEVICE_CUDA)
        return 2;
    const uint64_t wanted = 4 * session->info.l2_bytes / bytes_per_call + 1;
    const uint64_t room = session->info.memory_bytes / 2 / memory_per_set;
    uint64_t sets = wanted < room ? wanted : room;
    sets = sets < MAX_SETS ? sets : MAX_SETS;
    return sets < 2 ? 2 : (uint32_t)sets;
}

uint32_t bench_num_calls(const struct bench_session *session, uint32_t num_sets)
{
    if (session->info.kind != FTJ_DEVICE_CUDA)
        return num_sets;
    return (CALLS_PER_GRAPH + num_sets - 1) / num_sets * num_sets;
}
