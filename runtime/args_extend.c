/* SPDX-License-Identifier: MIT */
/* The arguments of an extend. */
#include <string.h>

#include "runtime/args.h"
#include "runtime/args_check.h"
#include "runtime/workspace.h"

#define PANEL_DIMS 64u        /* of a row, that a tensor copy brings: 128 bytes */
#define MAX_ROWS   (1u << 30) /* of one kv head: rows and positions are 31 bits in the kernel */

static ftj_status check_rows(const struct ftj_attention *attn, const ftj_extend_args *args)
{
    const struct ftj_stride strides[] = {{"q_token_stride", args->q_token_stride},
                                         {"q_head_stride", args->q_head_stride},
                                         {"o_token_stride", args->o_token_stride},
                                         {"o_head_stride", args->o_head_stride},
                                         {"k_new_token_stride", args->k_new_token_stride},
                                         {"k_new_head_stride", args->k_new_head_stride},
                                         {"v_new_token_stride", args->v_new_token_stride},
                                         {"v_new_head_stride", args->v_new_head_stride}};
    ftj_status status =
        ftj_check_strides(attn, strides, sizeof(strides) / sizeof(*strides), FTJ_VECTOR_ELEMENTS);
    if (!status)
        status = ftj_check_apart(attn, &strides[2], args->num_queries, &strides[3]);
    if (status)
        return status;
    if (!args->k_new != !args->v_new)
        return ftj_fail(&attn->ctx->log, FTJ_E_INVALID,
                        "%s is NULL and %s is not; both must be given, or neither",
                        args->k_new ? "v_new" : "k_new", args->k_new ? "k_new" : "v_new");
    const struct ftj_pointer pointers[] = {
        {"qo_indptr", args->qo_indptr, sizeof(int32_t), false},
        {"q", args->q, FTJ_VECTOR_BYTES, false},
        {"o", args->o, FTJ_VECTOR_BYTES, false},
        {"lse", args->lse, sizeof(float), true},
        {"sinks", args->sinks, sizeof(float), true},
        {"k_new", args->k_new, FTJ_VECTOR_BYTES, true},
        {"v_new", args->v_new, FTJ_VECTOR_BYTES, true},
    };
    return ftj_check_pointers(attn, pointers, sizeof(pointers) / sizeof(*pointers));
}

static ftj_status set_workspace(const struct ftj_attention *attn, const ftj_extend_args *args,
                                ftj_extend_params *params)
{
    const struct ftj_extend_workspace plan = ftj_extend_workspace_plan(attn);
    const size_t of_short = ftj_workspace_plan(attn, &attn->short_runs).bytes;
    const size_t bytes = plan.bytes > of_short ? plan.bytes : of_short;
    if (args->workspace_bytes < bytes)
        return ftj_fail(&attn->ctx->log, FTJ_E_INVALID,
                        "workspace_bytes is %zu; an extend needs %zu", args->workspace_bytes,
                        bytes);
    const struct ftj_pointer workspace = {"workspace", args->workspace, 256, false};
    const uint64_t base = ftj_address(args->workspace);
    params->partial_out = base + plan.partial_out;
    params->partial_state = base + plan.partial_state;
    params->splits = base + plan.splits;
    return ftj_check_pointers(attn, &workspace, 1);
}

static void set_rows(const struct ftj_attention *attn, const ftj_extend_args *args,
                     ftj_extend_params *params)
{
    const int64_t head_dim = attn->desc.kv.shape.head_dim;
    const int64_t q_dense = head_dim * attn->desc.num_q_heads;
    const int64_t kv_dense = head_dim * attn->desc.kv.shape.num_kv_heads;
    params->q = ftj_address(args->q);
    params->o = ftj_address(args->o);
    params->lse = ftj_address(args->lse);
    params->sinks = ftj_address(args->sinks);
    params->qo_indptr = ftj_address(args->qo_indptr);
    params->k_new = ftj_address(args->k_new);
    params->v_new = ftj_address(args->v_new);
    params->q_token_stride = ftj_or_dense(args->q_token_stride, q_dense);
    params->q_head_stride = ftj_or_dense(args->q_head_stride, head_dim);
    params->o_token_stride = ftj_or_dense(args->o_token_stride, q_dense);
    params->o_head_stride = ftj_or_dense(args->o_head_stride, head_dim);
    params->k_new_token_stride = ftj_or_dense(args->k_new_token_stride, kv_dense);
    params->k_new_head_stride = ftj_or_dense(args->k_new_head_stride, head_dim);
    params->v_new_token_stride = ftj_or_dense(args->v_new_token_stride, kv_dense);
    params->v_new_head_stride = ftj_or_dense(args->v_new_head_stride, head_dim);
}

/* Cache rows of one side. */
static ftj_tensor cached_tensor(const struct ftj_attention *attn, const ftj_extend_args *args,
                                const ftj_array_params *rows)
{
    return (ftj_tensor){
        .base = rows->base,
        .strides = {rows->slot_stride, rows->head_stride, rows->page_stride},
        .slots = attn->desc.kv.shape.page_size,
        .pages = args->cache.num_pages < UINT32_MAX ? (uint32_t)args->cache.num_pages : UINT32_MAX,
    };
}

/* Rows beside it: all in one page. */
static ftj_tensor new_tensor(const ftj_extend_args *args, uint64_t rows, int64_t token_stride,
                             int64_t head_stride)
{
    const uint64_t token = 2 * (uint64_t)token_stride, head = 2 * (uint64_t)head_stride;
    return (ftj_tensor){
        .base = rows,
        .strides = {token, head, token > head ? token : head},
        .slots = args->num_queries,
        .pages = 1,
    };
}

ftj_status ftj_args_tensors(const struct ftj_attention *attn, const ftj_extend_args *args,
                            ftj_extend_params *params)
{
    struct ftj_backend *backend = &attn->ctx->backend;
    const uint32_t run = attn->kernels[FTJ_KERNEL_EXTEND]->config.tensor_run;
    const bool has_codes = attn->desc.kv.shape.k_format != FTJ_KV_16BIT ||
                           attn->desc.kv.shape.v_format != FTJ_KV_16BIT;
    const struct {
        ftj_tensor_map *map;
        ftj_tensor tensor;
    } sides[] = {
        {&params->k_tensor, cached_tensor(attn, args, &params->cache.k.codes)},
        {&params->v_tensor, cached_tensor(attn, args, &params->cache.v.codes)},
        {&params->k_new_tensor,
         new_tensor(args, params->k_new, params->k_new_token_stride, params->k_new_head_stride)},
        {&params->v_new_tensor,
         new_tensor(args, params->v_new, params->v_new_token_stride, params->v_new_head_stride)},
    };
    for (size_t i = 0; run && i < sizeof(sides) / sizeof(*sides); i++) {
        ftj_tensor tensor = sides[i].tensor;
        tensor.dims = attn->desc.kv.shape.head_dim;
        tensor.heads = attn->desc.kv.shape.num_kv_heads;
        tensor.box_dims = PANEL_DIMS;
        tensor.box_slots = run;
        if (!tensor.base || (has_codes && i < 2)) /* those of the cache */
            continue;
        const ftj_status status = backend->ops->tensor_encode(backend, &tensor, sides[i].map);
        if (status)
            return status;
    }
    return FTJ_OK;
}

ftj_status ftj_args_extend(const struct ftj_attention *attn, const ftj_extend_args *args,
                           ftj_extend_params *params)
{
    memset(params, 0, sizeof(*params));
    if (args->num_queries > MAX_ROWS / attn->group)
        return ftj_fail(
            &attn->ctx->log, FTJ_E_INVALID,
            "num_queries is %u; at most %u fit one call with %u query heads per kv head",
            args->num_queries, MAX_ROWS / attn->group, attn->group);
    ftj_status status = check_rows(attn, args);
    if (status)
        return status;
    status = set_workspace(attn, args, params);
    if (status)
        return status;
    status = ftj_set_requests(attn, &args->requests, &params->requests);
    if (status)
        return status;

    set_rows(attn, args, params);
    params->num_kv_heads = attn->desc.kv.shape.num_kv_heads;
    params->group = attn->group;
    params->heads_inverse = UINT32_MAX / params->num_kv_heads;
    params->group_inverse = UINT32_MAX / params->group;
    params->block_rows = attn->extend_rows;
    params->softcap = attn->desc.softcap;
    params->score_scale = ftj_score_scale(attn);
    return ftj_set_cache(attn, &args->cache, &params->cache);
}
