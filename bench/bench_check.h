/* SPDX-License-Identifier: MIT */
/* Some of a job's queries, answered by the device's own fp32 oracle on the same data. */
#ifndef FTJ_BENCH_CHECK_H
#define FTJ_BENCH_CHECK_H

#include "bench/bench_job.h"

/* A zeroed one is empty. */
struct bench_check {
    uint32_t count;
    struct bench_checked {
        uint32_t row; /* of Q and O */
        uint32_t request;
        uint32_t num_cached;  /* keys that it finds in the cache, those after it included */
        uint32_t first_fresh; /* the row of Q at which its chunk of its request begins */
        int32_t position;
    } * queries;     /* owned */
    float *expected; /* [count, q_heads, head_dim]; owned */
};

/* Queries spread over all of the job's, in the job's last set. */
FTJ_NODISCARD ftj_status bench_check_init(struct bench_check *check, struct bench_job *job);
void bench_check_finish(struct bench_check *check); /* zeroed is fine */

/* How far what `o` holds now is from that: the RMS over the queries of each one's error relative
 * to its own size. A query that is far off is not hidden by others of larger values. */
FTJ_NODISCARD ftj_status bench_check_error(const struct bench_check *check, struct bench_job *job,
                                           double *error);

#endif
