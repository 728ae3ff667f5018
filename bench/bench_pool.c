/* SPDX-License-Identifier: MIT */
/* Allocating, filling and addressing a cache. */
#include "bench/bench_pool.h"

#include <stdlib.h>

/* Rows are drawn once and stored many times over from differing offsets: drawing gigabytes on the
 * host would take longer than all the timing. */
#define FILL_TOKENS 2048
#define FILL_SPARE  1021

ftj_status bench_upload(ftj_context *ctx, const void *host, size_t bytes, void **out)
{
    void *device = NULL;
    if (!host)
        return ftj_fail(NULL, FTJ_E_NO_MEMORY, "no %zu bytes of host memory for a bench's inputs",
                        bytes);
    ftj_status status = ftj_memory_alloc(ctx, bytes, &device);
    if (!status)
        status = ftj_memory_write(ctx, device, host, bytes);
    if (status) {
        ftj_memory_free(ctx, device);
        return status;
    }
    *out = device;
    return FTJ_OK;
}

static ftj_status alloc_array(struct bench_pool *pool, const ftj_kv_array *array, size_t index,
                              void **pointer)
{
    if (!array->row_bytes)
        return FTJ_OK;
    const uint64_t bytes = pool->cache.num_pages * array->page_stride_bytes;
    const ftj_status status = ftj_memory_alloc(pool->ctx, bytes, &pool->arrays[index]);
    *pointer = pool->arrays[index];
    return status;
}

ftj_status bench_pool_init(struct bench_pool *pool, ftj_context *ctx, const ftj_kv_layout *layout,
                           uint64_t num_pages)
{
    struct bench_pool made = {.ctx = ctx, .layout = *layout, .cache = {.num_pages = num_pages}};
    ftj_kv_cache *cache = &made.cache;
    ftj_status status = FTJ_OK;

    if (layout->shape.order == FTJ_KV_PACKED) {
        status = ftj_memory_alloc(ctx, num_pages * layout->page_bytes, &made.arrays[0]);
        cache->packed = made.arrays[0];
    } else {
        const struct {
            const ftj_kv_array *array;
            void **pointer;
        } parts[] = {
            {&layout->k.codes, &cache->k_codes},
            {&layout->k.row_scales, &cache->k_row_scales},
            {&layout->k.block_scales, &cache->k_block_scales},
            {&layout->v.codes, &cache->v_codes},
            {&layout->v.row_scales, &cache->v_row_scales},
            {&layout->v.block_scales, &cache->v_block_scales},
        };
        for (size_t i = 0; i < 6 && !status; i++)
            status = alloc_array(&made, parts[i].array, i, parts[i].pointer);
    }
    if (status) {
        bench_pool_finish(&made);
        return status;
    }
    *pool = made;
    return FTJ_OK;
}

void bench_pool_finish(struct bench_pool *pool)
{
    for (size_t i = 0; i < 6 && pool->ctx; i++)
        ftj_memory_free(pool->ctx, pool->arrays[i]);
    *pool = (struct bench_pool){0};
}

/* Slots first .. first + count, from rows that start at a random one of the source. */
static ftj_status fill_slots(struct bench_pool *pool, ftj_attention *attn, uint64_t first,
                             uint32_t count, int64_t *slots, void *device_slots,
                             const uint16_t *const rows[2], uint64_t start)
{
    const uint64_t width = (uint64_t)pool->layout.shape.num_kv_heads * pool->layout.shape.head_dim;
    for (uint32_t i = 0; i < count; i++)
        slots[i] = (int64_t)(first + i);
    const ftj_status status =
        ftj_memory_write(pool->ctx, device_slots, slots, count * sizeof(*slots));
    if (status)
        return status;
    const ftj_store_args args = {
        .cache = pool->cache,
        .k = rows[0] + start * width,
        .v = rows[1] + start * width,
        .slots = device_slots,
        .slots_are_int64 = true,
        .num_tokens = count,
    };
    const ftj_status stored = ftj_kv_store(attn, &args, NULL);
    return stored ? stored : ftj_stream_synchronize(pool->ctx, NULL);
}

ftj_status bench_pool_fill(struct bench_pool *pool, ftj_attention *attn, ftj_dtype dtype,
                           struct bench_random *random)
{
    const uint64_t num_slots = pool->cache.num_pages * pool->layout.shape.page_size;
    const uint32_t chunk = num_slots < FILL_TOKENS ? (uint32_t)num_slots : FILL_TOKENS;
    const size_t values = (size_t)(chunk + FILL_SPARE) * pool->layout.shape.num_kv_heads *
                          pool->layout.shape.head_dim;
    uint16_t *host_rows[2] = {0};
    void *rows[2] = {0};
    int64_t *slots = calloc(chunk, sizeof(*slots));
    void *device_slots = NULL;

    ftj_status status = bench_upload(pool->ctx, slots, chunk * sizeof(*slots), &device_slots);
    for (int side = 0; side < 2 && !status; side++) {
        host_rows[side] = bench_random_rows(random, dtype, values);
        status = bench_upload(pool->ctx, host_rows[side], values * 2, &rows[side]);
    }
    for (uint64_t first = 0; first < num_slots && !status; first += chunk) {
        const uint64_t left = num_slots - first;
        status = fill_slots(pool, attn, first, left < chunk ? (uint32_t)left : chunk, slots,
                            device_slots, (const uint16_t *const[]){rows[0], rows[1]},
                            bench_random_bits(random) % FILL_SPARE);
    }

    for (int side = 0; side < 2; side++) {
        ftj_memory_free(pool->ctx, rows[side]);
        free(host_rows[side]);
    }
    ftj_memory_free(pool->ctx, device_slots);
    free(slots);
    return status;
}

ftj_status bench_pool_poison(struct bench_pool *pool)
{
    const ftj_kv_layout *layout = &pool->layout;
    const bool is_packed = layout->shape.order == FTJ_KV_PACKED;
    const uint64_t page_bytes[] = {
        is_packed ? layout->page_bytes : layout->k.codes.page_stride_bytes,
        layout->k.row_scales.page_stride_bytes,
        layout->k.block_scales.page_stride_bytes,
        layout->v.codes.page_stride_bytes,
        layout->v.row_scales.page_stride_bytes,
        layout->v.block_scales.page_stride_bytes,
    };
    for (size_t i = 0; i < 6; i++) {
        if (!pool->arrays[i])
            continue;
        const ftj_status status = ftj_memory_fill(pool->ctx, pool->arrays[i], 0xff,
                                                  page_bytes[i] * pool->cache.num_pages);
        if (status)
            return status;
    }
    return FTJ_OK;
}

const uint8_t *bench_pool_row(const struct bench_pool *pool, const ftj_kv_array *array,
                              uint64_t slot, uint32_t head)
{
    const ftj_kv_layout *layout = &pool->layout;
    const struct {
        const ftj_kv_array *array;
        const void *pointer;
    } parts[] = {
        {&layout->k.codes, pool->cache.k_codes},
        {&layout->k.row_scales, pool->cache.k_row_scales},
        {&layout->k.block_scales, pool->cache.k_block_scales},
        {&layout->v.codes, pool->cache.v_codes},
        {&layout->v.row_scales, pool->cache.v_row_scales},
        {&layout->v.block_scales, pool->cache.v_block_scales},
    };
    const uint8_t *base = pool->cache.packed;
    for (size_t i = 0; i < 6 && !base; i++) {
        if (parts[i].array == array)
            base = parts[i].pointer;
    }
    return base + array->offset_bytes + slot / layout->shape.page_size * array->page_stride_bytes +
           head * array->head_stride_bytes +
           slot % layout->shape.page_size * array->slot_stride_bytes;
}
