/* SPDX-License-Identifier: MIT */
/* One row of the decode bench: random requests over a random cache, checked against the device's
 * own fp32 oracle, then timed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench_ceiling.h"
#include "bench/bench_pool.h"
#include "tests/ref/ref_codec.h"

/* Requests whose outputs are compared: the oracle is slow. */
#define CHECKED_REQUESTS 4

/* Everything a call needs. A zeroed one is empty. */
struct decode_job {
    struct bench_session *session;
    const struct bench_case *run;
    ftj_attention *attn; /* owned */
    struct bench_pool pool;
    uint32_t num_sets;
    uint32_t blocks_per_request;
    uint16_t *host_q; /* [batch, q_heads, head_dim]; owned */
    void *tables;     /* [num_sets, batch, blocks_per_request]; these are owned, on the device */
    void *lengths;
    void *q;
    void *o;
    void *sinks; /* or NULL */
    void *workspace;
    size_t workspace_bytes;
};

static void job_finish(struct decode_job *job)
{
    ftj_context *ctx = job->session->ctx;
    ftj_memory_free(ctx, job->workspace);
    ftj_memory_free(ctx, job->sinks);
    ftj_memory_free(ctx, job->o);
    ftj_memory_free(ctx, job->q);
    ftj_memory_free(ctx, job->lengths);
    ftj_memory_free(ctx, job->tables);
    free(job->host_q);
    bench_pool_finish(&job->pool);
    ftj_attention_destroy(job->attn);
}

static uint64_t bytes_read(const struct decode_job *job)
{
    const struct bench_shape *shape = job->run->shape;
    const uint32_t visible =
        shape->window && shape->window < shape->context ? shape->window : shape->context;
    return (uint64_t)shape->batch * visible * job->pool.layout.token_bytes;
}

static size_t num_values(const struct bench_shape *shape)
{
    return (size_t)shape->batch * shape->q_heads * shape->head_dim;
}

static ftj_requests requests_of(const struct decode_job *job, uint32_t set)
{
    const uint64_t width = job->blocks_per_request;
    return (ftj_requests){
        .batch = job->run->shape->batch,
        .lengths = job->lengths,
        .block_table = (const int32_t *)job->tables + set * width * job->run->shape->batch,
        .block_table_stride = (int64_t)width,
    };
}

static ftj_status call_decode(void *data, uint32_t index, struct CUstream_st *stream)
{
    struct decode_job *job = data;
    const ftj_decode_args args = {
        .cache = job->pool.cache,
        .requests = requests_of(job, index % job->num_sets),
        .q = job->q,
        .o = job->o,
        .sinks = job->sinks,
        .workspace = job->workspace,
        .workspace_bytes = job->workspace_bytes,
    };
    return ftj_attention_decode(job->attn, &args, stream);
}

static ftj_status init_attention(struct decode_job *job, const ftj_kv_layout *layout)
{
    const struct bench_shape *shape = job->run->shape;
    const ftj_attention_desc desc = {
        .ops = FTJ_OP_STORE | FTJ_OP_DECODE | FTJ_OP_GENERIC,
        .kv = *layout,
        .num_q_heads = shape->q_heads,
        .dtype = job->run->format.dtype,
        .generic_dtype = FTJ_DTYPE_FP32,
        .window = shape->window,
    };
    return ftj_attention_create(job->session->ctx, &desc, &job->attn);
}

/* The cache, filled, and each set's pages out of one permutation of all of them. */
static ftj_status init_cache(struct decode_job *job, const ftj_kv_layout *layout,
                             struct bench_random *random)
{
    const struct bench_shape *shape = job->run->shape;
    ftj_context *ctx = job->session->ctx;
    job->blocks_per_request = (shape->context + job->run->page - 1) / job->run->page;
    const uint64_t pages_per_set = (uint64_t)shape->batch * job->blocks_per_request;
    const uint64_t visible =
        shape->window && shape->window < shape->context ? shape->window : shape->context;
    job->num_sets =
        bench_num_sets(job->session, (uint64_t)shape->batch * visible * layout->token_bytes,
                       pages_per_set * layout->page_bytes);

    const uint64_t num_pages = pages_per_set * job->num_sets;
    ftj_status status = bench_pool_init(&job->pool, ctx, layout, num_pages);
    if (!status)
        status = bench_pool_fill(&job->pool, job->attn, job->run->format.dtype, random);
    if (status)
        return status;
    int32_t *pages = bench_random_permutation(random, num_pages);
    status = bench_upload(ctx, pages, num_pages * sizeof(*pages), &job->tables);
    free(pages);
    return status;
}

static ftj_status init_sinks(struct decode_job *job, struct bench_random *random)
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

static ftj_status init_inputs(struct decode_job *job, struct bench_random *random)
{
    const struct bench_shape *shape = job->run->shape;
    ftj_context *ctx = job->session->ctx;
    const size_t values = num_values(shape);

    int32_t *lengths = malloc(shape->batch * sizeof(*lengths));
    for (uint32_t i = 0; lengths && i < shape->batch; i++)
        lengths[i] = (int32_t)shape->context;
    ftj_status status = bench_upload(ctx, lengths, shape->batch * sizeof(*lengths), &job->lengths);
    free(lengths);
    if (status)
        return status;

    job->host_q = bench_random_rows(random, job->run->format.dtype, values);
    status = bench_upload(ctx, job->host_q, values * sizeof(*job->host_q), &job->q);
    if (!status)
        status = ftj_memory_alloc(ctx, values * sizeof(*job->host_q), &job->o);
    if (!status && shape->sinks)
        status = init_sinks(job, random);
    if (status)
        return status;
    job->workspace_bytes = ftj_attention_workspace_bytes(job->attn, shape->batch);
    return job->workspace_bytes ? ftj_memory_alloc(ctx, job->workspace_bytes, &job->workspace)
                                : FTJ_OK;
}

/* The oracle's output for the checked requests, [checked][q_heads * head_dim] fp32. */
static ftj_status oracle(struct decode_job *job, const int32_t *checked, uint32_t count,
                         float *expected)
{
    const struct bench_shape *shape = job->run->shape;
    ftj_context *ctx = job->session->ctx;
    const size_t row = (size_t)shape->q_heads * shape->head_dim;
    const size_t bytes = count * row * sizeof(float);
    void *q = NULL;
    void *o = NULL;
    void *requests = NULL;

    for (uint32_t i = 0; i < count; i++) {
        for (size_t j = 0; j < row; j++)
            expected[i * row + j] =
                ref_16bit_widen(job->run->format.dtype, job->host_q[(size_t)checked[i] * row + j]);
    }
    ftj_status status = bench_upload(ctx, expected, bytes, &q);
    if (!status)
        status = bench_upload(ctx, checked, count * sizeof(*checked), &requests);
    if (!status)
        status = ftj_memory_alloc(ctx, bytes, &o);
    const ftj_generic_args args = {
        .cache = job->pool.cache,
        .requests = requests_of(job, job->num_sets - 1),
        .q = q,
        .o = o,
        .sinks = job->sinks,
        .num_queries = count,
        .q_requests = requests,
    };
    if (!status)
        status = ftj_attention_generic(job->attn, &args, NULL);
    if (!status)
        status = ftj_stream_synchronize(ctx, NULL);
    if (!status)
        status = ftj_memory_read(ctx, expected, o, bytes);
    ftj_memory_free(ctx, requests);
    ftj_memory_free(ctx, o);
    ftj_memory_free(ctx, q);
    return status;
}

/* Relative RMS error of what `o` holds now. */
static ftj_status output_error(struct decode_job *job, const int32_t *checked, uint32_t count,
                               const float *expected, double *error)
{
    const struct bench_shape *shape = job->run->shape;
    const size_t row = (size_t)shape->q_heads * shape->head_dim;
    uint16_t *got = malloc(num_values(shape) * sizeof(*got));
    if (!got)
        return ftj_fail(NULL, FTJ_E_NO_MEMORY, "no host memory for the outputs");
    const ftj_status status =
        ftj_memory_read(job->session->ctx, got, job->o, num_values(shape) * sizeof(*got));

    double difference = 0;
    double scale = 0;
    for (uint32_t i = 0; i < count && !status; i++) {
        for (size_t j = 0; j < row; j++) {
            const double want = expected[i * row + j];
            const double off =
                ref_16bit_widen(job->run->format.dtype, got[(size_t)checked[i] * row + j]) - want;
            difference += off * off;
            scale += want * want;
        }
    }
    free(got);
    *error = sqrt(difference / scale);
    return status;
}

/* Check an eager call, poison, time, and check what the last timed call left. */
static ftj_status check_and_time(struct decode_job *job, struct bench_row *row)
{
    const struct bench_shape *shape = job->run->shape;
    const uint32_t count = shape->batch < CHECKED_REQUESTS ? shape->batch : CHECKED_REQUESTS;
    struct CUstream_st *stream = job->session->timer.stream;
    int32_t checked[CHECKED_REQUESTS];
    for (uint32_t i = 0; i < count; i++)
        checked[i] = (int32_t)((uint64_t)i * (shape->batch - 1) / (count > 1 ? count - 1 : 1));

    double before = NAN;
    double after = NAN;
    const size_t values = (size_t)count * shape->q_heads * shape->head_dim;
    float *expected = malloc(values * sizeof(*expected));
    ftj_status status = expected ? oracle(job, checked, count, expected)
                                 : ftj_fail(NULL, FTJ_E_NO_MEMORY, "no host memory for the oracle");
    if (!status)
        status = call_decode(job, job->num_sets - 1, stream);
    if (!status)
        status = ftj_stream_synchronize(job->session->ctx, stream);
    if (!status)
        status = output_error(job, checked, count, expected, &before);
    if (!status)
        status =
            ftj_memory_fill(job->session->ctx, job->o, 0xff, num_values(shape) * sizeof(uint16_t));
    if (!status)
        status = bench_time(&job->session->timer, call_decode, job,
                            bench_num_calls(job->session, job->num_sets), &row->us, &row->mhz);
    if (!status)
        status = output_error(job, checked, count, expected, &after);
    free(expected);

    row->check_bound = job->run->format.dtype == FTJ_DTYPE_FP16 ? 1e-3 : 4e-3;
    row->check_ok = before <= row->check_bound && after <= row->check_bound;
    row->check_error = after <= before ? before : after;
    return status;
}

ftj_status bench_decode_run(struct bench_session *session, const struct bench_case *run,
                            struct bench_row *row)
{
    struct decode_job job = {.session = session, .run = run};
    struct bench_random random = {session->seed};
    struct bench_row done = {.op = BENCH_DECODE, .run = *run};
    ftj_kv_layout layout;

    ftj_status status = bench_case_layout(run, &layout);
    if (status)
        return status;
    done.row_bytes_k = layout.k.row_bytes;
    done.row_bytes_v = layout.v.row_bytes;
    status = init_attention(&job, &layout);
    if (!status)
        status = init_cache(&job, &layout, &random);
    if (!status)
        status = init_inputs(&job, &random);
    if (!status)
        status = check_and_time(&job, &done);
    if (!status)
        status = bench_ceiling_read(session, bytes_read(&job), &done.same_size_gbs);
    if (!status) {
        done.gbs = 1e-3 * (double)bytes_read(&job) / done.us.median;
        done.ceiling_share = done.gbs / session->ceiling.read_gbs;
        *row = done;
    }
    job_finish(&job);
    return status;
}
