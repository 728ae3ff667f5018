/* SPDX-License-Identifier: MIT */
/* `ftjit verify`: the check harness on this device. */
#include "cli/cli_verify.h"

#include <string.h>

#include "cli/cli_progress.h"
#include "tests/check/check.h"

static const char help[] =
    "use: ftjit verify [OPTIONS]\n"
    "     ftjit verify --input DIR [--device D] [--json]\n"
    "\n"
    "Runs every kernel variant that this device can run, one by one, on a table of shapes, and\n"
    "compares with plain references on the host: codes and scales byte for byte, attention within\n"
    "twice the error of a reference that rounds where a kernel may. Memory that must not be read\n"
    "is full of NaN, memory that must not be written is watched. A row that fails prints the\n"
    "command that repeats it.\n"
    "\n"
    "With --input, takes real activations instead: layerNN_q.npy, layerNN_k.npy and layerNN_v.npy\n"
    "(fp16 or fp32; [tokens, kv heads, head_dim], and the queries of the last positions,\n"
    "[queries, q heads, head_dim]). Prints, per layer and format pair, the cache's bytes per\n"
    "token, what the format costs (the error of the output against exact attention over the data\n"
    "as it is), and what the kernel adds (against exact attention over the decoded cache).\n"
    "\n" CLI_DEVICE_HELP "  --input DIR      a folder of .npy files\n"
    "  --quick          a small covering set of rows\n"
    "  --test GLOB      only tests of this name\n"
    "  --variant GLOB   only variants of this name\n"
    "  --row N          only row N of each test chosen\n"
    "  --seed N         other inputs\n"
    "  --codec-values N values of each format that the codec test encodes (default: 2^24; on the\n"
    "                   CPU device 2^17)\n"
    "  --shard I/N      part I (from 0) of N, to spread the rows over processes\n"
    "  --deal FILE      instead: processes given the same FILE, a new one, each take the next row\n"
    "                   when they have ended one\n"
    "  --list           print the rows, run none\n"
    "\n"
    "Examples:\n"
    "  ftjit verify --quick --device cpu\n"
    "  ftjit verify --test 'decode*' --variant '*sm80*'\n"
    "  ftjit verify --test 'random_*' --seed 2    rows drawn at random; each seed has others\n"
    "  ftjit verify --input tests/data/smollm2\n"
    "\n"
    "Exit codes: 0 every row passed (or was skipped, with the reason); 1 a row failed; 2 bad\n"
    "usage, or no row matches; 3 no driver, or no such device.\n";

enum {
    OPT_INPUT = 256,
    OPT_TEST,
    OPT_VARIANT,
    OPT_ROW,
    OPT_SEED,
    OPT_CODEC_VALUES,
    OPT_SHARD,
    OPT_DEAL,
    OPT_QUICK,
    OPT_LIST
};

#define MAX_CODEC_VALUES ((uint64_t)1 << 33) /* a row's tokens are counted in 32 bits */

static const struct option options[] = {
    CLI_DEVICE_OPTIONS,
    {"input", required_argument, NULL, OPT_INPUT},
    {"test", required_argument, NULL, OPT_TEST},
    {"variant", required_argument, NULL, OPT_VARIANT},
    {"row", required_argument, NULL, OPT_ROW},
    {"seed", required_argument, NULL, OPT_SEED},
    {"codec-values", required_argument, NULL, OPT_CODEC_VALUES},
    {"shard", required_argument, NULL, OPT_SHARD},
    {"deal", required_argument, NULL, OPT_DEAL},
    {"quick", no_argument, NULL, OPT_QUICK},
    {"list", no_argument, NULL, OPT_LIST},
    {0},
};

struct verify {
    struct cli_device device;
    struct check_options check;
    const char *input; /* NULL: the harness */
};

/* What the report callback writes to. */
struct verify_report {
    struct cli_progress progress;
    cJSON *failures; /* NULL: text */
    cJSON *skips;
    cJSON *rows; /* --list */
    bool is_verbose;
};

/* False: it was bad, and has been said. */
static bool take_option(struct verify *verify, int option)
{
    struct check_options *check = &verify->check;
    switch (option) {
    case OPT_INPUT:
        verify->input = optarg;
        return true;
    case OPT_TEST:
        check->test = optarg;
        return true;
    case OPT_VARIANT:
        check->variant = optarg;
        return true;
    case OPT_ROW:
        check->has_row = true;
        return cli_number("verify", "--row", optarg, 0, UINT64_MAX, &check->row);
    case OPT_SEED:
        return cli_number("verify", "--seed", optarg, 1, UINT64_MAX, &check->seed);
    case OPT_CODEC_VALUES:
        return cli_number("verify", "--codec-values", optarg, 1, MAX_CODEC_VALUES,
                          &check->codec_values);
    case OPT_SHARD:
        return cli_shard("verify", optarg, &check->shard_index, &check->shard_count);
    case OPT_DEAL:
        check->deal = optarg;
        return true;
    case OPT_QUICK:
        check->quick = true;
        return true;
    case OPT_LIST:
        check->list = true;
        return true;
    default:
        return cli_device_option(&verify->device, "verify", option, optarg);
    }
}

static cJSON *result_json(const struct check_result *result)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "test", result->test);
    cJSON_AddStringToObject(json, "variant", result->variant);
    cJSON_AddNumberToObject(json, "row", (double)result->row);
    cJSON_AddStringToObject(json, "shape", result->shape);
    cJSON_AddStringToObject(json, "message", result->message);
    cJSON_AddStringToObject(json, "command", result->command);
    return json;
}

static void print_result(const struct check_result *result, bool is_verbose)
{
    static const char *const words[] = {"passed", "FAILED", "skipped", "row"};
    const bool has_message = result->message[0];
    printf("%s %s %s %llu", words[result->outcome], result->test, result->variant,
           (unsigned long long)result->row);
    if (is_verbose && result->outcome != CHECK_LISTED)
        printf(" in %.3f s", result->seconds);
    printf(": %s%s%s\n", result->shape, has_message ? ": " : "", result->message);
    if (result->outcome == CHECK_FAILED)
        printf("  repeat it with: %s\n", result->command);
    fflush(stdout);
}

static void report(void *data, const struct check_result *result)
{
    struct verify_report *to = data;
    char what[128];
    if (to->failures) {
        cJSON *list = result->outcome == CHECK_FAILED    ? to->failures
                      : result->outcome == CHECK_SKIPPED ? to->skips
                      : result->outcome == CHECK_LISTED  ? to->rows
                                                         : NULL;
        if (list)
            cJSON_AddItemToArray(list, result_json(result));
    } else if (result->outcome != CHECK_PASSED || to->is_verbose) {
        cli_progress_clear(&to->progress);
        print_result(result, to->is_verbose);
    }
    snprintf(what, sizeof(what), "%s on %s", result->test, result->variant);
    cli_progress_step(&to->progress, what);
}

static void ignore(void *data, const struct check_result *result)
{
    (void)data;
    (void)result;
}

/* Rows that will run, for the bar; costs no kernel. */
static uint64_t count_rows(const struct check_options *check)
{
    struct check_options listing = *check;
    struct check_totals totals = {0};
    listing.list = true;
    return check_run(&listing, ignore, NULL, &totals) ? 0 : totals.listed;
}

static int print_totals(const struct verify *verify, const struct verify_report *to, cJSON *json,
                        const struct check_totals *totals)
{
    if (json) {
        cJSON_AddNumberToObject(json, "passed", (double)totals->passed);
        cJSON_AddNumberToObject(json, "failed", (double)totals->failed);
        cJSON_AddNumberToObject(json, "skipped", (double)totals->skipped);
        cJSON_AddNumberToObject(json, "listed", (double)totals->listed);
        const int code = cli_print_json("verify", json, stdout);
        if (code)
            return code;
    } else if (verify->check.list) {
        printf("%llu rows\n", (unsigned long long)totals->listed);
    } else {
        printf("%llu passed, %llu failed, %llu skipped in %.1f s\n",
               (unsigned long long)totals->passed, (unsigned long long)totals->failed,
               (unsigned long long)totals->skipped, cli_progress_seconds(&to->progress));
    }
    const uint64_t all = totals->passed + totals->failed + totals->skipped + totals->listed;
    if (!all && !verify->check.shard_count && !verify->check.deal)
        return cli_usage("verify", "no row matches what was asked for");
    return totals->failed ? CLI_FAILED : CLI_OK;
}

static int run_harness(const struct verify *verify)
{
    struct verify_report to = {.is_verbose = verify->device.is_verbose};
    struct check_totals totals = {0};
    cJSON *json = NULL;
    if (verify->device.is_json) {
        json = cJSON_CreateObject();
        to.failures = cJSON_AddArrayToObject(json, "failures");
        to.skips = cJSON_AddArrayToObject(json, "skips");
        to.rows = cJSON_AddArrayToObject(json, "rows");
    }
    const bool shows_bar = cli_progress_is_useful() && !verify->check.list;
    cli_progress_init(&to.progress, shows_bar ? count_rows(&verify->check) : 0);
    const ftj_status status = check_run(&verify->check, report, &to, &totals);
    cli_progress_clear(&to.progress);
    if (status) {
        cJSON_Delete(json);
        const int code = cli_failure("verify", status);
        return status == FTJ_E_DRIVER ? CLI_NO_DEVICE : code;
    }
    return print_totals(verify, &to, json, &totals);
}

int cli_verify(int argc, char **argv)
{
    struct verify verify = {0};
    int option;
    while ((option = getopt_long(argc, argv, ":hv", options, NULL)) != -1) {
        if (option == 'h') {
            fputs(help, stdout);
            return CLI_OK;
        }
        if (option == '?' || option == ':')
            return cli_bad_option("verify", argv, option);
        if (!take_option(&verify, option))
            return CLI_USAGE;
    }
    if (optind < argc)
        return cli_usage("verify", "%s is not expected", argv[optind]);
    if (verify.check.deal && verify.check.shard_count)
        return cli_usage("verify", "--deal and --shard are two ways to spread the rows");
    if (verify.input)
        return cli_activations(&verify.device, verify.input);
    verify.check.kind = verify.device.settings.kind;
    verify.check.device = verify.device.settings.device;
    verify.check.cache_dir = verify.device.settings.cache_dir;
    return run_harness(&verify);
}
