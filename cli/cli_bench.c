/* SPDX-License-Identifier: MIT */
/* `ftjit bench`: what to measure, from the command line. */
#include "cli/cli_bench.h"

#include <string.h>

#include "bench/bench_commit.h"

static const char help[] =
    "use: ftjit bench [decode] [store] [extend] [OPTIONS]\n"
    "     ftjit bench launch|start [--device D] [--kv-dtype F] [--json]\n"
    "\n"
    "decode, store, extend\n"
    "        Times the kernels on named workloads (all three, when none is named). Bandwidths "
    "stand\n"
    "        beside what a plain read (store: a copy) reaches in the same run. Before and after "
    "its\n"
    "        timing each row is checked: decode and extend against the device's own fp32 oracle "
    "on\n"
    "        the same data, store byte for byte against the reference codec. On a GPU many calls\n"
    "        are replayed from one graph, decode and store over caches rotated past the L2, with\n"
    "        shuffled pages; medians. Each row is timed in one or both of two states of the card:\n"
    "        rested, after 60 ms without work (before each call of an extend), and sustained, "
    "back\n"
    "        to back for half a second.\n"
    "launch  Host cost of a call, beside a bare launch of an empty kernel.\n"
    "start   Time from a new process to its first launch, cache cold and cache warm.\n"
    "\n"
    "Columns: bytes/row, one row of K (and of V, where that differs) as allocated; GB/s of the\n"
    "cache's own bytes, scales included (store: bytes read and written); share of the read (copy)\n"
    "ceiling; same B, a plain read of as many bytes, in GB/s; TFLOP/s of the keys that are seen; "
    "the\n"
    "mean SM clock while it ran. In JSON a store has its tokens as batch, and 0 for q_heads and\n"
    "context; an extend has context, the keys of its first request, and new, its queries, which "
    "are\n"
    "the last of them; check is {ok, error, bound}.\n"
    "\n" CLI_DEVICE_HELP "  --workload LIST  names or sets, separated by commas (default: main; on "
    "the CPU device: cpu):\n"
    "                   main, small, context, speculative, mixed, geometry (decode),\n"
    "                   ragged, window, chunked, short (extend), models, cpu, all\n"
    "  --kv-dtype LIST  bf16, fp16, fp8, nvfp4 or K+V (default: bf16,fp8,nvfp4,fp8+nvfp4)\n"
    "  --order LIST     packed, hnd, nhd (default: the workload's, nearly always packed)\n"
    "  --keys LIST      extend: where the new tokens' keys are: cache, or beside it in 16 bits\n"
    "                   (default: cache)\n"
    "  --state LIST     rested, sustained (default: both for main, else rested)\n"
    "  --features LIST  removes features of the device, as FTJIT_FEATURES does, to measure the\n"
    "                   kernels of another\n"
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
    "  ftjit bench extend --workload 16k,window --keys cache,beside --state sustained\n"
    "  ftjit bench store --page 1 --json\n"
    "  ftjit bench start\n"
    "\n"
    "Exit codes: 0; 1 a check or a launch failed; 2 bad usage, or a shape no cache can have; 3 no\n"
    "driver, or no such device.\n";

enum {
    OPT_WORKLOAD = 256,
    OPT_KV_DTYPE,
    OPT_ORDER,
    OPT_KEYS,
    OPT_STATE,
    OPT_FEATURES,
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
    {"keys", required_argument, NULL, OPT_KEYS},
    {"state", required_argument, NULL, OPT_STATE},
    {"features", required_argument, NULL, OPT_FEATURES},
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

/* Which of `names` a list has, as a set of 1 << index. 0: it has another, and that has been said.
 */
static unsigned take_names(const char *option, const char *list, const char *const *names)
{
    unsigned chosen = 0;
    char name[16];
    size_t size;
    for (const char *at; (at = next_name(&list, &size));) {
        snprintf(name, sizeof(name), "%.*s", (int)size, at);
        const int index = cli_name("bench", option, name, names);
        if (index < 0)
            return 0;
        chosen |= 1u << index;
    }
    if (!chosen)
        cli_usage("bench", "%s is empty", option);
    return chosen;
}

static bool take_orders(struct cli_bench_options *options, const char *list)
{
    static const char *const names[] = {"packed", "hnd", "nhd", NULL};
    const unsigned chosen = take_names("--order", list, names);
    for (int order = 0; order < 3; order++)
        options->orders[order] = chosen >> order & 1;
    return chosen;
}

static bool take_keys(struct cli_bench_options *options, const char *list)
{
    static const char *const names[] = {"cache", "beside", NULL};
    const unsigned chosen = take_names("--keys", list, names);
    for (int place = 0; place < 2; place++)
        options->keys[place] = chosen >> place & 1;
    return chosen;
}

static bool take_states(struct cli_bench_options *options, const char *list)
{
    static const char *const names[] = {"rested", "sustained", NULL};
    options->states = take_names("--state", list, names);
    return options->states;
}

/* False when a name of the list is neither a workload nor a set of any operation. */
static bool check_workloads(const char *list)
{
    size_t size;
    for (const char *at; (at = next_name(&list, &size));) {
        char name[64];
        bool is_known = false;
        snprintf(name, sizeof(name), "%.*s", (int)size, at);
        for (int op = 0; op < BENCH_NUM_OPS; op++) {
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
    case OPT_KEYS:
        return take_keys(options, optarg);
    case OPT_STATE:
        return take_states(options, optarg);
    case OPT_FEATURES:
        options->device.settings.features = optarg;
        return true;
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
    for (int op = 0; op < BENCH_NUM_OPS; op++) {
        size_t count;
        const struct bench_shape *shapes = bench_shapes((enum bench_op)op, &count);
        for (size_t i = 0; i < count; i++) {
            const struct bench_shape *shape = &shapes[i];
            printf("%-6s %-18s %-21s D %-3u heads %3u/%-2u  %5u x %-7u page %-3u %s\n",
                   bench_op_name((enum bench_op)op), shape->sets, shape->name,
                   (unsigned)shape->head_dim, (unsigned)shape->q_heads, (unsigned)shape->kv_heads,
                   (unsigned)bench_shape_batch(shape), (unsigned)shape->context,
                   (unsigned)shape->page, shape->about);
        }
    }
    return CLI_OK;
}

/* What the words after the options ask for. */
static int run(struct cli_bench_options *options, int argc, char **argv)
{
    static const char *const names[] = {"decode", "store", "extend", "launch", "start", NULL};
    enum { ROWS = (1 << BENCH_NUM_OPS) - 1, LAUNCH = 1 << BENCH_NUM_OPS, START = 2 * LAUNCH };
    unsigned chosen = 0;
    for (int i = optind; i < argc; i++) {
        const int index = cli_name("bench", "bench", argv[i], names);
        if (index < 0)
            return CLI_USAGE;
        chosen |= 1u << index;
    }
    const unsigned rows = chosen & ROWS;
    if (options->num_formats == 0) {
        const bool is_single = options->is_quick || (chosen && !rows);
        (void)take_formats(options, is_single ? "fp8+nvfp4" : "bf16,fp8,nvfp4,fp8+nvfp4");
    }
    if (chosen > ROWS && chosen != LAUNCH && chosen != START)
        return cli_usage("bench", "launch and start are measured one at a time");
    if (chosen == LAUNCH)
        return cli_bench_launch(options);
    if (chosen == START)
        return cli_bench_start(options);
    return cli_bench_rows(options, rows ? rows : ROWS);
}

int cli_bench(int argc, char **argv)
{
    struct cli_bench_options options = {.keys = {true}, .seed = 1, .commit = BENCH_COMMIT};
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
