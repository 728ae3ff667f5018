/* SPDX-License-Identifier: MIT */
/* `ftjit bench`: what to measure, from the command line. */
#include "cli/cli_bench.h"

#include <string.h>

#include "bench/bench_commit.h"

static const char help[] =
    "use: ftjit bench [decode] [store] [OPTIONS]\n"
    "     ftjit bench launch|start [--device D] [--kv-dtype F] [--json]\n"
    "\n"
    "decode, store  Times the kernels on named workloads (both, when neither is named) and prints\n"
    "               every bandwidth beside what a plain read (store: a copy) reaches in the same\n"
    "               run. Before and after its timing each row is checked: decode against the\n"
    "               device's own fp32 oracle on the same data, store byte for byte against the\n"
    "               reference codec. On a GPU many calls are replayed from one graph over caches\n"
    "               rotated past the L2, with shuffled pages; medians of 11 replays.\n"
    "launch         Host cost of a call, beside a bare launch of an empty kernel.\n"
    "start          Time from a new process to its first launch, cache cold and cache warm.\n"
    "\n"
    "Columns: bytes/row, one row of K (and of V, where that differs) as allocated; GB/s of the\n"
    "cache's own bytes, scales included (store: bytes read and written); share of the read (copy)\n"
    "ceiling; same B, a plain read of as many bytes, in GB/s; the SM clock under load. In JSON a\n"
    "store has its tokens as batch, and 0 for q_heads and context; check is {ok, error, bound}.\n"
    "\n" CLI_DEVICE_HELP
    "  --workload LIST  names or sets, separated by commas: main, models, cpu, all\n"
    "                   (default: main; on the CPU device: cpu)\n"
    "  --kv-dtype LIST  bf16, fp16, fp8, nvfp4 or K+V (default: bf16,fp8,nvfp4,fp8+nvfp4)\n"
    "  --order LIST     packed, hnd, nhd (default: packed)\n"
    "  --page N         tokens a page holds, instead of the workload's\n"
    "  --head-dim N, --batch N, --context N\n"
    "                   instead of the workload's\n"
    "  --quick          the first workload only, in fp8+nvfp4 unless --kv-dtype is given\n"
    "  --out FILE       write the JSON document there as well\n"
    "  --commit ID      what the document says was measured (default: the one built)\n"
    "  --seed N         other inputs\n"
    "  --list           print the workloads\n"
    "\n"
    "Examples:\n"
    "  ftjit bench decode --quick\n"
    "  ftjit bench decode --workload main,gpt-oss-full --kv-dtype nvfp4 --order packed,nhd\n"
    "  ftjit bench store --page 1 --json\n"
    "  ftjit bench start\n"
    "\n"
    "Exit codes: 0; 1 a check or a launch failed; 2 bad usage, or a shape no cache can have; 3 no\n"
    "driver, or no such device.\n";

enum {
    OPT_WORKLOAD = 256,
    OPT_KV_DTYPE,
    OPT_ORDER,
    OPT_PAGE,
    OPT_HEAD_DIM,
    OPT_BATCH,
    OPT_CONTEXT,
    OPT_QUICK,
    OPT_OUT,
    OPT_COMMIT,
    OPT_SEED,
    OPT_LIST,
    OPT_CHILD,
};

static const struct option long_options[] = {
    CLI_DEVICE_OPTIONS,
    {"workload", required_argument, NULL, OPT_WORKLOAD},
    {"kv-dtype", required_argument, NULL, OPT_KV_DTYPE},
    {"order", required_argument, NULL, OPT_ORDER},
    {"page", required_argument, NULL, OPT_PAGE},
    {"head-dim", required_argument, NULL, OPT_HEAD_DIM},
    {"batch", required_argument, NULL, OPT_BATCH},
    {"context", required_argument, NULL, OPT_CONTEXT},
    {"quick", no_argument, NULL, OPT_QUICK},
    {"out", required_argument, NULL, OPT_OUT},
    {"commit", required_argument, NULL, OPT_COMMIT},
    {"seed", required_argument, NULL, OPT_SEED},
    {"list", no_argument, NULL, OPT_LIST},
    {"in-this-process", no_argument, NULL, OPT_CHILD}, /* bench start's own child */
    {0},
};

/* The next name of a list, and its size; NULL at the end. */
static const char *next_name(const char **list, size_t *size)
{
    const char *name = *list;
    if (!*name)
        return NULL;
    *size = strcspn(name, ",");
    *list = name + *size + (name[*size] == ',');
    return name;
}

bool cli_bench_wants(const char *list, const struct bench_shape *shape)
{
    char name[64];
    size_t size;
    for (const char *at; (at = next_name(&list, &size));) {
        snprintf(name, sizeof(name), "%.*s", (int)size, at);
        if (bench_shape_matches(shape, name))
            return true;
    }
    return false;
}

static bool take_formats(struct cli_bench_options *options, const char *list)
{
    size_t size;
    options->num_formats = 0;
    for (const char *name; (name = next_name(&list, &size));) {
        if (options->num_formats == CLI_BENCH_MAX_FORMATS) {
            cli_usage("bench", "--kv-dtype takes at most %d formats", CLI_BENCH_MAX_FORMATS);
            return false;
        }
        if (!bench_format_parse(name, size, &options->formats[options->num_formats])) {
            cli_usage("bench", "--kv-dtype %.*s is not known; it is %s", (int)size, name,
                      bench_format_names);
            return false;
        }
        options->num_formats++;
    }
    if (options->num_formats == 0)
        cli_usage("bench", "--kv-dtype is empty; it is %s", bench_format_names);
    return options->num_formats > 0;
}

static bool take_orders(struct cli_bench_options *options, const char *list)
{
    static const char *const names[] = {"packed", "hnd", "nhd", NULL};
    char name[16];
    size_t size;
    memset(options->orders, 0, sizeof(options->orders));
    for (const char *at; (at = next_name(&list, &size));) {
        snprintf(name, sizeof(name), "%.*s", (int)size, at);
        const int order = cli_name("bench", "--order", name, names);
        if (order < 0)
            return false;
        options->orders[order] = true;
    }
    return true;
}

/* False when a name of the list is neither a workload nor a set, for either operation. */
static bool check_workloads(const char *list)
{
    size_t size;
    for (const char *at; (at = next_name(&list, &size));) {
        char name[64];
        bool is_known = false;
        snprintf(name, sizeof(name), "%.*s", (int)size, at);
        for (int op = BENCH_DECODE; op <= BENCH_STORE; op++) {
            size_t count;
            const struct bench_shape *shapes = bench_shapes((enum bench_op)op, &count);
            for (size_t i = 0; i < count; i++)
                is_known = is_known || bench_shape_matches(&shapes[i], name);
        }
        if (!is_known) {
            cli_usage("bench", "--workload %s is not known; `ftjit bench --list` prints them",
                      name);
            return false;
        }
    }
    return true;
}

static bool take_number(struct cli_bench_options *options, int option)
{
    switch (option) {
    case OPT_PAGE:
        return cli_number("bench", "--page", optarg, 1, 1u << 20, &options->page);
    case OPT_HEAD_DIM:
        return cli_number("bench", "--head-dim", optarg, 1, UINT32_MAX, &options->head_dim);
    case OPT_BATCH:
        return cli_number("bench", "--batch", optarg, 1, 1u << 20, &options->batch);
    case OPT_CONTEXT:
        return cli_number("bench", "--context", optarg, 1, 1u << 27, &options->context);
    default:
        return cli_number("bench", "--seed", optarg, 1, UINT64_MAX, &options->seed);
    }
}

/* False: it was bad, and has been said. */
static bool take_option(struct cli_bench_options *options, int option)
{
    switch (option) {
    case OPT_WORKLOAD:
        options->workloads = optarg;
        return check_workloads(optarg);
    case OPT_KV_DTYPE:
        return take_formats(options, optarg);
    case OPT_ORDER:
        return take_orders(options, optarg);
    case OPT_QUICK:
        options->is_quick = true;
        return true;
    case OPT_OUT:
        options->out = optarg;
        return true;
    case OPT_COMMIT:
        options->commit = optarg;
        return true;
    case OPT_CHILD:
        options->is_child = true;
        return true;
    case OPT_PAGE:
    case OPT_HEAD_DIM:
    case OPT_BATCH:
    case OPT_CONTEXT:
    case OPT_SEED:
        return take_number(options, option);
    default:
        return cli_device_option(&options->device, "bench", option, optarg);
    }
}

static int print_workloads(void)
{
    for (int op = BENCH_DECODE; op <= BENCH_STORE; op++) {
        size_t count;
        const struct bench_shape *shapes = bench_shapes((enum bench_op)op, &count);
        for (size_t i = 0; i < count; i++) {
            const struct bench_shape *shape = &shapes[i];
            printf("%-6s %-7s %-22s D %-3u heads %2u/%-2u  %5u x %-6u page %-3u %s\n",
                   bench_op_name((enum bench_op)op), shape->set, shape->name,
                   (unsigned)shape->head_dim, (unsigned)shape->q_heads, (unsigned)shape->kv_heads,
                   (unsigned)shape->batch, (unsigned)shape->context, (unsigned)shape->page,
                   shape->about);
        }
    }
    return CLI_OK;
}

/* What the words after the options ask for. */
static int run(struct cli_bench_options *options, int argc, char **argv)
{
    static const char *const names[] = {"decode", "store", "launch", "start", NULL};
    unsigned chosen = 0;
    for (int i = optind; i < argc; i++) {
        const int index = cli_name("bench", "bench", argv[i], names);
        if (index < 0)
            return CLI_USAGE;
        chosen |= 1u << index;
    }
    const unsigned rows = chosen & 3;
    if (options->num_formats == 0) {
        const bool is_single = options->is_quick || (chosen && !rows);
        (void)take_formats(options, is_single ? "fp8+nvfp4" : "bf16,fp8,nvfp4,fp8+nvfp4");
    }
    if (chosen > 3 && (rows || chosen == 12))
        return cli_usage("bench", "launch and start are measured one at a time");
    if (chosen == 4)
        return cli_bench_launch(options);
    if (chosen == 8)
        return cli_bench_start(options);
    return cli_bench_rows(options, rows ? rows : 3);
}

int cli_bench(int argc, char **argv)
{
    struct cli_bench_options options = {.orders = {true}, .seed = 1, .commit = BENCH_COMMIT};
    int option;
    while ((option = getopt_long(argc, argv, ":hv", long_options, NULL)) != -1) {
        if (option == 'h') {
            fputs(help, stdout);
            return CLI_OK;
        }
        if (option == OPT_LIST)
            return print_workloads();
        if (option == '?' || option == ':')
            return cli_bad_option("bench", argv, option);
        if (!take_option(&options, option))
            return CLI_USAGE;
    }
    return run(&options, argc, argv);
}
