/* SPDX-License-Identifier: MIT */
/* The public calls: everything is built at creation; a call checks, fills params, launches. */
#include "ftjit/attention.h"

#include <math.h>
#include <stdlib.h>

#include "runtime/args.h"
#include "runtime/attention_state.h"

/* ---- creation ---------------------------------------------------------------------------------
 */

static void fill_defaults(ftj_attention_desc *desc)
{
    if (!desc->ops)
        desc->ops = FTJ_OP_STORE | FTJ_OP_DECODE | FTJ_OP_MERGE;
    if (!desc->num_q_heads)
        desc->num_q_heads = desc->kv.shape.num_kv_heads;
    if (desc->dtype == FTJ_DTYPE_DEFAULT)
        desc->dtype = FTJ_DTYPE_BF16;
    if (desc->store_dtype == FTJ_DTYPE_DEFAULT)
        desc->store_dtype = desc->dtype;
    if (desc->generic_dtype == FTJ_DTYPE_DEFAULT)
        desc->generic_dtype = desc->dtype;
    if (desc->sm_scale == 0.0f)
        desc->sm_scale = 1.0f / sqrtf((float)desc->kv.shape.head_dim);
}

static ftj_status build_kernels(struct ftj_attention *attn)
{
    for (int op = 0; op < FTJ_NUM_KERNEL_OPS; op++) {
        if (!ftj_desc_needs(&attn->desc, (enum ftj_kernel_op)op))
            continue;
        struct ftj_problem problem;
        ftj_problem_init(&problem, (enum ftj_kernel_op)op, &attn->desc);
        const ftj_status status = ftj_kernel_get(attn->ctx, &problem, &attn->kernels[op]);
        if (status)
            return status;
        if (problem.op == FTJ_KERNEL_DECODE || problem.op == FTJ_KERNEL_EXTEND)
            attn->copies_spans |= attn->kernels[op]->config.copies_runs ||
                                  (problem.slots_contiguous && problem.page_size % 16 == 0);
    }
    return FTJ_OK;
}

/* Queries, the first tile with none before it, a merge and its result: about 3.5 us on an H200, in
 * which an SM reads so many bytes. Where two blocks of four warps share it, the one reads while the
 * other starts, and half of it is best (fp8, 1 x 16384 + 15 x 64: 14.5 us for 15.4; NVFP4, with two
 * of eight, 15.2 for 13.5). */
#define UNIT_COST_BYTES 112000u

static uint32_t unit_cost(const ftj_kv_layout *kv, const struct ftj_config *config)
{
    const ftj_kv_array *arrays[] = {&kv->k.codes, &kv->k.row_scales, &kv->k.block_scales,
                                    &kv->v.codes, &kv->v.row_scales, &kv->v.block_scales};
    uint32_t token = 0;
    for (size_t i = 0; i < sizeof(arrays) / sizeof(*arrays); i++)
        token += arrays[i]->row_bytes;
    const uint32_t tile = config->tile_tokens * config->unit_heads / config->group_parts * token;
    const bool is_hidden = config->overlaps_previous && config->num_warps == 4 &&
                           config->warps_per_tile == 2 && config->min_blocks == 2;
    return UNIT_COST_BYTES / (1 + is_hidden) / (config->min_blocks * tile) + 1;
}

#define COMBINE_COLUMNS 4u /* that a thread of it has */

static struct ftj_decode_plan plan_decode(const struct ftj_attention *attn,
                                          const struct ftj_kernel *kernel,
                                          const struct ftj_kernel *combine)
{
    struct ftj_decode_plan plan = {.kernel = kernel, .combine = combine};
    if (!kernel)
        return plan;
    plan.kv_heads = attn->desc.kv.shape.num_kv_heads * kernel->config.group_parts;
    plan.group = attn->group / kernel->config.group_parts;
    plan.unit_columns = 8 * kernel->config.n_tiles;
    plan.head_sets = plan.kv_heads / kernel->config.unit_heads;
    plan.head_blocks = (plan.group + plan.unit_columns - 1) / plan.unit_columns;
    plan.unit_cost = unit_cost(&attn->desc.kv, &kernel->config);
    plan.blocks = ftj_backend_grid(&attn->ctx->backend, &kernel->module, attn->desc.max_blocks);
    plan.combine_blocks = ftj_backend_grid(&attn->ctx->backend, &combine->module, 0);
    plan.most_combine_rows =
        combine->config.num_threads / (attn->desc.kv.shape.head_dim / COMBINE_COLUMNS);
    if (kernel->config.overlaps_previous)
        plan.most_idle = plan.blocks / 32;
    else /* lanes copy rows, and an SM is what takes time */
        plan.slack = plan.unit_cost / 3;
    return plan;
}

static void plan_extend(struct ftj_attention *attn)
{
    const struct ftj_kernel *extend = attn->kernels[FTJ_KERNEL_EXTEND];
    if (!extend)
        return;
    attn->extend_rows = extend->config.block_rows;
    attn->extend_blocks =
        ftj_backend_grid(&attn->ctx->backend, &extend->module, attn->desc.max_blocks);
    attn->extend_pairs =
        ftj_backend_clusters(&attn->ctx->backend, &extend->module, attn->desc.max_blocks);
}

ftj_status ftj_attention_create(ftj_context *ctx, const ftj_attention_desc *desc,
                                ftj_attention **out)
{
    ftj_status status = ftj_context_check(ctx);
    if (status)
        return status;
    if (!desc || !out)
        return ftj_fail(&ctx->log, FTJ_E_INVALID, "%s is NULL", desc ? "out" : "desc");
    status = ftj_desc_check(desc, &ctx->log);
    if (status)
        return status;
    struct ftj_attention *attn = calloc(1, sizeof(*attn));
    if (!attn)
        return ftj_fail(&ctx->log, FTJ_E_NO_MEMORY, "no memory for an attention");
    attn->ctx = ctx;
    attn->desc = *desc;
    fill_defaults(&attn->desc);
    attn->group = attn->desc.num_q_heads / attn->desc.kv.shape.num_kv_heads;

    status = build_kernels(attn);
    if (status) {
        free(attn);
        return status;
    }
    attn->decode =
        plan_decode(attn, attn->kernels[FTJ_KERNEL_DECODE], attn->kernels[FTJ_KERNEL_COMBINE]);
    attn->short_runs =
        plan_decode(attn, attn->kernels[FTJ_KERNEL_SHORT], attn->kernels[FTJ_KERNEL_SHORT_COMBINE]);
    plan_extend(attn);
    *out = attn;
    return FTJ_OK;
}

void ftj_attention_destroy(ftj_attention *attn)
{
    free(attn);
}

/* ---- calls ------------------------------------------------------------------------------------
 */

static ftj_status need(const struct ftj_attention *attn, const void *args, enum ftj_kernel_op op,
                       const char *name)
{
    if (!attn || !args)
        return ftj_fail(NULL, FTJ_E_INVALID, "%s is NULL", attn ? "args" : "attn");
    const ftj_status status = ftj_context_check(attn->ctx);
    if (status || attn->kernels[op])
        return status;
    return ftj_fail(&attn->ctx->log, FTJ_E_INVALID,
                    "the attention was created without %s; add it to desc.ops", name);
}

static ftj_status launch(const struct ftj_attention *attn, const struct ftj_kernel *kernel,
                         uint64_t blocks, const void *params, size_t params_bytes,
                         struct CUstream_st *stream)
{
    const struct ftj_grid grid = {.num_blocks = (uint32_t)blocks, .cluster_blocks = 1};
    struct ftj_backend *backend = &attn->ctx->backend;
    if (blocks > INT32_MAX)
        return ftj_fail(&attn->ctx->log, FTJ_E_INVALID,
                        "the call needs %llu blocks; at most %d can be launched at once",
                        (unsigned long long)blocks, INT32_MAX);
    return backend->ops->launch(backend, &kernel->module, grid, params, params_bytes, stream);
}

static ftj_status check_stream(const struct ftj_attention *attn, struct CUstream_st *stream)
{
    struct ftj_backend *backend = &attn->ctx->backend;
    return backend->ops->check_stream(backend, stream);
}

static uint64_t blocks_for(const struct ftj_kernel *kernel, uint64_t rows)
{
    const uint32_t per_block = kernel->config.rows_per_block;
    return (rows + per_block - 1) / per_block;
}

ftj_status ftj_kv_store(ftj_attention *attn, const ftj_store_args *args, struct CUstream_st *stream)
{
    ftj_store_params params;
    ftj_status status = need(attn, args, FTJ_KERNEL_STORE, "FTJ_OP_STORE");
    if (status || !args->num_tokens)
        return status;
    status = check_stream(attn, stream);
    if (status)
        return status;
    status = ftj_args_store(attn, args, &params);
    if (status)
        return status;
    const struct ftj_kernel *kernel = attn->kernels[FTJ_KERNEL_STORE];
    const struct ftj_config *config = &kernel->config;
    const uint32_t per_warp = config->rows_per_block / config->num_warps; /* tokens of one head */
    const uint64_t tokens = (params.num_tokens + per_warp - 1) / per_warp * per_warp;
    const uint64_t rows = tokens * params.num_kv_heads;
    return launch(attn, kernel, blocks_for(kernel, rows), &params, sizeof(params), stream);
}

static ftj_status launch_decode(const struct ftj_attention *attn,
                                const struct ftj_decode_plan *plan, const ftj_decode_params *params,
                                struct CUstream_st *stream)
{
    const ftj_status status =
        launch(attn, plan->kernel, plan->blocks, params, sizeof(*params), stream);
    if (status)
        return status;
    return launch(attn, plan->combine, (uint64_t)params->combine_units * params->combine_chunks,
                  params, sizeof(*params), stream);
}

ftj_status ftj_attention_decode(ftj_attention *attn, const ftj_decode_args *args,
                                struct CUstream_st *stream)
{
    ftj_decode_params params;
    ftj_status status = need(attn, args, FTJ_KERNEL_DECODE, "FTJ_OP_DECODE");
    if (status || !args->requests.batch)
        return status;
    status = check_stream(attn, stream);
    if (status)
        return status;
    status = ftj_args_decode(attn, args, &params);
    if (status)
        return status;
    return launch_decode(attn, &attn->decode, &params, stream);
}

/* Whether a call has short runs, as far as the host can know. */
static bool is_short(const struct ftj_attention *attn, const ftj_extend_args *args)
{
    const uint64_t queries = attn->desc.short_queries;
    if (!attn->short_runs.kernel || args->k_new || args->v_new)
        return false;
    if (args->max_queries)
        return args->max_queries <= queries;
    return args->num_queries <= args->requests.batch * queries;
}

/* To deal a request's query tiles in rounds there have to be two and a half of them: rounds_of() in
 * templates/block/unit_rounds.cuh. */
#define PAIRS_HALF_ROUNDS 5u

/* Blocks work in pairs where a request is dealt in rounds. Whether one can be, as far as the host
 * can know; a launch of pairs takes longer. */
static struct ftj_grid extend_grid(const struct ftj_attention *attn, const ftj_extend_args *args)
{
    const struct ftj_grid alone = {.num_blocks = attn->extend_blocks, .cluster_blocks = 1};
    const struct ftj_grid pairs = attn->extend_pairs;
    uint64_t most = args->num_queries; /* of a request */
    if (args->max_queries && args->max_queries < most)
        most = args->max_queries;
    const uint64_t tiles = (most * attn->group + attn->extend_rows - 1) / attn->extend_rows;
    const uint64_t units = tiles * attn->desc.kv.shape.num_kv_heads;
    const bool can_pair =
        pairs.num_blocks && 2 * units >= (uint64_t)PAIRS_HALF_ROUNDS * pairs.num_blocks;
    return can_pair ? pairs : alone;
}

ftj_status ftj_attention_extend(ftj_attention *attn, const ftj_extend_args *args,
                                struct CUstream_st *stream)
{
    ftj_extend_params params;
    const struct ftj_kernel *extend = attn->kernels[FTJ_KERNEL_EXTEND];
    const struct ftj_kernel *combine = attn->kernels[FTJ_KERNEL_EXTEND_COMBINE];
    ftj_status status = need(attn, args, FTJ_KERNEL_EXTEND, "FTJ_OP_EXTEND");
    if (status || !args->requests.batch || !args->num_queries)
        return status;
    status = check_stream(attn, stream);
    if (status)
        return status;
    status = ftj_args_extend(attn, args, &params);
    if (status)
        return status;
    if (is_short(attn, args)) {
        ftj_decode_params decode;
        ftj_args_short(attn, args, &params, &decode);
        return launch_decode(attn, &attn->short_runs, &decode, stream);
    }
    status = ftj_args_tensors(attn, args, &params);
    if (status)
        return status;
    const struct ftj_grid grid = extend_grid(attn, args);
    struct ftj_backend *backend = &attn->ctx->backend;
    status = backend->ops->launch(backend, &extend->module, grid, &params, sizeof(params), stream);
    if (status)
        return status;
    return launch(attn, combine, grid.num_blocks * blocks_for(combine, attn->extend_rows), &params,
                  sizeof(params), stream);
}

ftj_status ftj_attention_generic(ftj_attention *attn, const ftj_generic_args *args,
                                 struct CUstream_st *stream)
{
    ftj_generic_params params;
    ftj_status status = need(attn, args, FTJ_KERNEL_GENERIC, "FTJ_OP_GENERIC");
    if (status || !args->num_queries)
        return status;
    status = check_stream(attn, stream);
    if (status)
        return status;
    status = ftj_args_generic(attn, args, &params);
    if (status)
        return status;
    const uint64_t rows = (uint64_t)args->num_queries * attn->desc.num_q_heads;
    const struct ftj_kernel *kernel = attn->kernels[FTJ_KERNEL_GENERIC];
    return launch(attn, kernel, blocks_for(kernel, rows), &params, sizeof(params), stream);
}

ftj_status ftj_state_merge(ftj_attention *attn, const ftj_merge_args *args,
                           struct CUstream_st *stream)
{
    ftj_merge_params params;
    ftj_status status = need(attn, args, FTJ_KERNEL_MERGE, "FTJ_OP_MERGE");
    if (status || !args->rows)
        return status;
    status = check_stream(attn, stream);
    if (status)
        return status;
    status = ftj_args_merge(attn, args, &params);
    if (status)
        return status;
    const struct ftj_kernel *kernel = attn->kernels[FTJ_KERNEL_MERGE];
    return launch(attn, kernel, blocks_for(kernel, args->rows), &params, sizeof(params), stream);
}
