/* SPDX-License-Identifier: MIT */
/* Device memory and streams, for programs without an allocator of their own. */
#include "runtime/cuda_state.h"

static uint64_t address(const void *device)
{
    return (uint64_t)(uintptr_t)device;
}

ftj_status ftj_cuda_memory_alloc(struct ftj_backend *backend, size_t bytes, void **out)
{
    const struct ftj_driver *driver = &ftj_cuda_of(backend)->driver;
    bool pushed = false;
    ftj_status status = ftj_cuda_enter(backend, &pushed);
    if (status)
        return status;
    /* The driver refuses 0 bytes; an empty array still wants an address of its own. */
    uint64_t memory = 0;
    const int result = driver->cuMemAlloc_v2(&memory, bytes ? bytes : 1);
    if (result == FTJ_CU_ERROR_OUT_OF_MEMORY)
        status =
            ftj_fail(backend->log, FTJ_E_NO_MEMORY, "device %d has no %zu bytes of memory left",
                     backend->device.ordinal, bytes);
    else if (result)
        status = ftj_driver_fail(driver, backend->log, FTJ_E_DRIVER, result, "cuMemAlloc");
    else
        *out = (void *)(uintptr_t)memory;
    ftj_cuda_leave(backend, pushed);
    return status;
}

void ftj_cuda_memory_free(struct ftj_backend *backend, void *memory)
{
    bool pushed = false;
    if (!memory || ftj_cuda_enter(backend, &pushed))
        return;
    const int result = ftj_cuda_of(backend)->driver.cuMemFree_v2(address(memory));
    ftj_cuda_leave(backend, pushed);
    if (result)
        ftj_say(backend->log, FTJ_LOG_WARNING, "cuMemFree of %p: the driver answered %d", memory,
                result);
}

/* The default stream: a copy from pageable memory may still be on its way when the call returns. */
static int wait_for_copy(const struct ftj_driver *driver, int result)
{
    return result ? result : driver->cuStreamSynchronize(NULL);
}

/* What a call answered between enter and leave. */
static ftj_status end(struct ftj_backend *backend, bool pushed, int result, const char *call)
{
    ftj_cuda_leave(backend, pushed);
    return result ? ftj_driver_fail(&ftj_cuda_of(backend)->driver, backend->log, FTJ_E_DRIVER,
                                    result, call)
                  : FTJ_OK;
}

ftj_status ftj_cuda_memory_write(struct ftj_backend *backend, void *device, const void *host,
                                 size_t bytes)
{
    const struct ftj_driver *driver = &ftj_cuda_of(backend)->driver;
    bool pushed = false;
    const ftj_status status = ftj_cuda_enter(backend, &pushed);
    if (status)
        return status;
    const int result = driver->cuMemcpyHtoD_v2(address(device), host, bytes);
    return end(backend, pushed, wait_for_copy(driver, result), "cuMemcpyHtoD");
}

ftj_status ftj_cuda_memory_read(struct ftj_backend *backend, void *host, const void *device,
                                size_t bytes)
{
    const struct ftj_driver *driver = &ftj_cuda_of(backend)->driver;
    bool pushed = false;
    const ftj_status status = ftj_cuda_enter(backend, &pushed);
    if (status)
        return status;
    const int result = driver->cuMemcpyDtoH_v2(host, address(device), bytes);
    return end(backend, pushed, result, "cuMemcpyDtoH");
}

ftj_status ftj_cuda_memory_fill(struct ftj_backend *backend, void *device, uint8_t value,
                                size_t bytes)
{
    const struct ftj_driver *driver = &ftj_cuda_of(backend)->driver;
    bool pushed = false;
    const ftj_status status = ftj_cuda_enter(backend, &pushed);
    if (status)
        return status;
    const int result = driver->cuMemsetD8_v2(address(device), value, bytes);
    return end(backend, pushed, wait_for_copy(driver, result), "cuMemsetD8");
}

/* A blocking stream: ordered with the default stream that the copies above run on, and a capture
 * of it can be told (cuda_check.c). */
ftj_status ftj_cuda_stream_create(struct ftj_backend *backend, struct CUstream_st **out)
{
    const struct ftj_driver *driver = &ftj_cuda_of(backend)->driver;
    bool pushed = false;
    const ftj_status status = ftj_cuda_enter(backend, &pushed);
    if (status)
        return status;
    struct CUstream_st *stream = NULL;
    const int result = driver->cuStreamCreate(&stream, 0);
    if (!result)
        *out = stream;
    return end(backend, pushed, result, "cuStreamCreate");
}

void ftj_cuda_stream_destroy(struct ftj_backend *backend, struct CUstream_st *stream)
{
    bool pushed = false;
    if (!stream || ftj_cuda_enter(backend, &pushed))
        return;
    const int result = ftj_cuda_of(backend)->driver.cuStreamDestroy_v2(stream);
    ftj_cuda_leave(backend, pushed);
    if (result)
        ftj_say(backend->log, FTJ_LOG_WARNING, "cuStreamDestroy: the driver answered %d", result);
}

ftj_status ftj_cuda_stream_synchronize(struct ftj_backend *backend, struct CUstream_st *stream)
{
    const struct ftj_driver *driver = &ftj_cuda_of(backend)->driver;
    bool pushed = false;
    const ftj_status status = ftj_cuda_enter(backend, &pushed);
    if (status)
        return status;
    return end(backend, pushed, driver->cuStreamSynchronize(stream), "cuStreamSynchronize");
}
