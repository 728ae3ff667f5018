/* SPDX-License-Identifier: MIT */
/* One check per argument; the first fault found is the sentence. */
#include "runtime/args_check.h"

#define VECTOR_BYTES 16u

/* A pointer the kernel will follow: there, aligned, and memory of this device. */
ftj_status ftj_check_argument(const struct ftj_attention *attn, const char *name,
                              const void *pointer, size_t alignment)
{
    struct ftj_context *ctx = attn->ctx;
    if (!pointer)
        return ftj_fail(&ctx->log, FTJ_E_INVALID, "%s is NULL; it must point to device memory",
                        name);
    if ((uintptr_t)pointer % alignment)
        return ftj_fail(&ctx->log, FTJ_E_INVALID, "%s is %p; it must be aligned to %zu bytes", name,
                        pointer, alignment);
    return ctx->backend.ops->check_pointer(&ctx->backend, name, pointer);
}

ftj_status ftj_check_optional(const struct ftj_attention *attn, const char *name,
                              const void *pointer, size_t alignment)
{
    return pointer ? ftj_check_argument(attn, name, pointer, alignment) : FTJ_OK;
}

ftj_status ftj_check_stride(const struct ftj_attention *attn, const char *name, int64_t stride,
                            int64_t least, int64_t multiple)
{
    if (!stride || (stride >= least && stride % multiple == 0))
        return FTJ_OK;
    return ftj_fail(&attn->ctx->log, FTJ_E_INVALID,
                    "%s is %lld elements; allowed: 0 (dense), or at least %lld and a multiple of "
                    "%lld",
                    name, (long long)stride, (long long)least, (long long)multiple);
}

uint64_t ftj_address(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

int64_t ftj_or_dense(int64_t stride, int64_t dense)
{
    return stride ? stride : dense;
}

/* ---- the cache --------------------------------------------------------------------------------
 */

static uint32_t row_alignment(const ftj_kv_array *array)
{
    uint32_t alignment = VECTOR_BYTES;
    while (array->row_bytes % alignment)
        alignment /= 2;
    return alignment;
}

static void set_array(const void *base, const ftj_kv_array *array, ftj_array_params *params)
{
    if (!array->row_bytes)
        return;
    *params = (ftj_array_params){
        .base = ftj_address(base) + array->offset_bytes,
        .page_stride = array->page_stride_bytes,
        .head_stride = array->head_stride_bytes,
        .slot_stride = array->slot_stride_bytes,
    };
}

static ftj_status set_packed(const struct ftj_attention *attn, const ftj_kv_cache *cache,
                             ftj_cache_params *params)
{
    const ftj_kv_layout *kv = &attn->desc.kv;
    set_array(cache->packed, &kv->k.codes, &params->k.codes);
    set_array(cache->packed, &kv->k.row_scales, &params->k.row_scales);
    set_array(cache->packed, &kv->k.block_scales, &params->k.block_scales);
    set_array(cache->packed, &kv->v.codes, &params->v.codes);
    set_array(cache->packed, &kv->v.row_scales, &params->v.row_scales);
    set_array(cache->packed, &kv->v.block_scales, &params->v.block_scales);
    return ftj_check_argument(attn, "cache.packed", cache->packed, VECTOR_BYTES);
}

static ftj_status set_arrays(const struct ftj_attention *attn, const ftj_kv_cache *cache,
                             ftj_cache_params *params)
{
    const ftj_kv_layout *kv = &attn->desc.kv;
    const struct {
        const char *name;
        const void *pointer;
        const ftj_kv_array *array;
        ftj_array_params *params;
    } arrays[] = {
        {"cache.k_codes", cache->k_codes, &kv->k.codes, &params->k.codes},
        {"cache.k_row_scales", cache->k_row_scales, &kv->k.row_scales, &params->k.row_scales},
        {"cache.k_block_scales", cache->k_block_scales, &kv->k.block_scales,
         &params->k.block_scales},
        {"cache.v_codes", cache->v_codes, &kv->v.codes, &params->v.codes},
        {"cache.v_row_scales", cache->v_row_scales, &kv->v.row_scales, &params->v.row_scales},
        {"cache.v_block_scales", cache->v_block_scales, &kv->v.block_scales,
         &params->v.block_scales},
    };
    for (size_t i = 0; i < sizeof(arrays) / sizeof(*arrays); i++) {
        if (!arrays[i].array->row_bytes)
            continue;
        const ftj_status status =
            ftj_check_argument(attn, arrays[i].name, arrays[i].pointer,
                               attn->copies_spans ? VECTOR_BYTES : row_alignment(arrays[i].array));
        if (status)
            return status;
        set_array(arrays[i].pointer, arrays[i].array, arrays[i].params);
    }
    return FTJ_OK;
}

ftj_status ftj_set_cache(const struct ftj_attention *attn, const ftj_kv_cache *cache,
                         ftj_cache_params *params)
{
    if (!cache->num_pages)
        return ftj_fail(&attn->ctx->log, FTJ_E_INVALID,
                        "cache.num_pages is 0; it must be the number of pages of the pool");
    if (attn->desc.kv.shape.order == FTJ_KV_PACKED)
        return set_packed(attn, cache, params);
    return set_arrays(attn, cache, params);
}

/* ---- requests ---------------------------------------------------------------------------------
 */

ftj_status ftj_set_requests(const struct ftj_attention *attn, const ftj_requests *requests,
                            ftj_requests_params *params)
{
    params->batch = requests->batch;
    params->window = attn->desc.window;
    if (attn->desc.table == FTJ_TABLE_SLOTS) {
        ftj_status status =
            ftj_check_argument(attn, "requests.indptr", requests->indptr, sizeof(int32_t));
        if (status)
            return status;
        status = ftj_check_argument(attn, "requests.indices", requests->indices, sizeof(int32_t));
        params->indptr = ftj_address(requests->indptr);
        params->table = ftj_address(requests->indices);
        return status;
    }
    if (requests->block_table_stride < 1)
        return ftj_fail(&attn->ctx->log, FTJ_E_INVALID,
                        "requests.block_table_stride is %lld; it must be the table's width, 1 or "
                        "more",
                        (long long)requests->block_table_stride);
    ftj_status status =
        ftj_check_argument(attn, "requests.lengths", requests->lengths, sizeof(int32_t));
    if (status)
        return status;
    status =
        ftj_check_argument(attn, "requests.block_table", requests->block_table, sizeof(int32_t));
    params->lengths = ftj_address(requests->lengths);
    params->table = ftj_address(requests->block_table);
    params->table_stride = requests->block_table_stride;
    return status;
}
