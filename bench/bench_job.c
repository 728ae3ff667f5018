/* SPDX-License-Identifier: MIT */
/* Drawing the requests, the cache and the queries of a job; and the order of checks and timing. */
#include "bench/bench_job.h"

#include <math.h>
#include <stdlib.h>

#include "bench/bench_check.h"

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

ftj_requests bench_job_requests(const struct bench_job *job, uint32_t set, uint32_t chunk)
{
    const uint64_t width = job->table_width;
    return (ftj_requests){
        .batch = job->batch,
        .lengths = (const int32_t *)job->lengths + (size_t)chunk * job->batch,
        .block_table = (const int32_t *)job->tables + set * width * job->batch,
        .block_table_stride = (int64_t)width,
    };
}

uint32_t bench_job_queries_before(const struct bench_job *job, uint32_t request, uint32_t chunk)
{
    const struct bench_shape *shape = job->run->shape;
    const uint32_t all = job->has_runs ? bench_shape_fresh(shape, request) : 1;
    return least(chunk * (shape->chunk ? shape->chunk : all), all);
}

/* That a request of the call has. */
static uint32_t most_queries(const struct bench_job *job, uint32_t chunk)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < job->batch; i++) {
        const uint32_t before = bench_job_queries_before(job, i, chunk);
        const uint32_t its = bench_job_queries_before(job, i, chunk + 1) - before;
        most = its > most ? its : most;
    }
    return most;
}

ftj_status bench_job_extend(const struct bench_job *job, uint32_t set, uint32_t chunk,
                            uint32_t first, uint32_t count, struct CUstream_st *stream)
{
    const struct bench_shape *shape = job->run->shape;
    const size_t q_row = (size_t)first * shape->q_heads * shape->head_dim;
    const size_t kv_row = (size_t)first * shape->kv_heads * shape->head_dim;
    const uint16_t *k_new = job->fresh[0];
    const uint16_t *v_new = job->fresh[1];
    const ftj_extend_args args = {
        .cache = job->pool.cache,
        .requests = bench_job_requests(job, set, chunk),
        .qo_indptr = (const int32_t *)job->indptr + (size_t)chunk * (job->batch + 1),
        .num_queries = count,
        .max_queries = most_queries(job, chunk),
        .q = (const uint16_t *)job->q + q_row,
        .o = (uint16_t *)job->o + q_row,
        .sinks = job->sinks,
        .k_new = k_new ? k_new + kv_row : NULL,
        .v_new = v_new ? v_new + kv_row : NULL,
        .workspace = job->workspace,
        .workspace_bytes = job->workspace_bytes,
    };
    return ftj_attention_extend(job->attn, &args, stream);
}

uint64_t bench_job_bytes(const struct bench_job *job)
{
    uint64_t tokens = 0;
    for (uint32_t i = 0; i < job->batch; i++)
        tokens += bench_shape_visible(job->run->shape, i);
    return tokens * job->pool.layout.token_bytes;
}

size_t bench_job_values(const struct bench_job *job)
{
    const struct bench_shape *shape = job->run->shape;
    return (size_t)job->num_queries * shape->q_heads * shape->head_dim;
}

void bench_job_finish(struct bench_job *job)
{
    ftj_context *ctx = job->session ? job->session->ctx : NULL;
    void *const on_device[] = {job->workspace, job->sinks,  job->fresh[0], job->fresh[1], job->o,
                               job->q,         job->indptr, job->lengths,  job->tables};
    for (size_t i = 0; i < sizeof(on_device) / sizeof(*on_device) && ctx; i++)
        ftj_memory_free(ctx, on_device[i]);
    free(job->host_tables);
    free(job->host_q);
    bench_pool_finish(&job->pool);
    ftj_attention_destroy(job->attn);
    *job = (struct bench_job){0};
}

static uint32_t pages_of(const struct bench_job *job, uint32_t request)
{
    const uint32_t context = bench_shape_context(job->run->shape, request);
    return (context + job->run->page - 1) / job->run->page;
}

/* Each set's pages out of one permutation of all of them. */
static ftj_status init_tables(struct bench_job *job, struct bench_random *random)
{
    const size_t count = (size_t)job->num_sets * job->batch * job->table_width;
    int32_t *pages = bench_random_permutation(random, job->pool.cache.num_pages);
    job->host_tables = malloc(count * sizeof(*job->host_tables));
    if (!pages || !job->host_tables) {
        free(pages);
        return ftj_fail(NULL, FTJ_E_NO_MEMORY, "no host memory for block tables");
    }
    size_t taken = 0;
    for (uint32_t i = 0; i < job->num_sets * job->batch; i++) {
        int32_t *table = job->host_tables + (size_t)i * job->table_width;
        const uint32_t num_pages = pages_of(job, i % job->batch);
        for (uint32_t j = 0; j < job->table_width; j++)
            table[j] = j < num_pages ? pages[taken++] : -1;
    }
    free(pages);
    return bench_upload(job->session->ctx, job->host_tables, count * sizeof(*job->host_tables),
                        &job->tables);
}

static ftj_status init_cache(struct bench_job *job, const ftj_kv_layout *layout,
                             struct bench_random *random)
{
    uint64_t pages_per_set = 0;
    for (uint32_t i = 0; i < job->batch; i++) {
        pages_per_set += pages_of(job, i);
        if (job->table_width < pages_of(job, i))
            job->table_width = pages_of(job, i);
    }
    job->pool.layout = *layout;
    /* An extend is no read of its cache: it goes over it many times, and has rested between. */
    job->num_sets =
        job->run->op == BENCH_EXTEND
            ? 1
            : bench_num_sets(job->session, bench_job_bytes(job), pages_per_set * layout->page_bytes,
                             job->run->shape->pool_sets);
    ftj_status status =
        bench_pool_init(&job->pool, job->session->ctx, layout, pages_per_set * job->num_sets);
    if (!status)
        status = bench_pool_fill(&job->pool, job->attn, job->run->format.dtype, random);
    return status ? status : init_tables(job, random);
}

/* Lengths and, for an extend, where each request's queries begin, chunk by chunk. */
static ftj_status init_requests(struct bench_job *job)
{
    ftj_context *ctx = job->session->ctx;
    const size_t num_lengths = (size_t)job->num_chunks * job->batch;
    const size_t num_bounds = num_lengths + job->num_chunks;
    int32_t *lengths = calloc(num_lengths, sizeof(*lengths));
    int32_t *indptr = calloc(num_bounds, sizeof(*indptr));
    for (uint32_t chunk = 0; chunk < job->num_chunks && lengths && indptr; chunk++) {
        int32_t *bounds = indptr + (size_t)chunk * (job->batch + 1);
        for (uint32_t i = 0; i < job->batch; i++) {
            const uint32_t before = bench_job_queries_before(job, i, chunk);
            const uint32_t with = bench_job_queries_before(job, i, chunk + 1);
            const uint32_t all = bench_job_queries_before(job, i, job->num_chunks);
            lengths[(size_t)chunk * job->batch + i] =
                (int32_t)(bench_shape_context(job->run->shape, i) - all + with);
            bounds[i + 1] = bounds[i] + (int32_t)(with - before);
        }
        job->num_queries += (uint32_t)bounds[job->batch];
    }
    ftj_status status = bench_upload(ctx, lengths, num_lengths * sizeof(*lengths), &job->lengths);
    if (!status && job->has_runs)
        status = bench_upload(ctx, indptr, num_bounds * sizeof(*indptr), &job->indptr);
    free(indptr);
    free(lengths);
    return status;
}

static ftj_status upload_rows(struct bench_job *job, struct bench_random *random, size_t values,
                              uint16_t **host, void **out)
{
    *host = bench_random_rows(random, job->run->format.dtype, values);
    return bench_upload(job->session->ctx, *host, values * sizeof(**host), out);
}

static ftj_status init_sinks(struct bench_job *job, struct bench_random *random)
{
    const uint32_t count = job->run->shape->q_heads;
    float *sinks = malloc(count * sizeof(*sinks));
    for (uint32_t i = 0; sinks && i < count; i++)
        sinks[i] = bench_random_normal(random);
    const ftj_status status =
        bench_upload(job->session->ctx, sinks, count * sizeof(*sinks), &job->sinks);
    free(sinks);
    return status;
}

static ftj_status init_inputs(struct bench_job *job, struct bench_random *random)
{
    const struct bench_shape *shape = job->run->shape;
    ftj_context *ctx = job->session->ctx;
    const size_t fresh = (size_t)job->num_queries * shape->kv_heads * shape->head_dim;

    ftj_status status = upload_rows(job, random, bench_job_values(job), &job->host_q, &job->q);
    for (int side = 0; side < 2 && !status && job->run->is_fresh_beside; side++) {
        uint16_t *rows = NULL;
        status = upload_rows(job, random, fresh, &rows, &job->fresh[side]);
        free(rows);
    }
    if (!status && shape->sinks)
        status = init_sinks(job, random);
    if (!status)
        status = ftj_memory_alloc(ctx, bench_job_values(job) * sizeof(uint16_t), &job->o);
    job->workspace_bytes = ftj_attention_workspace_bytes(job->attn);
    if (!status && job->workspace_bytes)
        status = ftj_memory_alloc(ctx, job->workspace_bytes, &job->workspace);
    return status;
}

ftj_status bench_job_init(struct bench_job *job, struct bench_session *session,
                          const struct bench_case *run)
{
    const struct bench_shape *shape = run->shape;
    struct bench_random random = {session->seed};
    ftj_attention_desc desc;
    struct bench_job made = {
        .session = session,
        .run = run,
        .has_runs = run->op == BENCH_EXTEND || shape->fresh > 0,
        .batch = bench_shape_batch(shape),
        .num_chunks = shape->chunk ? (shape->fresh + shape->chunk - 1) / shape->chunk : 1,
    };
    ftj_status status = bench_case_desc(run, &desc);
    if (!status)
        status = ftj_attention_create(session->ctx, &desc, &made.attn);
    if (!status)
        status = init_cache(&made, &desc.kv, &random);
    if (!status)
        status = init_requests(&made);
    if (!status)
        status = init_inputs(&made, &random);
    if (status) {
        bench_job_finish(&made);
        return status;
    }
    *job = made;
    return FTJ_OK;
}

/* Calls that leave in O what the last timed ones do. */
static ftj_status call_eagerly(struct bench_job *job, const struct bench_task *task)
{
    struct CUstream_st *stream = job->session->timer.stream;
    const ftj_status status = task->call(task->data, task->num_calls - 1, stream);
    return status ? status : ftj_stream_synchronize(job->session->ctx, stream);
}

ftj_status bench_job_measure(struct bench_job *job, const struct bench_task *task,
                             struct bench_row *row)
{
    struct bench_check check = {0};
    double before = NAN;
    double after = NAN;
    ftj_status status = bench_check_init(&check, job);
    if (!status)
        status = call_eagerly(job, task);
    if (!status)
        status = bench_check_error(&check, job, &before);
    if (!status)
        status = ftj_memory_fill(job->session->ctx, job->o, 0xff,
                                 bench_job_values(job) * sizeof(uint16_t));
    if (!status)
        status = bench_states_time(&job->session->timer, task, row->timings);
    if (!status)
        status = bench_check_error(&check, job, &after);
    bench_check_finish(&check);

    row->variant = bench_variant_name(job->attn, job->run->op);
    row->check_bound = job->run->format.dtype == FTJ_DTYPE_FP16 ? 1e-3 : 4e-3;
    row->check_ok = before <= row->check_bound && after <= row->check_bound;
    row->check_error = after <= before ? before : after;
    return status;
}
