/* SPDX-License-Identifier: MIT */
/* The numbers of a decode whose tiles come by bulk copies. */
#include "codegen/decode_shape.h"
#include "codegen/tune.h"

#define BULK_ALIGNMENT 16u

static bool is_spans(const ftj_kv_array *array)
{
    return (array->offset_bytes | array->page_stride_bytes | array->head_stride_bytes) %
               BULK_ALIGNMENT ==
           0;
}

static uint64_t end_of(const ftj_kv_array *array, uint32_t page_size)
{
    return array->offset_bytes + (uint64_t)array->row_bytes * page_size;
}

/* Bytes from the first array to the end of the last of one (page, head), if that is one piece of
 * memory; 0 when it is not. */
static uint32_t record_bytes(const struct ftj_problem *problem)
{
    const ftj_kv_layout *kv = &problem->kv;
    if (!ftj_has_one_stride(kv))
        return 0;
    const ftj_kv_array *arrays[] = {&kv->k.codes, &kv->k.row_scales, &kv->k.block_scales,
                                    &kv->v.codes, &kv->v.row_scales, &kv->v.block_scales};
    uint64_t end = 0;
    for (size_t i = 0; i < sizeof(arrays) / sizeof(*arrays); i++) {
        if (!arrays[i]->row_bytes)
            continue;
        if (arrays[i]->offset_bytes < kv->k.codes.offset_bytes)
            return 0;
        const uint64_t its_end = end_of(arrays[i], problem->page_size);
        end = its_end > end ? its_end : end;
    }
    const uint64_t bytes =
        (end - kv->k.codes.offset_bytes + BULK_ALIGNMENT - 1) / BULK_ALIGNMENT * BULK_ALIGNMENT;
    return bytes <= kv->k.codes.head_stride_bytes ? (uint32_t)bytes : 0;
}

/* Whether every stride is as many rows in each array, so that the number of a row serves them all.
 */
static bool strides_in_rows(const struct ftj_problem *problem)
{
    const ftj_kv_layout *kv = &problem->kv;
    const ftj_kv_array *codes = &kv->k.codes;
    const ftj_kv_array *arrays[] = {&kv->k.codes, &kv->k.row_scales, &kv->k.block_scales,
                                    &kv->v.codes, &kv->v.row_scales, &kv->v.block_scales};
    const uint64_t page_rows = codes->page_stride_bytes / codes->row_bytes;
    const uint64_t head_rows = codes->head_stride_bytes / codes->row_bytes;
    const uint64_t slot_rows = codes->slot_stride_bytes / codes->row_bytes;
    for (size_t i = 0; i < sizeof(arrays) / sizeof(*arrays); i++) {
        const uint64_t row = arrays[i]->row_bytes;
        if (row && (arrays[i]->page_stride_bytes != page_rows * row ||
                    arrays[i]->head_stride_bytes != head_rows * row ||
                    arrays[i]->slot_stride_bytes != slot_rows * row))
            return false;
    }
    return codes->page_stride_bytes <= UINT32_MAX;
}

/* Bytes of a stage, 0 when tiles of that size are not whole pages of records, nor spans. */
static uint32_t bulk_stage_bytes(const struct ftj_problem *problem, uint32_t tile_tokens)
{
    const uint32_t record = record_bytes(problem);
    if (record && tile_tokens % problem->page_size == 0)
        return tile_tokens / problem->page_size * record;
    return problem->page_size % tile_tokens == 0 ? tile_tokens * ftj_decode_token_bytes(problem)
                                                 : 0;
}

/* A page of a few tokens is a record for each kv head, one after another. Memory gives two of them
 * that follow each other faster than two that do not: rings have two kv heads of the same tokens.
 */
static uint32_t small_page_heads(const struct ftj_problem *problem, const struct ftj_config *config)
{
    const uint32_t rings = config->num_warps / config->warps_per_tile;
    const bool are_two = rings % 2 == 0 && problem->kv.shape.num_kv_heads % 2 == 0;
    const bool is_4bit = problem->k_format == FTJ_KV_NVFP4 || problem->v_format == FTJ_KV_NVFP4;
    return problem->page_size < config->tile_tokens && are_two && !is_4bit &&
                   !problem->has_few_keys &&
                   !ftj_decode_shares_query(problem, config->n_tiles, config->num_warps)
               ? 2
               : 1;
}

static bool fits_bulk(const struct ftj_problem *problem, const struct ftj_device *device,
                      const struct ftj_decode_shape *shape, uint32_t most_stages,
                      struct ftj_config *config)
{
    const uint32_t stage_bytes = bulk_stage_bytes(problem, shape->tile_tokens);
    if (!ftj_decode_has_registers(problem, config, shape, 0))
        return false;
    config->min_blocks = shape->blocks;
    config->num_warps = shape->warps;
    config->warps_per_tile = shape->warps_per_tile;
    config->tile_tokens = shape->tile_tokens;
    config->unit_heads =
        config->group_parts > 1 ? config->group_parts : small_page_heads(problem, config);
    const struct ftj_decode_ring ring = {.stage_bytes = stage_bytes,
                                         .warps = shape->warps_per_tile * config->group_parts,
                                         .is_bulk = true,
                                         .most_stages = most_stages};
    return stage_bytes &&
           ftj_decode_fill_stages(problem, device, &ring, shape->least_stages, config);
}

static bool comes_in_spans(const struct ftj_problem *problem)
{
    const ftj_kv_layout *kv = &problem->kv;
    const ftj_kv_array *arrays[] = {&kv->k.codes, &kv->k.row_scales, &kv->k.block_scales,
                                    &kv->v.codes, &kv->v.row_scales, &kv->v.block_scales};
    if (problem->table != FTJ_TABLE_BLOCKS || !problem->slots_contiguous || problem->page_size % 16)
        return false;
    for (size_t i = 0; i < sizeof(arrays) / sizeof(*arrays); i++) {
        if (arrays[i]->row_bytes && !is_spans(arrays[i]))
            return false;
    }
    return true;
}

static bool is_two_parts(const struct ftj_problem *problem)
{
    return problem->run_queries <= 1 && ftj_decode_passes(problem) == 2 && problem->group % 2 == 0;
}

/* A group of more columns than a warp holds is two halves, as of two kv heads, each with half of
 * the warps of every ring: the keys are fetched once for both. */
static bool fits_parts(const struct ftj_problem *problem, const struct ftj_device *device,
                       struct ftj_config *config)
{
    static const struct ftj_decode_shape shapes[] = {{1, 8, 4, 64, 2}, {1, 8, 2, 64, 2}};
    const bool is_16bit = problem->k_format == FTJ_KV_16BIT && problem->v_format == FTJ_KV_16BIT;
    if (!is_two_parts(problem))
        return false;
    config->group_parts = 2;
    if ((is_16bit && fits_bulk(problem, device, &shapes[0], 0, config)) ||
        fits_bulk(problem, device, &shapes[1], 0, config))
        return true;
    config->group_parts = 1;
    return false;
}

#define TWO_RINGS_TILE 32768u /* bytes */

/* A record's worth of tokens (64) needs the fewest copies, and two or four warps share it: each has
 * its next tile under way while it computes on one. Warps come in fours, or some schedulers have
 * more work than others. Sixteen of them are best; of eight with three stages and twelve with two,
 * the eight are (fp8, 1 x 131072 on an H200: 71 us, 76). Of 16-bit rows, which four warps share,
 * three rings of two stages are better than two of three (16 x 16384: 239.2 us, 241.6), and where a
 * tile has 32 KB two rings of two (236.2 for 237.0, and 1 x 16384 18.8 for 20.9): with less on its
 * way no SM is served much before another, and a block of the combine finds room beside. Not for
 * pages that two rings share. Many columns of runs leave registers for twelve warps, which 4-bit
 * codes are the better for, or for eight. */
bool ftj_tune_decode_bulk(const struct ftj_problem *problem, const struct ftj_device *device,
                          struct ftj_config *config)
{
    static const struct ftj_decode_shape shapes[] = {
        {2, 8, 2, 64, 2}, {2, 4, 2, 64, 3}, {3, 4, 2, 64, 2}, {1, 12, 4, 64, 2},
        {1, 8, 4, 64, 3}, {2, 4, 2, 64, 2}, {2, 4, 4, 64, 2}, {1, 8, 4, 64, 2},
        {2, 4, 1, 32, 2}, {2, 4, 1, 16, 2}, {1, 8, 1, 16, 2}, {1, 4, 1, 16, 2}};
    static const struct ftj_decode_shape two_rings = {1, 8, 4, 64, 2};
    static const struct ftj_decode_shape wide[] = {
        {1, 12, 2, 64, 2}, {1, 8, 2, 64, 3}, {1, 8, 4, 64, 2}};
    if (!comes_in_spans(problem))
        return false;
    config->n_tiles = ftj_decode_tiles(problem);
    config->group_parts = 1;
    config->overlaps_previous = true;
    if (fits_parts(problem, device, config))
        return true;
    const bool is_4bit = problem->k_format == FTJ_KV_NVFP4 || problem->v_format == FTJ_KV_NVFP4;
    const bool is_16bit = problem->k_format == FTJ_KV_16BIT && problem->v_format == FTJ_KV_16BIT;
    const uint32_t dims = config->n_tiles * problem->head_dim;
    for (size_t i = 0; i < sizeof(wide) / sizeof(*wide); i++) {
        const bool is_for_it = wide[i].warps > WIDE_WARPS
                                   ? is_4bit && config->n_tiles > 1 && dims == REGISTER_BUDGET
                                   : config->n_tiles > 2 && dims > REGISTER_BUDGET;
        if (is_for_it && fits_bulk(problem, device, &wide[i], 0, config))
            return true;
    }
    for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
        const bool are_three = shapes[i].warps > WIDE_WARPS;
        if (are_three &&
            (!is_16bit || config->n_tiles > 1 || problem->page_size < shapes[i].tile_tokens))
            continue;
        if (are_three && bulk_stage_bytes(problem, two_rings.tile_tokens) == TWO_RINGS_TILE &&
            fits_bulk(problem, device, &two_rings, 2, config))
            return true;
        if (fits_bulk(problem, device, &shapes[i], 0, config))
            return true;
    }
    return false;
}

/* ---- products of a warpgroup -------------------------------------------------------------------
 */

#define GROUP_COLUMNS  64u
#define GROUP_WARPS    4u
#define GROUP_TOKENS   64u
#define GROUP_HEAD_DIM 128u
#define SHIFT_BYTES    128u /* of a stage: block/stage_bulk.cuh */
#define GROUP_BLOCKS   2u   /* of an SM: one weighs while products of the other are made */

/* Of block/group_query.cuh: queries, two tiles of weights, what warps tell each other. */
static uint32_t group_query_bytes(const struct ftj_problem *problem)
{
    const uint32_t operands = (problem->head_dim + 2 * GROUP_TOKENS) * 2 * GROUP_COLUMNS;
    const uint32_t told = GROUP_WARPS * (GROUP_COLUMNS + 1) * 4 + 2 * 4;
    return operands + (told + 127) / 128 * 128;
}

/* A warp wants the same quarter of four rows of V at a time, 16 rows apart: where rows divide 128
 * bytes, no two of these are to meet in a bank. */
static uint32_t group_value_shift(const struct ftj_problem *problem)
{
    const uint32_t row = problem->kv.v.codes.row_bytes;
    return 128 % row == 0 ? row / GROUP_WARPS : 0;
}

/* Both halves of such a group are columns of the same products then. Beside the warps that attend
 * are as many more, of which one brings the tiles: what that takes, they all would wait for. */
bool ftj_tune_decode_group(const struct ftj_problem *problem, const struct ftj_device *device,
                           struct ftj_config *config)
{
    if (problem->head_dim != GROUP_HEAD_DIM || !is_two_parts(problem) || !comes_in_spans(problem))
        return false;
    config->n_tiles = ftj_decode_tiles(problem);
    config->group_parts = config->unit_heads = 2;
    config->overlaps_previous = true;
    config->min_blocks = GROUP_BLOCKS;
    config->num_warps = GROUP_WARPS;
    config->warps_per_tile = GROUP_WARPS / config->group_parts;
    config->tile_tokens = GROUP_TOKENS;
    config->value_shift = group_value_shift(problem);
    const uint32_t tile_bytes = bulk_stage_bytes(problem, GROUP_TOKENS);
    const struct ftj_decode_ring ring = {
        .stage_bytes = tile_bytes + (config->value_shift ? SHIFT_BYTES : 0),
        .warps = GROUP_WARPS,
        .is_bulk = true,
        .query_bytes = group_query_bytes(problem),
        .merge_bytes = GROUP_WARPS * GROUP_COLUMNS * 4,
    };
    if (!tile_bytes || !ftj_decode_fill_stages(problem, device, &ring, 2, config))
        return false;
    config->num_threads *= 2;
    return true;
}

/* ---- tiles by bulk copies of the rows of several kv heads ---------------------------------------
 */

static bool has_short_rows(const struct ftj_problem *problem)
{
    return problem->kv.k.codes.row_bytes <= 64 && problem->kv.v.codes.row_bytes <= 64;
}

/* From one token's records to the next's in a stage. A copy whose destination is not on 128 bytes
 * is slower, and rows that are 128 bytes apart share banks: for rows of half that or less the banks
 * count for more (16 x 16384, D128, on an H200: NVFP4 94 us on 64 bytes, 99 on 128; fp8 168 and
 * 159; bf16 286 and 264). */
static uint32_t token_pitch(const struct ftj_problem *problem, const struct ftj_config *config)
{
    const uint32_t run_bytes = config->unit_heads * record_bytes(problem);
    const uint32_t halves = (run_bytes + 63) / 64;
    return 64 * (has_short_rows(problem) ? halves | 1 : (halves + 1) / 2 * 2);
}

/* Whether pages are single tokens whose records of all heads follow each other. */
static bool has_token_records(const struct ftj_problem *problem)
{
    const ftj_kv_array *codes = &problem->kv.k.codes;
    const uint32_t record = record_bytes(problem);
    return problem->page_size == 1 && record && record == codes->head_stride_bytes &&
           is_spans(codes) && codes->row_bytes % BULK_ALIGNMENT == 0 &&
           codes->page_stride_bytes <= UINT32_MAX;
}

/* Whether the rows of all kv heads follow each other in every array, and those of `heads` are whole
 * vectors; in a page of more tokens, those of all its tokens too. */
static bool has_head_rows(const struct ftj_problem *problem, uint32_t heads)
{
    const ftj_kv_layout *kv = &problem->kv;
    const ftj_kv_array *arrays[] = {&kv->k.codes, &kv->k.row_scales, &kv->k.block_scales,
                                    &kv->v.codes, &kv->v.row_scales, &kv->v.block_scales};
    for (size_t i = 0; i < sizeof(arrays) / sizeof(*arrays); i++) {
        const uint64_t row = arrays[i]->row_bytes;
        if (arrays[i]->head_stride_bytes != row || heads * row % BULK_ALIGNMENT ||
            (arrays[i]->offset_bytes | arrays[i]->page_stride_bytes) % BULK_ALIGNMENT ||
            (problem->page_size > 1 && arrays[i]->slot_stride_bytes != heads * row))
            return false;
    }
    return strides_in_rows(problem);
}

/* Blocks of four or eight warps that have a kv head each. False where a block is to have one.
 *
 * Four blocks of four heads for two of eight are for records of single tokens, unless their rows
 * are short: the less is on its way to an SM, down to 74 KB, the better runs at random are read (16
 * x 16384 on an H200: FP8 142.1 us for 143.6, FP8 + NVFP4 114.6 for 116.1). */
bool ftj_tune_decode_heads(const struct ftj_problem *problem, const struct ftj_device *device,
                           struct ftj_config *config)
{
    static const struct ftj_decode_shape shapes[] = {
        {4, 4, 1, 16, 3}, {2, 8, 1, 32, 2}, {2, 8, 1, 16, 3}, {4, 4, 1, 32, 2},
        {3, 4, 1, 32, 2}, {3, 4, 1, 16, 3}, {2, 4, 1, 32, 3}, {2, 4, 1, 16, 3},
        {1, 8, 1, 32, 2}, {1, 8, 1, 16, 2}, {2, 4, 1, 16, 2}, {1, 4, 1, 16, 2}};
    const bool records = has_token_records(problem);
    if (problem->table == FTJ_TABLE_SLOTS && problem->page_size != 1)
        return false;
    config->n_tiles = ftj_decode_tiles(problem);
    config->group_parts = 1;
    config->overlaps_previous = true;
    config->copies_runs = true;
    config->num_warps = 8;
    const bool are_eight = ftj_decode_side_heads(problem, config) == 8;
    const size_t first = records && are_eight && !has_short_rows(problem) ? 0 : 1;
    for (size_t i = first; i < sizeof(shapes) / sizeof(*shapes); i++) {
        const struct ftj_decode_shape *shape = &shapes[i];
        if (!ftj_decode_has_registers(problem, config, shape, 0))
            continue;
        config->min_blocks = shape->blocks;
        config->num_warps = shape->warps;
        config->warps_per_tile = shape->warps_per_tile;
        config->tile_tokens = shape->tile_tokens;
        config->unit_heads = ftj_decode_side_heads(problem, config);
        if (config->unit_heads == 1 ||
            (problem->page_size > 1 && problem->page_size % shape->tile_tokens) ||
            (!records && !has_head_rows(problem, config->unit_heads)))
            continue;
        const uint32_t token = records ? token_pitch(problem, config)
                                       : config->unit_heads * ftj_decode_token_bytes(problem);
        const struct ftj_decode_ring ring = {.stage_bytes = config->tile_tokens * token,
                                             .warps = config->unit_heads,
                                             .is_bulk = true,
                                             .most_stages = i == 0 ? shape->least_stages : 0};
        if (ftj_decode_fill_stages(problem, device, &ring, shape->least_stages, config))
            return true;
    }
    return false;
}

/* ---- the generated Config ---------------------------------------------------------------------
 */

/* Where an array lies in a record, from its first byte. */
static uint64_t in_record(const ftj_kv_array *array, uint64_t first, uint32_t record)
{
    return record && array->row_bytes ? array->offset_bytes - first : 0;
}

void ftj_write_decode_bulk(struct ftj_text *text, const struct ftj_problem *problem,
                           const struct ftj_config *config, const struct ftj_device *device)
{
    const ftj_kv_layout *kv = &problem->kv;
    const uint32_t record = record_bytes(problem);
    const uint64_t first = kv->k.codes.offset_bytes;
    ftj_write_decode_common(text, problem, config, device);
    const struct ftj_number numbers[] = {
        {"record_bytes", record},
        {"k_codes_at", 0},
        {"k_scales_at", in_record(&kv->k.row_scales, first, record)},
        {"k_blocks_at", in_record(&kv->k.block_scales, first, record)},
        {"v_codes_at", in_record(&kv->v.codes, first, record)},
        {"v_scales_at", in_record(&kv->v.row_scales, first, record)},
        {"v_blocks_at", in_record(&kv->v.block_scales, first, record)},
        {"value_shift", config->value_shift},
    };
    ftj_write_numbers(text, numbers, sizeof(numbers) / sizeof(*numbers));
    ftj_text_printf(text, "    static constexpr bool strides_in_rows = %s;\n",
                    strides_in_rows(problem) ? "true" : "false");
}

void ftj_write_decode_heads(struct ftj_text *text, const struct ftj_problem *problem,
                            const struct ftj_config *config, const struct ftj_device *device)
{
    const bool records = has_token_records(problem);
    const struct ftj_number pitch = {"token_pitch", records ? token_pitch(problem, config) : 0};
    ftj_write_decode_bulk(text, problem, config, device);
    ftj_write_numbers(text, &pitch, 1);
}
