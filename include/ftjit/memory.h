/* SPDX-License-Identifier: MIT */
/*
 * Device memory and streams for programs that have no allocator of their own (tests, benches,
 * examples). Engines pass their own pointers instead. On the CPU device these are malloc, memcpy
 * and streams that are always idle.
 *
 * Any thread. Failures are FTJ_E_NO_MEMORY, FTJ_E_DRIVER, or FTJ_E_INVALID in a forked child; `out`
 * is untouched by them. NULL is fine where something is freed or destroyed.
 */
#ifndef FTJIT_MEMORY_H
#define FTJIT_MEMORY_H

#include "ftjit/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Allocate device memory, aligned to 256 bytes. The caller frees it with ftj_memory_free(). */
FTJ_API FTJ_NODISCARD ftj_status ftj_memory_alloc(ftj_context *ctx, size_t bytes, void **out);
FTJ_API void ftj_memory_free(ftj_context *ctx, void *memory);

/** Copy between host and device; returns when the bytes have arrived. */
FTJ_API FTJ_NODISCARD ftj_status ftj_memory_write(ftj_context *ctx, void *device, const void *host,
                                                  size_t bytes);
FTJ_API FTJ_NODISCARD ftj_status ftj_memory_read(ftj_context *ctx, void *host, const void *device,
                                                 size_t bytes);
/** Set every byte; returns when it is done. */
FTJ_API FTJ_NODISCARD ftj_status ftj_memory_fill(ftj_context *ctx, void *device, uint8_t value,
                                                 size_t bytes);

/** A stream of the context's device. The caller frees it with ftj_stream_destroy(). */
FTJ_API FTJ_NODISCARD ftj_status ftj_stream_create(ftj_context *ctx, struct CUstream_st **out);
FTJ_API void ftj_stream_destroy(ftj_context *ctx, struct CUstream_st *stream);

/** Wait for a stream (NULL: the default stream); reports errors of kernels that ran on it. */
FTJ_API FTJ_NODISCARD ftj_status ftj_stream_synchronize(ftj_context *ctx,
                                                        struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
