/* SPDX-License-Identifier: MIT */
/* The fake driver's memory and streams. */
#include "fake_state.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_MEMORIES 4096

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static size_t num_memories;
static struct {
    uint64_t first;
    size_t bytes;
    struct fake_memory memory;
} memories[MAX_MEMORIES];

/* With the mutex held; num_memories where no memory has the address. */
static size_t find_memory(uint64_t address)
{
    size_t i = 0;
    while (i < num_memories && address - memories[i].first >= memories[i].bytes)
        i++;
    return i;
}

static void set_memory(uint64_t address, size_t bytes, const struct fake_memory *memory)
{
    pthread_mutex_lock(&mutex);
    size_t i = 0;
    while (i < num_memories && memories[i].first != address)
        i++;
    if (i == MAX_MEMORIES) {
        fputs("fake_cuda: more memories than there is room for\n", stderr);
        abort();
    }
    num_memories += i == num_memories;
    memories[i].first = address;
    memories[i].bytes = bytes;
    memories[i].memory = *memory;
    pthread_mutex_unlock(&mutex);
}

void fake_cuda_set_memory(const void *pointer, const struct fake_memory *memory)
{
    set_memory((uint64_t)(uintptr_t)pointer, 1, memory);
}

static void forget_memory(uint64_t address)
{
    pthread_mutex_lock(&mutex);
    const size_t i = find_memory(address);
    if (i < num_memories)
        memories[i] = memories[--num_memories];
    pthread_mutex_unlock(&mutex);
}

/* ---- memory -------------------------------------------------------------------------- */

int cuPointerGetAttributes(unsigned int num_attributes, int *attributes, void **data,
                           uint64_t pointer)
{
    const int result = fake_begin_in_context("cuPointerGetAttributes");
    struct fake_memory memory = {.ordinal =
                                     -2}; /* what the driver says of memory it does not know */
    pthread_mutex_lock(&mutex);
    const size_t found = find_memory(pointer);
    if (found < num_memories)
        memory = memories[found].memory;
    pthread_mutex_unlock(&mutex);
    for (unsigned int i = 0; i < num_attributes; i++) {
        if (attributes[i] == FTJ_CU_POINTER_CONTEXT)
            memcpy(data[i], &memory.context, sizeof(memory.context));
        else if (attributes[i] == FTJ_CU_POINTER_MEMORY_TYPE)
            memcpy(data[i], &memory.type, sizeof(memory.type));
        else if (attributes[i] == FTJ_CU_POINTER_DEVICE_ORDINAL)
            memcpy(data[i], &memory.ordinal, sizeof(memory.ordinal));
        else if (attributes[i] == FTJ_CU_POINTER_IS_MANAGED)
            memcpy(data[i], &memory.is_managed, sizeof(memory.is_managed));
        else
            return UNKNOWN_ATTRIBUTE;
    }
    return result;
}

int cuMemAlloc_v2(uint64_t *pointer, size_t bytes)
{
    const int result = fake_begin_in_context("cuMemAlloc_v2");
    if (result || bytes == 0)
        return result ? result : INVALID_VALUE;
    void *memory = NULL;
    if (posix_memalign(&memory, 256, bytes))
        return OUT_OF_MEMORY;
    const int device = fake_number("FAKE_CUDA_POINTER_DEVICE", fake_current()->device);
    *pointer = (uint64_t)(uintptr_t)memory;
    set_memory(*pointer, bytes,
               &(struct fake_memory){.context = fake_current(), .type = 2, .ordinal = device});
    return 0;
}

int cuMemFree_v2(uint64_t pointer)
{
    const int result = fake_begin_in_context("cuMemFree_v2");
    forget_memory(pointer);
    free((void *)(uintptr_t)pointer);
    return result;
}

int cuMemcpyHtoD_v2(uint64_t device, const void *host, size_t bytes)
{
    const int result = fake_begin_in_context("cuMemcpyHtoD_v2");
    if (!result)
        memcpy((void *)(uintptr_t)device, host, bytes);
    return result;
}

int cuMemcpyDtoH_v2(void *host, uint64_t device, size_t bytes)
{
    const int result = fake_begin_in_context("cuMemcpyDtoH_v2");
    if (!result)
        memcpy(host, (const void *)(uintptr_t)device, bytes);
    return result;
}

int cuMemsetD8_v2(uint64_t device, unsigned char value, size_t bytes)
{
    const int result = fake_begin_in_context("cuMemsetD8_v2");
    if (!result)
        memset((void *)(uintptr_t)device, value, bytes);
    return result;
}

/* ---- streams ------------------------------------------------------------------------- */

int cuStreamCreate(struct CUstream_st **stream, unsigned int flags)
{
    const int result = fake_begin_in_context("cuStreamCreate");
    if (result || flags)
        return result ? result : INVALID_VALUE;
    *stream = malloc(sizeof(**stream));
    if (!*stream)
        return OUT_OF_MEMORY;
    (*stream)->context = fake_current();
    return 0;
}

int cuStreamDestroy_v2(struct CUstream_st *stream)
{
    const int result = fake_begin_in_context("cuStreamDestroy_v2");
    free(stream);
    return result;
}

int cuStreamSynchronize(struct CUstream_st *stream)
{
    (void)stream;
    return fake_begin_in_context("cuStreamSynchronize");
}

int cuStreamIsCapturing(struct CUstream_st *stream, int *status)
{
    const int result = fake_begin_in_context("cuStreamIsCapturing");
    *status = 0;
    const int capturing = fake_number("FAKE_CUDA_CAPTURING", 0);
    if (result)
        return result;
    *status = stream == FTJ_CU_STREAM_PER_THREAD && capturing == 2;
    return !stream && capturing == 1 ? FTJ_CU_ERROR_STREAM_CAPTURE_IMPLICIT : 0;
}

static _Thread_local int capture_mode; /* global, as every thread begins */

int cuThreadExchangeStreamCaptureMode(int *mode)
{
    const int before = capture_mode;
    const int result = fake_begin("cuThreadExchangeStreamCaptureMode");
    if (result)
        return result;
    capture_mode = *mode;
    *mode = before;
    return 0;
}

int fake_cuda_capture_mode(void)
{
    return capture_mode;
}

int cuStreamGetCtx(struct CUstream_st *stream, struct CUctx_st **context)
{
    const int result = fake_begin_in_context("cuStreamGetCtx");
    *context = stream ? stream->context : fake_current();
    return result;
}
