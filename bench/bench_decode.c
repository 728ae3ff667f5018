/* SPDX-License-Identifier: MIT */
/* One row of the decode bench: one query for each request, or a few speculated ones. */
#include "bench/bench_ceiling.h"
#include "bench/bench_job.h"

static ftj_status call_decode(void *data, uint32_t index, struct CUstream_st *stream)
{
    struct bench_job *job = data;
    if (job->has_runs)
        return bench_job_extend(job, index % job->num_sets, 0, 0, job->num_queries, stream);
    const ftj_decode_args args = {
        .cache = job->pool.cache,
        .requests = bench_job_requests(job, index % job->num_sets, 0),
        .q = job->q,
        .o = job->o,
        .sinks = job->sinks,
        .workspace = job->workspace,
        .workspace_bytes = job->workspace_bytes,
    };
    return ftj_attention_decode(job->attn, &args, stream);
}

ftj_status bench_decode_run(struct bench_session *session, const struct bench_case *run,
                            struct bench_row *row)
{
    struct bench_job job = {0};
    ftj_status status = bench_job_init(&job, session, run);
    if (status)
        return status;
    const struct bench_task task = {
        .call = call_decode,
        .data = &job,
        .num_calls = bench_num_calls(session, job.num_sets),
        .states = run->states,
    };
    row->bytes = bench_job_bytes(&job);
    status = bench_job_measure(&job, &task, row);
    if (!status)
        status = bench_ceiling_read(session, row->bytes, &row->same_size_gbs);
    bench_job_finish(&job);
    return status;
}
