/* SPDX-License-Identifier: MIT */
/* Every layer of a directory through every pair of formats, measured and judged. */
#include "tests/check/activations.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/check/activations_data.h"
#include "tests/check/activations_device.h"

enum { max_layers = 100 };

/* Scores are sums in fp32 of exact products, whatever K is stored in: some fifty times what they
 * were seen to lose. */
static const double lse_bar = 1e-4;

/* Compare all there is to compare. */
static ftj_status measure(const struct activations_layer *layer,
                          const struct activations_device *device,
                          struct activations_result *result)
{
    struct activations_state wanted = {.o = NULL};
    ftj_status status = activations_state_init(&wanted, layer);
    if (!status)
        status = activations_format_cost(layer, &device->decoded, result);
    if (!status) {
        activations_attend(layer, result->pair->dtype, &device->decoded, &wanted);
        result->kernel = activations_compare(layer, &device->outputs, &wanted);
        result->total = activations_compare(layer, &device->outputs, &layer->exact);
        result->wrong_rows = device->wrong_rows;
        result->token_bytes = device->token_bytes;
    }
    activations_state_finish(&wanted);
    return status;
}

/* Whether it passes, and the first reason why not. A NaN is below no bar. */
static ftj_status judge(const char *dir, struct activations_result *result,
                        char sentence[ACTIVATIONS_SENTENCE])
{
    const struct activations_pair *pair = result->pair;
    struct activations_expected expected;
    const ftj_status status =
        activations_expected_get(dir, result->layer, pair, &expected, sentence);
    if (status && status != FTJ_E_NOT_FOUND)
        return status;
    result->has_expected = status == FTJ_OK;
    if (result->wrong_rows)
        snprintf(result->reason, sizeof(result->reason),
                 "%llu stored rows have other bytes than the reference's",
                 (unsigned long long)result->wrong_rows);
    else if (!(result->kernel.o_rms <= pair->o_bar))
        snprintf(result->reason, sizeof(result->reason),
                 "the kernels' own relative RMS error of O is %.3g; %.3g is allowed",
                 result->kernel.o_rms, pair->o_bar);
    else if (!(result->kernel.lse_max <= lse_bar))
        snprintf(result->reason, sizeof(result->reason),
                 "the kernels' own largest error of LSE is %.3g; %.3g is allowed",
                 result->kernel.lse_max, lse_bar);
    else if (result->has_expected)
        activations_hold(result, &expected, result->reason);
    result->outcome = result->reason[0] ? ACTIVATIONS_FAILED : ACTIVATIONS_PASSED;
    return FTJ_OK;
}

static ftj_status run_pair(ftj_context *ctx, const char *dir, const struct activations_layer *layer,
                           struct activations_result *result, char sentence[ACTIVATIONS_SENTENCE])
{
    struct activations_device device = {.token_bytes = 0};
    ftj_status status = activations_device_run(ctx, layer, result->pair, &device);
    if (status == FTJ_E_UNSUPPORTED) {
        snprintf(result->reason, sizeof(result->reason), "%s", ftj_last_error());
        result->outcome = ACTIVATIONS_SKIPPED;
        status = FTJ_OK;
        goto cleanup;
    }
    if (!status)
        status = measure(layer, &device, result);
    if (status)
        snprintf(sentence, ACTIVATIONS_SENTENCE, "layer %u, %s: %s", layer->index,
                 result->pair->name,
                 status == FTJ_E_NO_MEMORY ? "out of memory" : ftj_last_error());
    else
        status = judge(dir, result, sentence);

cleanup:
    activations_device_finish(&device);
    return status;
}

static ftj_status run_layer(ftj_context *ctx, const char *dir, uint32_t index,
                            activations_progress_fn progress, void *data,
                            struct activations_report *report, char sentence[ACTIVATIONS_SENTENCE])
{
    struct activations_layer layer = {.index = 0};
    ftj_status status = activations_layer_init(&layer, dir, index, sentence);
    for (size_t i = 0; i < ACTIVATIONS_NUM_PAIRS && !status; i++) {
        struct activations_result *result = &report->results[report->num_results];
        *result = (struct activations_result){.layer = index, .pair = &activations_pairs[i]};
        status = run_pair(ctx, dir, &layer, result, sentence);
        if (status)
            break;
        report->num_results++;
        report->num_failed += result->outcome == ACTIVATIONS_FAILED;
        report->num_skipped += result->outcome == ACTIVATIONS_SKIPPED;
        if (progress)
            progress(data, result);
    }
    activations_layer_finish(&layer);
    return status;
}

ftj_status activations_verify(ftj_context *ctx, const char *dir, activations_progress_fn progress,
                              void *data, struct activations_report *report,
                              char sentence[ACTIVATIONS_SENTENCE])
{
    sentence[0] = '\0';
    *report = (struct activations_report){.num_results = 0};
    report->results = calloc(max_layers * ACTIVATIONS_NUM_PAIRS, sizeof(struct activations_result));
    if (!report->results) {
        snprintf(sentence, ACTIVATIONS_SENTENCE, "out of memory");
        return FTJ_E_NO_MEMORY;
    }
    for (uint32_t index = 0; index < max_layers; index++) {
        const ftj_status status = run_layer(ctx, dir, index, progress, data, report, sentence);
        if (status && status != FTJ_E_NOT_FOUND)
            return status;
    }
    if (report->num_results)
        return FTJ_OK;
    snprintf(sentence, ACTIVATIONS_SENTENCE,
             "there is no layer00_k.npy to layer99_k.npy in the directory '%.200s'", dir);
    return FTJ_E_NOT_FOUND;
}

void activations_report_finish(struct activations_report *report)
{
    free(report->results);
    *report = (struct activations_report){.num_results = 0};
}
