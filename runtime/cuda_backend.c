/* SPDX-License-Identifier: MIT */
/* The CUDA driver as a backend: opening and closing it, and whose context is current. */
#include <stdlib.h>

#include "runtime/cuda_state.h"
#include "runtime/probe.h"

ftj_status ftj_cuda_enter(const struct ftj_backend *backend, bool *pushed)
{
    const struct ftj_cuda *cuda = ftj_cuda_of(backend);
    struct CUctx_st *current = NULL;
    *pushed = false;
    int result = cuda->driver.cuCtxGetCurrent(&current);
    if (result)
        return ftj_driver_fail(&cuda->driver, backend->log, FTJ_E_DRIVER, result,
                               "cuCtxGetCurrent");
    if (current == cuda->context)
        return FTJ_OK;
    result = cuda->driver.cuCtxPushCurrent_v2(cuda->context);
    if (result)
        return ftj_driver_fail(&cuda->driver, backend->log, FTJ_E_DRIVER, result,
                               "cuCtxPushCurrent");
    *pushed = true;
    return FTJ_OK;
}

void ftj_cuda_leave(const struct ftj_backend *backend, bool pushed)
{
    const struct ftj_cuda *cuda = ftj_cuda_of(backend);
    struct CUctx_st *popped = NULL;
    if (pushed && cuda->driver.cuCtxPopCurrent_v2(&popped))
        ftj_say(backend->log, FTJ_LOG_WARNING,
                "cuCtxPopCurrent failed: the calling thread keeps the context of device %d",
                backend->device.ordinal);
}

static void finish(struct ftj_backend *backend)
{
    struct ftj_cuda *cuda = ftj_cuda_of(backend);
    if (!cuda)
        return;
    /* A failure here means that the driver is shutting down: there is nothing left to give back. */
    if (cuda->owns_primary)
        cuda->driver.cuDevicePrimaryCtxRelease_v2(cuda->device);
    ftj_driver_finish(&cuda->driver);
    free(cuda);
}

static const struct ftj_backend_ops cuda_ops = {
    .module_load = ftj_cuda_module_load,
    .module_unload = ftj_cuda_module_unload,
    .launch = ftj_cuda_launch,
    .tensor_encode = ftj_cuda_tensor_encode,
    .check_pointer = ftj_cuda_check_pointer,
    .check_stream = ftj_cuda_check_stream,
    .is_capturing = ftj_cuda_is_capturing,
    .memory_alloc = ftj_cuda_memory_alloc,
    .memory_free = ftj_cuda_memory_free,
    .memory_write = ftj_cuda_memory_write,
    .memory_read = ftj_cuda_memory_read,
    .memory_fill = ftj_cuda_memory_fill,
    .stream_create = ftj_cuda_stream_create,
    .stream_destroy = ftj_cuda_stream_destroy,
    .stream_synchronize = ftj_cuda_stream_synchronize,
    .finish = finish,
};

/* The caller's context must be one of the device that was asked for: kernels are built for it. */
static ftj_status adopt_context(struct ftj_backend *backend, struct CUctx_st *context)
{
    struct ftj_cuda *cuda = ftj_cuda_of(backend);
    cuda->context = context;
    bool pushed = false;
    ftj_status status = ftj_cuda_enter(backend, &pushed);
    if (status)
        return status;
    int device = 0;
    const int result = cuda->driver.cuCtxGetDevice(&device);
    ftj_cuda_leave(backend, pushed);
    if (result)
        return ftj_driver_fail(&cuda->driver, backend->log, FTJ_E_DRIVER, result, "cuCtxGetDevice");
    if (device != cuda->device)
        return ftj_fail(backend->log, FTJ_E_INVALID,
                        "cuda_context is a context of device %d, but device is %d; they must agree",
                        device, backend->device.ordinal);
    return FTJ_OK;
}

static ftj_status take_context(struct ftj_backend *backend, struct CUctx_st *context)
{
    struct ftj_cuda *cuda = ftj_cuda_of(backend);
    int result = cuda->driver.cuDeviceGet(&cuda->device, backend->device.ordinal);
    if (result)
        return ftj_driver_fail(&cuda->driver, backend->log, FTJ_E_DRIVER, result, "cuDeviceGet");
    if (context)
        return adopt_context(backend, context);
    result = cuda->driver.cuDevicePrimaryCtxRetain(&cuda->context, cuda->device);
    if (result)
        return ftj_driver_fail(&cuda->driver, backend->log, FTJ_E_DRIVER, result,
                               "cuDevicePrimaryCtxRetain");
    cuda->owns_primary = true;
    return FTJ_OK;
}

ftj_status ftj_cuda_backend_init(struct ftj_backend *backend, const ftj_settings *settings,
                                 const struct ftj_log *log)
{
    struct ftj_cuda *cuda = calloc(1, sizeof(*cuda));
    if (!cuda)
        return ftj_fail(log, FTJ_E_NO_MEMORY, "no memory for a CUDA backend");
    struct ftj_backend opened = {.ops = &cuda_ops, .log = log, .state = cuda};

    ftj_status status = ftj_driver_init(&cuda->driver, settings->driver_path, log);
    if (status)
        goto cleanup;
    status = ftj_probe(&cuda->driver, settings->device, settings->features, log, &opened.device);
    if (status)
        goto cleanup;
    status = take_context(&opened, settings->cuda_context);
    if (status)
        goto cleanup;
    *backend = opened;
    opened = (struct ftj_backend){0};

cleanup:
    ftj_backend_finish(&opened);
    return status;
}

const char *ftj_cuda_backend_driver_path(const struct ftj_backend *backend)
{
    return backend->ops == &cuda_ops ? ftj_cuda_of(backend)->driver.path : "";
}
