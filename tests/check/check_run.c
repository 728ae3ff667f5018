/* SPDX-License-Identifier: MIT */
/* Choosing rows, running each on its tiers, reporting. */
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/check/check_deal.h"
#include "tests/check/check_row.h"
#include "tests/check/check_tiers.h"

#define CHECK_DEFAULT_SEED 1

static const struct check_test *const tests[] = {
    &check_codec_vectors_test, &check_codec_test,         &check_fp8_floats_test,
    &check_fp8_codes_test,     &check_generic_test,       &check_decode_test,
    &check_extend_test,        &check_extend_copies_test, &check_short_test,
    &check_drawn_decode_test,  &check_drawn_extend_test,  &check_drawn_short_test,
    &check_merge_test,         &check_refusals_test,      &check_invariants_test,
    &check_acceptance_test,
};
static const size_t num_tests = sizeof(tests) / sizeof(*tests);

struct run {
    struct check_options options; /* with the defaults filled in */
    check_report_fn report;
    void *data;
    struct check_totals *totals;
    struct check_contexts contexts;
    uint32_t probed;
    uint32_t features;
    struct check_deal deal;
};

void *check_alloc(size_t bytes)
{
    void *memory = calloc(1, bytes ? bytes : 1);
    if (!memory) {
        fprintf(stderr, "check: no memory for %zu bytes of test data\n", bytes);
        exit(1);
    }
    return memory;
}

void check_fail(struct check_row *row, const char *format, ...)
{
    if (row->outcome == CHECK_FAILED)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(row->message, sizeof(row->message), format, arguments);
    va_end(arguments);
    row->outcome = CHECK_FAILED;
}

void check_skip(struct check_row *row, const char *format, ...)
{
    if (row->outcome != CHECK_PASSED)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(row->message, sizeof(row->message), format, arguments);
    va_end(arguments);
    row->outcome = CHECK_SKIPPED;
}

bool check_ok(struct check_row *row, ftj_status status, const char *call)
{
    if (status)
        check_fail(row, "%s: %s: %s", call, ftj_status_name(status), ftj_last_error());
    return status == FTJ_OK;
}

void check_refused(struct check_row *row, ftj_status status, ftj_status expected, const char *words)
{
    if (status != expected) {
        check_fail(row, "expected %s, got %s (%s)", ftj_status_name(expected),
                   ftj_status_name(status), ftj_last_error());
        return;
    }
    const char *sentence = ftj_last_error();
    char word[64];
    while (*words) {
        const size_t length = strcspn(words, "|");
        snprintf(word, sizeof(word), "%.*s", (int)length, words);
        if (!strstr(sentence, word))
            check_fail(row, "the sentence \"%s\" lacks \"%s\"", sentence, word);
        words += length + (words[length] == '|');
    }
}

static double now_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void report_row(struct run *run, const struct check_row *row, double seconds)
{
    const struct check_options *options = &run->options;
    char device[32] = "cpu";
    char command[320];
    if (options->kind == FTJ_DEVICE_CUDA)
        snprintf(device, sizeof(device), "%d", options->device);
    snprintf(command, sizeof(command),
             "ftjit verify --device %s --test=%s --variant=%s --row=%llu --seed=%llu", device,
             row->test, row->tier->name, (unsigned long long)row->index,
             (unsigned long long)options->seed);

    run->totals->passed += row->outcome == CHECK_PASSED;
    run->totals->failed += row->outcome == CHECK_FAILED;
    run->totals->skipped += row->outcome == CHECK_SKIPPED;
    run->totals->listed += row->outcome == CHECK_LISTED;
    run->report(run->data, &(struct check_result){
                               .outcome = row->outcome,
                               .test = row->test,
                               .variant = row->tier->name,
                               .row = row->index,
                               .shape = row->shape,
                               .message = row->message,
                               .command = command,
                               .seconds = seconds,
                           });
}

static bool tier_wanted(const struct run *run, const struct check_test *test,
                        const struct check_tier *tier, bool is_first, uint64_t index)
{
    const char *glob = run->options.variant;
    if (glob)
        return fnmatch(glob, tier->name, 0) == 0;
    if (test->rows_on_every_tier && index >= test->rows_on_every_tier && !is_first)
        return run->options.has_row;
    if (!tier->is_secondary)
        return true;
    return test->has_fp8 && test->has_fp8(index) &&
           (run->options.has_row || index < test->num_quick(&run->options));
}

static void run_row(struct run *run, const struct check_test *test, uint64_t index,
                    const struct check_tier *tiers, size_t num_tiers)
{
    void *prepared = NULL;
    for (size_t i = 0; i < num_tiers; i++) {
        if (!tier_wanted(run, test, &tiers[i], i == 0, index))
            continue;
        struct check_row row = {.options = &run->options,
                                .tier = &tiers[i],
                                .test = test->name,
                                .index = index,
                                .outcome = CHECK_PASSED};
        test->describe(&row);
        if (run->options.list) {
            row.outcome = CHECK_LISTED;
            report_row(run, &row, 0);
            continue;
        }
        const double start = now_seconds();
        const struct check_random random = check_random_of(run->options.seed, test->name, index);
        row.random = random;
        if (test->prepare && !prepared)
            prepared = test->prepare(&row);
        row.random = random;
        if (check_ok(&row,
                     check_contexts_get(&run->contexts, &run->options, tiers[i].narrow, &row.ctx),
                     "ftj_context_create"))
            test->run(&row, prepared);
        report_row(run, &row, now_seconds() - start);
    }
    if (prepared)
        test->finish(prepared);
}

static void run_test(struct run *run, const struct check_test *test)
{
    struct check_tier tiers[CHECK_MAX_TIERS];
    const size_t num_tiers = check_tiers_list(test->op, run->probed, run->features, tiers);
    const struct check_options *options = &run->options;
    const bool short_list = options->quick && !options->has_row;
    const uint64_t num_rows = short_list ? test->num_quick(options) : test->num_rows(options);
    for (uint64_t index = 0; index < num_rows; index++) {
        if (options->has_row && index != options->row)
            continue;
        if (check_deal_next(&run->deal))
            run_row(run, test, index, tiers, num_tiers);
    }
}

ftj_status check_run(const struct check_options *options, check_report_fn report, void *data,
                     struct check_totals *totals)
{
    struct run run = {.options = *options, .report = report, .data = data, .totals = totals};
    run.options.seed = options->seed ? options->seed : CHECK_DEFAULT_SEED;
    *totals = (struct check_totals){0};

    ftj_context *ctx = NULL;
    ftj_status status = check_deal_init(&run.deal, options);
    if (status)
        return status;
    status = ftj_context_create(&(ftj_settings){.kind = options->kind,
                                                .device = options->device,
                                                .cache_dir = options->cache_dir},
                                &ctx);
    if (status) {
        check_deal_finish(&run.deal);
        return status;
    }
    ftj_device_info info = {0};
    ftj_context_info(ctx, &info);
    ftj_context_destroy(ctx);
    run.probed = check_features_parse(info.probed);
    run.features = check_features_parse(info.features);

    for (size_t i = 0; i < num_tests; i++) {
        if (!options->test || fnmatch(options->test, tests[i]->name, 0) == 0)
            run_test(&run, tests[i]);
    }
    check_contexts_finish(&run.contexts);
    check_deal_finish(&run.deal);
    return FTJ_OK;
}
