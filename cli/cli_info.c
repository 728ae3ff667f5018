/* SPDX-License-Identifier: MIT */
/* `ftjit info`: what the probe found, and which kernel serves what. */
#include <string.h>

#include "cli/cli.h"
#include "codegen/variant.h"
#include "runtime/context_state.h"

static const char help[] =
    "use: ftjit info [OPTIONS]\n"
    "\n"
    "Prints what was found: the device and its features (as probed, and after FTJIT_FEATURES\n"
    "narrowed them), the driver, the compiler and its build id, the cache folder, and each kernel\n"
    "variant with the reason why it fits this device or does not. Compiles nothing.\n"
    "\n" CLI_DEVICE_HELP "\n"
    "Examples:\n"
    "  ftjit info\n"
    "  FTJIT_FEATURES=-fp8_convert ftjit info     as on a card without fp8 conversion\n"
    "  ftjit info --device cpu --json\n"
    "\n"
    "Exit codes: 0; 2 bad usage; 3 no driver (one line says what was tried), or no such device.\n";

/* The problem variants are explained for: a common model with the recommended formats. */
static const char representative[] =
    "bf16, head_dim 128, 32 query heads over 8 kv heads, K fp8, V nvfp4, page 64";

static ftj_status representative_desc(ftj_attention_desc *desc)
{
    *desc = (ftj_attention_desc){.num_q_heads = 32, .dtype = FTJ_DTYPE_BF16};
    return ftj_kv_layout_init(&desc->kv, &(ftj_kv_shape){
                                             .k_format = FTJ_KV_FP8,
                                             .v_format = FTJ_KV_NVFP4,
                                             .num_kv_heads = 8,
                                             .head_dim = 128,
                                             .page_size = 64,
                                         });
}

static void explain(const ftj_context *ctx, const ftj_attention_desc *desc, size_t index,
                    char *text, size_t size)
{
    struct ftj_problem problem;
    ftj_problem_init(&problem, ftj_variants[index].op, desc);
    ftj_variant_explain(&ftj_variants[index], &problem, &ctx->backend.device, text, size);
}

static void format_driver(const ftj_device_info *info, char text[64])
{
    if (info->driver_version)
        snprintf(text, 64, "CUDA %d.%d", info->driver_version / 1000,
                 info->driver_version % 1000 / 10);
    else
        snprintf(text, 64, "none");
}

static const char *or_none(const char *text, const char *none)
{
    return text[0] ? text : none;
}

static void print_text(const ftj_context *ctx, const ftj_device_info *info,
                       const ftj_attention_desc *desc)
{
    char driver[64];
    char why[256];
    format_driver(info, driver);
    printf("device         %s (%s %d)\n", info->name, info->kind == FTJ_DEVICE_CPU ? "cpu" : "cuda",
           info->ordinal);
    printf("target         %s\n", info->target);
    printf("processors     %u, %u bytes of shared memory a block\n", (unsigned)info->num_sms,
           (unsigned)info->smem_bytes);
    printf("memory         %.1f GB", 1e-9 * (double)info->memory_bytes);
    if (info->l2_bytes)
        printf(", L2 %.1f MB", 1e-6 * (double)info->l2_bytes);
    putchar('\n');
    printf("features       %s\n", info->features);
    printf("as probed      %s\n", info->probed);
    printf("driver         %s%s%s\n", driver, info->driver_path[0] ? ", " : "", info->driver_path);
    printf("compiler       %s\n", or_none(info->compiler, "none found: only cached kernels run"));
    printf("compiler path  %s\n", or_none(info->compiler_path, "-"));
    printf("cache          %s\n", or_none(info->cache_dir, "none: kernels are kept in memory"));
    printf("\nkernels for %s:\n", representative);
    for (size_t i = 0; i < ftj_num_variants; i++) {
        explain(ctx, desc, i, why, sizeof(why));
        printf("  %-22s %s\n", ftj_variants[i].name, why);
    }
}

static int print_json(const ftj_context *ctx, const ftj_device_info *info,
                      const ftj_attention_desc *desc)
{
    char driver[64];
    char why[256];
    format_driver(info, driver);
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "version", ftj_version());
    cJSON_AddStringToObject(json, "gpu", info->name);
    cJSON_AddStringToObject(json, "kind", info->kind == FTJ_DEVICE_CPU ? "cpu" : "cuda");
    cJSON_AddNumberToObject(json, "ordinal", info->ordinal);
    cJSON_AddStringToObject(json, "target", info->target);
    cJSON_AddStringToObject(json, "features", info->features);
    cJSON_AddStringToObject(json, "probed", info->probed);
    cJSON_AddStringToObject(json, "driver", driver);
    cJSON_AddStringToObject(json, "driver_path", info->driver_path);
    cJSON_AddStringToObject(json, "compiler", info->compiler);
    cJSON_AddStringToObject(json, "compiler_path", info->compiler_path);
    cJSON_AddStringToObject(json, "cache_dir", info->cache_dir);
    cJSON_AddNumberToObject(json, "num_sms", info->num_sms);
    cJSON_AddNumberToObject(json, "smem_bytes", info->smem_bytes);
    cJSON_AddNumberToObject(json, "l2_bytes", (double)info->l2_bytes);
    cJSON_AddNumberToObject(json, "memory_bytes", (double)info->memory_bytes);

    cJSON_AddStringToObject(json, "variants_for", representative);
    cJSON *variants = cJSON_AddArrayToObject(json, "variants");
    for (size_t i = 0; i < ftj_num_variants; i++) {
        cJSON *variant = cJSON_CreateObject();
        explain(ctx, desc, i, why, sizeof(why));
        cJSON_AddStringToObject(variant, "name", ftj_variants[i].name);
        cJSON_AddBoolToObject(variant, "fits", !strcmp(why, "fits"));
        cJSON_AddStringToObject(variant, "why", why);
        cJSON_AddItemToArray(variants, variant);
    }
    return cli_print_json("info", json, stdout);
}

int cli_info(int argc, char **argv)
{
    static const struct option options[] = {CLI_DEVICE_OPTIONS, {0}};
    struct cli_device device = {0};
    int option;
    while ((option = getopt_long(argc, argv, ":hv", options, NULL)) != -1) {
        if (option == 'h') {
            fputs(help, stdout);
            return CLI_OK;
        }
        if (option == '?' || option == ':')
            return cli_bad_option("info", argv, option);
        if (!cli_device_option(&device, "info", option, optarg))
            return CLI_USAGE;
    }
    if (optind < argc)
        return cli_usage("info", "%s is not expected", argv[optind]);

    int code = CLI_OK;
    ftj_attention_desc desc;
    ftj_device_info info;
    ftj_context *ctx = cli_device_open(&device, "info", &code);
    if (!ctx)
        return code;
    const ftj_status status = representative_desc(&desc);
    ftj_context_info(ctx, &info);
    if (status)
        code = cli_failure("info", status);
    else if (device.is_json)
        code = print_json(ctx, &info, &desc);
    else
        print_text(ctx, &info, &desc);
    ftj_context_destroy(ctx);
    return code;
}
