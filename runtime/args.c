/* SPDX-License-Identifier: MIT */
/* The arguments of each call, in the order of the public structs. */
#include "runtime/args.h"

#include <string.h>

#include "runtime/args_check.h"
#include "runtime/workspace.h"

ftj_status ftj_args_store(const struct ftj_attention *attn, const ftj_store_args *args,
                          ftj_store_params *params)
{
    const ftj_kv_shape *shape = &attn->desc.kv.shape;
    const size_t element = attn->desc.store_dtype == FTJ_DTYPE_FP32 ? 4 : 2;
    const int64_t head_dim = shape->head_dim;
    const int64_t dense = head_dim * shape->num_kv_heads;
    memset(params, 0, sizeof(*params));
    if (args->num_tokens > FTJ_MAX_CALL_ROWS)
        return ftj_fail(&attn->ctx->log, FTJ_E_INVALID,
                        "num_tokens is %llu; at most 2^40 fit one call",
                        (unsigned long long)args->num_tokens);

    const struct ftj_stride strides[] = {{"k_token_stride", args->k_token_stride},
                                         {"k_head_stride", args->k_head_stride},
                                         {"v_token_stride", args->v_token_stride},
                                         {"v_head_stride", args->v_head_stride}};
    ftj_status status = ftj_check_strides(attn, strides, sizeof(strides) / sizeof(*strides), 1);
    if (status)
        return status;
    const struct ftj_pointer pointers[] = {
        {"k", args->k, element, false},
        {"v", args->v, element, false},
        {"slots", args->slots, args->slots_are_int64 ? 8 : 4, false},
        {"num_rejected", args->num_rejected, sizeof(uint32_t), true},
    };
    status = ftj_check_pointers(attn, pointers, sizeof(pointers) / sizeof(*pointers));
    if (status)
        return status;

    params->k = ftj_address(args->k);
    params->v = ftj_address(args->v);
    params->k_token_stride = ftj_or_dense(args->k_token_stride, dense);
    params->k_head_stride = ftj_or_dense(args->k_head_stride, head_dim);
    params->v_token_stride = ftj_or_dense(args->v_token_stride, dense);
    params->v_head_stride = ftj_or_dense(args->v_head_stride, head_dim);
    params->slots = ftj_address(args->slots);
    params->slots_are_int64 = args->slots_are_int64;
    params->num_tokens = args->num_tokens;
    params->num_slots = args->cache.num_pages * shape->page_size;
    params->num_rejected = ftj_address(args->num_rejected);
    params->num_kv_heads = shape->num_kv_heads;
    return ftj_set_cache(attn, &args->cache, &params->cache);
}

static ftj_status set_workspace(const struct ftj_attention *attn, const ftj_decode_args *args,
                                ftj_decode_params *params)
{
    const struct ftj_workspace plan = ftj_workspace_plan(attn, &attn->decode);
    if (args->workspace_bytes < plan.bytes)
        return ftj_fail(&attn->ctx->log, FTJ_E_INVALID,
                        "workspace_bytes is %zu; a decode needs %zu", args->workspace_bytes,
                        plan.bytes);
    const struct ftj_pointer workspace = {"workspace", args->workspace, 256, false};
    const uint64_t base = ftj_address(args->workspace);
    params->partial_out = base + plan.partial_out;
    params->partial_state = base + plan.partial_state;
    return ftj_check_pointers(attn, &workspace, 1);
}

#define FEW_BLOCKS 4u /* of a combine: a quarter of what fits */

static uint32_t divide_up(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

static uint32_t log2_down(uint32_t v)
{
    uint32_t shift = 0;
    while (v >> (shift + 1))
        shift++;
    return shift;
}

/* What the device deals work by, beside the lengths (templates/block/segments.cuh). */
static void set_deal(const struct ftj_decode_plan *plan, ftj_decode_params *params)
{
    const struct ftj_config *config = &plan->kernel->config;
    const uint64_t num_units =
        (uint64_t)params->requests.batch * plan->head_sets * plan->head_blocks;
    params->num_kv_heads = plan->kv_heads;
    params->group = plan->group;
    params->unit_heads = config->unit_heads;
    params->head_sets = plan->head_sets;
    params->head_blocks = plan->head_blocks;
    params->blocks = plan->blocks;
    params->tile_shift = log2_down(config->tile_tokens);
    params->min_shift =
        log2_down(config->num_warps / (config->warps_per_tile * config->unit_heads));
    params->unit_cost = plan->unit_cost;
    params->most_idle = plan->most_idle;
    params->slack = plan->slack;
    params->unit_pieces =
        num_units && num_units < params->blocks ? (uint32_t)(params->blocks / num_units) : 1;
    params->block_units = num_units > params->blocks
                              ? (uint32_t)((num_units + params->blocks - 1) / params->blocks)
                              : 1;
}

/* Rows of a combine's block, `least` or more, with which so many units of `rows` make no more than
 * `most_blocks`, if threads allow. */
static uint32_t combine_rows(const struct ftj_decode_plan *plan, uint64_t units, uint32_t rows,
                             uint32_t least, uint32_t most_blocks)
{
    uint32_t of_block = least;
    while (of_block < rows && 2 * of_block <= plan->most_combine_rows &&
           units * divide_up(rows, of_block) > most_blocks)
        of_block *= 2;
    return of_block;
}

/* A combine's grid, for so many units of up to so many columns of a kv head: blocks with as few
 * rows as they may have, so that many threads share a row's parts, but no more than fit at once. Of
 * few parts, which one thread adds up, they have more: those without keep no SM from the next
 * decode (16 x 1084, NVFP4: 12.8 us for 13.3). Nor do they come between the others then, unless
 * there are so many blocks that units of many parts would wait for the last of them. */
static void set_combine(const struct ftj_decode_plan *plan, uint64_t num_units, uint32_t columns,
                        ftj_decode_params *params)
{
    const uint32_t rows = columns * plan->kernel->config.unit_heads;
    const uint64_t units = num_units < plan->blocks ? num_units : plan->blocks;
    const uint32_t blocks = plan->combine_blocks;
    params->combine_rows =
        combine_rows(plan, units, rows, plan->combine->config.rows_per_block, blocks);
    params->combine_few_rows =
        combine_rows(plan, units, rows, params->combine_rows, blocks / FEW_BLOCKS);
    params->combine_chunks = divide_up(rows, params->combine_rows);
    const uint32_t at_once = blocks < params->combine_chunks ? 1 : blocks / params->combine_chunks;
    params->combine_units = (uint32_t)(units < at_once ? units : at_once);
    params->combine_by_chunk = params->combine_few_rows > params->combine_rows &&
                               2 * params->combine_units * params->combine_chunks <= blocks;
}

/* As many as there are numbers for. */
static uint32_t num_pages(const ftj_kv_cache *cache)
{
    return cache->num_pages < INT32_MAX ? (uint32_t)cache->num_pages : INT32_MAX;
}

void ftj_args_short(const struct ftj_attention *attn, const ftj_extend_args *args,
                    const ftj_extend_params *extend, ftj_decode_params *params)
{
    const uint64_t workspace = ftj_address(args->workspace);
    const struct ftj_workspace plan = ftj_workspace_plan(attn, &attn->short_runs);
    *params = (ftj_decode_params){
        .cache = extend->cache,
        .requests = extend->requests,
        .qo_indptr = extend->qo_indptr,
        .q = extend->q,
        .o = extend->o,
        .lse = extend->lse,
        .sinks = extend->sinks,
        .q_row_stride = extend->q_token_stride,
        .q_head_stride = extend->q_head_stride,
        .o_row_stride = extend->o_token_stride,
        .o_head_stride = extend->o_head_stride,
        .partial_out = workspace + plan.partial_out,
        .partial_state = workspace + plan.partial_state,
        .score_scale = extend->score_scale,
        .softcap = extend->softcap,
    };
    set_deal(&attn->short_runs, params);
    params->num_pages = num_pages(&args->cache);
    /* Only the device knows how many queries a request has. */
    const uint32_t queries = args->max_queries ? args->max_queries : attn->desc.short_queries;
    const uint32_t passes = divide_up(queries * attn->group, attn->short_runs.unit_columns);
    set_combine(&attn->short_runs, (uint64_t)params->requests.batch * params->head_sets * passes,
                attn->short_runs.unit_columns, params);
}

ftj_status ftj_args_decode(const struct ftj_attention *attn, const ftj_decode_args *args,
                           ftj_decode_params *params)
{
    const int64_t head_dim = attn->desc.kv.shape.head_dim;
    const int64_t dense = head_dim * attn->desc.num_q_heads;
    memset(params, 0, sizeof(*params));

    const struct ftj_stride strides[] = {{"q_batch_stride", args->q_batch_stride},
                                         {"q_head_stride", args->q_head_stride},
                                         {"o_batch_stride", args->o_batch_stride},
                                         {"o_head_stride", args->o_head_stride}};
    ftj_status status =
        ftj_check_strides(attn, strides, sizeof(strides) / sizeof(*strides), FTJ_VECTOR_ELEMENTS);
    if (!status)
        status = ftj_check_apart(attn, &strides[2], args->requests.batch, &strides[3]);
    if (status)
        return status;
    const struct ftj_pointer pointers[] = {
        {"q", args->q, FTJ_VECTOR_BYTES, false},
        {"o", args->o, FTJ_VECTOR_BYTES, false},
        {"lse", args->lse, sizeof(float), true},
        {"sinks", args->sinks, sizeof(float), true},
    };
    status = ftj_check_pointers(attn, pointers, sizeof(pointers) / sizeof(*pointers));
    if (status)
        return status;
    status = set_workspace(attn, args, params);
    if (status)
        return status;
    status = ftj_set_requests(attn, &args->requests, &params->requests);
    if (status)
        return status;

    params->q = ftj_address(args->q);
    params->o = ftj_address(args->o);
    params->lse = ftj_address(args->lse);
    params->sinks = ftj_address(args->sinks);
    params->q_row_stride = ftj_or_dense(args->q_batch_stride, dense);
    params->q_head_stride = ftj_or_dense(args->q_head_stride, head_dim);
    params->o_row_stride = ftj_or_dense(args->o_batch_stride, dense);
    params->o_head_stride = ftj_or_dense(args->o_head_stride, head_dim);
    set_deal(&attn->decode, params);
    set_combine(&attn->decode,
                (uint64_t)params->requests.batch * params->head_sets * params->head_blocks,
                attn->decode.group < attn->decode.unit_columns ? attn->decode.group
                                                               : attn->decode.unit_columns,
                params);
    params->num_pages = num_pages(&args->cache);
    params->softcap = attn->desc.softcap;
    params->score_scale = ftj_score_scale(attn);
    return ftj_set_cache(attn, &args->cache, &params->cache);
}

ftj_status ftj_args_generic(const struct ftj_attention *attn, const ftj_generic_args *args,
                            ftj_generic_params *params)
{
    const size_t element = attn->desc.generic_dtype == FTJ_DTYPE_FP32 ? 4 : 2;
    memset(params, 0, sizeof(*params));
    const struct ftj_pointer pointers[] = {
        {"q", args->q, element, false},
        {"o", args->o, element, false},
        {"lse", args->lse, sizeof(float), true},
        {"sinks", args->sinks, sizeof(float), true},
        {"q_requests", args->q_requests, sizeof(int32_t), true},
        {"q_positions", args->q_positions, sizeof(int32_t), true},
    };
    ftj_status status = ftj_check_pointers(attn, pointers, sizeof(pointers) / sizeof(*pointers));
    if (status)
        return status;
    status = ftj_set_requests(attn, &args->requests, &params->requests);
    if (status)
        return status;

    params->q = ftj_address(args->q);
    params->o = ftj_address(args->o);
    params->lse = ftj_address(args->lse);
    params->sinks = ftj_address(args->sinks);
    params->q_requests = ftj_address(args->q_requests);
    params->q_positions = ftj_address(args->q_positions);
    params->num_queries = args->num_queries;
    params->num_kv_heads = attn->desc.kv.shape.num_kv_heads;
    params->group = attn->group;
    params->sm_scale = attn->desc.sm_scale;
    params->softcap = attn->desc.softcap;
    return ftj_set_cache(attn, &args->cache, &params->cache);
}

ftj_status ftj_args_merge(const struct ftj_attention *attn, const ftj_merge_args *args,
                          ftj_merge_params *params)
{
    memset(params, 0, sizeof(*params));
    if (args->rows > FTJ_MAX_CALL_ROWS)
        return ftj_fail(&attn->ctx->log, FTJ_E_INVALID, "rows is %llu; at most 2^40 fit one call",
                        (unsigned long long)args->rows);
    const struct ftj_pointer pointers[] = {
        {"o_a", args->o_a, 4, false}, {"lse_a", args->lse_a, 4, false},
        {"o_b", args->o_b, 4, false}, {"lse_b", args->lse_b, 4, false},
        {"o", args->o, 4, false},     {"lse", args->lse, 4, true},
    };
    params->o_a = ftj_address(args->o_a);
    params->lse_a = ftj_address(args->lse_a);
    params->o_b = ftj_address(args->o_b);
    params->lse_b = ftj_address(args->lse_b);
    params->o = ftj_address(args->o);
    params->lse = ftj_address(args->lse);
    params->rows = args->rows;
    return ftj_check_pointers(attn, pointers, sizeof(pointers) / sizeof(*pointers));
}
