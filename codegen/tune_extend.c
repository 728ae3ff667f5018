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
#define FEW_DIMS      64u  /* heads past which widening was measured */
#define NARROW_HEAD   128u /* up to it, a warp's registers hold O of 32 rows */
#define WIDE_HEAD     256u /* above it, O of 16 rows is shared by two warps */
#define ROOMY_DIMS    192u /* up to so many of O a warp has registers for the scores of 64 tokens */
#define WORK_BYTES    160u /* where the block stands in its share, and barriers */
#define SMEM_RESERVED 1024u /* what the system keeps of an SM's memory for each block */

struct shape {
    uint32_t blocks; /* per SM */
    uint32_t warps;
    uint32_t m_tiles; /* of 16 rows, per warp */
    uint32_t tokens;
    uint32_t stages;
    uint32_t step; /* tokens whose scores the registers hold at a time */
    bool widens;   /* codes become values in memory; of both there are so many stages */
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

/* Whether a warp meets V in 16 bits only, and reads it by matrices. */
static bool is_v_by_matrices(const struct ftj_problem *problem, bool widens)
{
    return widens || problem->v_format == FTJ_KV_16BIT;
}

/* Bytes of K and V of a tile, of which V may be read by matrices where it is in 16 bits. */
static uint32_t tile_bytes(ftj_kv_format k_format, ftj_kv_format v_format, uint32_t head_dim,
                           uint32_t tokens, bool by_matrices)
{
    const uint32_t v = by_matrices && v_format == FTJ_KV_16BIT
                           ? tokens * (2 * head_dim + 16)
                           : side_bytes(v_format, head_dim, tokens);
    return side_bytes(k_format, head_dim, tokens) + v;
}

static uint32_t stage_bytes(const struct ftj_problem *problem, uint32_t tokens, uint32_t new_tokens)
{
    const uint32_t head_dim = problem->head_dim;
    const bool by_matrices = is_v_by_matrices(problem, false);
    const uint32_t cached =
        tile_bytes(problem->k_format, problem->v_format, head_dim, tokens, by_matrices);
    const uint32_t fresh =
        tile_bytes(FTJ_KV_16BIT, FTJ_KV_16BIT, head_dim, new_tokens, by_matrices);
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

/* Of codes and of the values they become, with a row scale of K beside them. */
static uint32_t widened_bytes(const struct ftj_problem *problem, uint32_t tokens)
{
    const uint32_t head_dim = problem->head_dim;
    return tile_bytes(problem->k_format, problem->v_format, head_dim, tokens, true) +
           tile_bytes(FTJ_KV_16BIT, FTJ_KV_16BIT, head_dim, tokens, true) + 4 * tokens;
}

/* What a block has beside its stages: the queries and their factors, lists, its share. */
static uint32_t block_bytes(const struct ftj_problem *problem, const struct shape *shape,
                            const struct ftj_config *config)
{
    return config->block_rows * (problem->head_dim * 2 + 4) +
           shape->warps * place_bytes(problem, shape) + WORK_BYTES;
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
    config->widens = shape->widens;
    if (shape->widens) {
        config->new_tokens = shape->tokens;
        config->smem_bytes = shape->stages * widened_bytes(problem, shape->tokens) +
                             block_bytes(problem, shape, config);
        return config->smem_bytes <= budget;
    }
    for (config->new_tokens = shape->tokens; config->new_tokens >= 16; config->new_tokens /= 2) {
        config->smem_bytes =
            shape->stages * stage_bytes(problem, shape->tokens, config->new_tokens) +
            block_bytes(problem, shape, config);
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

static bool first_fit(const struct ftj_problem *problem, const struct ftj_device *device,
                      const struct shape *shapes, size_t count, struct ftj_config *config)
{
    for (size_t i = 0; i < count; i++) {
        if (has_registers(problem, &shapes[i]) && fits(problem, device, &shapes[i], config))
            return true;
    }
    return false;
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
        {.blocks = 2, .warps = 4, .m_tiles = 2, .tokens = 64, .stages = 2, .step = 32},
        {.blocks = 2, .warps = 4, .m_tiles = 2, .tokens = 32, .stages = 2, .step = 32},
        {.blocks = 1, .warps = 8, .m_tiles = 1, .tokens = 64, .stages = 2, .step = 64},
        {.blocks = 1, .warps = 8, .m_tiles = 1, .tokens = 64, .stages = 1, .step = 64},
        {.blocks = 1, .warps = 8, .m_tiles = 1, .tokens = 32, .stages = 2, .step = 32},
        {.blocks = 1, .warps = 8, .m_tiles = 1, .tokens = 32, .stages = 1, .step = 32},
        {.blocks = 1, .warps = 4, .m_tiles = 1, .tokens = 32, .stages = 1, .step = 32},
        {.blocks = 1, .warps = 4, .m_tiles = 1, .tokens = 16, .stages = 1, .step = 16},
    };
    static const struct shape wide[] = {
        {.blocks = 1, .warps = 8, .m_tiles = 1, .tokens = 64, .stages = 2, .step = 32},
        {.blocks = 1, .warps = 8, .m_tiles = 1, .tokens = 64, .stages = 1, .step = 64},
        {.blocks = 1, .warps = 8, .m_tiles = 1, .tokens = 32, .stages = 2, .step = 32},
        {.blocks = 1, .warps = 4, .m_tiles = 1, .tokens = 64, .stages = 2, .step = 32},
        {.blocks = 1, .warps = 4, .m_tiles = 1, .tokens = 32, .stages = 2, .step = 32},
        {.blocks = 1, .warps = 4, .m_tiles = 1, .tokens = 32, .stages = 1, .step = 32},
        {.blocks = 1, .warps = 4, .m_tiles = 1, .tokens = 16, .stages = 1, .step = 16},
        {.blocks = 1, .warps = 2, .m_tiles = 1, .tokens = 16, .stages = 1, .step = 16},
    };
    if (problem->head_dim <= NARROW_HEAD)
        return first_fit(problem, device, narrow, sizeof(narrow) / sizeof(*narrow), config);
    return first_fit(problem, device, wide, sizeof(wide) / sizeof(*wide), config);
}

/* Whether the codes become bf16 in shared memory, whose range does for V times its row scales:
 * where some are E2M1, which cost a warp more to decode than E4M3. */
static bool may_widen(const struct ftj_problem *problem)
{
    const ftj_kv_format k = problem->k_format, v = problem->v_format;
    return problem->dtype == FTJ_DTYPE_BF16 && k != FTJ_KV_16BIT && v != FTJ_KV_16BIT &&
           (k == FTJ_KV_NVFP4 || v == FTJ_KV_NVFP4) && problem->head_dim > FEW_DIMS &&
           problem->head_dim <= NARROW_HEAD;
}

/* Widened once for the 256 rows of a block, where it has the memory for codes and values. */
bool ftj_tune_extend_sm80(const struct ftj_problem *problem, const struct ftj_device *device,
                          struct ftj_config *config)
{
    static const struct shape widened = {
        .blocks = 1,
        .warps = 8,
        .m_tiles = 2,
        .tokens = 64,
        .stages = 2,
        .step = 64,
        .widens = true,
    };
    return (may_widen(problem) && fits(problem, device, &widened, config)) ||
           ftj_tune_extend(problem, device, config);
}

void ftj_write_extend(struct ftj_text *text, const struct ftj_problem *problem,
                      const struct ftj_config *config, const struct ftj_device *device)
{
    const ftj_kv_layout *kv = &problem->kv;
    ftj_text_printf(text, "    using Element = %s;\n", ftj_type_name(problem->dtype));
    ftj_write_codec(text, "KCodec", problem->k_format, device);
    ftj_write_codec(text, "VCodec", problem->v_format, device);
    if (config->widens) {
        ftj_write_widen(text, "KWiden", problem->k_format, device);
        ftj_write_widen(text, "VWiden", problem->v_format, device);
    }
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
        {"widens", config->widens},
        {"v_by_matrices", is_v_by_matrices(problem, config->widens)},
    };
    for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++)
        ftj_text_printf(text, "    static constexpr bool %s = %s;\n", flags[i].name,
                        flags[i].value ? "true" : "false");
}

bool ftj_tune_extend_combine(const struct ftj_problem *problem, const struct ftj_device *device,
                             struct ftj_config *config)
{
    const uint32_t num_threads = 256, quads = problem->head_dim / 4;
    *config = (struct ftj_config){
        .num_threads = num_threads,
        .min_blocks = device->features & FTJ_HAS_CP_ASYNC ? 5 : 4, /* they wait for memory */
        .rows_per_block = 2 * (num_threads / quads),               /* two rows a thread */
        .smem_bytes = num_threads * PART_SUM_BYTES,
    };
    return true;
}

bool ftj_tune_extend_combine_overlapped(const struct ftj_problem *problem,
                                        const struct ftj_device *device, struct ftj_config *config)
{
    ftj_tune_extend_combine(problem, device, config);
    config->overlaps_previous = true;
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
