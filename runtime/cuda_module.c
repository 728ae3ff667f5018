/* SPDX-License-Identifier: MIT */
/* Machine code into the driver, and kernels onto a stream. */
#include <stdio.h>
#include <string.h>

#include "codegen/source.h"
#include "runtime/cuda_state.h"

/* Answers that mean "not this image": a bad or foreign entry, which another build may cure. */
static bool is_refusal(int result)
{
    switch (result) {
    case FTJ_CU_ERROR_INVALID_IMAGE:
    case FTJ_CU_ERROR_NO_BINARY_FOR_GPU:
    case FTJ_CU_ERROR_INVALID_PTX:
    case FTJ_CU_ERROR_UNSUPPORTED_PTX_VERSION:
    case FTJ_CU_ERROR_INVALID_SOURCE:
    case FTJ_CU_ERROR_INVALID_HANDLE:
    case FTJ_CU_ERROR_NOT_FOUND:
        return true;
    default:
        return false;
    }
}

/* "PTX 9.0" for PTX text, "machine code" for anything else: which compiler wrote it. */
static void name_image(const struct ftj_bytes *code, char *text, size_t size)
{
    static const char directive[] = ".version ";
    const char *data = (const char *)code->data;
    const size_t length = sizeof(directive) - 1;
    snprintf(text, size, "machine code");
    if (code->size >= 4 && memcmp(data, "\177ELF", 4) == 0)
        return;
    for (size_t i = 0; i + length + 8 <= code->size; i++) {
        int major = 0;
        int minor = 0;
        if (memcmp(data + i, directive, length))
            continue;
        char number[9] = {0};
        memcpy(number, data + i + length, 8);
        if (sscanf(number, "%d.%d", &major, &minor) == 2)
            snprintf(text, size, "PTX %d.%d", major, minor);
        return;
    }
}

/* How much of a compiler's id is its name and version: "nvrtc 13.0.88"; build ids follow. */
static int name_length(const char *id)
{
    const size_t name = strcspn(id, " ");
    return (int)(id[name] ? name + 1 + strcspn(id + name + 1, " ") : name);
}

/* A capture in global mode, on any thread, would be broken by the calls that load and unload code,
 * were they not made in relaxed mode. Answers the mode to go back to. */
static int relax_capture(const struct ftj_driver *driver)
{
    int mode = FTJ_CU_CAPTURE_MODE_RELAXED;
    if (!driver->cuThreadExchangeStreamCaptureMode ||
        driver->cuThreadExchangeStreamCaptureMode(&mode))
        return FTJ_CU_CAPTURE_MODE_RELAXED;
    return mode;
}

static void restore_capture(const struct ftj_driver *driver, int mode)
{
    if (mode != FTJ_CU_CAPTURE_MODE_RELAXED)
        driver->cuThreadExchangeStreamCaptureMode(&mode);
}

static ftj_status fail_load(const struct ftj_backend *backend, const struct ftj_bytes *code,
                            int result, const char *call)
{
    const struct ftj_cuda *cuda = ftj_cuda_of(backend);
    if (result >= FTJ_CU_ERROR_STREAM_CAPTURE_FIRST && result <= FTJ_CU_ERROR_STREAM_CAPTURE_LAST)
        return ftj_driver_fail(&cuda->driver, backend->log, FTJ_E_CAPTURE, result, call);
    if (!is_refusal(result))
        return ftj_driver_fail(&cuda->driver, backend->log, FTJ_E_DRIVER, result, call);

    char answer[256];
    char image[32];
    ftj_driver_result_text(&cuda->driver, result, answer, sizeof(answer));
    name_image(code, image, sizeof(image));
    const bool is_too_new =
        result == FTJ_CU_ERROR_INVALID_PTX || result == FTJ_CU_ERROR_UNSUPPORTED_PTX_VERSION;
    const int version = cuda->driver.version;
    const char *compiler = backend->compiler && *backend->compiler ? backend->compiler : "NVRTC";
    return ftj_fail(backend->log, FTJ_E_DAMAGED,
                    "%s: the driver (CUDA %d.%d) refused %s for %s by %.*s with %s%s", call,
                    version / 1000, version % 1000 / 10, image, backend->device.target,
                    name_length(compiler), compiler, answer,
                    is_too_new ? "; the compiler is newer than the driver: update the driver, or "
                                 "name an NVRTC no newer than it in FTJIT_NVRTC"
                               : "");
}

static struct ftj_cu_launch_attribute in_clusters(uint32_t blocks)
{
    return (struct ftj_cu_launch_attribute){.id = FTJ_CU_LAUNCH_CLUSTER_DIMENSION,
                                            .value = {.cluster = {blocks, 1, 1}}};
}

/* How many clusters run at once: their blocks need SMs that are neighbours, of which a part of a
 * device (MIG, MPS) may have fewer than it has room for, or none. */
static ftj_status count_clusters(const struct ftj_backend *backend, struct CUfunc_st *function,
                                 const struct ftj_config *config, uint32_t *num_clusters)
{
    const struct ftj_driver *driver = &ftj_cuda_of(backend)->driver;
    const struct ftj_cu_launch_attribute attribute = in_clusters(config->cluster_blocks);
    const struct ftj_cu_launch_config launch = {
        .grid_x = config->cluster_blocks,
        .grid_y = 1,
        .grid_z = 1,
        .block_x = config->num_threads,
        .block_y = 1,
        .block_z = 1,
        .smem_bytes = config->smem_bytes,
        .attributes = &attribute,
        .num_attributes = 1,
    };
    int clusters = 0;
    if (!driver->cuOccupancyMaxActiveClusters || !driver->cuLaunchKernelEx)
        return FTJ_OK;
    const int result = driver->cuOccupancyMaxActiveClusters(&clusters, function, &launch);
    if (result)
        return ftj_driver_fail(driver, backend->log, FTJ_E_DRIVER, result,
                               "cuOccupancyMaxActiveClusters");
    *num_clusters = clusters > 0 ? (uint32_t)clusters : 0;
    return FTJ_OK;
}

/* The function's attributes; the context is current. */
static ftj_status prepare(const struct ftj_backend *backend, const struct ftj_bytes *code,
                          const struct ftj_config *config, struct ftj_module *module)
{
    const struct ftj_driver *driver = &ftj_cuda_of(backend)->driver;
    struct CUfunc_st *function = NULL;
    const struct ftj_symbol symbol = ftj_kernel_symbol(config->variant);
    char call[96];
    snprintf(call, sizeof(call), "cuModuleGetFunction(%s)", symbol.name);
    int result = driver->cuModuleGetFunction(&function, module->library, symbol.name);
    if (result)
        return fail_load(backend, code, result, call);
    /* Where the driver loads lazily, do it now: the first launch may be inside a capture. */
    result = driver->cuFuncLoad ? driver->cuFuncLoad(function) : 0;
    if (result)
        return fail_load(backend, code, result, "cuFuncLoad");

    result =
        driver->cuFuncSetAttribute(function, FTJ_CU_FUNC_MAX_DYNAMIC_SMEM, (int)config->smem_bytes);
    if (result)
        return ftj_driver_fail(driver, backend->log, FTJ_E_DRIVER, result,
                               "cuFuncSetAttribute(max dynamic shared memory)");
    int blocks = 0;
    result = driver->cuOccupancyMaxActiveBlocksPerMultiprocessor(
        &blocks, function, (int)config->num_threads, config->smem_bytes);
    if (result)
        return ftj_driver_fail(driver, backend->log, FTJ_E_DRIVER, result,
                               "cuOccupancyMaxActiveBlocksPerMultiprocessor");
    if (blocks < 1)
        return ftj_fail(backend->log, FTJ_E_LAUNCH,
                        "a block of %u threads with %u bytes of shared memory does not fit an SM "
                        "of device %d",
                        config->num_threads, config->smem_bytes, backend->device.ordinal);
    module->function = function;
    module->num_threads = config->num_threads;
    module->smem_bytes = config->smem_bytes;
    module->blocks_per_sm = (uint32_t)blocks;
    module->overlaps_previous = config->overlaps_previous && driver->cuLaunchKernelEx;
    module->cluster_blocks = config->cluster_blocks ? config->cluster_blocks : 1;
    return module->cluster_blocks > 1
               ? count_clusters(backend, function, config, &module->num_clusters)
               : FTJ_OK;
}

ftj_status ftj_cuda_module_load(struct ftj_backend *backend, const struct ftj_bytes *code,
                                const struct ftj_config *config, struct ftj_module *module)
{
    const struct ftj_driver *driver = &ftj_cuda_of(backend)->driver;
    if (code->size == 0)
        return ftj_fail(backend->log, FTJ_E_DAMAGED, "the machine code for %s is empty",
                        backend->device.target);
    bool pushed = false;
    ftj_status status = ftj_cuda_enter(backend, &pushed);
    if (status)
        return status;

    struct ftj_module loaded = {0};
    struct CUmod_st *library = NULL;
    const int mode = relax_capture(driver);
    const int result = driver->cuModuleLoadData(&library, code->data);
    if (result) {
        status = fail_load(backend, code, result, "cuModuleLoadData");
        goto cleanup;
    }
    loaded.library = library;
    status = prepare(backend, code, config, &loaded);
    if (status)
        driver->cuModuleUnload(library);
    else
        *module = loaded;

cleanup:
    restore_capture(driver, mode);
    ftj_cuda_leave(backend, pushed);
    return status;
}

void ftj_cuda_module_unload(struct ftj_backend *backend, struct ftj_module *module)
{
    bool pushed = false;
    if (module->library && ftj_cuda_enter(backend, &pushed) == FTJ_OK) {
        const struct ftj_driver *driver = &ftj_cuda_of(backend)->driver;
        const int mode = relax_capture(driver);
        /* Refused only by a context that a kernel broke; the code goes with the context then. */
        driver->cuModuleUnload(module->library);
        restore_capture(driver, mode);
        ftj_cuda_leave(backend, pushed);
    }
    *module = (struct ftj_module){0};
}

ftj_status ftj_cuda_launch(struct ftj_backend *backend, const struct ftj_module *module,
                           struct ftj_grid grid, const void *params, size_t params_bytes,
                           struct CUstream_st *stream)
{
    const struct ftj_driver *driver = &ftj_cuda_of(backend)->driver;
    bool pushed = false;
    ftj_status status = ftj_cuda_enter(backend, &pushed);
    if (status)
        return status;

    /* The driver knows the argument's size, and where it is aligned to: a buffer of all parameters
     * would have to begin with what lies before it. It copies the bytes before it returns and never
     * writes to them. */
    (void)params_bytes;
    void *arguments[] = {(void *)params};
    struct ftj_cu_launch_attribute attributes[2];
    unsigned int num_attributes = 0;
    if (module->overlaps_previous)
        attributes[num_attributes++] = (struct ftj_cu_launch_attribute){
            .id = FTJ_CU_LAUNCH_PROGRAMMATIC_ORDER, .value = {.allowed = 1}};
    if (grid.cluster_blocks > 1)
        attributes[num_attributes++] = in_clusters(grid.cluster_blocks);
    const struct ftj_cu_launch_config launch = {
        .grid_x = grid.num_blocks,
        .grid_y = 1,
        .grid_z = 1,
        .block_x = module->num_threads,
        .block_y = 1,
        .block_z = 1,
        .smem_bytes = module->smem_bytes,
        .stream = stream,
        .attributes = attributes,
        .num_attributes = num_attributes,
    };
    const int result =
        num_attributes
            ? driver->cuLaunchKernelEx(&launch, module->function, arguments, NULL)
            : driver->cuLaunchKernel(module->function, grid.num_blocks, 1, 1, module->num_threads,
                                     1, 1, module->smem_bytes, stream, arguments, NULL);
    if (result) {
        char answer[256];
        ftj_driver_result_text(driver, result, answer, sizeof(answer));
        status = ftj_fail(backend->log, FTJ_E_LAUNCH,
                          "cuLaunchKernel of %u blocks, %u threads and %u bytes of shared memory "
                          "each, on device %d: the driver answered %s",
                          grid.num_blocks, module->num_threads, module->smem_bytes,
                          backend->device.ordinal, answer);
    }
    ftj_cuda_leave(backend, pushed);
    return status;
}

ftj_status ftj_cuda_tensor_encode(struct ftj_backend *backend, const ftj_tensor *tensor,
                                  ftj_tensor_map *map)
{
    const struct ftj_driver *driver = &ftj_cuda_of(backend)->driver;
    const uint64_t dims[] = {tensor->dims, tensor->slots, tensor->heads, tensor->pages};
    const uint32_t box[] = {tensor->box_dims, tensor->box_slots, 1, 1};
    const uint32_t each[] = {1, 1, 1, 1};
    if (!driver->cuTensorMapEncodeTiled)
        return ftj_fail(backend->log, FTJ_E_DRIVER,
                        "%s has no cuTensorMapEncodeTiled: an extend on Hopper needs the driver of "
                        "CUDA 12 or newer",
                        driver->path);
    bool pushed = false;
    const ftj_status status = ftj_cuda_enter(backend, &pushed); /* it wants one, for its device */
    if (status)
        return status;
    const int result = driver->cuTensorMapEncodeTiled(
        map, FTJ_CU_TENSOR_UINT16, 4, (void *)(uintptr_t)tensor->base, dims, tensor->strides, box,
        each, FTJ_CU_TENSOR_INTERLEAVE_NONE, FTJ_CU_TENSOR_SWIZZLE_128B,
        FTJ_CU_TENSOR_L2_PROMOTION_256B, FTJ_CU_TENSOR_FILL_ZEROS);
    ftj_cuda_leave(backend, pushed);
    return result ? ftj_driver_fail(driver, backend->log, FTJ_E_DRIVER, result,
                                    "cuTensorMapEncodeTiled")
                  : FTJ_OK;
}
