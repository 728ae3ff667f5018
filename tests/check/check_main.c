/* SPDX-License-Identifier: MIT */
/*
 * The check harness as a program, for tests and GPU rounds. Exit status: 0 all passed, 1 a row
 * failed, 2 wrong options, 77 there is no such device (a skipped test, with the reason).
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check/check.h"

struct printing {
    bool verbose;
    bool list;
};

static const char usage[] =
    "usage: check_main [--device cpu|cuda|N] [--quick] [--test GLOB] [--variant GLOB]\n"
    "                  [--row N] [--seed N] [--shard I/N] [--codec-values N] [--cache DIR]\n"
    "                  [--list] [--verbose]\n";

static void print_row(void *data, const struct check_result *result)
{
    static const char *const words[] = {"pass", "FAIL", "skip", "row"};
    const struct printing *printing = data;
    const bool silent = result->outcome == CHECK_PASSED && !printing->verbose;
    if (silent)
        return;
    printf("%s %s %s row %llu (%s) %.2f s\n", words[result->outcome], result->test, result->variant,
           (unsigned long long)result->row, result->shape, result->seconds);
    if (result->outcome == CHECK_FAILED)
        printf("     %s\n     repeat: %s\n", result->message, result->command);
    else if (*result->message)
        printf("     %s\n", result->message);
    fflush(stdout);
}

static bool parse_device(const char *text, struct check_options *options)
{
    options->kind = strcmp(text, "cpu") == 0 ? FTJ_DEVICE_CPU : FTJ_DEVICE_CUDA;
    const bool is_number = text[0] >= '0' && text[0] <= '9';
    if (is_number)
        options->device = atoi(text);
    return is_number || strcmp(text, "cpu") == 0 || strcmp(text, "cuda") == 0;
}

static bool parse_shard(const char *text, struct check_options *options)
{
    return sscanf(text, "%u/%u", &options->shard_index, &options->shard_count) == 2 &&
           options->shard_index < options->shard_count;
}

static bool parse(int argc, char **argv, struct check_options *options, struct printing *printing)
{
    static const struct option names[] = {
        {"device", required_argument, NULL, 'd'}, {"quick", no_argument, NULL, 'q'},
        {"test", required_argument, NULL, 't'},   {"variant", required_argument, NULL, 'v'},
        {"row", required_argument, NULL, 'r'},    {"seed", required_argument, NULL, 's'},
        {"shard", required_argument, NULL, 'S'},  {"codec-values", required_argument, NULL, 'n'},
        {"cache", required_argument, NULL, 'c'},  {"list", no_argument, NULL, 'l'},
        {"verbose", no_argument, NULL, 'V'},      {NULL, 0, NULL, 0},
    };
    bool understood = true;
    for (int name; (name = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        switch (name) {
        case 'd':
            understood = understood && parse_device(optarg, options);
            break;
        case 'q':
            options->quick = true;
            break;
        case 't':
            options->test = optarg;
            break;
        case 'v':
            options->variant = optarg;
            break;
        case 'r':
            options->has_row = true;
            options->row = strtoull(optarg, NULL, 0);
            break;
        case 's':
            options->seed = strtoull(optarg, NULL, 0);
            break;
        case 'S':
            understood = understood && parse_shard(optarg, options);
            break;
        case 'n':
            options->codec_values = strtoull(optarg, NULL, 0);
            break;
        case 'c':
            options->cache_dir = optarg;
            break;
        case 'l':
            options->list = printing->list = true;
            break;
        case 'V':
            printing->verbose = true;
            break;
        default:
            understood = false;
        }
    }
    return understood && optind == argc;
}

int main(int argc, char **argv)
{
    struct check_options options = {.kind = FTJ_DEVICE_CUDA};
    struct printing printing = {0};
    struct check_totals totals = {0};
    if (!parse(argc, argv, &options, &printing)) {
        fputs(usage, stderr);
        return 2;
    }
    const ftj_status status = check_run(&options, print_row, &printing, &totals);
    if (status) {
        printf("skipped: the device cannot be opened: %s\n", ftj_last_error());
        return status == FTJ_E_DRIVER ? 77 : 1;
    }
    printf("%llu passed, %llu failed, %llu skipped\n", (unsigned long long)totals.passed,
           (unsigned long long)totals.failed, (unsigned long long)totals.skipped);
    const bool nothing_ran = totals.passed + totals.skipped + totals.listed == 0;
    return totals.failed || nothing_ran ? 1 : 0;
}
