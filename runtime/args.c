/* SPDX-License-Identifier: MIT */
/* One check per argument, in the order of the public structs; the first fault found is the
 * sentence. */
#include "runtime/args.h"

#include <string.h>

#include "runtime/workspace.h"

#define VECTOR_BYTES 16u

/* A pointer the kernel will follow: there, aligned, and memory of this device. */
static ftj_status check(const struct ftj_attention *attn, const char *name, const void *pointer,
                        size_t alignment)
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

static ftj_status check_optional(const struct ftj_attention *attn, const char *name,
                                 const void *pointer, size_t alignment)
{
    return pointer ? check(attn, name, pointer, alignment) : FTJ_OK;
}

static ftj_status check_stride(const struct ftj_attention *attn, const char *name, int64_t stride,
                               int64_t least, int64_t multiple)
{
    if (!stride || (stride >= least && stride % multiple == 0))
        return FTJ_OK;
    return ftj_fail(&attn->ctx->log, FTJ_E_INVALID,
                    "%s is %lld elements; allowed: 0 (dense), or at least %lld and a multiple of "
                    "%lld",
                    name, (long long)stride, (long long)least, (long long)multiple);
}

static uint64_t address(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

static int64_t or_dense(int64_t stride, int64_t dense)
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
        .base = address(base) + array->offset_bytes,
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
    return check(attn, "cache.packed", cache->packed, VECTOR_BYTES);
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
            check(attn, arrays[i].name, arrays[i].pointer,
                  attn->copies_spans ? VECTOR_BYTES : row_alignment(arrays[i].array));
        if (status)
            return status;
        set_array(arrays[i].pointer, arrays[i].array, arrays[i].params);
    }
    return FTJ_OK;
}

static ftj_status set_cache(const struct ftj_attention *attn, const ftj_kv_cache *cache,
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

static ftj_status set_requests(const struct ftj_attention *attn, const ftj_requests *requests,
                               ftj_requests_params *params)
{
    params->batch = requests->batch;
    params->window = attn->desc.window;
    if (attn->desc.table == FTJ_TABLE_SLOTS) {
        ftj_status status = check(attn, "requests.indptr", requests->indptr, sizeof(int32_t));
        if (status)
            return status;
        status = check(attn, "requests.indices", requests->indices, sizeof(int32_t));
        params->indptr = address(requests->indptr);
        params->table = address(requests->indices);
        return status;
    }
    if (requests->block_table_stride < 1)
        return ftj_fail(&attn->ctx->log, FTJ_E_INVALID,
                        "requests.block_table_stride is %lld; it must be the table's width, 1 or "
                        "more",
                        (long long)requests->block_table_stride);
    ftj_status status = check(attn, "requests.lengths", requests->lengths, sizeof(int32_t));
    if (status)
        return status;
    status = check(attn, "requests.block_table", requests->block_table, sizeof(int32_t));
    params->lengths = address(requests->lengths);
    params->table = address(requests->block_table);
    params->table_stride = requests->block_table_stride;
    return status;
}

/* ---- calls ------------------------------------------------------------------------------------
 */

ftj_status ftj_args_store(const struct ftj_attention *attn, const ftj_store_args *args,
                          ftj_store_params *params)
{
    const ftj_kv_shape *shape = &attn->desc.kv.shape;
    const size_t element = attn->desc.store_dtype == FTJ_DTYPE_FP32 ? 4 : 2;
    const int64_t head_dim = shape->head_dim;
    const int64_t dense = head_dim * shape->num_kv_heads;
    memset(params, 0, sizeof(*params));

    const struct {
        const char *name;
        int64_t stride;
    } strides[] = {{"k_token_stride", args->k_token_stride},
                   {"k_head_stride", args->k_head_stride},
                   {"v_token_stride", args->v_token_stride},
                   {"v_head_stride", args->v_head_stride}};
    for (size_t i = 0; i < sizeof(strides) / sizeof(*strides); i++) {
        const ftj_status status =
            check_stride(attn, strides[i].name, strides[i].stride, head_dim, 1);
        if (status)
            return status;
    }
    const struct {
        const char *name;
        const void *pointer;
        size_t alignment;
    } pointers[] = {{"k", args->k, element},
                    {"v", args->v, element},
                    {"slots", args->slots, args->slots_are_int64 ? 8 : 4}};
    for (size_t i = 0; i < sizeof(pointers) / sizeof(*pointers); i++) {
        const ftj_status status =
            check(attn, pointers[i].name, pointers[i].pointer, pointers[i].alignment);
        if (status)
            return status;
    }
    const ftj_status status =
        check_optional(attn, "num_rejected", args->num_rejected, sizeof(uint32_t));
    if (status)
        return status;

    params->k = address(args->k);
    params->v = address(args->v);
    params->k_token_stride = or_dense(args->k_token_stride, dense);
    params->k_head_stride = or_dense(args->k_head_stride, head_dim);
    params->v_token_stride = or_dense(args->v_token_stride, dense);
    params->v_head_stride = or_dense(args->v_head_stride, head_dim);
    params->slots = address(args->slots);
    params->slots_are_int64 = args->slots_are_int64;
    params->num_tokens = args->num_tokens;
    params->num_slots = args->cache.num_pages * shape->page_size;
    params->num_rejected = address(args->num_rejected);
    params->num_kv_heads = shape->num_kv_heads;
    return set_cache(attn, &args->cache, &params->cache);
}

static ftj_status check_decode_strides(const struct ftj_attention *attn,
                                       const ftj_decode_args *args)
{
    const int64_t head_dim = attn->desc.kv.shape.head_dim;
    const struct {
        const char *name;
        int64_t stride;
    } strides[] = {{"q_batch_stride", args->q_batch_stride},
                   {"q_head_stride", args->q_head_stride},
                   {"o_batch_stride", args->o_batch_stride},
                   {"o_head_stride", args->o_head_stride}};
    for (size_t i = 0; i < sizeof(strides) / sizeof(*strides); i++) {
        const ftj_status status =
            check_stride(attn, strides[i].name, strides[i].stride, head_dim, 8);
        if (status)
            return status;
    }
    return FTJ_OK;
}

static ftj_status set_workspace(const struct ftj_attention *attn, const ftj_decode_args *args,
                                ftj_decode_params *params)
{
    const struct ftj_workspace plan = ftj_workspace_plan(attn, args->requests.batch);
    if (args->workspace_bytes < plan.bytes)
        return ftj_fail(&attn->ctx->log, FTJ_E_INVALID,
                        "workspace_bytes is %zu; a batch of %u needs %zu", args->workspace_bytes,
                        args->requests.batch, plan.bytes);
    const ftj_status status = check(attn, "workspace", args->workspace, 256);
    const uint64_t base = address(args->workspace);
    params->partial_out = base + plan.partial_out;
    params->partial_state = base + plan.partial_state;
    params->segments = base + plan.segments;
    return status;
}

ftj_status ftj_args_decode(const struct ftj_attention *attn, const ftj_decode_args *args,
                           ftj_decode_params *params)
{
    const int64_t head_dim = attn->desc.kv.shape.head_dim;
    const int64_t dense = head_dim * attn->desc.num_q_heads;
    const float log2e = 1.44269504f;
    memset(params, 0, sizeof(*params));

    ftj_status status = check_decode_strides(attn, args);
    if (status)
        return status;
    const struct {
        const char *name;
        const void *pointer;
        size_t alignment;
    } pointers[] = {{"q", args->q, VECTOR_BYTES}, {"o", args->o, VECTOR_BYTES}};
    for (size_t i = 0; i < sizeof(pointers) / sizeof(*pointers); i++) {
        status = check(attn, pointers[i].name, pointers[i].pointer, pointers[i].alignment);
        if (status)
            return status;
    }
    status = check_optional(attn, "lse", args->lse, sizeof(float));
    if (status)
        return status;
    status = check_optional(attn, "sinks", args->sinks, sizeof(float));
    if (status)
        return status;
    status = set_workspace(attn, args, params);
    if (status)
        return status;
    status = set_requests(attn, &args->requests, &params->requests);
    if (status)
        return status;

    params->q = address(args->q);
    params->o = address(args->o);
    params->lse = address(args->lse);
    params->sinks = address(args->sinks);
    params->q_batch_stride = or_dense(args->q_batch_stride, dense);
    params->q_head_stride = or_dense(args->q_head_stride, head_dim);
    params->o_batch_stride = or_dense(args->o_batch_stride, dense);
    params->o_head_stride = or_dense(args->o_head_stride, head_dim);
    params->num_kv_heads = attn->desc.kv.shape.num_kv_heads;
    params->group = attn->group;
    params->head_blocks = attn->head_blocks;
    params->softcap = attn->desc.softcap;
    params->score_scale =
        attn->desc.softcap > 0.0f ? attn->desc.sm_scale : attn->desc.sm_scale * log2e;
    return set_cache(attn, &args->cache, &params->cache);
}

ftj_status ftj_args_generic(const struct ftj_attention *attn, const ftj_generic_args *args,
                            ftj_generic_params *params)
{
    const size_t element = attn->desc.generic_dtype == FTJ_DTYPE_FP32 ? 4 : 2;
    memset(params, 0, sizeof(*params));
    const struct {
        const char *name;
        const void *pointer;
        size_t alignment;
        bool required;
    } pointers[] = {
        {"q", args->q, element, true},
        {"o", args->o, element, true},
        {"lse", args->lse, sizeof(float), false},
        {"sinks", args->sinks, sizeof(float), false},
        {"q_requests", args->q_requests, sizeof(int32_t), false},
        {"q_positions", args->q_positions, sizeof(int32_t), false},
    };
    for (size_t i = 0; i < sizeof(pointers) / sizeof(*pointers); i++) {
        if (!pointers[i].pointer && !pointers[i].required)
            continue;
        const ftj_status status =
            check(attn, pointers[i].name, pointers[i].pointer, pointers[i].alignment);
        if (status)
            return status;
    }
    const ftj_status status = set_requests(attn, &args->requests, &params->requests);
    if (status)
        return status;

    params->q = address(args->q);
    params->o = address(args->o);
    params->lse = address(args->lse);
    params->sinks = address(args->sinks);
    params->q_requests = address(args->q_requests);
    params->q_positions = address(args->q_positions);
    params->num_queries = args->num_queries;
    params->num_kv_heads = attn->desc.kv.shape.num_kv_heads;
    params->group = attn->group;
    params->sm_scale = attn->desc.sm_scale;
    params->softcap = attn->desc.softcap;
    return set_cache(attn, &args->cache, &params->cache);
}

ftj_status ftj_args_merge(const struct ftj_attention *attn, const ftj_merge_args *args,
                          ftj_merge_params *params)
{
    memset(params, 0, sizeof(*params));
    const struct {
        const char *name;
        const void *pointer;
        size_t alignment;
    } pointers[] = {
        {"o_a", args->o_a, 2},     {"lse_a", args->lse_a, 4}, {"o_b", args->o_b, 2},
        {"lse_b", args->lse_b, 4}, {"o", args->o, 2},
    };
    for (size_t i = 0; i < sizeof(pointers) / sizeof(*pointers); i++) {
        const ftj_status status =
            check(attn, pointers[i].name, pointers[i].pointer, pointers[i].alignment);
        if (status)
            return status;
    }
    params->o_a = address(args->o_a);
    params->lse_a = address(args->lse_a);
    params->o_b = address(args->o_b);
    params->lse_b = address(args->lse_b);
    params->o = address(args->o);
    params->lse = address(args->lse);
    params->rows = args->rows;
    return check_optional(attn, "lse", args->lse, sizeof(float));
}
