/* SPDX-License-Identifier: MIT */
/* One page, one request, one token. */
#include "bench/bench_tiny.h"

#define HEAD_DIM  128
#define Q_HEADS   32
#define KV_HEADS  8
#define PAGE_SIZE 64
#define LENGTH    16

/* Parts of `memory`, each a multiple of 256 bytes. */
#define ROW_BYTES   (2u * Q_HEADS * HEAD_DIM)
#define SMALL_BYTES 256u

ftj_status bench_tiny_attention(struct bench_tiny *tiny, ftj_context *ctx,
                                const struct bench_format *format, uint32_t ops)
{
    ftj_kv_layout layout;
    const ftj_kv_shape shape = {
        .k_format = format->k,
        .v_format = format->v,
        .num_kv_heads = KV_HEADS,
        .head_dim = HEAD_DIM,
        .page_size = PAGE_SIZE,
    };
    tiny->ctx = ctx;
    ftj_status status = ftj_kv_layout_init(&layout, &shape);
    if (status)
        return status;
    const ftj_attention_desc desc = {
        .ops = ops,
        .kv = layout,
        .num_q_heads = Q_HEADS,
        .dtype = format->dtype,
    };
    status = ftj_attention_create(ctx, &desc, &tiny->attn);
    tiny->pool.layout = layout;
    return status;
}

ftj_status bench_tiny_inputs(struct bench_tiny *tiny)
{
    const int32_t length = LENGTH;
    const ftj_kv_layout layout = tiny->pool.layout;
    const size_t bytes = 4 * ROW_BYTES + 3 * SMALL_BYTES;
    ftj_status status = bench_pool_init(&tiny->pool, tiny->ctx, &layout, 1);
    if (!status)
        status = ftj_memory_fill(tiny->ctx, tiny->pool.cache.packed, 0, layout.page_bytes);
    if (!status)
        status = ftj_memory_alloc(tiny->ctx, bytes, &tiny->memory);
    if (!status)
        status = ftj_memory_fill(tiny->ctx, tiny->memory, 0, bytes);
    if (status)
        return status;

    uint8_t *rows = tiny->memory;
    uint8_t *small = rows + 4 * ROW_BYTES;
    tiny->store = (ftj_store_args){
        .cache = tiny->pool.cache,
        .k = rows,
        .v = rows + ROW_BYTES,
        .slots = small,
        .num_tokens = 1,
    };
    tiny->decode = (ftj_decode_args){
        .cache = tiny->pool.cache,
        .requests = {.batch = 1,
                     .lengths = (const int32_t *)(small + SMALL_BYTES),
                     .block_table = (const int32_t *)(small + 2 * SMALL_BYTES),
                     .block_table_stride = 1},
        .q = rows + 2 * ROW_BYTES,
        .o = rows + 3 * ROW_BYTES,
        .workspace_bytes = ftj_attention_workspace_bytes(tiny->attn),
    };
    status = ftj_memory_write(tiny->ctx, small + SMALL_BYTES, &length, sizeof(length));
    if (!status && tiny->decode.workspace_bytes)
        status = ftj_memory_alloc(tiny->ctx, tiny->decode.workspace_bytes, &tiny->workspace);
    tiny->decode.workspace = tiny->workspace;
    return status;
}

void bench_tiny_finish(struct bench_tiny *tiny)
{
    if (!tiny->ctx)
        return;
    ftj_memory_free(tiny->ctx, tiny->workspace);
    ftj_memory_free(tiny->ctx, tiny->memory);
    bench_pool_finish(&tiny->pool);
    ftj_attention_destroy(tiny->attn);
    *tiny = (struct bench_tiny){0};
}
