/* SPDX-License-Identifier: MIT */
/* Asking the oracle. Keys that lie beside the cache are a cache to it too, of 16-bit pages of one
 * token; a query that has keys in both gets the two answers merged. */
#include "bench/bench_check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/ref/ref_codec.h"

/* The oracle is slow: one warp walks all keys of a query and head. */
#define MAX_DECODES 4
#define MAX_QUERIES 64

/* What the oracle is asked: each query is a request of its own. A zeroed one is empty. */
struct question {
    ftj_attention *attn; /* borrowed */
    ftj_kv_cache cache;
    int32_t *tables; /* [count, width]; these are owned, on the host */
    int32_t *lengths;
    int32_t *positions;
    size_t width;
    float *o;   /* [count, q_heads, head_dim] */
    float *lse; /* [count, q_heads] */
};

static void question_finish(struct question *question)
{
    free(question->tables);
    free(question->lengths);
    free(question->positions);
    free(question->o);
    free(question->lse);
    *question = (struct question){0};
}

static size_t row_values(const struct bench_job *job)
{
    return (size_t)job->run->shape->q_heads * job->run->shape->head_dim;
}

static ftj_status question_init(struct question *question, const struct bench_job *job,
                                uint32_t count, size_t width)
{
    question->width = width;
    question->tables = malloc(count * width * sizeof(*question->tables));
    question->lengths = malloc(count * sizeof(*question->lengths));
    question->positions = malloc(count * sizeof(*question->positions));
    question->o = malloc(count * row_values(job) * sizeof(*question->o));
    question->lse = malloc(count * job->run->shape->q_heads * sizeof(*question->lse));
    const bool is_complete = question->tables && question->lengths && question->positions &&
                             question->o && question->lse;
    return is_complete ? FTJ_OK
                       : ftj_fail(NULL, FTJ_E_NO_MEMORY, "no host memory for the oracle's inputs");
}

/* Queries and outputs are fp32 there. */
static float *widened_queries(const struct bench_check *check, const struct bench_job *job)
{
    const size_t row = row_values(job);
    float *q = malloc(check->count * row * sizeof(*q));
    for (uint32_t i = 0; i < check->count && q; i++) {
        for (size_t j = 0; j < row; j++)
            q[i * row + j] = ref_16bit_widen(job->run->format.dtype,
                                             job->host_q[check->queries[i].row * row + j]);
    }
    return q;
}

/* Fills the question's o and lse. */
static ftj_status ask(struct question *question, const struct bench_check *check,
                      struct bench_job *job)
{
    ftj_context *ctx = job->session->ctx;
    const uint32_t count = check->count;
    const size_t o_bytes = count * row_values(job) * sizeof(float);
    const size_t lse_bytes = (size_t)count * job->run->shape->q_heads * sizeof(float);
    float *host_q = widened_queries(check, job);
    void *q = NULL;
    void *tables = NULL;
    void *lengths = NULL;
    void *positions = NULL;
    void *o = NULL;
    void *lse = NULL;

    ftj_status status = bench_upload(ctx, host_q, o_bytes, &q);
    if (!status)
        status =
            bench_upload(ctx, question->tables, count * question->width * sizeof(int32_t), &tables);
    if (!status)
        status = bench_upload(ctx, question->lengths, count * sizeof(int32_t), &lengths);
    if (!status)
        status = bench_upload(ctx, question->positions, count * sizeof(int32_t), &positions);
    if (!status)
        status = ftj_memory_alloc(ctx, o_bytes, &o);
    if (!status)
        status = ftj_memory_alloc(ctx, lse_bytes, &lse);
    const ftj_generic_args args = {
        .cache = question->cache,
        .requests = {.batch = count,
                     .lengths = lengths,
                     .block_table = tables,
                     .block_table_stride = (int64_t)question->width},
        .q = q,
        .o = o,
        .lse = lse,
        .sinks = job->sinks,
        .num_queries = count,
        .q_positions = positions,
    };
    if (!status)
        status = ftj_attention_generic(question->attn, &args, NULL);
    if (!status)
        status = ftj_stream_synchronize(ctx, NULL);
    if (!status)
        status = ftj_memory_read(ctx, question->o, o, o_bytes);
    if (!status)
        status = ftj_memory_read(ctx, question->lse, lse, lse_bytes);

    void *const on_device[] = {q, tables, lengths, positions, o, lse};
    for (size_t i = 0; i < sizeof(on_device) / sizeof(*on_device); i++)
        ftj_memory_free(ctx, on_device[i]);
    free(host_q);
    return status;
}

/* Over the keys in the cache. */
static ftj_status ask_cache(struct question *question, const struct bench_check *check,
                            struct bench_job *job)
{
    const size_t width = job->table_width;
    const int32_t *set = job->host_tables + (job->num_sets - 1) * job->batch * width;
    const ftj_status status = question_init(question, job, check->count, width);
    if (status)
        return status;
    question->attn = job->attn;
    question->cache = job->pool.cache;
    for (uint32_t i = 0; i < check->count; i++) {
        const struct bench_checked *query = &check->queries[i];
        memcpy(question->tables + i * width, set + query->request * width,
               width * sizeof(*question->tables));
        question->lengths[i] = (int32_t)query->num_cached;
        question->positions[i] = query->position;
    }
    return ask(question, check, job);
}

/* Over the keys beside it, by an attention of their layout, which the caller destroys. */
static ftj_status ask_fresh(struct question *question, const struct bench_check *check,
                            struct bench_job *job, ftj_attention **attn)
{
    ftj_attention_desc desc;
    struct bench_case fresh = *job->run;
    fresh.format.k = FTJ_KV_16BIT;
    fresh.format.v = FTJ_KV_16BIT;
    fresh.order = FTJ_KV_NHD;
    fresh.page = 1;
    ftj_status status = bench_case_desc(&fresh, &desc);
    desc.ops = FTJ_OP_GENERIC;
    if (!status)
        status = ftj_attention_create(job->session->ctx, &desc, attn);
    if (!status)
        status = question_init(question, job, check->count, job->num_queries);
    if (status)
        return status;
    question->attn = *attn;
    question->cache = (ftj_kv_cache){
        .k_codes = job->fresh[0], .v_codes = job->fresh[1], .num_pages = job->num_queries};
    for (uint32_t i = 0; i < check->count; i++) {
        const struct bench_checked *query = &check->queries[i];
        question->positions[i] = query->position - (int32_t)query->num_cached;
        question->lengths[i] = question->positions[i] + 1;
        for (int32_t j = 0; j < question->lengths[i]; j++)
            question->tables[i * question->width + (size_t)j] = (int32_t)query->first_fresh + j;
    }
    return ask(question, check, job);
}

/* The state over both sets of keys, into a. */
static void merge(struct question *a, const struct question *b, size_t rows, uint32_t head_dim)
{
    for (size_t i = 0; i < rows; i++) {
        const double max = fmax(a->lse[i], b->lse[i]);
        const double of_a = exp(a->lse[i] - max);
        const double of_b = exp(b->lse[i] - max);
        for (size_t j = i * head_dim; j < (i + 1) * head_dim; j++)
            a->o[j] = (float)((of_a * a->o[j] + of_b * b->o[j]) / (of_a + of_b));
    }
}

/* Which request, chunk and position a row of Q is. Rows lie chunk by chunk, then by request. */
static struct bench_checked locate(const struct bench_job *job, uint32_t row)
{
    uint32_t first = 0;
    for (uint32_t chunk = 0;; chunk++) {
        for (uint32_t i = 0; i < job->batch; i++) {
            const uint32_t before = bench_job_queries_before(job, i, chunk);
            const uint32_t with = bench_job_queries_before(job, i, chunk + 1);
            if (row < first + with - before) {
                const uint32_t all = bench_job_queries_before(job, i, job->num_chunks);
                const uint32_t start = bench_shape_context(job->run->shape, i) - all + before;
                return (struct bench_checked){
                    .row = row,
                    .request = i,
                    .num_cached = job->fresh[0] ? start : start + with - before,
                    .first_fresh = first,
                    .position = (int32_t)(start + row - first),
                };
            }
            first += with - before;
        }
    }
}

ftj_status bench_check_init(struct bench_check *check, struct bench_job *job)
{
    const uint32_t most = job->has_runs ? MAX_QUERIES : MAX_DECODES;
    const uint32_t count = job->num_queries < most ? job->num_queries : most;
    struct bench_check made = {.count = count};
    struct question cached = {0};
    struct question fresh = {0};
    ftj_attention *attn = NULL;

    made.queries = malloc(count * sizeof(*made.queries));
    if (!made.queries)
        return ftj_fail(NULL, FTJ_E_NO_MEMORY, "no host memory for a list of queries");
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t last = job->num_queries - 1;
        made.queries[i] = locate(job, (uint32_t)(i * last / (count > 1 ? count - 1 : 1)));
    }
    ftj_status status = ask_cache(&cached, &made, job);
    if (!status && job->fresh[0]) {
        status = ask_fresh(&fresh, &made, job, &attn);
        if (!status)
            merge(&cached, &fresh, (size_t)count * job->run->shape->q_heads,
                  job->run->shape->head_dim);
    }
    if (!status) {
        made.expected = cached.o;
        cached.o = NULL;
        *check = made;
    } else {
        bench_check_finish(&made);
    }
    question_finish(&fresh);
    question_finish(&cached);
    ftj_attention_destroy(attn);
    return status;
}

void bench_check_finish(struct bench_check *check)
{
    free(check->queries);
    free(check->expected);
    *check = (struct bench_check){0};
}

ftj_status bench_check_error(const struct bench_check *check, struct bench_job *job, double *error)
{
    const size_t row = row_values(job);
    double sum = 0;
    uint16_t *got = malloc(row * sizeof(*got));
    ftj_status status =
        got ? FTJ_OK : ftj_fail(NULL, FTJ_E_NO_MEMORY, "no host memory for the outputs");
    for (uint32_t i = 0; i < check->count && !status; i++) {
        double difference = 0;
        double scale = 0;
        status = ftj_memory_read(job->session->ctx, got,
                                 (const uint16_t *)job->o + check->queries[i].row * row,
                                 row * sizeof(*got));
        for (size_t j = 0; j < row && !status; j++) {
            const double want = check->expected[i * row + j];
            const double off = ref_16bit_widen(job->run->format.dtype, got[j]) - want;
            difference += off * off;
            scale += want * want;
        }
        sum += difference / scale;
    }
    free(got);
    *error = sqrt(sum / check->count);
    return status;
}
