/* SPDX-License-Identifier: MIT */
/* Write the translation unit of a kernel. Small on purpose: it is read in bug reports and kept as
 * golden files; everything it says is in the templates or in the Config. */
#include "codegen/source.h"

#include <stdio.h>
#include <string.h>

static const char *ptx_header(const struct ftj_variant *variant, const struct ftj_device *device)
{
    if (device->kind == FTJ_DEVICE_CPU)
        return "ptx/ptx_cpu.cuh";
    if (variant->uses & FTJ_HAS_WGMMA)
        return "ptx/ptx_sm90a.cuh";
    if (device->features & FTJ_HAS_FP8_CONVERT)
        return device->features & FTJ_HAS_TMA ? "ptx/ptx_sm90.cuh" : "ptx/ptx_sm89.cuh";
    if (device->features & FTJ_HAS_CP_ASYNC)
        return "ptx/ptx_sm80.cuh";
    return "ptx/ptx_sm75.cuh";
}

static void write_title(struct ftj_text *text, const struct ftj_variant *variant,
                        const struct ftj_problem *problem)
{
    static const char *const dtypes[] = {"default", "bf16", "fp16", "fp32"};
    ftj_text_printf(text, "// %s %s d%u", variant->name, dtypes[problem->dtype], problem->head_dim);
    if (problem->page_size)
        ftj_text_printf(text, " k:%s v:%s page %u", ftj_kv_format_name(problem->k_format),
                        ftj_kv_format_name(problem->v_format), problem->page_size);
    ftj_text_printf(text, "\n");
}

static void write_includes(struct ftj_text *text, const struct ftj_variant *variant,
                           const struct ftj_device *device)
{
    const bool hardware = device->features & FTJ_HAS_FP8_CONVERT;
    ftj_text_printf(text, "#include \"%s\"\n", ptx_header(variant, device));
    ftj_text_printf(text, "#include \"block/e4m3_%s.cuh\"\n", hardware ? "hardware" : "software");
    for (const char *name = variant->includes; *name;) {
        const size_t length = strcspn(name, " ");
        ftj_text_printf(text, "#include \"%.*s\"\n", (int)length, name);
        name += length + (name[length] == ' ');
    }
}

ftj_status ftj_source_init(struct ftj_source *source, const struct ftj_variant *variant,
                           const struct ftj_problem *problem, const struct ftj_config *config,
                           const struct ftj_device *device)
{
    const struct ftj_symbol symbol = ftj_kernel_symbol(variant->name);
    struct ftj_text text = {0};
    write_title(&text, variant, problem);
    write_includes(&text, variant, device);

    ftj_text_printf(&text, "\nstruct Config {\n");
    ftj_text_printf(&text, "    static constexpr int num_threads = %u;\n", config->num_threads);
    ftj_text_printf(&text, "    static constexpr int min_blocks = %u;\n", config->min_blocks);
    ftj_text_printf(&text, "    static constexpr int smem_bytes = %u;\n", config->smem_bytes);
    ftj_text_printf(&text, "    static constexpr int head_dim = %u;\n", problem->head_dim);
    variant->write(&text, problem, config, device);
    ftj_text_printf(&text, "};\n\n"
                           "extern \"C\" __global__ "
                           "__launch_bounds__(Config::num_threads, Config::min_blocks)\n");
    ftj_text_printf(&text,
                    "void %s(const __grid_constant__ %s params) {\n"
                    "    ftj::%s<Config>::run(params);\n"
                    "}\n",
                    symbol.name, variant->params_type, variant->kernel);
    if (device->kind == FTJ_DEVICE_CPU)
        ftj_text_printf(&text, "FTJ_CPU_ENTRY(%s, %s)\n", symbol.name, variant->params_type);

    if (text.failed) {
        ftj_text_finish(&text);
        return ftj_fail(NULL, FTJ_E_NO_MEMORY, "no memory for the source of %s", variant->name);
    }
    memset(source, 0, sizeof(*source));
    source->template_id = variant->name;
    source->text = text;
    source->allow_fma = !variant->exact_rounding;
    snprintf(source->target, sizeof(source->target), "%s", device->target);
    return FTJ_OK;
}

void ftj_source_finish(struct ftj_source *source)
{
    ftj_text_finish(&source->text);
    memset(source, 0, sizeof(*source));
}

struct ftj_symbol ftj_kernel_symbol(const char *template_id)
{
    struct ftj_symbol symbol;
    snprintf(symbol.name, sizeof(symbol.name), "ftj_%s", template_id);
    return symbol;
}
