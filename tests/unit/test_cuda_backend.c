/* SPDX-License-Identifier: MIT */
/* The CUDA backend against a fake driver: contexts, modules, launches, memory. */
#include <criterion/criterion.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/dynlib.h"
#include "fake_cuda.h"
#include "log_catcher.h"
#include "runtime/cuda_state.h"

static struct log_catcher catcher;
static const struct ftj_log log_to_catcher = {catch_sentence, &catcher, FTJ_LOG_DEBUG};
static struct ftj_backend backend;

/* The fake's helpers, of the very library that the backend opened. */
static unsigned int (*calls)(const char *symbol);
static const struct fake_launch *(*last_launch)(void);
static struct CUctx_st *(*new_context)(int device);
static void (*set_memory)(const void *pointer, const struct fake_memory *memory);
static int (*num_retained)(void);
static int (*num_modules)(void);

#define expect_said(part)                                                                          \
    cr_expect(strstr(catcher.last, part), "\"%s\" is not in: %s", part, catcher.last)

static void look_up(void *function, const char *name)
{
    const char *const names[] = {FAKE_CUDA_PATH, NULL};
    struct ftj_text tried = {0};
    void *library = ftj_dynlib_open(names, &tried, NULL, 0);
    ftj_text_finish(&tried);
    cr_assert_not_null(library);
    void *address = ftj_dynlib_symbol(library, name);
    cr_assert_not_null(address, "%s", name);
    memcpy(function, &address, sizeof(address));
}

static ftj_status open_backend(struct ftj_backend *opened, ftj_settings settings)
{
    settings.driver_path = FAKE_CUDA_PATH;
    return ftj_cuda_backend_init(opened, &settings, &log_to_catcher);
}

static void set_up(void)
{
    look_up(&calls, "fake_cuda_calls");
    look_up(&last_launch, "fake_cuda_last_launch");
    look_up(&new_context, "fake_cuda_context");
    look_up(&set_memory, "fake_cuda_set_memory");
    look_up(&num_retained, "fake_cuda_num_retained");
    look_up(&num_modules, "fake_cuda_num_modules");
    cr_assert_eq(open_backend(&backend, (ftj_settings){0}), FTJ_OK, "%s", catcher.last);
}

static void tear_down(void)
{
    ftj_backend_finish(&backend);
}

TestSuite(cuda_backend, .init = set_up, .fini = tear_down);

static const struct ftj_driver *driver(void)
{
    return &ftj_cuda_of(&backend)->driver;
}

static struct CUctx_st *current_context(void)
{
    struct CUctx_st *context = NULL;
    cr_assert_eq(driver()->cuCtxGetCurrent(&context), 0);
    return context;
}

/* An image the fake accepts for `sm`. */
static struct ftj_bytes image_for(unsigned int sm, Elf64_Ehdr *header)
{
    *header = (Elf64_Ehdr){.e_machine = 190, .e_flags = sm << 8};
    memcpy(header->e_ident, ELFMAG, SELFMAG);
    return (struct ftj_bytes){.data = (uint8_t *)header, .size = sizeof(*header)};
}

static const struct ftj_config config = {
    .variant = "attn_decode_sm90", .num_threads = 256, .smem_bytes = 100000};

static ftj_status load(struct ftj_module *module)
{
    Elf64_Ehdr header;
    const struct ftj_bytes image = image_for(90, &header);
    return backend.ops->module_load(&backend, &image, &config, module);
}

Test(cuda_backend, takes_the_primary_context_and_gives_it_back)
{
    cr_expect_str_eq(backend.device.target, "sm_90a");
    cr_expect_str_eq(ftj_cuda_backend_driver_path(&backend), FAKE_CUDA_PATH);
    cr_expect_eq(num_retained(), 1);
    cr_expect_null(current_context(), "opening leaves the thread without a context");
    ftj_backend_finish(&backend);
    cr_expect_eq(num_retained(), 0);
    cr_expect_null(backend.ops);
}

Test(cuda_backend, is_untouched_by_an_open_that_fails)
{
    static const struct {
        const char *failure;
        ftj_status status;
    } rows[] = {
        {"cuInit", FTJ_E_DRIVER},
        {"cuDeviceGetCount", FTJ_E_DRIVER},
        {"cuDevicePrimaryCtxRetain", FTJ_E_DRIVER},
        {"cuDevicePrimaryCtxRetain:2", FTJ_E_NO_MEMORY},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct ftj_backend other = {0};
        setenv("FAKE_CUDA_FAIL", rows[i].failure, 1);
        cr_expect_eq(open_backend(&other, (ftj_settings){0}), rows[i].status, "%s",
                     rows[i].failure);
        cr_expect_null(other.ops);
        cr_expect_null(other.state);
    }
    unsetenv("FAKE_CUDA_FAIL");
    cr_expect_eq(num_retained(), 1, "only the suite's own");
}

Test(cuda_backend, uses_a_context_that_it_is_given)
{
    struct CUctx_st *given = new_context(1);
    struct ftj_backend other = {0};
    cr_assert_eq(open_backend(&other, (ftj_settings){.device = 1, .cuda_context = given}), FTJ_OK);
    cr_expect_eq(ftj_cuda_of(&other)->context, given);
    cr_expect_eq(num_retained(), 1, "the given context is not retained");
    ftj_backend_finish(&other);

    cr_expect_eq(open_backend(&other, (ftj_settings){.device = 0, .cuda_context = given}),
                 FTJ_E_INVALID);
    expect_said("cuda_context is a context of device 1, but device is 0");
}

/* Each call by itself: two that leave the wrong context could make up for each other. */
static void expect_ok_and_context(const char *call, ftj_status status, struct CUctx_st *callers)
{
    cr_expect_eq(status, FTJ_OK, "%s: %s", call, catcher.last);
    cr_expect_eq(current_context(), callers, "%s leaves another context current", call);
}

Test(cuda_backend, restores_the_callers_context_after_every_call)
{
    struct CUctx_st *callers = new_context(1);
    cr_assert_eq(driver()->cuCtxPushCurrent_v2(callers), 0);
    struct ftj_module module = {0};
    void *memory = NULL;
    struct CUstream_st *stream = NULL;
    uint32_t word = 7;
    const ftj_decode_params params = {0};
    const struct ftj_backend_ops *ops = backend.ops;
#define expect(call, status) expect_ok_and_context(call, status, callers)
    expect("module_load", load(&module));
    expect("memory_alloc", ops->memory_alloc(&backend, 4, &memory));
    expect("memory_write", ops->memory_write(&backend, memory, &word, 4));
    expect("memory_fill", ops->memory_fill(&backend, memory, 1, 4));
    expect("memory_read", ops->memory_read(&backend, &word, memory, 4));
    expect("check_pointer", ops->check_pointer(&backend, "q", memory));
    expect("stream_create", ops->stream_create(&backend, &stream));
    expect("check_stream", ops->check_stream(&backend, stream));
    expect("launch", ops->launch(&backend, &module, (struct ftj_grid){1, 1}, &params,
                                 sizeof(params), stream));
    expect("stream_synchronize", ops->stream_synchronize(&backend, stream));
    expect("is_capturing", ops->is_capturing(&backend) ? FTJ_E_CAPTURE : FTJ_OK);
    ops->stream_destroy(&backend, stream);
    expect("stream_destroy", FTJ_OK);
    ops->memory_free(&backend, memory);
    expect("memory_free", FTJ_OK);
    ops->module_unload(&backend, &module);
    expect("module_unload", FTJ_OK);
#undef expect
    cr_expect_eq(word, 0x01010101);
    cr_expect_eq(num_modules(), 0);
}

Test(cuda_backend, restores_the_callers_context_after_a_failure)
{
    struct CUctx_st *callers = new_context(1);
    struct ftj_module module = {0};
    cr_assert_eq(driver()->cuCtxPushCurrent_v2(callers), 0);
    setenv("FAKE_CUDA_FAIL", "cuModuleLoadData,cuLaunchKernel,cuMemAlloc_v2,cuPointerGetAttributes",
           1);
    void *memory = NULL;
    cr_expect_eq(load(&module), FTJ_E_DRIVER);
    cr_expect_eq(current_context(), callers);
    cr_expect_eq(backend.ops->launch(&backend, &module, (struct ftj_grid){1, 1}, "", 1, NULL),
                 FTJ_E_LAUNCH);
    cr_expect_eq(current_context(), callers);
    cr_expect_eq(backend.ops->memory_alloc(&backend, 4, &memory), FTJ_E_DRIVER);
    cr_expect_eq(current_context(), callers);
    cr_expect_eq(backend.ops->check_pointer(&backend, "q", callers), FTJ_E_DRIVER);
    cr_expect_eq(current_context(), callers);
    cr_expect_null(memory);
    cr_expect_null(module.library);
}

Test(cuda_backend, pushes_nothing_when_its_context_is_current)
{
    cr_assert_eq(driver()->cuCtxPushCurrent_v2(ftj_cuda_of(&backend)->context), 0);
    const unsigned int before = calls("cuCtxPushCurrent_v2");
    cr_expect_eq(backend.ops->stream_synchronize(&backend, NULL), FTJ_OK);
    cr_expect_eq(calls("cuCtxPushCurrent_v2"), before);
}

Test(cuda_backend, loads_a_module_ready_to_launch)
{
    struct ftj_module module = {0};
    cr_assert_eq(load(&module), FTJ_OK, "%s", catcher.last);
    cr_expect_not_null(module.function);
    cr_expect_eq(module.num_threads, 256);
    cr_expect_eq(module.smem_bytes, 100000);
    cr_expect_eq(module.blocks_per_sm, 4);
    cr_expect_eq(module.cluster_blocks, 1);
    cr_expect_eq(calls("cuFuncLoad"), 1);
    cr_expect_eq(calls("cuFuncSetAttribute"), 1);
    backend.ops->module_unload(&backend, &module);
    cr_expect_null(module.library);
    backend.ops->module_unload(&backend, &module);
    cr_expect_eq(calls("cuModuleUnload"), 1, "an empty module is fine");
}

/* Acceptance cases O22 and O25: an image that is refused as such may be built again. */
Test(cuda_backend, calls_a_refused_image_damaged)
{
    static const struct {
        const char *failure;
        ftj_status status;
        const char *said;
    } rows[] = {
        {"cuModuleLoadData:200", FTJ_E_DAMAGED, "FAKE_ERROR_200"},
        {"cuModuleLoadData:209", FTJ_E_DAMAGED, "for sm_90a"},
        {"cuModuleLoadData:218", FTJ_E_DAMAGED, "update the driver"},
        {"cuModuleLoadData:222", FTJ_E_DAMAGED, "the driver (CUDA 12.4)"},
        {"cuModuleLoadData:300", FTJ_E_DAMAGED, "FAKE_ERROR_300"},
        {"cuModuleLoadData:400", FTJ_E_DAMAGED, "FAKE_ERROR_400"},
        {"cuModuleGetFunction:500", FTJ_E_DAMAGED, "(ftj_attn_decode_sm90)"},
        {"cuModuleLoadData:2", FTJ_E_NO_MEMORY, "out of memory"},
        {"cuModuleLoadData:700", FTJ_E_DRIVER, "cuModuleLoadData"},
        {"cuFuncLoad:700", FTJ_E_DRIVER, "cuFuncLoad"},
        {"cuFuncSetAttribute", FTJ_E_DRIVER, "cuFuncSetAttribute"},
        {"cuOccupancyMaxActiveBlocksPerMultiprocessor", FTJ_E_DRIVER, "cuOccupancy"},
    };
    setenv("FAKE_CUDA_VERSION", "12040", 1);
    ftj_backend_finish(&backend);
    cr_assert_eq(open_backend(&backend, (ftj_settings){0}), FTJ_OK);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct ftj_module module = {0};
        setenv("FAKE_CUDA_FAIL", rows[i].failure, 1);
        cr_expect_eq(load(&module), rows[i].status, "%s", rows[i].failure);
        expect_said(rows[i].said);
        cr_expect_null(module.library);
        cr_expect_eq(num_modules(), 0, "%s leaves no module behind", rows[i].failure);
    }
}

Test(cuda_backend, refuses_images_that_are_not_this_devices)
{
    struct ftj_module module = {0};
    Elf64_Ehdr header;
    const struct ftj_bytes foreign = image_for(80, &header);
    cr_expect_eq(backend.ops->module_load(&backend, &foreign, &config, &module), FTJ_E_DAMAGED);
    expect_said("209");

    static uint8_t text[] = "// written by a newer compiler\n.version 9.1\n.target sm_90a\n";
    const struct ftj_bytes ptx = {.data = text, .size = sizeof(text)};
    setenv("FAKE_CUDA_REFUSE", "ptx", 1);
    backend.compiler = "nvrtc 13.5 0123456789abcdef 0123456789abcdef";
    cr_expect_eq(backend.ops->module_load(&backend, &ptx, &config, &module), FTJ_E_DAMAGED);
    expect_said("refused PTX 9.1 for sm_90a by nvrtc 13.5 with");
    expect_said("FTJIT_NVRTC");

    const struct ftj_bytes empty = {0};
    cr_expect_eq(backend.ops->module_load(&backend, &empty, &config, &module), FTJ_E_DAMAGED);
    cr_expect_null(module.library);
}

Test(cuda_backend, refuses_a_block_that_does_not_fit)
{
    struct ftj_module module = {0};
    Elf64_Ehdr header;
    const struct ftj_bytes image = image_for(90, &header);
    const struct ftj_config wide = {.variant = "attn_decode_sm90", .num_threads = 2048};
    cr_expect_eq(backend.ops->module_load(&backend, &image, &wide, &module), FTJ_E_LAUNCH);
    expect_said("2048 threads");
    cr_expect_eq(num_modules(), 0);
}

Test(cuda_backend, launches_with_the_grid_and_the_bytes_it_is_given)
{
    struct ftj_module module = {0};
    struct CUstream_st *stream = NULL;
    ftj_decode_params params; /* of the kernel that load() loads */
    memset(&params, 0x5a, sizeof(params));
    cr_assert_eq(load(&module), FTJ_OK);
    cr_assert_eq(backend.ops->stream_create(&backend, &stream), FTJ_OK);
    cr_assert_eq(backend.ops->launch(&backend, &module, (struct ftj_grid){65536, 1}, &params,
                                     sizeof(params), stream),
                 FTJ_OK, "%s", catcher.last);
    const struct fake_launch *launch = last_launch();
    cr_expect_eq(launch->num_blocks, 65536);
    cr_expect_eq(launch->num_threads, 256);
    cr_expect_eq(launch->smem_bytes, 100000);
    cr_expect_eq(launch->stream, stream);
    cr_expect_eq(launch->params_bytes, sizeof(params));
    cr_expect_arr_eq(launch->params, &params, sizeof(params));

    setenv("FAKE_CUDA_FAIL", "cuLaunchKernel:701", 1);
    cr_expect_eq(backend.ops->launch(&backend, &module, (struct ftj_grid){3, 1}, &params,
                                     sizeof(params), stream),
                 FTJ_E_LAUNCH);
    expect_said("3 blocks, 256 threads and 100000 bytes");
    expect_said("FAKE_ERROR_701 (701: as the test asked)");
    backend.ops->stream_destroy(&backend, stream);
    backend.ops->module_unload(&backend, &module);
}

Test(cuda_backend, reports_a_context_that_cannot_be_entered)
{
    static const struct {
        const char *failure;
        const char *said;
    } rows[] = {
        {"cuCtxGetCurrent:3", "does not survive a fork"},
        {"cuCtxPushCurrent_v2:709", "cuCtxPushCurrent: the driver answered FAKE_ERROR_709"},
    };
    const struct ftj_backend_ops *ops = backend.ops;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct ftj_module module = {0};
        void *memory = NULL;
        struct CUstream_st *stream = NULL;
        setenv("FAKE_CUDA_FAIL", rows[i].failure, 1);
        const ftj_status statuses[] = {
            load(&module),
            ops->launch(&backend, &module, (struct ftj_grid){1, 1}, "", 1, NULL),
            ops->check_pointer(&backend, "q", rows),
            ops->check_stream(&backend, (struct CUstream_st *)&module),
            ops->memory_alloc(&backend, 4, &memory),
            ops->memory_write(&backend, &module, "", 1),
            ops->memory_read(&backend, &module, "", 1),
            ops->memory_fill(&backend, &module, 0, 1),
            ops->stream_create(&backend, &stream),
            ops->stream_synchronize(&backend, NULL),
        };
        for (size_t k = 0; k < sizeof(statuses) / sizeof(*statuses); k++)
            cr_expect_eq(statuses[k], FTJ_E_DRIVER, "call %zu with %s", k, rows[i].failure);
        expect_said(rows[i].said);
        cr_expect_not(ops->is_capturing(&backend));
    }
    cr_expect_eq(catcher.num_sentences, 2 * 11, "each call said so once");
}

Test(cuda_backend, warns_when_the_callers_context_cannot_be_restored)
{
    setenv("FAKE_CUDA_FAIL", "cuCtxPopCurrent_v2", 1);
    cr_expect_eq(backend.ops->stream_synchronize(&backend, NULL), FTJ_OK);
    cr_expect_eq(catcher.level, FTJ_LOG_WARNING);
    expect_said("keeps the context of device 0");
}
