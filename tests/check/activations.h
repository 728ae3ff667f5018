/* SPDX-License-Identifier: MIT */
/*
 * Real activations through a device: what the formats cost on them, and what the kernels add.
 *
 * A directory holds layerNN_q.npy [queries, q heads, D], layerNN_k.npy and layerNN_v.npy
 * [tokens, kv heads, D] of any layers NN from 00 to 99; the queries stand at the last positions.
 * For every layer and every pair of formats the rows are stored by ftj_kv_store(), every query is
 * decoded as a request of its own over shared pages, and the cache is read back. The bytes must be
 * the reference's, the kernels' own error small, and the formats' cost what expected.tsv says,
 * where the directory has one.
 *
 * Uses the public interface and the references alone. One thread per report.
 */
#ifndef FTJ_TESTS_ACTIVATIONS_H
#define FTJ_TESTS_ACTIVATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ftjit/ftjit.h"
#include "tests/ref/ref_npy.h"

#define ACTIVATIONS_NUM_PAIRS 4
#define ACTIVATIONS_SENTENCE  REF_NPY_SENTENCE

/* A format of K with one of V. */
struct activations_pair {
    const char *name; /* "bf16", "fp8", "nvfp4", "fp8+nvfp4" */
    ftj_kv_format k_format;
    ftj_kv_format v_format;
    ftj_dtype dtype; /* of q, o and a 16-bit cache */
    double o_bar;    /* most relative RMS error of o that may be the kernels' own */
};

extern const struct activations_pair activations_pairs[ACTIVATIONS_NUM_PAIRS];

/* One attention against another, over all queries and heads. */
struct activations_error {
    double o_rms; /* relative: sqrt(sum of squares / sum of squares of what was wanted) */
    double o_max; /* absolute */
    double lse_max;
};

enum activations_outcome {
    ACTIVATIONS_PASSED,
    ACTIVATIONS_FAILED,
    ACTIVATIONS_SKIPPED, /* no kernel covers the pair on this device */
};

/* One layer through one pair of formats. */
struct activations_result {
    uint32_t layer;
    const struct activations_pair *pair;
    uint64_t token_bytes;            /* K and V of all kv heads of a token, as laid out */
    struct activations_error format; /* exact over the decoded cache, against exact over the data */
    struct activations_error total;  /* the device's, against exact over the data */
    struct activations_error kernel; /* the device's, against exact over the decoded cache */
    double k_rms;                    /* relative RMS error of the decoded rows */
    double v_rms;
    uint64_t wrong_rows; /* rows whose bytes are not the reference's */
    bool has_expected;   /* `format`, `k_rms` and `v_rms` were held against expected.tsv */
    enum activations_outcome outcome;
    char reason[ACTIVATIONS_SENTENCE]; /* why it failed or was skipped; "" when it passed */
};

/* A zeroed one is empty. */
struct activations_report {
    struct activations_result *results; /* owned */
    size_t num_results;
    size_t num_failed;
    size_t num_skipped;
};

/* Told of every result as it comes; `result` is borrowed for the call. */
typedef void (*activations_progress_fn)(void *data, const struct activations_result *result);

/* Run everything in `dir`. FTJ_OK when all was run, failed or not: look at the report. Else a
 * status and one sentence in `sentence` (no such files, a malformed one, a device that broke), with
 * what was finished in `report`, which the caller finishes either way. `progress` may be NULL. */
FTJ_NODISCARD ftj_status activations_verify(ftj_context *ctx, const char *dir,
                                            activations_progress_fn progress, void *data,
                                            struct activations_report *report,
                                            char sentence[ACTIVATIONS_SENTENCE]);
void activations_report_finish(struct activations_report *report);

#endif
