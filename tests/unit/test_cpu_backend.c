/* SPDX-License-Identifier: MIT */
/* The host as a device: what it says of itself, its memory and streams, how kernels are loaded. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "cpu_kernel.h"

static struct log_catcher catcher;
static const struct ftj_log log_to_catcher = {.write = catch_sentence, .data = &catcher};

static ftj_status open_cpu(struct ftj_backend *backend, int device, const char *features)
{
    const ftj_settings settings = {.kind = FTJ_DEVICE_CPU, .device = device, .features = features};
    return ftj_cpu_backend_init(backend, &settings, &log_to_catcher);
}

Test(cpu_backend, says_what_it_is)
{
    struct ftj_backend backend = {0};
    unsetenv("FTJIT_FEATURES");
    cr_assert_eq(open_cpu(&backend, 0, NULL), FTJ_OK);
    char features[256];
    ftj_features_text(backend.device.features, features, sizeof(features));
    cr_expect_str_eq(features, "mma_f16,cp_async,mma_bf16,fp8_convert,tma,wgmma");
    cr_expect_eq(backend.device.probed, backend.device.features);
    cr_expect_str_eq(backend.device.target, "cpu");
    cr_expect_eq(backend.device.kind, FTJ_DEVICE_CPU);
    cr_expect_eq(backend.device.num_sms, 4u);
    cr_expect_eq(backend.device.smem_bytes, 232448u);
    cr_expect_neq(backend.device.name[0], '\0');
    cr_expect_null(strchr(backend.device.name, '\n'));
    ftj_backend_finish(&backend);
}

Test(cpu_backend, can_be_narrowed_by_the_environment_and_before_it_by_the_caller)
{
    struct ftj_backend backend = {0};
    setenv("FTJIT_FEATURES", "-fp8_convert", 1);
    cr_assert_eq(open_cpu(&backend, 0, NULL), FTJ_OK);
    cr_expect_eq(backend.device.features,
                 (uint32_t)(FTJ_HAS_MMA_F16 | FTJ_HAS_CP_ASYNC | FTJ_HAS_MMA_BF16 | FTJ_HAS_TMA |
                            FTJ_HAS_WGMMA));
    cr_expect(backend.device.probed & FTJ_HAS_FP8_CONVERT);
    ftj_backend_finish(&backend);

    cr_assert_eq(open_cpu(&backend, 0, "none"), FTJ_OK);
    cr_expect_eq(backend.device.features, 0u);
    ftj_backend_finish(&backend);

    cr_expect_neq(open_cpu(&backend, 0, "-warp_drive"), FTJ_OK);
    cr_expect_null(backend.ops);
}

Test(cpu_backend, is_the_only_one)
{
    struct ftj_backend backend = {0};
    cr_expect_eq(open_cpu(&backend, 1, NULL), FTJ_E_INVALID);
    cr_expect_not_null(strstr(catcher.last, "device is 1"), "%s", catcher.last);
}

Test(cpu_backend, hands_out_aligned_memory_that_is_not_zero)
{
    struct ftj_backend backend = {0};
    cr_assert_eq(open_cpu(&backend, 0, NULL), FTJ_OK);
    for (size_t bytes = 0; bytes < 2000; bytes += 333) {
        void *memory = NULL;
        uint8_t back[2000], host[2000];
        cr_assert_eq(backend.ops->memory_alloc(&backend, bytes, &memory), FTJ_OK);
        cr_expect_not_null(memory);
        cr_expect_eq((uintptr_t)memory % 256, 0u);
        cr_expect_eq(backend.ops->memory_read(&backend, back, memory, bytes), FTJ_OK);
        for (size_t i = 0; i < bytes; i++)
            cr_assert_eq(back[i], 0xff);
        for (size_t i = 0; i < bytes; i++)
            host[i] = (uint8_t)(i * 7);
        cr_expect_eq(backend.ops->memory_fill(&backend, memory, 3, bytes), FTJ_OK);
        cr_expect_eq(backend.ops->memory_write(&backend, memory, host, bytes / 2), FTJ_OK);
        cr_expect_eq(backend.ops->memory_read(&backend, back, memory, bytes), FTJ_OK);
        for (size_t i = 0; i < bytes; i++)
            cr_assert_eq(back[i], i < bytes / 2 ? host[i] : 3);
        backend.ops->memory_free(&backend, memory);
    }
    void *memory = NULL;
    cr_expect_eq(backend.ops->memory_alloc(&backend, (size_t)1 << 62, &memory), FTJ_E_NO_MEMORY);
    ftj_backend_finish(&backend);
}

Test(cpu_backend, knows_its_streams_from_another_contexts)
{
    struct ftj_backend first = {0}, second = {0};
    struct CUstream_st *stream = NULL;
    cr_assert_eq(open_cpu(&first, 0, NULL), FTJ_OK);
    cr_assert_eq(open_cpu(&second, 0, NULL), FTJ_OK);
    cr_assert_eq(first.ops->stream_create(&first, &stream), FTJ_OK);
    cr_expect_not_null(stream);
    cr_expect_eq(first.ops->check_stream(&first, stream), FTJ_OK);
    cr_expect_eq(first.ops->check_stream(&first, NULL), FTJ_OK);
    cr_expect_eq(first.ops->stream_synchronize(&first, stream), FTJ_OK);
    cr_expect_eq(second.ops->check_stream(&second, stream), FTJ_E_INVALID);
    first.ops->stream_destroy(&first, stream);
    ftj_backend_finish(&first);
    ftj_backend_finish(&second);
}

static ftj_status load(const void *data, size_t size)
{
    struct ftj_backend backend = {0};
    struct ftj_module module = {0};
    const struct ftj_config config = {.num_threads = 32};
    struct ftj_bytes code = {0};
    cr_assert_eq(ftj_bytes_copy(&code, data, size), FTJ_OK);
    cr_assert_eq(open_cpu(&backend, 0, NULL), FTJ_OK);
    const ftj_status status = backend.ops->module_load(&backend, &code, &config, &module);
    if (!status)
        backend.ops->module_unload(&backend, &module);
    ftj_backend_finish(&backend);
    ftj_bytes_finish(&code);
    return status;
}

Test(cpu_backend, refuses_what_is_no_kernel_as_damaged)
{
    cr_expect_eq(load("", 0), FTJ_E_DAMAGED);
    cr_expect_eq(load("\177ELF and nothing more", 21), FTJ_E_DAMAGED);

    struct ftj_bytes code = {0};
    cr_assert_eq(cpu_kernel_compile("int x;\n", &log_to_catcher, &code), FTJ_OK);
    cr_expect_eq(load(code.data, code.size), FTJ_E_DAMAGED);
    cr_expect_not_null(strstr(catcher.last, "lacks the symbol ftj_cpu_kernel"), "%s", catcher.last);
    cr_expect_eq(load(code.data, code.size / 2), FTJ_E_DAMAGED);
    ftj_bytes_finish(&code);
}

Test(cpu_backend, refuses_a_kernel_of_another_version_as_damaged)
{
    static const char unit[] =
        "extern \"C\" {\n"
        "struct Entry { unsigned abi, params_bytes; void *run; };\n"
        "extern const Entry ftj_cpu_kernel __attribute__((visibility(\"default\")));\n"
        "const Entry ftj_cpu_kernel = {12345, 8, nullptr};\n"
        "}\n";
    struct ftj_bytes code = {0};
    cr_assert_eq(cpu_kernel_compile(unit, &log_to_catcher, &code), FTJ_OK);
    cr_expect_eq(load(code.data, code.size), FTJ_E_DAMAGED);
    cr_expect_not_null(strstr(catcher.last, "version 12345"), "%s", catcher.last);
    ftj_bytes_finish(&code);
}

Test(cpu_backend, refuses_blocks_that_are_no_whole_warps)
{
    static const uint32_t sizes[] = {0, 16, 33, 1056};
    struct ftj_backend backend = {0};
    struct ftj_module module = {0};
    const struct ftj_bytes code = {0};
    cr_assert_eq(open_cpu(&backend, 0, NULL), FTJ_OK);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        const struct ftj_config config = {.num_threads = sizes[i]};
        cr_expect_eq(backend.ops->module_load(&backend, &code, &config, &module), FTJ_E_INVALID);
    }
    ftj_backend_finish(&backend);
}

static uint32_t run(struct cpu_kernel *kernel)
{
    uint32_t out = 0;
    cr_assert_eq(cpu_kernel_launch(kernel, 1, NULL, &out), FTJ_OK);
    return out;
}

/* The loader knows libraries by name: none may be taken for an earlier one. */
Test(cpu_backend, keeps_kernels_apart_that_come_and_go)
{
    struct cpu_kernel first, second, third;
    cpu_kernel_init(&first, "out[0] = 1;", 32, 0);
    cpu_kernel_init(&second, "out[0] = 2;", 32, 0);
    cr_expect_eq(run(&first), 1u);
    cr_expect_eq(run(&second), 2u);
    cpu_kernel_finish(&first);
    cpu_kernel_init(&third, "out[0] = 3;", 32, 0);
    cr_expect_eq(run(&third), 3u);
    cr_expect_eq(run(&second), 2u);
    cpu_kernel_finish(&second);
    cpu_kernel_finish(&third);
}
