/* SPDX-License-Identifier: MIT */
/* One row of the store bench: random rows into shuffled slots, compared byte for byte with the
 * reference codec, then timed. Its bytes are those read and those written. */
#include <stdlib.h>
#include <string.h>

#include "bench/bench_pool.h"
#include "bench/bench_session.h"
#include "tests/ref/ref_codec.h"

#define CHECKED_TOKENS 64

/* Everything a call needs. A zeroed one is empty. */
struct store_job {
    struct bench_session *session;
    const struct bench_case *run;
    ftj_attention *attn; /* owned */
    struct bench_pool pool;
    uint32_t num_sets;
    uint16_t *host_rows[2]; /* K and V of all sets; owned */
    int32_t *host_slots;    /* [num_sets, tokens]; owned */
    void *rows[2];          /* the same on the device */
    void *slots;
};

static void job_finish(struct store_job *job)
{
    ftj_context *ctx = job->session->ctx;
    for (int side = 0; side < 2; side++) {
        ftj_memory_free(ctx, job->rows[side]);
        free(job->host_rows[side]);
    }
    ftj_memory_free(ctx, job->slots);
    free(job->host_slots);
    bench_pool_finish(&job->pool);
    ftj_attention_destroy(job->attn);
}

/* Values of K, or of V, in one set. */
static size_t values_per_set(const struct bench_shape *shape)
{
    return (size_t)shape->batch * shape->kv_heads * shape->head_dim;
}

static uint64_t bytes_moved(const struct store_job *job, const ftj_kv_layout *layout)
{
    const uint64_t read = 2 * sizeof(uint16_t) * values_per_set(job->run->shape);
    return read + job->run->shape->batch * layout->token_bytes;
}

static ftj_status call_store(void *data, uint32_t index, struct CUstream_st *stream)
{
    struct store_job *job = data;
    const struct bench_shape *shape = job->run->shape;
    const size_t set = index % job->num_sets;
    const ftj_store_args args = {
        .cache = job->pool.cache,
        .k = (const uint16_t *)job->rows[0] + set * values_per_set(shape),
        .v = (const uint16_t *)job->rows[1] + set * values_per_set(shape),
        .slots = (const int32_t *)job->slots + set * shape->batch,
        .num_tokens = shape->batch,
    };
    return ftj_kv_store(job->attn, &args, stream);
}

static ftj_status job_init(struct store_job *job, const ftj_attention_desc *desc)
{
    const ftj_kv_layout *layout = &desc->kv;
    const struct bench_shape *shape = job->run->shape;
    ftj_context *ctx = job->session->ctx;
    struct bench_random random = {job->session->seed};
    ftj_status status = ftj_attention_create(ctx, desc, &job->attn);
    if (status)
        return status;

    job->num_sets =
        bench_num_sets(job->session, bytes_moved(job, layout), bytes_moved(job, layout), 2);
    const uint64_t tokens = (uint64_t)job->num_sets * shape->batch;
    const uint64_t num_pages = (tokens + job->run->page - 1) / job->run->page;
    status = bench_pool_init(&job->pool, ctx, layout, num_pages);
    if (status)
        return status;

    /* A prefill fills pages; the tokens of a decode step, fewer than a page holds, are of as many
     * requests. */
    const uint32_t run_length = shape->batch > job->run->page ? job->run->page : 1;
    job->host_slots = bench_random_slots(&random, tokens, run_length);
    status = bench_upload(ctx, job->host_slots, tokens * sizeof(*job->host_slots), &job->slots);
    const size_t values = values_per_set(shape) * job->num_sets;
    for (int side = 0; side < 2 && !status; side++) {
        job->host_rows[side] = bench_random_rows(&random, job->run->format.dtype, values);
        status =
            bench_upload(ctx, job->host_rows[side], values * sizeof(uint16_t), &job->rows[side]);
    }
    return status;
}

/* Bytes of one array's row that differ from what the reference wrote. */
static ftj_status count_wrong(struct store_job *job, const ftj_kv_array *array, uint64_t slot,
                              uint32_t head, const void *expected, uint64_t *wrong)
{
    uint8_t got[2 * REF_MAX_HEAD_DIM];
    if (!array->row_bytes)
        return FTJ_OK;
    const ftj_status status = ftj_memory_read(
        job->session->ctx, got, bench_pool_row(&job->pool, array, slot, head), array->row_bytes);
    for (uint32_t i = 0; i < array->row_bytes && !status; i++)
        *wrong += got[i] != ((const uint8_t *)expected)[i];
    return status;
}

static ftj_status check_row(struct store_job *job, int side, uint64_t token, uint32_t head,
                            uint64_t *wrong)
{
    const struct bench_shape *shape = job->run->shape;
    const ftj_dtype dtype = job->run->format.dtype;
    const ftj_kv_side *arrays = side ? &job->pool.layout.v : &job->pool.layout.k;
    const ftj_kv_format format = side ? job->run->format.v : job->run->format.k;
    const uint16_t *source =
        job->host_rows[side] + (token * shape->kv_heads + head) * shape->head_dim;
    const uint64_t slot = (uint64_t)job->host_slots[token];
    float row[REF_MAX_HEAD_DIM];
    struct ref_row expected;

    for (uint32_t i = 0; i < shape->head_dim; i++)
        row[i] = ref_16bit_widen(dtype, source[i]);
    ref_row_encode(format, dtype, row, shape->head_dim, &expected);
    ftj_status status = count_wrong(job, &arrays->codes, slot, head, expected.codes, wrong);
    if (!status)
        status = count_wrong(job, &arrays->row_scales, slot, head, &expected.row_scale, wrong);
    if (!status)
        status = count_wrong(job, &arrays->block_scales, slot, head, expected.block_scales, wrong);
    return status;
}

/* Tokens spread over all sets. */
static ftj_status check_rows(struct store_job *job, uint64_t *wrong)
{
    const struct bench_shape *shape = job->run->shape;
    const uint64_t tokens = (uint64_t)job->num_sets * shape->batch;
    const uint64_t count = tokens < CHECKED_TOKENS ? tokens : CHECKED_TOKENS;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t token = i * (tokens - 1) / (count > 1 ? count - 1 : 1);
        for (uint32_t head = 0; head < shape->kv_heads; head++) {
            for (int side = 0; side < 2; side++) {
                const ftj_status status = check_row(job, side, token, head, wrong);
                if (status)
                    return status;
            }
        }
    }
    return FTJ_OK;
}

/* Check what eager calls wrote; poison; time; check what the timed calls wrote. */
static ftj_status check_and_time(struct store_job *job, struct bench_row *row)
{
    ftj_context *ctx = job->session->ctx;
    struct CUstream_st *stream = job->session->timer.stream;
    uint64_t wrong = 0;
    ftj_status status = FTJ_OK;

    for (uint32_t set = 0; set < job->num_sets && !status; set++)
        status = call_store(job, set, stream);
    if (!status)
        status = ftj_stream_synchronize(ctx, stream);
    if (!status)
        status = check_rows(job, &wrong);
    if (!status)
        status = bench_pool_poison(&job->pool);
    if (!status)
        status = bench_states_time(&job->session->timer,
                                   &(struct bench_task){
                                       .call = call_store,
                                       .data = job,
                                       .num_calls = bench_num_calls(job->session, job->num_sets),
                                       .states = job->run->states,
                                   },
                                   row->timings);
    if (!status)
        status = check_rows(job, &wrong);
    row->check_error = (double)wrong;
    row->check_ok = !status && wrong == 0;
    return status;
}

ftj_status bench_store_run(struct bench_session *session, const struct bench_case *run,
                           struct bench_row *row)
{
    struct store_job job = {.session = session, .run = run};
    ftj_attention_desc desc;
    ftj_status status = bench_case_desc(run, &desc);
    if (status)
        return status;
    status = job_init(&job, &desc);
    if (!status) {
        row->bytes = bytes_moved(&job, &desc.kv);
        row->variant = bench_variant_name(job.attn, BENCH_STORE);
        status = check_and_time(&job, row);
    }
    job_finish(&job);
    return status;
}
