/* SPDX-License-Identifier: MIT */
/*
 * The extend's numbers: how many rows a query tile has, how many tokens a tile of keys, how many of
 * those a block's memory holds. Rows, and tokens in memory, are never fewer than the ladder of part
 * D.7 of the specification (128 x 64 for most) has them, where they fit.
 * templates/block/key_tile.cuh and kernel/attn_extend.cuh compute the same sizes; the kernel
 * refuses to compile when they differ.
 */
#include "codegen/cache_config.h"
#include "codegen/tune.h"
#include "codegen/type_name.h"

#define WARP_SIZE     32u
#define ROWS_PER_TILE 16u  /* of the product's A operand */
#define NARROW_HEAD   128u /* up to it, a warp's registers hold O of 32 rows */
#define WIDE_HEAD     256u /* above it, O of 16 rows is shared by two warps */
#define ROOMY_DIMS    192u /* up to so many of O a warp has registers for the scores of 64 tokens */
#define WORK_BYTES    128u /* where the block stands in its share */
#define SMEM_RESERVED 1024u /* what the system keeps of an SM's memory for each block */

struct shape {
    uint32_t blocks; /* per SM */
    uint32_t warps;
    uint32_t m_tiles; /* of 16 rows, per warp */
    uint32_t tokens;
    uint32_t stages;
    uint32_t step; /* tokens whose scores the registers hold at a time */
};

/* Bytes of K or V of a tile: SideLayout of key_tile.cuh. */
static uint32_t side_bytes(ftj_kv_format format, uint32_t head_dim, uint32_t tokens)
{
    const uint32_t codes = format == FTJ_KV_FP8     ? head_dim
                           : format == FTJ_KV_NVFP4 ? head_dim / 2
                                                    : 2 * head_dim;
    const uint32_t pitch = (codes + 31) / 64 * 64 + 32;
    const uint32_t blocks = format == FTJ_KV_NVFP4 ? head_dim / 16 : 0;
    const uint32_t scale = format == FTJ_KV_16BIT ? 0 : 4;
    return tokens * (pitch + blocks + scale);
}

static uint32_t stage_bytes(const struct ftj_problem *problem, uint32_t tokens, uint32_t new_tokens)
{
    const uint32_t head_dim = problem->head_dim;
    const uint32_t cached = side_bytes(problem->k_format, head_dim, tokens) +
                            side_bytes(problem->v_format, head_dim, tokens);
    const uint32_t fresh = 2 * side_bytes(FTJ_KV_16BIT, head_dim, new_tokens);
    return cached > fresh ? cached : fresh;
}

/* A warp's list of where the tokens of a tile lie, when they may lie in different pages. */
static uint32_t place_bytes(const struct ftj_problem *problem, const struct shape *shape)
{
    const bool one_page =
        problem->table == FTJ_TABLE_BLOCKS && problem->page_size % shape->tokens == 0;
    return one_page ? 0 : 8 * shape->tokens;
}

static uint32_t min_of(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Fill in the config of a shape, with tiles of new keys as long as fit; false when none does. */
static bool fits(const struct ftj_problem *problem, const struct ftj_device *device,
                 const struct shape *shape, struct ftj_config *config)
{
    const uint32_t head_dim = problem->head_dim;
    const uint32_t parts = head_dim > WIDE_HEAD ? 2 : 1;
    const uint32_t share = device->smem_per_sm_bytes / shape->blocks - SMEM_RESERVED;
    const uint32_t budget = min_of(share, device->smem_bytes);
    config->m_tiles = shape->m_tiles;
    config->part_dims = (head_dim / parts + 15) / 16 * 16;
    config->block_rows = shape->warps / parts * ROWS_PER_TILE * config->m_tiles;
    config->num_warps = shape->warps;
    config->num_threads = shape->warps * WARP_SIZE;
    config->min_blocks = shape->blocks;
    config->tile_tokens = shape->tokens;
    config->num_stages = shape->stages;
    config->step_tokens = shape->step;
    for (config->new_tokens = shape->tokens; config->new_tokens >= 16; config->new_tokens /= 2) {
        config->smem_bytes =
            shape->stages * stage_bytes(problem, shape->tokens, config->new_tokens) +
            config->block_rows * (head_dim * 2 + 4) +
            shape->warps * (32 + place_bytes(problem, shape)) + WORK_BYTES;
        if (config->smem_bytes <= budget)
            return true;
    }
    return false;
}

static bool has_registers(const struct ftj_problem *problem, const struct shape *shape)
{
    const uint32_t parts = problem->head_dim > WIDE_HEAD ? 2 : 1;
    return problem->head_dim / parts <= ROOMY_DIMS || shape->step < 64;
}

/* Up to 128 dims, two blocks of four warps with 32 rows each where the memory allows, so that one
 * block's products run under the other's softmax, and a fragment of K or V is read for 32 rows at a
 * time; else one block of eight warps with 16 rows. Wider heads fill the registers with 16 rows.
 * Two stages where they fit, if only of shorter tiles; else K and V of one tile, each fetched under
 * the other's products; then fewer tokens; then fewer rows. */
bool ftj_tune_extend(const struct ftj_problem *problem, const struct ftj_device *device,
                     struct ftj_config *config)
{
    static const struct shape narrow[] = {
        {2, 4, 2, 64, 2, 32}, {2, 4, 2, 32, 2, 32}, {1, 8, 1, 64, 2, 64}, {1, 8, 1, 64, 1, 64},
        {1, 8, 1, 32, 2, 32}, {1, 8, 1, 32, 1, 32}, {1, 4, 1, 32, 1, 32}, {1, 4, 1, 16, 1, 16}};
    static const struct shape wide[] = {
        {1, 8, 1, 64, 2, 32}, {1, 8, 1, 64, 1, 64}, {1, 8, 1, 32, 2, 32}, {1, 4, 1, 64, 2, 32},
        {1, 4, 1, 32, 2, 32}, {1, 4, 1, 32, 1, 32}, {1, 4, 1, 16, 1, 16}, {1, 2, 1, 16, 1, 16}};
    const bool is_narrow = problem->head_dim <= NARROW_HEAD;
    const struct shape *shapes = is_narrow ? narrow : wide;
    const size_t count =
        is_narrow ? sizeof(narrow) / sizeof(*narrow) : sizeof(wide) / sizeof(*wide);
    for (size_t i = 0; i < count; i++) {
        if (has_registers(problem, &shapes[i]) && fits(problem, device, &shapes[i], config))
            return true;
    }
    return false;
}

void ftj_write_extend(struct ftj_text *text, const struct ftj_problem *problem,
                      const struct ftj_config *config, const struct ftj_device *device)
{
    const ftj_kv_layout *kv = &problem->kv;
    ftj_text_printf(text, "    using Element = %s;\n", ftj_type_name(problem->dtype));
    ftj_write_codec(text, "KCodec", problem->k_format, device);
    ftj_write_codec(text, "VCodec", problem->v_format, device);
    const struct {
        const char *name;
        uint32_t value;
    } numbers[] = {
        {"page_size", problem->page_size},
        {"num_warps", config->num_warps},
        {"num_stages", config->num_stages},
        {"block_rows", config->block_rows},
        {"m_tiles", config->m_tiles},
        {"part_dims", config->part_dims},
        {"tile_tokens", config->tile_tokens},
        {"new_tokens", config->new_tokens},
        {"step_tokens", config->step_tokens},
        {"k_code_chunk", ftj_copy_chunk(&kv->k.codes)},
        {"v_code_chunk", ftj_copy_chunk(&kv->v.codes)},
        {"k_block_chunk", ftj_copy_chunk(&kv->k.block_scales)},
        {"v_block_chunk", ftj_copy_chunk(&kv->v.block_scales)},
    };
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
        ftj_text_printf(text, "    static constexpr int %s = %u;\n", numbers[i].name,
                        numbers[i].value);
    const struct {
        const char *name;
        bool value;
    } flags[] = {
        {"slots_contiguous", problem->slots_contiguous},
        {"slot_table", problem->table == FTJ_TABLE_SLOTS},
        {"has_softcap", problem->has_softcap},
    };
    for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++)
        ftj_text_printf(text, "    static constexpr bool %s = %s;\n", flags[i].name,
                        flags[i].value ? "true" : "false");
}

bool ftj_tune_extend_combine(const struct ftj_problem *problem, const struct ftj_device *device,
                             struct ftj_config *config)
{
    (void)device;
    (void)problem;
    *config = (struct ftj_config){
        .num_threads = 256,
        .min_blocks = 1,
        .rows_per_block = 8, /* what every tile of rows is a multiple of */
        .smem_bytes = 256 * PART_SUM_BYTES,
    };
    return true;
}

void ftj_write_extend_combine(struct ftj_text *text, const struct ftj_problem *problem,
                              const struct ftj_config *config, const struct ftj_device *device)
{
    (void)device;
    ftj_text_printf(text, "    using Element = %s;\n", ftj_type_name(problem->dtype));
    ftj_text_printf(text, "    static constexpr int rows_per_block = %u;\n",
                    config->rows_per_block);
}
