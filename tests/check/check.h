/* SPDX-License-Identifier: MIT */
/*
 * The check harness: every kernel variant a device can run, by name, against plain C references.
 *
 * A test is a list of rows; a row has inputs of its own, drawn from the seed, the test's name and
 * the row's number only, and runs once on each tier: one variant, with the hardware's fp8
 * conversion or without it. Rows print the command that repeats them.
 */
#ifndef FTJ_TESTS_CHECK_H
#define FTJ_TESTS_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "ftjit/context.h"

struct check_options {
    ftj_device_kind kind;
    int device;            /* CUDA ordinal */
    const char *cache_dir; /* as in ftj_settings; NULL: its default */
    const char *test;      /* glob over test names; NULL: all */
    const char *variant;   /* glob over tier names; NULL: all */
    bool has_row;
    uint64_t row;  /* with has_row: this row only, and the full lists are open to it */
    uint64_t seed; /* 0: the default */
    uint32_t shard_index;
    uint32_t shard_count; /* 0: one */
    /* A file by which processes take rows, each the next one when it has ended one: how long a row
     * takes is not known beforehand. Made where it is not there; else the rows before what it says
     * are others' already. NULL: the rows of a shard. */
    const char *deal;
    bool quick;     /* the covering subset of rows, made for the CPU device */
    bool list;      /* report rows as CHECK_LISTED and run none */
    ftj_log_fn log; /* as in ftj_settings, with warnings and up; NULL: nobody listens */
    void *log_data;
    uint64_t codec_values; /* values per format of the codec test; 0: what suits the device */
};

enum check_outcome { CHECK_PASSED, CHECK_FAILED, CHECK_SKIPPED, CHECK_LISTED };

/* One row on one tier; borrowed for the call. */
struct check_result {
    enum check_outcome outcome;
    const char *test;
    const char *variant;
    uint64_t row;
    const char *shape;   /* what the row is, in a few words */
    const char *message; /* what went wrong, or why it was skipped; else "" */
    const char *command; /* repeats the row */
    double seconds;
};
typedef void (*check_report_fn)(void *data, const struct check_result *result);

struct check_totals {
    uint64_t passed;
    uint64_t failed;
    uint64_t skipped;
    uint64_t listed;
};

/*
 * Run what the options choose. Failing rows are counted, not returned: the status says whether the
 * device could be opened at all (FTJ_E_IO: the deal's file could not). `totals` is filled in any
 * case.
 */
FTJ_NODISCARD ftj_status check_run(const struct check_options *options, check_report_fn report,
                                   void *data, struct check_totals *totals);

#endif
