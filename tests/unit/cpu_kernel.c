/* SPDX-License-Identifier: MIT */
#include "cpu_kernel.h"

#include <criterion/criterion.h>

struct params {
    uint64_t in;
    uint64_t out;
};

static const char before_body[] =
    "#include \"ptx/ptx_cpu.cuh\"\n"
    "#include \"block/types.cuh\"\n"
    "using namespace ftj;\n"
    "struct Params { uint64_t in; uint64_t out; };\n"
    "extern \"C\" __global__ __launch_bounds__(1024)\n"
    "void ftj_kernel(const __grid_constant__ Params params) {\n"
    "    const uint32_t* const in = pointer<const uint32_t>(params.in);\n"
    "    uint32_t* const out = pointer<uint32_t>(params.out);\n"
    "    const uint32_t thread = ptx::thread_index();\n"
    "    const uint32_t block = ptx::block_index();\n";
static const char after_body[] = "}\nFTJ_CPU_ENTRY(ftj_kernel, Params)\n";

ftj_status cpu_kernel_compile(const char *unit, const struct ftj_log *log, struct ftj_bytes *code)
{
    struct ftj_compiler compiler = {0};
    ftj_status status = ftj_host_compiler_find(&compiler, NULL, log);
    if (status)
        return status;
    struct ftj_source source = {.template_id = "test", .target = "cpu"};
    ftj_text_printf(&source.text, "%s", unit);
    struct ftj_binary binary = {0};
    status = compiler.compile(&compiler, &source, &binary);
    if (status == FTJ_E_COMPILE) {
        char complaint[400];
        ftj_binary_complaint(&binary, complaint, sizeof(complaint));
        status = ftj_fail(log, status, "%s", complaint);
    }
    if (!status)
        status = ftj_bytes_copy(code, binary.code.data, binary.code.size);
    ftj_bytes_finish(&binary.code);
    ftj_bytes_finish(&binary.log);
    ftj_text_finish(&source.text);
    return status;
}

void cpu_kernel_init_of(struct cpu_kernel *kernel, const char *body,
                        const struct ftj_config *config)
{
    *kernel = (struct cpu_kernel){0};
    kernel->log =
        (struct ftj_log){.write = catch_sentence, .data = &kernel->catcher, .level = FTJ_LOG_ERROR};

    struct ftj_text unit = {0};
    ftj_text_printf(&unit, "%s%s%s", before_body, body, after_body);
    struct ftj_bytes code = {0};
    cr_assert_eq(cpu_kernel_compile(unit.data, &kernel->log, &code), FTJ_OK, "%s",
                 kernel->catcher.last);
    ftj_text_finish(&unit);

    const ftj_settings settings = {.kind = FTJ_DEVICE_CPU};
    cr_assert_eq(ftj_cpu_backend_init(&kernel->backend, &settings, &kernel->log), FTJ_OK);
    cr_assert_eq(kernel->backend.ops->module_load(&kernel->backend, &code, config, &kernel->module),
                 FTJ_OK, "%s", kernel->catcher.last);
    ftj_bytes_finish(&code);
}

void cpu_kernel_init(struct cpu_kernel *kernel, const char *body, uint32_t num_threads,
                     uint32_t smem_bytes)
{
    const struct ftj_config config = {.num_threads = num_threads, .smem_bytes = smem_bytes};
    cpu_kernel_init_of(kernel, body, &config);
}

void cpu_kernel_finish(struct cpu_kernel *kernel)
{
    kernel->backend.ops->module_unload(&kernel->backend, &kernel->module);
    ftj_backend_finish(&kernel->backend);
}

ftj_status cpu_kernel_launch(struct cpu_kernel *kernel, uint32_t num_blocks, const void *in,
                             void *out)
{
    const struct params params = {.in = (uintptr_t)in, .out = (uintptr_t)out};
    const struct ftj_grid grid = {num_blocks, kernel->module.cluster_blocks};
    return kernel->backend.ops->launch(&kernel->backend, &kernel->module, grid, &params,
                                       sizeof(params), NULL);
}

void cpu_kernel_run(const char *body, uint32_t num_blocks, uint32_t num_threads,
                    uint32_t smem_bytes, const void *in, void *out)
{
    struct cpu_kernel kernel;
    cpu_kernel_init(&kernel, body, num_threads, smem_bytes);
    cr_assert_eq(cpu_kernel_launch(&kernel, num_blocks, in, out), FTJ_OK, "%s",
                 kernel.catcher.last);
    cpu_kernel_finish(&kernel);
}
