/* SPDX-License-Identifier: MIT */
/*
 * What the decode's rules share: how many columns (query heads, of one query or a few) a warp
 * holds, how many kv heads a block has, what fits a block's registers and memory. templates/block/
 * stage_*.cuh, query.cuh and merge_warps.cuh compute the same sizes; the kernel refuses to compile
 * when they differ.
 */
#include "codegen/decode_shape.h"

#include "codegen/cache_config.h"
#include "codegen/tune.h"
#include "codegen/type_name.h"

#define WARP_SIZE           32u
#define OUTPUT_BUDGET       512u /* n_tiles * head_dim: what O may, with Q in shared memory */
#define MAX_COLUMNS         32u  /* of a run of queries */
#define NARROW_REGISTERS    72u  /* O, Q and scores of a kernel that is to run sixteen warps */
#define TWELVE_WARPS        12u  /* may have 168 */
#define TWELVE_REGISTERS    104u /* O and scores of one that is to run twelve, with Q in memory */
#define MAX_N_TILES         4u   /* past it the scores take too many registers */
#define MBARRIER_BYTES      8u   /* a stage filled by bulk copies has one, or two if it is shared */
#define RUN_TOKENS          16u  /* rows of one head that follow each other: worth a fetch alone */
#define MAX_STAGES          8u
#define MAX_PART_BYTES      16384u /* of the rows of several kv heads that a block leaves as a part */
#define MERGE_BYTES         72u
#define RANGE_BYTES         36u /* a block's range of tiles */
#define RANGE_OF_RUNS_BYTES 44u
#define STRIDE_BYTES        8u    /* from one of a block's units to the next */
#define SMEM_RESERVED       1024u /* what the system keeps of an SM's memory for each block */

static uint32_t divide_up(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

/* Tiles of 8 columns that registers hold, Q in shared memory if it must be: one pass over the keys
 * for all columns is worth it to read Q again and again. */
static uint32_t most_tiles(uint32_t head_dim)
{
    const uint32_t by_registers = OUTPUT_BUDGET / head_dim;
    return by_registers > MAX_N_TILES ? MAX_N_TILES : by_registers;
}

/* More columns than the registers hold are cut into equal units. */
uint32_t ftj_decode_tiles(const struct ftj_problem *problem)
{
    const uint32_t queries = problem->run_queries > 1 ? problem->run_queries : 1;
    const uint32_t all = divide_up(problem->group * queries, 8);
    return divide_up(all, divide_up(all, most_tiles(problem->head_dim)));
}

/* Units that a kv head's columns are cut into. */
uint32_t ftj_decode_passes(const struct ftj_problem *problem)
{
    return divide_up(divide_up(problem->group, 8), most_tiles(problem->head_dim));
}

/* On an H200 an extend of a few queries over 16 bits reads at 0.89 of what memory gives, over codes
 * at 0.2 to 0.4, in one pass for 128 rows. */
bool ftj_runs_pay(const ftj_kv_shape *kv, uint32_t group, uint32_t queries)
{
    const bool has_codes = kv->k_format != FTJ_KV_16BIT || kv->v_format != FTJ_KV_16BIT;
    const uint32_t columns = group * queries;
    const uint32_t passes = divide_up(divide_up(columns, 8), most_tiles(kv->head_dim));
    return queries > 1 && columns <= MAX_COLUMNS && passes <= (has_codes ? 2 : 1);
}

static uint32_t row_bytes(ftj_kv_format format, uint32_t head_dim)
{
    switch (format) {
    case FTJ_KV_FP8:
        return head_dim + 4;
    case FTJ_KV_NVFP4:
        return head_dim / 2 + head_dim / 16 + 4;
    default:
        return 2 * head_dim;
    }
}

bool ftj_decode_shares_query(const struct ftj_problem *problem, uint32_t n_tiles,
                             uint32_t num_warps)
{
    return n_tiles * problem->head_dim > REGISTER_BUDGET || (n_tiles > 1 && num_warps > WIDE_WARPS);
}

/* Whole units are dealt in turn (templates/block/segments.cuh) where bulk copies bring tiles of one
 * head in 16 bits; of FP8 16 x 16384 lost by it what 64 x 4096 gained. */
static bool takes_turns(const struct ftj_problem *problem, const struct ftj_config *config)
{
    const bool is_16bit = problem->k_format == FTJ_KV_16BIT && problem->v_format == FTJ_KV_16BIT;
    return is_16bit && config->overlaps_previous && config->unit_heads == 1 &&
           problem->run_queries <= 1;
}

/* Shared memory beside the ring: wide queries, of each warp what merging it takes (block/
 * merge_warps.cuh: maxima and sums of 8 rows, and an address), and the block's range of tiles. */
static uint32_t fixed_bytes(const struct ftj_problem *problem, const struct ftj_decode_ring *ring,
                            const struct ftj_config *config)
{
    const uint32_t range = problem->run_queries > 1       ? RANGE_OF_RUNS_BYTES
                           : takes_turns(problem, config) ? RANGE_BYTES + STRIDE_BYTES
                                                          : RANGE_BYTES;
    if (ring->query_bytes)
        return ring->query_bytes + ring->merge_bytes + range;
    const uint32_t query =
        ftj_decode_shares_query(problem, config->n_tiles, config->num_warps)
            ? config->unit_heads * config->n_tiles * (problem->head_dim / 16) * 2 * WARP_SIZE * 4
            : 0;
    return query + config->num_warps * MERGE_BYTES + range;
}

/* When warps merge, each leaves at least four rows of fp32 in its share of a stage. */
static bool stage_holds_rows(const struct ftj_problem *problem, const struct ftj_decode_ring *ring)
{
    const uint32_t pitch = divide_up(problem->head_dim, 32) * 32;
    return ring->merge_bytes || 4 * pitch * 4 <= ring->stage_bytes / ring->warps;
}

bool ftj_decode_fill_stages(const struct ftj_problem *problem, const struct ftj_device *device,
                            const struct ftj_decode_ring *ring, uint32_t least,
                            struct ftj_config *config)
{
    const uint32_t share = device->smem_per_sm_bytes / config->min_blocks - SMEM_RESERVED;
    const uint32_t budget = share < device->smem_bytes ? share : device->smem_bytes;
    const uint32_t fixed = fixed_bytes(problem, ring, config);
    const uint32_t barriers = ring->is_bulk ? MBARRIER_BYTES * (1 + (ring->warps > 1)) : 0;
    const uint32_t ring_row = config->num_warps / ring->warps * (ring->stage_bytes + barriers);
    if (budget < fixed + least * ring_row || !stage_holds_rows(problem, ring))
        return false;
    config->num_stages = (budget - fixed) / ring_row;
    if (ring->most_stages && config->num_stages > ring->most_stages)
        config->num_stages = ring->most_stages;
    if (config->num_stages > MAX_STAGES)
        config->num_stages = MAX_STAGES;
    config->smem_bytes = config->num_stages * ring_row + fixed;
    config->num_threads = config->num_warps * WARP_SIZE;
    return true;
}

uint32_t ftj_decode_token_bytes(const struct ftj_problem *problem)
{
    return row_bytes(problem->k_format, problem->head_dim) +
           row_bytes(problem->v_format, problem->head_dim);
}

bool ftj_decode_has_registers(const struct ftj_problem *problem, const struct ftj_config *config,
                              const struct ftj_decode_shape *shape, uint32_t others)
{
    const uint32_t warps = shape->blocks * shape->warps;
    const uint32_t narrow = config->n_tiles * (3 * problem->head_dim / 8 + 20);
    if (warps <= WIDE_WARPS || narrow + (warps > TWELVE_WARPS ? others : 0) <= NARROW_REGISTERS)
        return true;
    return ftj_decode_shares_query(problem, config->n_tiles, shape->warps) &&
           warps <= TWELVE_WARPS &&
           config->n_tiles * (problem->head_dim / 4 + 20) <= TWELVE_REGISTERS;
}

uint32_t ftj_decode_side_heads(const struct ftj_problem *problem, const struct ftj_config *config)
{
    const ftj_kv_array *codes = &problem->kv.k.codes;
    const bool is_run = problem->page_size >= RUN_TOKENS &&
                        codes->slot_stride_bytes < 2 * (uint64_t)codes->row_bytes;
    const uint32_t queries = problem->run_queries > 1 ? problem->run_queries : 1;
    const uint32_t columns = problem->group * queries;
    const uint32_t rows = columns < 8 * config->n_tiles ? columns : 8 * config->n_tiles;
    uint32_t heads = config->num_warps;
    if (is_run || problem->has_few_keys ||
        ftj_decode_shares_query(problem, config->n_tiles, config->num_warps))
        return 1;
    while (problem->kv.shape.num_kv_heads % heads ||
           (heads > 1 && heads * rows * problem->head_dim * 4 > MAX_PART_BYTES))
        heads /= 2;
    return heads;
}

/* ---- the generated Config ---------------------------------------------------------------------
 */

void ftj_write_numbers(struct ftj_text *text, const struct ftj_number *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ftj_text_printf(text, "    static constexpr int %s = %llu;\n", numbers[i].name,
                        (unsigned long long)numbers[i].value);
}

void ftj_write_decode_common(struct ftj_text *text, const struct ftj_problem *problem,
                             const struct ftj_config *config, const struct ftj_device *device)
{
    const ftj_kv_layout *kv = &problem->kv;
    ftj_text_printf(text, "    using Element = %s;\n", ftj_type_name(problem->dtype));
    ftj_write_codec(text, "KCodec", problem->k_format, device);
    ftj_write_codec(text, "VCodec", problem->v_format, device);
    const struct ftj_number numbers[] = {
        {"page_size", problem->page_size},  {"num_warps", config->num_warps},
        {"num_stages", config->num_stages}, {"tile_tokens", config->tile_tokens},
        {"n_tiles", config->n_tiles},       {"warps_per_tile", config->warps_per_tile},
        {"unit_heads", config->unit_heads}, {"group_parts", config->group_parts},
    };
    ftj_write_numbers(text, numbers, sizeof(numbers) / sizeof(*numbers));
    const struct {
        const char *name;
        bool value;
    } flags[] = {
        {"slots_contiguous", problem->slots_contiguous},
        {"one_allocation", ftj_has_one_stride(kv)},
        {"slot_table", problem->table == FTJ_TABLE_SLOTS},
        {"has_softcap", problem->has_softcap},
        {"has_runs", problem->run_queries > 1},
        {"takes_turns", takes_turns(problem, config)},
    };
    for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++)
        ftj_text_printf(text, "    static constexpr bool %s = %s;\n", flags[i].name,
                        flags[i].value ? "true" : "false");
}
