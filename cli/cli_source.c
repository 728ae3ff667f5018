/* SPDX-License-Identifier: MIT */
/* `ftjit source`: the translation unit a problem becomes, its key and its options. No device is
 * opened: any target will do. */
#include <string.h>

#include "bench/bench_shapes.h"
#include "cli/cli.h"
#include "codegen/inline_source.h"
#include "codegen/tune.h"
#include "runtime/kernel.h"

static const char help[] =
    "use: ftjit source [OPTIONS]\n"
    "\n"
    "Prints the source that a problem becomes on a target, with its key (the name of its cache\n"
    "entry) and the compiler's options as comments at its head. Compiles nothing and needs no\n"
    "GPU; the key depends on the compiler that is found here.\n"
    "\n"
    "  --op OP          store, decode, combine, merge, generic, extend or\n"
    "                   extend_combine (default: decode)\n"
    "  --target T       sm_75 to sm_121a, or cpu (default: sm_90a)\n"
    "  --features LIST  remove features, as FTJIT_FEATURES does: -fp8_convert, or none\n"
    "  --kv-dtype F     bf16, fp16, fp8, nvfp4, or K+V: fp8+nvfp4 (default: fp8+nvfp4)\n"
    "  --dtype D        of queries and outputs (store: of the rows): bf16, fp16, or fp32, for\n"
    "                   store and generic only (default: that of the cache, bf16)\n"
    "  --head-dim N     a multiple of 16 from 32 to 512 (default: 128)\n"
    "  --group N        query heads per kv head, 1 to 64 (default: 4)\n"
    "  --kv-heads N     kv heads, 1 to 4096 (default: 8)\n"
    "  --queries N      of a request, 1 to 64: decode and combine for runs of so many (default: "
    "1)\n"
    "  --page N         tokens a page holds (default: 64)\n"
    "  --order O        packed, hnd or nhd (default: packed)\n"
    "  --table T        blocks or slots (default: blocks)\n"
    "  --softcap        with a soft cap on scores\n"
    "  --closure        with every template in it: a file any compiler takes alone\n"
    "  --json           one JSON document\n"
    "  --help           this text\n"
    "\n"
    "Examples:\n"
    "  ftjit source --op store --kv-dtype nvfp4\n"
    "  ftjit source --target sm_80 --group 7 --page 1\n"
    "  ftjit source --closure >decode.cu\n"
    "\n"
    "Exit codes: 0; 1 the source could not be made; 2 bad usage, or no kernel covers the problem\n"
    "on the target (the sentence says why).\n";

enum {
    OPT_OP = 256,
    OPT_TARGET,
    OPT_FEATURES,
    OPT_KV_DTYPE,
    OPT_DTYPE,
    OPT_HEAD_DIM,
    OPT_GROUP,
    OPT_KV_HEADS,
    OPT_QUERIES,
    OPT_PAGE,
    OPT_ORDER,
    OPT_TABLE,
    OPT_SOFTCAP,
    OPT_CLOSURE,
};

static const struct option options[] = {
    {"op", required_argument, NULL, OPT_OP},
    {"target", required_argument, NULL, OPT_TARGET},
    {"features", required_argument, NULL, OPT_FEATURES},
    {"kv-dtype", required_argument, NULL, OPT_KV_DTYPE},
    {"dtype", required_argument, NULL, OPT_DTYPE},
    {"head-dim", required_argument, NULL, OPT_HEAD_DIM},
    {"group", required_argument, NULL, OPT_GROUP},
    {"kv-heads", required_argument, NULL, OPT_KV_HEADS},
    {"queries", required_argument, NULL, OPT_QUERIES},
    {"page", required_argument, NULL, OPT_PAGE},
    {"order", required_argument, NULL, OPT_ORDER},
    {"table", required_argument, NULL, OPT_TABLE},
    {"softcap", no_argument, NULL, OPT_SOFTCAP},
    {"closure", no_argument, NULL, OPT_CLOSURE},
    {"json", no_argument, NULL, 'j'},
    {"help", no_argument, NULL, 'h'},
    {0},
};

/* In the order of enum ftj_kernel_op, ftj_kv_order and ftj_kv_table; ftj_dtype's start at 1. */
static const char *const op_names[] = {"store",   "decode", "combine",        "merge",
                                       "generic", "extend", "extend_combine", NULL};
static const char *const order_names[] = {"packed", "hnd", "nhd", NULL};
static const char *const table_names[] = {"blocks", "slots", NULL};
static const char *const dtype_names[] = {"bf16", "fp16", "fp32", NULL};

struct request {
    int op;
    const char *target;
    const char *features;
    struct bench_format format;
    ftj_dtype dtype;
    int order;
    int table;
    uint64_t head_dim;
    uint64_t group;
    uint64_t kv_heads;
    uint64_t queries;
    uint64_t page;
    bool has_softcap;
    bool has_closure;
    bool is_json;
};

/* What is printed. A zeroed one is empty. */
struct answer {
    struct ftj_device device;
    struct ftj_compiler compiler;
    struct ftj_source source;
    struct ftj_key key;
    const char *options[16];
    char storage[64];
    size_t num_options;
    struct ftj_text closure;
};

static void answer_finish(struct answer *answer)
{
    ftj_text_finish(&answer->closure);
    ftj_key_finish(&answer->key);
    ftj_source_finish(&answer->source);
    ftj_compiler_finish(&answer->compiler);
}

static bool take_number(struct request *request, int option)
{
    switch (option) {
    case OPT_HEAD_DIM:
        return cli_number("source", "--head-dim", optarg, 1, UINT32_MAX, &request->head_dim);
    case OPT_GROUP:
        return cli_number("source", "--group", optarg, 1, 64, &request->group);
    case OPT_KV_HEADS:
        return cli_number("source", "--kv-heads", optarg, 1, FTJ_MAX_KV_HEADS, &request->kv_heads);
    case OPT_QUERIES:
        return cli_number("source", "--queries", optarg, 1, 64, &request->queries);
    default:
        return cli_number("source", "--page", optarg, 1, UINT32_MAX, &request->page);
    }
}

static bool take_name(struct request *request, int option)
{
    int dtype;
    switch (option) {
    case OPT_OP:
        request->op = cli_name("source", "--op", optarg, op_names);
        return request->op >= 0;
    case OPT_ORDER:
        request->order = cli_name("source", "--order", optarg, order_names);
        return request->order >= 0;
    case OPT_TABLE:
        request->table = cli_name("source", "--table", optarg, table_names);
        return request->table >= 0;
    case OPT_DTYPE:
        dtype = cli_name("source", "--dtype", optarg, dtype_names);
        request->dtype = (ftj_dtype)(dtype + FTJ_DTYPE_BF16);
        return dtype >= 0;
    default:
        if (bench_format_parse(optarg, strlen(optarg), &request->format))
            return true;
        cli_usage("source", "--kv-dtype %s is not known; it is %s", optarg, bench_format_names);
        return false;
    }
}

/* False: it was bad, and has been said. */
static bool take_option(struct request *request, int option)
{
    switch (option) {
    case OPT_TARGET:
        request->target = optarg;
        return true;
    case OPT_FEATURES:
        request->features = optarg;
        return true;
    case OPT_SOFTCAP:
        request->has_softcap = true;
        return true;
    case OPT_CLOSURE:
        request->has_closure = true;
        return true;
    case 'j':
        request->is_json = true;
        return true;
    case OPT_HEAD_DIM:
    case OPT_GROUP:
    case OPT_KV_HEADS:
    case OPT_QUERIES:
    case OPT_PAGE:
        return take_number(request, option);
    default:
        return take_name(request, option);
    }
}

static enum ftj_kernel_op kernel_of(const struct request *request)
{
    if (request->queries > 1 && request->op == FTJ_KERNEL_DECODE)
        return FTJ_KERNEL_SHORT;
    if (request->queries > 1 && request->op == FTJ_KERNEL_COMBINE)
        return FTJ_KERNEL_SHORT_COMBINE;
    return (enum ftj_kernel_op)request->op;
}

/* What no attention would build is not shown either. */
static ftj_status check_queries(const struct request *request, const ftj_kv_shape *shape)
{
    if (request->queries < 2)
        return FTJ_OK;
    if (kernel_of(request) == (enum ftj_kernel_op)request->op)
        return ftj_fail(NULL, FTJ_E_INVALID,
                        "--queries %llu is for --op decode and --op combine, not %s",
                        (unsigned long long)request->queries, op_names[request->op]);
    if (!ftj_runs_pay(shape, (uint32_t)request->group, (uint32_t)request->queries))
        return ftj_fail(
            NULL, FTJ_E_INVALID,
            "--queries %llu times --group %llu is too much for decode's kernels in this "
            "format; extend's serve such runs",
            (unsigned long long)request->queries, (unsigned long long)request->group);
    return FTJ_OK;
}

static ftj_status problem_of(const struct request *request, struct ftj_problem *problem)
{
    const bool is_fp32 = request->dtype == FTJ_DTYPE_FP32;
    const ftj_attention_desc of_request = {
        .num_q_heads = (uint32_t)(request->group * request->kv_heads),
        .table = (ftj_kv_table)request->table,
        .dtype = request->dtype && !is_fp32 ? request->dtype : request->format.dtype,
        .store_dtype = request->dtype,
        .generic_dtype = request->dtype,
        .softcap = request->has_softcap ? 30.0f : 0.0f,
        .short_queries = (uint32_t)request->queries,
    };
    ftj_attention_desc desc = of_request;
    const ftj_status status =
        ftj_kv_layout_init(&desc.kv, &(ftj_kv_shape){
                                         .k_format = request->format.k,
                                         .v_format = request->format.v,
                                         .order = (ftj_kv_order)request->order,
                                         .num_kv_heads = (uint32_t)request->kv_heads,
                                         .head_dim = (uint32_t)request->head_dim,
                                         .page_size = (uint32_t)request->page,
                                     });
    if (status)
        return status;
    if (is_fp32 && request->op != FTJ_KERNEL_STORE && request->op != FTJ_KERNEL_GENERIC)
        return ftj_fail(NULL, FTJ_E_INVALID,
                        "--dtype fp32 is for --op store and --op generic; %s takes bf16 or fp16",
                        op_names[request->op]);
    ftj_status checked = ftj_desc_check(&desc, NULL);
    if (!checked)
        checked = check_queries(request, &desc.kv.shape);
    if (!checked)
        ftj_problem_init(problem, kernel_of(request), &desc);
    return checked;
}

static ftj_status answer_init(struct answer *answer, const struct request *request)
{
    struct ftj_problem problem;
    ftj_status status = problem_of(request, &problem);
    if (!status)
        status = ftj_device_of_target(request->target, NULL, &answer->device);
    if (!status && request->features)
        status = ftj_features_narrow(&answer->device.features, request->features, NULL);
    if (status)
        return status;
    status = answer->device.kind == FTJ_DEVICE_CPU
                 ? ftj_host_compiler_find(&answer->compiler, NULL, NULL)
                 : ftj_nvrtc_find(&answer->compiler, NULL, NULL);
    if (!status)
        status = ftj_kernel_describe(&problem, &answer->device, &answer->compiler, &answer->source,
                                     &answer->key, NULL);
    if (status)
        return status;
    answer->num_options = answer->compiler.options(
        &answer->compiler, &answer->source, answer->options,
        sizeof(answer->options) / sizeof(*answer->options), answer->storage);
    if (!request->has_closure)
        return FTJ_OK;
    return ftj_inline_source(ftj_templates, ftj_num_templates, answer->source.template_id,
                             answer->source.text.data, NULL, &answer->closure);
}

static const char *source_text(const struct answer *answer)
{
    return answer->closure.data ? answer->closure.data : answer->source.text.data;
}

static void print_text(const struct answer *answer)
{
    const bool has_compiler = answer->compiler.id[0];
    printf("// kernel    %s\n// target    %s\n", answer->source.template_id, answer->source.target);
    printf("// compiler  %s\n", has_compiler ? answer->compiler.id : "none found");
    printf("// options  ");
    for (size_t i = 0; i < answer->num_options; i++)
        printf(" %s", answer->options[i]);
    printf("\n// key       %s\n\n%s",
           has_compiler ? answer->key.hex : "unknown: it names the compiler", source_text(answer));
}

static int print_json(const struct answer *answer)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "kernel", answer->source.template_id);
    cJSON_AddStringToObject(json, "target", answer->source.target);
    cJSON_AddStringToObject(json, "compiler", answer->compiler.id);
    cJSON_AddStringToObject(json, "key", answer->compiler.id[0] ? answer->key.hex : "");
    cJSON *list = cJSON_AddArrayToObject(json, "options");
    for (size_t i = 0; i < answer->num_options; i++)
        cJSON_AddItemToArray(list, cJSON_CreateString(answer->options[i]));
    cJSON_AddStringToObject(json, "source", source_text(answer));
    return cli_print_json("source", json, stdout);
}

int cli_source(int argc, char **argv)
{
    struct request request = {
        .op = FTJ_KERNEL_DECODE,
        .target = "sm_90a",
        .format = {.k = FTJ_KV_FP8, .v = FTJ_KV_NVFP4, .dtype = FTJ_DTYPE_BF16},
        .head_dim = 128,
        .group = 4,
        .kv_heads = 8,
        .queries = 1,
        .page = 64,
    };
    int option;
    while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        if (option == 'h') {
            fputs(help, stdout);
            return CLI_OK;
        }
        if (option == '?' || option == ':')
            return cli_bad_option("source", argv, option);
        if (!take_option(&request, option))
            return CLI_USAGE;
    }
    if (optind < argc)
        return cli_usage("source", "%s is not expected", argv[optind]);

    int code = CLI_OK;
    struct answer answer = {0};
    const ftj_status status = answer_init(&answer, &request);
    if (status)
        code = cli_failure("source", status);
    else if (request.is_json)
        code = print_json(&answer);
    else
        print_text(&answer);
    answer_finish(&answer);
    return code;
}
