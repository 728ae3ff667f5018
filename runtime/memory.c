/* SPDX-License-Identifier: MIT */
/* Device memory and streams of programs without an allocator of their own. */
#include "ftjit/memory.h"

#include "runtime/context_state.h"

ftj_status ftj_memory_alloc(ftj_context *ctx, size_t bytes, void **out)
{
    return ctx->backend.ops->memory_alloc(&ctx->backend, bytes, out);
}

void ftj_memory_free(ftj_context *ctx, void *memory)
{
    if (memory)
        ctx->backend.ops->memory_free(&ctx->backend, memory);
}

ftj_status ftj_memory_write(ftj_context *ctx, void *device, const void *host, size_t bytes)
{
    return ctx->backend.ops->memory_write(&ctx->backend, device, host, bytes);
}

ftj_status ftj_memory_read(ftj_context *ctx, void *host, const void *device, size_t bytes)
{
    return ctx->backend.ops->memory_read(&ctx->backend, host, device, bytes);
}

ftj_status ftj_memory_fill(ftj_context *ctx, void *device, uint8_t value, size_t bytes)
{
    return ctx->backend.ops->memory_fill(&ctx->backend, device, value, bytes);
}

ftj_status ftj_stream_create(ftj_context *ctx, struct CUstream_st **out)
{
    return ctx->backend.ops->stream_create(&ctx->backend, out);
}

void ftj_stream_destroy(ftj_context *ctx, struct CUstream_st *stream)
{
    if (stream)
        ctx->backend.ops->stream_destroy(&ctx->backend, stream);
}

ftj_status ftj_stream_synchronize(ftj_context *ctx, struct CUstream_st *stream)
{
    return ctx->backend.ops->stream_synchronize(&ctx->backend, stream);
}
