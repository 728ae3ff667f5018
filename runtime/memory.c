/* SPDX-License-Identifier: MIT */
/* Device memory and streams of programs without an allocator of their own. */
#include "ftjit/memory.h"

#include "runtime/context_state.h"

ftj_status ftj_memory_alloc(ftj_context *ctx, size_t bytes, void **out)
{
    const ftj_status status = ftj_context_check(ctx);
    return status ? status : ctx->backend.ops->memory_alloc(&ctx->backend, bytes, out);
}

void ftj_memory_free(ftj_context *ctx, void *memory)
{
    if (memory && ftj_context_is_ours(ctx))
        ctx->backend.ops->memory_free(&ctx->backend, memory);
}

ftj_status ftj_memory_write(ftj_context *ctx, void *device, const void *host, size_t bytes)
{
    const ftj_status status = ftj_context_check(ctx);
    return status ? status : ctx->backend.ops->memory_write(&ctx->backend, device, host, bytes);
}

ftj_status ftj_memory_read(ftj_context *ctx, void *host, const void *device, size_t bytes)
{
    const ftj_status status = ftj_context_check(ctx);
    return status ? status : ctx->backend.ops->memory_read(&ctx->backend, host, device, bytes);
}

ftj_status ftj_memory_fill(ftj_context *ctx, void *device, uint8_t value, size_t bytes)
{
    const ftj_status status = ftj_context_check(ctx);
    return status ? status : ctx->backend.ops->memory_fill(&ctx->backend, device, value, bytes);
}

ftj_status ftj_stream_create(ftj_context *ctx, struct CUstream_st **out)
{
    const ftj_status status = ftj_context_check(ctx);
    return status ? status : ctx->backend.ops->stream_create(&ctx->backend, out);
}

void ftj_stream_destroy(ftj_context *ctx, struct CUstream_st *stream)
{
    if (stream && ftj_context_is_ours(ctx))
        ctx->backend.ops->stream_destroy(&ctx->backend, stream);
}

ftj_status ftj_stream_synchronize(ftj_context *ctx, struct CUstream_st *stream)
{
    const ftj_status status = ftj_context_check(ctx);
    return status ? status : ctx->backend.ops->stream_synchronize(&ctx->backend, stream);
}
