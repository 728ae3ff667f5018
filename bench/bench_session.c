/* SPDX-License-Identifier: MIT */
/* Setting up a run, and how far its rows rotate. */
#include "bench/bench_session.h"

#include "bench/bench_ceiling.h"
#include "runtime/attention_state.h"

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

ftj_status bench_case_desc(const struct bench_case *run, ftj_attention_desc *desc)
{
    static const uint32_t ops[BENCH_NUM_OPS] = {
        [BENCH_DECODE] = FTJ_OP_STORE | FTJ_OP_DECODE | FTJ_OP_GENERIC,
        [BENCH_STORE] = FTJ_OP_STORE,
        [BENCH_EXTEND] = FTJ_OP_STORE | FTJ_OP_EXTEND | FTJ_OP_GENERIC,
    };
    const ftj_kv_shape shape = {
        .k_format = run->format.k,
        .v_format = run->format.v,
        .order = run->order,
        .num_kv_heads = run->shape->kv_heads,
        .head_dim = run->shape->head_dim,
        .page_size = run->page,
    };
    const bool is_speculative = run->op == BENCH_DECODE && run->shape->fresh > 0;
    *desc = (ftj_attention_desc){
        .ops = ops[is_speculative ? BENCH_EXTEND : run->op],
        .short_queries = is_speculative ? run->shape->fresh : 0,
        .num_q_heads = run->shape->q_heads,
        .dtype = run->format.dtype,
        .generic_dtype = FTJ_DTYPE_FP32,
        .window = run->shape->window,
    };
    return ftj_kv_layout_init(&desc->kv, &shape);
}

const char *bench_variant_name(const ftj_attention *attn, enum bench_op op)
{
    static const enum ftj_kernel_op kernels[BENCH_NUM_OPS] = {
        [BENCH_DECODE] = FTJ_KERNEL_DECODE,
        [BENCH_STORE] = FTJ_KERNEL_STORE,
        [BENCH_EXTEND] = FTJ_KERNEL_EXTEND,
    };
    const struct ftj_kernel *kernel = attn->kernels[kernels[op]];
    if (op == BENCH_DECODE && attn->kernels[FTJ_KERNEL_EXTEND]) /* a speculative one */
        kernel = attn->kernels[attn->short_runs.kernel ? FTJ_KERNEL_SHORT : FTJ_KERNEL_EXTEND];
    return kernel->variant->name;
}

ftj_status bench_case_run(struct bench_session *session, const struct bench_case *run,
                          struct bench_row *row)
{
    struct bench_row done = {.run = *run};
    ftj_attention_desc desc;
    ftj_status status = bench_case_desc(run, &desc);
    if (status)
        return status;
    done.row_bytes_k = desc.kv.k.row_bytes;
    done.row_bytes_v = desc.kv.v.row_bytes;
    switch (run->op) {
    case BENCH_STORE:
        status = bench_store_run(session, run, &done);
        break;
    case BENCH_EXTEND:
        status = bench_extend_run(session, run, &done);
        break;
    default:
        status = bench_decode_run(session, run, &done);
    }
    if (!status)
        *row = done;
    return status;
}

uint32_t bench_num_sets(const struct bench_session *session, uint64_t bytes_per_call,
                        uint64_t memory_per_set, uint32_t least)
{
    if (session->info.kind != FTJ_DEVICE_CUDA)
        return 2;
    const uint64_t past_l2 = 4 * session->info.l2_bytes / bytes_per_call + 1;
    const uint64_t wanted = past_l2 < least ? least : past_l2;
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
