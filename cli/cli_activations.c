/* SPDX-License-Identifier: MIT */
/* `ftjit verify --input`: what each format costs on real activations, and what the kernels add. */
#include "cli/cli_verify.h"
#include "tests/check/activations.h"

static const char title[] =
    "What a format costs: exact attention over the decoded cache, against exact attention over\n"
    "the data as it is. kernel rms: the device's output against the former, all the kernel's own.\n"
    "\n"
    "layer  K + V        bytes/token     O rms     O max   LSE max     K rms     V rms"
    "  kernel rms\n";

static const char *outcome_name(enum activations_outcome outcome)
{
    static const char *const names[] = {"passed", "failed", "skipped"};
    return names[outcome];
}

static void print_row(void *data, const struct activations_result *result)
{
    bool *has_title = data;
    if (!*has_title)
        fputs(title, stdout);
    *has_title = true;
    if (result->outcome == ACTIVATIONS_SKIPPED) {
        printf("%5u  %-11s  skipped: %s\n", (unsigned)result->layer, result->pair->name,
               result->reason);
    } else {
        printf("%5u  %-11s  %11llu  %8.2e  %8.2e  %8.2e  %8.2e  %8.2e    %8.2e%s%s\n",
               (unsigned)result->layer, result->pair->name, (unsigned long long)result->token_bytes,
               result->format.o_rms, result->format.o_max, result->format.lse_max, result->k_rms,
               result->v_rms, result->kernel.o_rms,
               result->outcome == ACTIVATIONS_FAILED ? "  FAILED: " : "", result->reason);
    }
    fflush(stdout);
}

static cJSON *error_json(const struct activations_error *error)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddNumberToObject(json, "o_rms", error->o_rms);
    cJSON_AddNumberToObject(json, "o_max", error->o_max);
    cJSON_AddNumberToObject(json, "lse_max", error->lse_max);
    return json;
}

static cJSON *result_json(const struct activations_result *result)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddNumberToObject(json, "layer", result->layer);
    cJSON_AddStringToObject(json, "format", result->pair->name);
    cJSON_AddNumberToObject(json, "token_bytes", (double)result->token_bytes);
    cJSON_AddItemToObject(json, "format_error", error_json(&result->format));
    cJSON_AddItemToObject(json, "kernel_error", error_json(&result->kernel));
    cJSON_AddItemToObject(json, "total_error", error_json(&result->total));
    cJSON_AddNumberToObject(json, "k_rms", result->k_rms);
    cJSON_AddNumberToObject(json, "v_rms", result->v_rms);
    cJSON_AddNumberToObject(json, "kernel_bound", result->pair->o_bar);
    cJSON_AddNumberToObject(json, "wrong_rows", (double)result->wrong_rows);
    cJSON_AddBoolToObject(json, "has_expected", result->has_expected);
    cJSON_AddStringToObject(json, "outcome", outcome_name(result->outcome));
    cJSON_AddStringToObject(json, "reason", result->reason);
    return json;
}

static int print_report_json(const struct activations_report *report, const char *folder)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "input", folder);
    cJSON_AddNumberToObject(json, "failed", (double)report->num_failed);
    cJSON_AddNumberToObject(json, "skipped", (double)report->num_skipped);
    cJSON *rows = cJSON_AddArrayToObject(json, "rows");
    for (size_t i = 0; i < report->num_results; i++)
        cJSON_AddItemToArray(rows, result_json(&report->results[i]));
    return cli_print_json("verify", json, stdout);
}

static void print_totals(const struct activations_report *report)
{
    size_t num_expected = 0;
    for (size_t i = 0; i < report->num_results; i++)
        num_expected += report->results[i].has_expected;
    printf(
        "\n%zu rows, %zu failed, %zu skipped; bytes equal the reference's and the kernels' share "
        "is\nwithin its bound",
        report->num_results, report->num_failed, report->num_skipped);
    if (num_expected)
        printf("; the cost of %zu was held against expected.tsv, within 1 %%", num_expected);
    puts(report->num_failed ? ", but for the failed ones." : ".");
}

int cli_activations(const struct cli_device *device, const char *folder)
{
    char sentence[ACTIVATIONS_SENTENCE] = "";
    struct activations_report report = {0};
    int code = CLI_OK;
    ftj_context *ctx = cli_device_open(device, "verify", &code);
    if (!ctx)
        return code;

    bool has_title = false;
    const ftj_status status = activations_verify(ctx, folder, device->is_json ? NULL : print_row,
                                                 &has_title, &report, sentence);
    if (status) {
        fprintf(stderr, "ftjit verify: %s\n", sentence);
        code = CLI_FAILED;
    } else if (device->is_json) {
        code = print_report_json(&report, folder);
    } else {
        print_totals(&report);
    }
    if (!code && report.num_failed)
        code = CLI_FAILED;
    activations_report_finish(&report);
    ftj_context_destroy(ctx);
    return code;
}
