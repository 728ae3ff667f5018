/* SPDX-License-Identifier: MIT */
/* One check per argument; the first fault found is the sentence. */
#include "runtime/args_check.h"

static ftj_status check_pointer(const struct ftj_attention *attn, const struct ftj_pointer *pointer)
{
    struct ftj_context *ctx = attn->ctx;
    if (!pointer->address && pointer->is_optional)
        return FTJ_OK;
    if (!pointer->address)
        return ftj_fail(&ctx->log, FTJ_E_INVALID, "%s is NULL; it must point to device memory",
                        pointer->name);
    if ((uintptr_t)pointer->address % pointer->alignment)
        return ftj_fail(&ctx->log, FTJ_E_INVALID, "%s is %p; it must be aligned to %zu bytes",
                        pointer->name, pointer->address, pointer->alignment);
    return ctx->backend.ops->check_pointer(&ctx->backend, pointer->name, pointer->address);
}

ftj_status ftj_check_pointers(const struct ftj_attention *attn, const struct ftj_pointer *pointers,
                              size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const ftj_status status = check_pointer(attn, &pointers[i]);
        if (status)
            return status;
    }
    return FTJ_OK;
}

#define MAX_STRIDE ((int64_t)1 << 38) /* elements: a tensor map's most, nearly */

ftj_status ftj_check_strides(const struct ftj_attention *attn, const struct ftj_stride *strides,
                             size_t count, int64_t multiple)
{
    const int64_t least = attn->desc.kv.shape.head_dim;
    for (size_t i = 0; i < count; i++) {
        const int64_t elements = strides[i].elements;
        if (elements && (elements < least || elements > MAX_STRIDE || elements % multiple))
            return ftj_fail(&attn->ctx->log, FTJ_E_INVALID,
                            "%s is %lld elements; allowed: 0 (dense), or %lld to 2^38%s",
                            strides[i].name, (long long)elements, (long long)least,
                            multiple == FTJ_VECTOR_ELEMENTS ? " and a multiple of 8" : "");
    }
    return FTJ_OK;
}

ftj_status ftj_check_apart(const struct ftj_attention *attn, const struct ftj_stride *rows,
                           uint64_t num_rows, const struct ftj_stride *heads)
{
    const int64_t head_dim = attn->desc.kv.shape.head_dim;
    const int64_t num_heads = attn->desc.num_q_heads;
    const int64_t of_head = ftj_or_dense(heads->elements, head_dim);
    const int64_t of_row = ftj_or_dense(rows->elements, head_dim * num_heads);
    const bool rows_inside = of_row < of_head;
    const int64_t inner = rows_inside ? of_row : of_head, outer = rows_inside ? of_head : of_row;
    const int64_t count = rows_inside ? (int64_t)num_rows : num_heads;
    if (num_rows < 2 || num_heads < 2 || (outer - head_dim) / inner >= count - 1)
        return FTJ_OK;
    return ftj_fail(&attn->ctx->log, FTJ_E_INVALID,
                    "%s is %lld and %s is %lld elements; with %llu rows of %lld heads some would "
                    "lie over each other",
                    rows->name, (long long)of_row, heads->name, (long long)of_head,
                    (unsigned long long)num_rows, (long long)num_heads);
}

uint64_t ftj_address(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

int64_t ftj_or_dense(int64_t stride, int64_t dense)
{
    return stride ? stride : dense;
}

float ftj_score_scale(const struct ftj_attention *attn)
{
    const float log2e = 1.44269504f;
    return attn->desc.softcap > 0.0f ? attn->desc.sm_scale : attn->desc.sm_scale * log2e;
}

/* ---- the cache --------------------------------------------------------------------------------
 */

static uint32_t row_alignment(const ftj_kv_array *array)
{
    uint32_t alignment = FTJ_VECTOR_BYTES;
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
    const struct ftj_pointer packed = {"cache.packed", cache->packed, FTJ_VECTOR_BYTES, false};
    return ftj_check_pointers(attn, &packed, 1);
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
        const struct ftj_pointer pointer = {
            arrays[i].name, arrays[i].pointer,
            attn->copies_spans ? FTJ_VECTOR_BYTES : row_alignment(arrays[i].array), false};
        const ftj_status status = ftj_check_pointers(attn, &pointer, 1);
        if (status)
            return status;
        set_array(arrays[i].pointer, arrays[i].array, arrays[i].params);
    }
    return FTJ_OK;
}

ftj_status ftj_set_cache(const struct ftj_attention *attn, const ftj_kv_cache *cache,
                         ftj_cache_params *params)
{
    const uint64_t most = INT64_MAX / attn->desc.kv.shape.page_size; /* slots have 63 bits */
    if (!cache->num_pages || cache->num_pages > most)
        return ftj_fail(&attn->ctx->log, FTJ_E_INVALID,
                        "cache.num_pages is %llu; it must be the number of pages of the pool, 1 to "
                        "%llu",
                        (unsigned long long)cache->num_pages, (unsigned long long)most);
    if (attn->desc.kv.shape.order == FTJ_KV_PACKED)
        return set_packed(attn, cache, params);
    return set_arrays(attn, cache, params);
}

/* ---- requests ---------------------------------------------------------------------------------
 */

/* One that no length exceeds hides no key, and kernels need not ask what it hides. */
static uint32_t window_of(const ftj_attention_desc *desc)
{
    return desc->window < INT32_MAX ? desc->window : 0;
}

ftj_status ftj_set_requests(const struct ftj_attention *attn, const ftj_requests *requests,
                            ftj_requests_params *params)
{
    params->batch = requests->batch;
    params->window = window_of(&attn->desc);
    if (attn->desc.table == FTJ_TABLE_SLOTS) {
        const struct ftj_pointer slots[] = {
            {"requests.indptr", requests->indptr, sizeof(int32_t), false},
            {"requests.indices", requests->indices, sizeof(int32_t), false}};
        params->indptr = ftj_address(requests->indptr);
        params->table = ftj_address(requests->indices);
        return ftj_check_pointers(attn, slots, 2);
    }
    if (requests->block_table_stride < 1 || requests->block_table_stride > INT32_MAX)
        return ftj_fail(&attn->ctx->log, FTJ_E_INVALID,
                        "requests.block_table_stride is %lld; it must be the table's width, 1 to "
                        "%d",
                        (long long)requests->block_table_stride, INT32_MAX);
    const struct ftj_pointer blocks[] = {
        {"requests.lengths", requests->lengths, sizeof(int32_t), false},
        {"requests.block_table", requests->block_table, sizeof(int32_t), false}};
    params->lengths = ftj_address(requests->lengths);
    params->table = ftj_address(requests->block_table);
    params->table_stride = requests->block_table_stride;
    return ftj_check_pointers(attn, blocks, 2);
}
