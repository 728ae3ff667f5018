/* SPDX-License-Identifier: MIT */
/* One row of the extend bench: runs of queries, in one call or in chunks. */
#include "bench/bench_job.h"

/* All chunks of all requests. */
static ftj_status call_extend(void *data, uint32_t index, struct CUstream_st *stream)
{
    struct bench_job *job = data;
    uint32_t first = 0;
    for (uint32_t chunk = 0; chunk < job->num_chunks; chunk++) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < job->batch; i++)
            count += bench_job_queries_before(job, i, chunk + 1) -
                     bench_job_queries_before(job, i, chunk);
        const ftj_status status =
            bench_job_extend(job, index % job->num_sets, chunk, first, count, stream);
        if (status)
            return status;
        first += count;
    }
    return FTJ_OK;
}

ftj_status bench_extend_run(struct bench_session *session, const struct bench_case *run,
                            struct bench_row *row)
{
    struct bench_job job = {0};
    ftj_status status = bench_job_init(&job, session, run);
    if (status)
        return status;
    const struct bench_task task = {
        .call = call_extend,
        .data = &job,
        .num_calls = job.num_sets,
        .states = run->states,
        .rest_each = true,
    };
    row->bytes = bench_job_bytes(&job);
    row->flops = bench_shape_flops(run->shape);
    status = bench_job_measure(&job, &task, row);
    bench_job_finish(&job);
    return status;
}
