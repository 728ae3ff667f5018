/* SPDX-License-Identifier: MIT */
/* `ftjit warm`: compile ahead, for devices that need not be here. */
#include <stdlib.h>
#include <string.h>

#include "base/environment.h"
#include "cache/bundle.h"
#include "cache/compile_limit.h"
#include "cli/cli.h"
#include "cli/warm_print.h"

static const char help[] =
    "use: ftjit warm --targets LIST (--model NAME | --preset all | --from FILE) [OPTIONS]\n"
    "     ftjit warm --from FILE [OPTIONS]\n"
    "\n"
    "Compiles kernels into the cache, so that nothing is compiled where they are used. Needs "
    "NVRTC\n"
    "and no GPU. What is in the cache already is not compiled again, so that a run that was "
    "stopped\n"
    "goes on where it was. With --bundle all of it is also written into one file for\n"
    "FTJIT_CACHE_PATH, which needs no NVRTC where it is used; the same kernels give the same "
    "bytes.\n"
    "\n"
    "  --targets LIST   sm_75 to sm_121a, or cpu, separated by commas\n"
    "  --model NAME     a model's layers in every format; may be repeated; --list-models\n"
    "  --preset all     every model that is known\n"
    "  --from FILE      what FTJIT_RECORD=FILE has recorded, each for the device it was recorded "
    "on,\n"
    "                   or for --targets; may be repeated\n"
    "  --ops LIST       what is compiled for the models, separated by commas: store, decode, "
    "merge,\n"
    "                   extend, generic (default: all but generic)\n"
    "  --kv-dtype F     only this format of the models: bf16, fp8, nvfp4 or fp8+nvfp4\n"
    "  --dtype D        of queries and outputs of the models: bf16 or fp16 (default: bf16)\n"
    "  --order O        of the models' caches: packed, hnd or nhd (default: nhd)\n"
    "  --table T        of the models' requests: blocks or slots (default: slots)\n"
    "  --page N         tokens a page of the models' caches holds (default: the model's)\n"
    "  --tp N           GPUs that share the heads of the models (default: 1)\n"
    "  -j N             kernels compiled at a time (default, and most: what this machine's cores "
    "and\n"
    "                   memory have room for, all its compiles together)\n"
    "  --bundle FILE    write a bundle\n"
    "  --shard I/N      only part I (from 0) of N, to spread the kernels over machines\n"
    "  --in-process     compile on threads rather than in processes of their own\n"
    "  --cache-dir DIR  the cache (default: FTJIT_CACHE_DIR, then $XDG_CACHE_HOME/ftjit, then\n"
    "                   ~/.cache/ftjit)\n"
    "  --list           print the kernels, compile none\n"
    "  --list-models    print the models and their layers\n"
    "  --json           one JSON document\n"
    "  --help           this text\n"
    "\n"
    "Examples:\n"
    "  ftjit warm --targets sm_90a --model gpt-oss-20b\n"
    "  ftjit warm --targets sm_80,sm_90a,sm_100a --preset all --bundle kernels.ftb\n"
    "  FTJIT_RECORD=misses.txt my-server; ftjit warm --from misses.txt\n"
    "\n"
    "Exit codes: 0 all are there; 1 a kernel or a file failed; 2 bad usage.\n";

enum {
    OPT_TARGETS = 256,
    OPT_MODEL,
    OPT_PRESET,
    OPT_FROM,
    OPT_OPS,
    OPT_KV_DTYPE,
    OPT_DTYPE,
    OPT_ORDER,
    OPT_TABLE,
    OPT_PAGE,
    OPT_TP,
    OPT_BUNDLE,
    OPT_SHARD,
    OPT_IN_PROCESS,
    OPT_LIST,
    OPT_LIST_MODELS,
    OPT_JSON,
};

static const struct option options[] = {
    {"targets", required_argument, NULL, OPT_TARGETS},
    {"model", required_argument, NULL, OPT_MODEL},
    {"preset", required_argument, NULL, OPT_PRESET},
    {"from", required_argument, NULL, OPT_FROM},
    {"ops", required_argument, NULL, OPT_OPS},
    {"kv-dtype", required_argument, NULL, OPT_KV_DTYPE},
    {"dtype", required_argument, NULL, OPT_DTYPE},
    {"order", required_argument, NULL, OPT_ORDER},
    {"table", required_argument, NULL, OPT_TABLE},
    {"page", required_argument, NULL, OPT_PAGE},
    {"tp", required_argument, NULL, OPT_TP},
    {"bundle", required_argument, NULL, OPT_BUNDLE},
    {"shard", required_argument, NULL, OPT_SHARD},
    {"in-process", no_argument, NULL, OPT_IN_PROCESS},
    {"list", no_argument, NULL, OPT_LIST},
    {"list-models", no_argument, NULL, OPT_LIST_MODELS},
    {"json", no_argument, NULL, OPT_JSON},
    {"cache-dir", required_argument, NULL, 'C'},
    {"help", no_argument, NULL, 'h'},
    {0},
};

#define MAX_SOURCES 64

/* A model or a file, in the order given. */
struct named {
    const char *name;
    bool is_file;
};

struct request {
    const char *targets;
    struct named sources[MAX_SOURCES];
    size_t num_sources;
    bool has_model;
    const char *format;
    uint32_t ops; /* FTJ_OP_* */
    struct ftj_preset_choice choice;
    uint32_t num_threads;
    const char *bundle;
    uint32_t shard;
    uint32_t num_shards;
    const char *cache_dir;
    bool in_process;
    bool is_list;
    bool is_models;
    bool is_json;
};

/* ---- options ---- */

static bool take_source(struct request *request, const char *name, bool is_file)
{
    if (request->num_sources == MAX_SOURCES) {
        cli_usage("warm", "there are more than %d models and files", MAX_SOURCES);
        return false;
    }
    request->sources[request->num_sources++] = (struct named){name, is_file};
    request->has_model |= !is_file;
    return true;
}

static bool take_ops(struct request *request, const char *text)
{
    /* In the order of the FTJ_OP_* bits. */
    static const char *const names[] = {"store", "decode", "merge", "generic", "extend", NULL};
    const char *at = text;
    request->ops = 0;
    do {
        char name[16];
        const size_t size = strcspn(at, ",");
        snprintf(name, sizeof(name), "%.*s", (int)(size < 15 ? size : 15), at);
        const int found = cli_name("warm", "--ops", name, names);
        if (found < 0)
            return false;
        request->ops |= 1u << found;
        at += size + (at[size] == ',');
    } while (*at);
    return true;
}

static bool take_number(const char *option, uint64_t high, uint32_t *out)
{
    uint64_t number = 0;
    if (!cli_number("warm", option, optarg, 1, high, &number))
        return false;
    *out = (uint32_t)number;
    return true;
}

static bool take_name(struct request *request, int option)
{
    static const char *const orders[] = {"packed", "hnd", "nhd", NULL};
    static const char *const tables[] = {"blocks", "slots", NULL};
    static const char *const dtypes[] = {"bf16", "fp16", NULL};
    static const char *const presets[] = {"all", NULL};
    int found;
    switch (option) {
    case OPT_ORDER:
        found = cli_name("warm", "--order", optarg, orders);
        request->choice.order = (ftj_kv_order)found;
        return found >= 0;
    case OPT_TABLE:
        found = cli_name("warm", "--table", optarg, tables);
        request->choice.table = (ftj_kv_table)found;
        return found >= 0;
    case OPT_DTYPE:
        found = cli_name("warm", "--dtype", optarg, dtypes);
        request->choice.dtype = (ftj_dtype)(found + FTJ_DTYPE_BF16);
        return found >= 0;
    default:
        return cli_name("warm", "--preset", optarg, presets) == 0 &&
               take_source(request, optarg, false);
    }
}

/* False: it was bad, and has been said. */
static bool take_option(struct request *request, int option)
{
    switch (option) {
    case OPT_TARGETS:
        request->targets = optarg;
        return true;
    case OPT_MODEL:
    case OPT_FROM:
        return take_source(request, optarg, option == OPT_FROM);
    case OPT_KV_DTYPE:
        request->format = optarg;
        return true;
    case OPT_OPS:
        return take_ops(request, optarg);
    case OPT_PAGE:
        return take_number("--page", 1u << 20, &request->choice.page_size);
    case OPT_TP:
        return take_number("--tp", 1024, &request->choice.tensor_parallel);
    case 'j':
        return take_number("-j", 256, &request->num_threads);
    case OPT_BUNDLE:
        request->bundle = optarg;
        return true;
    case OPT_SHARD:
        return cli_shard("warm", optarg, &request->shard, &request->num_shards);
    case 'C':
        request->cache_dir = optarg;
        return true;
    case OPT_IN_PROCESS:
        request->in_process = true;
        return true;
    case OPT_LIST:
        request->is_list = true;
        return true;
    case OPT_LIST_MODELS:
        request->is_models = true;
        return true;
    case OPT_JSON:
        request->is_json = true;
        return true;
    default:
        return take_name(request, option);
    }
}

/* ---- the work ---- */

static ftj_status make_bundle(const struct warm_list *list, const char *path,
                              struct warm_bundle *facts)
{
    struct ftj_bundle_writer *writer = NULL;
    ftj_status status = ftj_bundle_writer_create(&writer);
    for (size_t i = 0; i < list->count && !status; i++)
        status = ftj_bundle_writer_put(writer, &list->items[i].key, &list->items[i].entry);
    if (!status)
        status = ftj_bundle_writer_save(writer, path, facts->digest);
    if (!status)
        facts->count = list->count;
    ftj_bundle_writer_destroy(writer);
    return status;
}

static void say(void *data, ftj_log_level level, const char *sentence)
{
    (void)data;
    (void)level;
    fprintf(stderr, "ftjit warm: %s\n", sentence);
}

/* What is warmed is what this compiler makes. The caller ends both, also after a failure. */
static ftj_status open_cache(const struct request *request, struct ftj_store **store,
                             struct ftj_locks **locks)
{
    const struct ftj_log log = {say, NULL, FTJ_LOG_WARNING};
    ftj_status status = ftj_store_create(request->cache_dir, false, &log, store);
    if (!status)
        status = ftj_store_configure(
            *store, &(struct ftj_store_options){.match = "exact", .has_compiler = true});
    if (!status && !*ftj_store_dir(*store))
        status =
            ftj_fail(NULL, FTJ_E_IO, "there is no cache to be filled; name one in --cache-dir");
    if (!status)
        status = ftj_locks_create(&log, locks);
    if (!status)
        ftj_locks_take_all(*locks);
    return status;
}

static int run(const struct request *request, struct warm_list *list)
{
    struct ftj_store *store = NULL;
    struct ftj_locks *locks = NULL;
    struct warm_result result = {0};
    const ftj_status status = open_cache(request, &store, &locks);
    if (!status) {
        if (!request->in_process && !ftj_variable("FTJIT_COMPILE"))
            list->nvrtc.mode = FTJ_COMPILE_PROCESS;
        list->nvrtc.keeps_helpers = true;
        const uint32_t room = ftj_compile_limit().alone;
        warm_run(list, store, locks, request->num_threads < room ? request->num_threads : room,
                 request->bundle, &result);
        ftj_compiler_finish(&list->nvrtc); /* the CPU time of its processes counts once they end */
    }
    ftj_locks_destroy(locks);
    ftj_store_destroy(store);
    if (status)
        return cli_failure("warm", status);

    struct warm_bundle bundle = {.path = request->bundle};
    int code = result.num_failed > 0 ? CLI_FAILED : CLI_OK;
    if (request->bundle && result.num_failed > 0)
        fprintf(stderr, "ftjit warm: no bundle is written, as kernels would be missing in it\n");
    else if (request->bundle && make_bundle(list, request->bundle, &bundle))
        code = cli_failure("warm", FTJ_E_IO);
    const int printed = warm_print_result(list, &result, &bundle, request->is_json);
    return code ? code : printed;
}

static ftj_status fill(struct warm_list *list, const struct request *request)
{
    ftj_status status = request->targets ? warm_list_add_targets(list, request->targets) : FTJ_OK;
    for (size_t i = 0; i < request->num_sources && !status; i++) {
        const struct named *source = &request->sources[i];
        status = source->is_file ? warm_list_add_file(list, source->name)
                                 : warm_list_add_model(list, source->name, request->format,
                                                       request->ops, &request->choice);
    }
    return status ? status : warm_list_settle(list, request->shard, request->num_shards);
}

int cli_warm(int argc, char **argv)
{
    struct request request = {
        .ops = WARM_DEFAULT_OPS,
        .choice = {.order = FTJ_KV_NHD, .table = FTJ_TABLE_SLOTS},
        .num_threads = FTJ_MAX_COMPILES,
        .num_shards = 1,
    };
    int option;
    while ((option = getopt_long(argc, argv, ":hj:", options, NULL)) != -1) {
        if (option == 'h') {
            fputs(help, stdout);
            return CLI_OK;
        }
        if (option == '?' || option == ':')
            return cli_bad_option("warm", argv, option);
        if (!take_option(&request, option))
            return CLI_USAGE;
    }
    if (optind < argc)
        return cli_usage("warm", "%s is not expected", argv[optind]);
    if (request.is_models)
        return warm_print_models();
    if (request.num_sources == 0)
        return cli_usage("warm", "--model, --preset or --from is needed");
    if (request.has_model && !request.targets)
        return cli_usage("warm", "--targets is needed: a model says nothing about the device");

    struct warm_list list = {0};
    const ftj_status status = fill(&list, &request);
    const int code = status            ? cli_failure("warm", status)
                     : request.is_list ? warm_print_kernels(&list)
                                       : run(&request, &list);
    warm_list_finish(&list);
    return code;
}
