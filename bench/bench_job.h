/* SPDX-License-Identifier: MIT */
/* What a decode or an extend is measured on: random requests over a random cache. */
#ifndef FTJ_BENCH_JOB_H
#define FTJ_BENCH_JOB_H

#include "bench/bench_pool.h"
#include "bench/bench_session.h"

/* A zeroed one is empty. */
struct bench_job {
    struct bench_session *session;
    const struct bench_case *run;
    bool has_runs;       /* of queries: an extend, or a speculative decode */
    ftj_attention *attn; /* owned; stores, and is its own oracle */
    struct bench_pool pool;
    uint32_t batch;
    uint32_t num_queries; /* one a request, or all runs of an extend */
    uint32_t num_chunks;  /* calls that these come in */
    uint32_t num_sets;    /* of pages, to rotate over */
    uint32_t table_width; /* pages of the longest request */
    int32_t *host_tables; /* [num_sets, batch, table_width], -1 past a request; these are owned */
    uint16_t *host_q;     /* [num_queries, q_heads, head_dim] */
    void *tables;         /* and on the device: the same, */
    void *lengths;        /* [num_chunks, batch] */
    void *indptr;         /* [num_chunks, batch + 1]; NULL for a decode */
    void *q;
    void *o;
    void *fresh[2]; /* [num_queries, kv_heads, head_dim] K and V beside the cache, or NULL */
    void *sinks;    /* or NULL */
    void *workspace;
    size_t workspace_bytes;
};

/* Of run->op, decode or extend. A job that could not be made is empty. */
FTJ_NODISCARD ftj_status bench_job_init(struct bench_job *job, struct bench_session *session,
                                        const struct bench_case *run);
void bench_job_finish(struct bench_job *job);

/* The requests of a set, as they are in a chunk. */
ftj_requests bench_job_requests(const struct bench_job *job, uint32_t set, uint32_t chunk);

/* Queries of a request before a chunk; all of them for num_chunks. */
uint32_t bench_job_queries_before(const struct bench_job *job, uint32_t request, uint32_t chunk);

/* ftj_attention_extend() of one chunk: `count` queries from row `first` on. */
FTJ_NODISCARD ftj_status bench_job_extend(const struct bench_job *job, uint32_t set, uint32_t chunk,
                                          uint32_t first, uint32_t count,
                                          struct CUstream_st *stream);

/* Bytes of the cache that the queries of all requests see. */
uint64_t bench_job_bytes(const struct bench_job *job);

/* Values of Q, or of O. */
size_t bench_job_values(const struct bench_job *job);

/* Check an eager call, poison O, time, and check what the last timed call left; fills the row's
 * timings and its check. `num_calls` of task->call must end with the last set. */
FTJ_NODISCARD ftj_status bench_job_measure(struct bench_job *job, const struct bench_task *task,
                                           struct bench_row *row);

#endif
