/* SPDX-License-Identifier: MIT */
/* The parts of `ftjit bench`. */
#ifndef FTJ_CLI_BENCH_H
#define FTJ_CLI_BENCH_H

#include "bench/bench_session.h"
#include "cli/cli.h"

#define CLI_BENCH_MAX_FORMATS 16

/* What was asked for. */
struct cli_bench_options {
    struct cli_device device;
    struct bench_format formats[CLI_BENCH_MAX_FORMATS];
    size_t num_formats;
    const char *workloads; /* names separated by commas; NULL: what suits the device */
    bool orders[3];        /* by ftj_kv_order; none: the workload's */
    bool keys[2];          /* extend: from the cache, new ones beside it */
    unsigned states;       /* 1 << enum bench_state; 0: what suits the workload */
    uint64_t page;         /* these override the workloads'; 0: as they are */
    uint64_t head_dim;
    uint64_t batch;
    uint64_t context;
    uint64_t seed;
    const char *out; /* file for the JSON document, or NULL */
    const char *commit;
    bool is_quick;
    bool is_child; /* of `bench start`: measures its own process */
};

/* Rows of decode, store and extend; `ops` is a set of 1 << enum bench_op. */
int cli_bench_rows(const struct cli_bench_options *options, unsigned ops);
/* Host cost of a call. */
int cli_bench_launch(const struct cli_bench_options *options);
/* From process start to the first launch, in child processes. */
int cli_bench_start(const struct cli_bench_options *options);

/* True when `name` is one of a list of names separated by commas, as bench_shape_matches() reads
 * them. */
bool cli_bench_wants(const char *list, const struct bench_shape *shape);

#endif
