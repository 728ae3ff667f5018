/* SPDX-License-Identifier: MIT */
/* Inside the harness: tests, tiers, and the row that is running. */
#ifndef FTJ_TESTS_CHECK_ROW_H
#define FTJ_TESTS_CHECK_ROW_H

#include "base/device.h"
#include "codegen/problem.h"
#include "tests/check/check.h"
#include "tests/check/check_random.h"

/* One variant of one kernel, made the device's first choice by narrowing its features. */
struct check_tier {
    char name[96];   /* "attn_decode_sm80", "attn_decode_sm80-fp8_convert" */
    char narrow[96]; /* settings.features; "" for none */
    const char *variant;
    bool is_secondary; /* the same kernel without the hardware's fp8 conversion */
};

struct check_row {
    const struct check_options *options;
    ftj_context *ctx;
    const struct check_tier *tier;
    const char *test;
    uint64_t index;
    struct check_random random; /* reseeded before prepare() and before each run() */
    enum check_outcome outcome;
    char shape[160];
    char message[1024];
};

struct check_test {
    const char *name;
    enum ftj_kernel_op op; /* whose variants the rows run on */
    /* Rows there are; the first num_quick(options) of them are the quick ones. */
    uint64_t (*num_rows)(const struct check_options *options);
    uint64_t (*num_quick)(const struct check_options *options);
    /* Inputs and references, once for all tiers; NULL where there is nothing worth sharing. Sees
     * no context. */
    void *(*prepare)(struct check_row *row);
    void (*finish)(void *prepared);
    /* One tier. `prepared` is what prepare() returned. */
    void (*run)(struct check_row *row, void *prepared);
    /* Fill row->shape; no other effect. */
    void (*describe)(struct check_row *row);
    /* True for rows whose formats hold E4M3 numbers: the quick ones of them run on secondary tiers
     * too. NULL: none does. */
    bool (*has_fp8)(uint64_t index);
    /* Rows before it run on every tier, the others on the device's first choice only: a kernel more
     * is a compile more. 0: all rows do. */
    uint64_t rows_on_every_tier;
};

/* Mark the row failed; the first sentence stays. */
void check_fail(struct check_row *row, const char *format, ...) FTJ_PRINTF(2, 3);
/* Mark the row skipped, with the reason. */
void check_skip(struct check_row *row, const char *format, ...) FTJ_PRINTF(2, 3);
/* True when status is FTJ_OK; else the row fails with the library's sentence. */
bool check_ok(struct check_row *row, ftj_status status, const char *call);
/* The call must have been refused with `expected`, in a sentence that contains each of the words
 * (separated by '|'). */
void check_refused(struct check_row *row, ftj_status status, ftj_status expected,
                   const char *words);

/* Memory of a harness that has no way on without it: exits with a sentence when there is none. */
void *check_alloc(size_t bytes);

extern const struct check_test check_codec_test;
extern const struct check_test check_codec_vectors_test;
extern const struct check_test check_fp8_codes_test;
extern const struct check_test check_fp8_floats_test;
extern const struct check_test check_decode_test;
extern const struct check_test check_extend_test;
extern const struct check_test check_extend_copies_test;
extern const struct check_test check_short_test;
extern const struct check_test check_drawn_decode_test;
extern const struct check_test check_drawn_extend_test;
extern const struct check_test check_drawn_short_test;
extern const struct check_test check_generic_test;
extern const struct check_test check_merge_test;
extern const struct check_test check_invariants_test;
extern const struct check_test check_refusals_test;
extern const struct check_test check_acceptance_test;

#endif
