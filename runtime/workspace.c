/* SPDX-License-Identifier: MIT */
/* Pure arithmetic over the attention's geometry. */
#include "runtime/workspace.h"

#define PART_ALIGNMENT 256u
#define SPLIT_BYTES    32u /* of block/query_tile.cuh */

static size_t take(size_t *end, size_t bytes)
{
    const size_t start = *end;
    *end = (start + bytes + PART_ALIGNMENT - 1) / PART_ALIGNMENT * PART_ALIGNMENT;
    return start;
}

struct ftj_workspace ftj_workspace_plan(const struct ftj_attention *attn,
                                        const struct ftj_decode_plan *decode)
{
    struct ftj_workspace plan = {0};
    if (!decode->kernel)
        return plan;
    const size_t rows =
        (size_t)2 * decode->blocks * decode->kernel->config.unit_heads * decode->unit_columns;
    plan.partial_out = take(&plan.bytes, rows * attn->desc.kv.shape.head_dim * sizeof(float));
    plan.partial_state = take(&plan.bytes, rows * 2 * sizeof(float));
    return plan;
}

struct ftj_extend_workspace ftj_extend_workspace_plan(const struct ftj_attention *attn)
{
    const size_t rows = (size_t)2 * attn->extend_blocks * attn->extend_rows;
    struct ftj_extend_workspace plan = {0};
    plan.partial_out = take(&plan.bytes, rows * attn->desc.kv.shape.head_dim * sizeof(float));
    plan.partial_state = take(&plan.bytes, rows * 2 * sizeof(float));
    plan.splits = take(&plan.bytes, (size_t)attn->extend_blocks * SPLIT_BYTES);
    return plan;
}

size_t ftj_attention_workspace_bytes(const ftj_attention *attn)
{
    const size_t bytes[] = {ftj_workspace_plan(attn, &attn->decode).bytes,
                            ftj_workspace_plan(attn, &attn->short_runs).bytes,
                            ftj_extend_workspace_plan(attn).bytes};
    size_t most = 0;
    for (size_t i = 0; i < sizeof(bytes) / sizeof(*bytes); i++)
        most = bytes[i] > most ? bytes[i] : most;
    return most;
}
