/* SPDX-License-Identifier: MIT */
/* What the driver can tell about a caller's pointers and streams before anything is launched. */
#include "runtime/cuda_state.h"

/* Device of a context that is not ours, for a sentence; -1 when it cannot be told. */
static int device_of_context(const struct ftj_driver *driver, struct CUctx_st *context)
{
    int device = -1;
    struct CUctx_st *popped = NULL;
    if (!context || driver->cuCtxPushCurrent_v2(context))
        return -1;
    if (driver->cuCtxGetDevice(&device))
        device = -1;
    driver->cuCtxPopCurrent_v2(&popped);
    return device;
}

/* The driver's zeroes mean memory it does not know. */
struct memory {
    struct CUctx_st *context;
    uint32_t type;
    int32_t ordinal;
    uint32_t is_managed;
};

static ftj_status judge_memory(const struct ftj_backend *backend, const char *argument,
                               const void *pointer, const struct memory *memory)
{
    const struct ftj_cuda *cuda = ftj_cuda_of(backend);
    const int ours = backend->device.ordinal;
    if (memory->is_managed)
        return FTJ_OK;
    if (memory->type == 0)
        return ftj_fail(backend->log, FTJ_E_INVALID,
                        "%s is %p, which is no CUDA memory; it must be memory of device %d",
                        argument, pointer, ours);
    if (memory->type == FTJ_CU_MEMORY_HOST)
        return ftj_fail(backend->log, FTJ_E_INVALID,
                        "%s is %p, which is host memory; it must be memory of device %d", argument,
                        pointer, ours);
    if (memory->ordinal != ours)
        return ftj_fail(backend->log, FTJ_E_INVALID,
                        "%s is %p, which is memory of device %d; it must be memory of device %d",
                        argument, pointer, memory->ordinal, ours);
    /* Memory of a pool or of a mapped range belongs to a device and to no context. */
    if (memory->context && memory->context != cuda->context)
        return ftj_fail(backend->log, FTJ_E_INVALID,
                        "%s is %p, which belongs to another CUDA context of device %d (%p); it "
                        "must belong to this one (%p)",
                        argument, pointer, ours, (void *)memory->context, (void *)cuda->context);
    return FTJ_OK;
}

ftj_status ftj_cuda_check_pointer(struct ftj_backend *backend, const char *argument,
                                  const void *pointer)
{
    const struct ftj_driver *driver = &ftj_cuda_of(backend)->driver;
    struct memory memory = {0};
    int attributes[] = {FTJ_CU_POINTER_CONTEXT, FTJ_CU_POINTER_MEMORY_TYPE,
                        FTJ_CU_POINTER_DEVICE_ORDINAL, FTJ_CU_POINTER_IS_MANAGED};
    void *values[] = {&memory.context, &memory.type, &memory.ordinal, &memory.is_managed};

    bool pushed = false;
    const ftj_status status = ftj_cuda_enter(backend, &pushed);
    if (status)
        return status;
    const int result = driver->cuPointerGetAttributes(
        sizeof(attributes) / sizeof(*attributes), attributes, values, (uint64_t)(uintptr_t)pointer);
    ftj_cuda_leave(backend, pushed);
    if (result)
        return ftj_driver_fail(driver, backend->log, FTJ_E_DRIVER, result,
                               "cuPointerGetAttributes");
    return judge_memory(backend, argument, pointer, &memory);
}

ftj_status ftj_cuda_check_stream(struct ftj_backend *backend, struct CUstream_st *stream)
{
    const struct ftj_cuda *cuda = ftj_cuda_of(backend);
    if (!stream || !cuda->driver.cuStreamGetCtx)
        return FTJ_OK;

    bool pushed = false;
    const ftj_status status = ftj_cuda_enter(backend, &pushed);
    if (status)
        return status;
    struct CUctx_st *context = NULL;
    const int result = cuda->driver.cuStreamGetCtx(stream, &context);
    const bool is_ours = context == cuda->context;
    const int device = result || is_ours ? cuda->device : device_of_context(&cuda->driver, context);
    ftj_cuda_leave(backend, pushed);
    if (result)
        return ftj_driver_fail(&cuda->driver, backend->log, FTJ_E_INVALID, result,
                               "stream: cuStreamGetCtx");
    if (!is_ours)
        return ftj_fail(backend->log, FTJ_E_INVALID,
                        "stream is of another CUDA context (device %d); it must be of the context "
                        "of device %d that was opened",
                        device, backend->device.ordinal);
    return FTJ_OK;
}

/*
 * Asking the legacy default stream is harmless by the driver's own documentation: while a blocking
 * stream of the context captures, it answers 906 and leaves the capture valid. So is asking the
 * thread's own default stream. A capture on a non-blocking stream shows in neither, and nothing
 * that would show it is safe to call (the calls a global capture forbids also invalidate it), so
 * false means "not known to be": what is then loaded is loaded in relaxed mode.
 */
bool ftj_cuda_is_capturing(struct ftj_backend *backend)
{
    const struct ftj_driver *driver = &ftj_cuda_of(backend)->driver;
    struct CUstream_st *const streams[] = {NULL, FTJ_CU_STREAM_PER_THREAD};
    bool is_capturing = false;
    bool pushed = false;
    if (ftj_cuda_enter(backend, &pushed))
        return false;
    for (size_t i = 0; i < sizeof(streams) / sizeof(*streams) && !is_capturing; i++) {
        int capture = 0;
        const int result = driver->cuStreamIsCapturing(streams[i], &capture);
        is_capturing =
            result == FTJ_CU_ERROR_STREAM_CAPTURE_IMPLICIT || (result == 0 && capture != 0);
    }
    ftj_cuda_leave(backend, pushed);
    return is_capturing;
}
