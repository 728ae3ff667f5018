/* SPDX-License-Identifier: MIT */
/*
 * The decode's numbers: how many columns (query heads, of one query or a few) a warp holds, how
 * many tokens a tile has, how many warps and stages share a block's memory.
 * templates/block/stage.cuh, query.cuh and merge_warps.cuh compute the same sizes; the kernel
 * refuses to compile when they differ.
 */
#include "codegen/cache_config.h"
#include "codegen/tune.h"
#include "codegen/type_name.h"

#define WARP_SIZE           32u
#define REGISTER_BUDGET     256u /* n_tiles * head_dim: what O and Q may take of 255 registers */
#define OUTPUT_BUDGET       512u /* n_tiles * head_dim: what O may, with Q in shared memory */
#define MAX_COLUMNS         32u  /* of a run of queries */
#define WIDE_WARPS          8u   /* an SM runs with 255 registers each */
#define NARROW_REGISTERS    72u  /* O, Q and scores of a kernel that is to run sixteen warps */
#define COPY_REGISTERS      8u   /* where lanes copy rows themselves, and 128 registers are all */
#define NHD_REGISTERS       4u   /* the same where a row of all heads is one run of memory */
#define TWELVE_WARPS        12u  /* may have 168 */
#define TWELVE_REGISTERS    104u /* O and scores of one that is to run twelve, with Q in memory */
#define MAX_N_TILES         4u   /* past it the scores take too many registers */
#define MBARRIER_BYTES      8u   /* a stage filled by bulk copies has one, or two if it is shared */
#define BULK_ALIGNMENT      16u
#define RUN_TOKENS          16u /* rows of one head that follow each other: worth a fetch alone */
#define MAX_STAGES          8u
#define MAX_PART_BYTES      16384u /* of the rows of several kv heads that a block leaves as a part */
#define MERGE_BYTES         68u
#define RANGE_BYTES         36u /* a block's range of tiles */
#define RANGE_OF_RUNS_BYTES 44u
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

/* Whether Q is kept in shared memory: block/query.cuh. */
static bool is_query_shared(const struct ftj_problem *problem, uint32_t n_tiles, uint32_t num_warps)
{
    return n_tiles * problem->head_dim > REGISTER_BUDGET ||
           (problem->run_queries > 1 && n_tiles > 1 && num_warps > WIDE_WARPS);
}

/* Shared memory beside the ring: wide queries, of each warp what merging it takes (block/
 * merge_warps.cuh: maxima and sums of 8 rows, and an address), and the block's range of tiles. */
static uint32_t fixed_bytes(const struct ftj_problem *problem, const struct ftj_config *config)
{
    const uint32_t query = is_query_shared(problem, config->n_tiles, config->num_warps)
                               ? config->n_tiles * (problem->head_dim / 16) * 2 * WARP_SIZE * 4
                               : 0;
    return query + config->num_warps * MERGE_BYTES +
           (problem->run_queries > 1 ? RANGE_OF_RUNS_BYTES : RANGE_BYTES);
}

/* When warps merge, each leaves at least four rows of fp32 in its share of a stage. */
static bool stage_holds_rows(const struct ftj_problem *problem, const struct ftj_config *config,
                             uint32_t stage_bytes)
{
    const uint32_t pitch = divide_up(problem->head_dim, 32) * 32;
    return 4 * pitch * 4 <= stage_bytes / config->warps_per_tile;
}

/* Fill a block's memory with as many stages as there is use for; false when not even `least` fit.
 */
static bool fill_stages(const struct ftj_problem *problem, const struct ftj_device *device,
                        uint32_t stage_bytes, bool is_bulk, uint32_t least,
                        struct ftj_config *config)
{
    const uint32_t share = device->smem_per_sm_bytes / config->min_blocks - SMEM_RESERVED;
    const uint32_t budget = share < device->smem_bytes ? share : device->smem_bytes;
    const uint32_t fixed = fixed_bytes(problem, config);
    const uint32_t barriers = is_bulk ? MBARRIER_BYTES * (1 + (config->warps_per_tile > 1)) : 0;
    const uint32_t ring_row = config->num_warps / config->warps_per_tile * (stage_bytes + barriers);
    if (budget < fixed + least * ring_row || !stage_holds_rows(problem, config, stage_bytes))
        return false;
    config->num_stages = (budget - fixed) / ring_row;
    if (config->num_stages > MAX_STAGES)
        config->num_stages = MAX_STAGES;
    config->smem_bytes = config->num_stages * ring_row + fixed;
    config->num_threads = config->num_warps * WARP_SIZE;
    return true;
}

static uint32_t token_bytes(const struct ftj_problem *problem)
{
    return row_bytes(problem->k_format, problem->head_dim) +
           row_bytes(problem->v_format, problem->head_dim);
}

struct shape {
    uint32_t blocks; /* of an SM */
    uint32_t warps;
    uint32_t warps_per_tile;
    uint32_t tile_tokens;
    uint32_t least_stages;
};

/* Whether an SM's registers are enough for O, Q and scores of a shape's warps, and for so many more
 * where sixteen warps share them. */
static bool has_registers(const struct ftj_problem *problem, const struct ftj_config *config,
                          const struct shape *shape, uint32_t others)
{
    const uint32_t warps = shape->blocks * shape->warps;
    const uint32_t narrow = config->n_tiles * (3 * problem->head_dim / 8 + 20);
    if (warps <= WIDE_WARPS || narrow + (warps > TWELVE_WARPS ? others : 0) <= NARROW_REGISTERS)
        return true;
    return is_query_shared(problem, config->n_tiles, shape->warps) && warps <= TWELVE_WARPS &&
           config->n_tiles * (problem->head_dim / 4 + 20) <= TWELVE_REGISTERS;
}

/* How many kv heads the warps of a block have side by side. Memory gives 64 bytes at once, which
 * are the scales of several heads, or more than a short row: where the rows of one head do not
 * follow each other in runs, those of all heads of a token do. Not where there are few keys, which
 * the warps of a block had better share: it is latency that counts then; nor so many that the parts
 * of their units, which have the rows of all of them, take longer to write and to read. */
static uint32_t heads_side_by_side(const struct ftj_problem *problem,
                                   const struct ftj_config *config)
{
    const ftj_kv_array *codes = &problem->kv.k.codes;
    const bool is_run = problem->page_size >= RUN_TOKENS &&
                        codes->slot_stride_bytes < 2 * (uint64_t)codes->row_bytes;
    const uint32_t queries = problem->run_queries > 1 ? problem->run_queries : 1;
    const uint32_t columns = problem->group * queries;
    const uint32_t rows = columns < 8 * config->n_tiles ? columns : 8 * config->n_tiles;
    uint32_t heads = config->num_warps;
    if (is_run || problem->has_few_keys ||
        is_query_shared(problem, config->n_tiles, config->num_warps))
        return 1;
    while (problem->kv.shape.num_kv_heads % heads ||
           (heads > 1 && heads * rows * problem->head_dim * 4 > MAX_PART_BYTES))
        heads /= 2;
    return heads;
}

/* Several blocks of four warps to an SM, so that one computes while another merges. Tiles of 32
 * tokens keep two chains of products under way: worth more than a third stage, but not more than
 * half of the warps. Four and three blocks ask for O and Q to leave registers for sixteen and
 * twelve warps. The last resort (wide heads in the memory of sm_75) is one warp with one stage. */
bool ftj_tune_decode(const struct ftj_problem *problem, const struct ftj_device *device,
                     struct ftj_config *config)
{
    static const struct shape shapes[] = {
        {4, 4, 1, 32, 2}, {3, 4, 1, 32, 2}, {2, 4, 1, 32, 3}, {2, 4, 1, 16, 3}, {1, 8, 1, 32, 2},
        {1, 8, 1, 16, 3}, {2, 4, 1, 16, 2}, {1, 8, 1, 16, 2}, {1, 4, 1, 16, 3}, {1, 4, 1, 16, 2},
        {1, 2, 1, 16, 3}, {1, 2, 1, 16, 2}, {1, 1, 1, 16, 2}, {1, 1, 1, 16, 1}};
    const ftj_kv_array *codes = &problem->kv.k.codes;
    const uint32_t registers =
        codes->head_stride_bytes == codes->row_bytes ? NHD_REGISTERS : COPY_REGISTERS;
    config->n_tiles = ftj_decode_tiles(problem);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
        if (!has_registers(problem, config, &shapes[i], registers))
            continue;
        config->min_blocks = shapes[i].blocks;
        config->num_warps = shapes[i].warps;
        config->warps_per_tile = shapes[i].warps_per_tile;
        config->tile_tokens = shapes[i].tile_tokens;
        config->unit_heads = heads_side_by_side(problem, config);
        if (fill_stages(problem, device, config->tile_tokens * token_bytes(problem), false,
                        shapes[i].least_stages, config))
            return true;
    }
    return false;
}

/* ---- tiles by bulk copies ---------------------------------------------------------------------
 */

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

/* Bytes of a stage, 0 when tiles of that size are not whole pages of records, nor spans. */
static uint32_t bulk_stage_bytes(const struct ftj_problem *problem, uint32_t tile_tokens)
{
    const uint32_t record = record_bytes(problem);
    if (record && tile_tokens % problem->page_size == 0)
        return tile_tokens / problem->page_size * record;
    return problem->page_size % tile_tokens == 0 ? tile_tokens * token_bytes(problem) : 0;
}

static bool fits_bulk(const struct ftj_problem *problem, const struct ftj_device *device,
                      const struct shape *shape, struct ftj_config *config)
{
    const uint32_t stage_bytes = bulk_stage_bytes(problem, shape->tile_tokens);
    if (!has_registers(problem, config, shape, 0))
        return false;
    config->min_blocks = shape->blocks;
    config->num_warps = shape->warps;
    config->warps_per_tile = shape->warps_per_tile;
    config->tile_tokens = shape->tile_tokens;
    config->unit_heads = 1;
    return stage_bytes &&
           fill_stages(problem, device, stage_bytes, true, shape->least_stages, config);
}

/* A record's worth of tokens (64) needs the fewest copies, and two or four warps share it: each has
 * its next tile under way while it computes on one. Warps come in fours, or some schedulers have
 * more work than others. Sixteen of them are best; of eight with three stages and twelve with two,
 * the eight are (fp8, 1 x 131072 on an H200: 71 us, 76). Many columns of runs leave registers for
 * twelve, which 4-bit codes are the better for, or for eight. */
bool ftj_tune_decode_bulk(const struct ftj_problem *problem, const struct ftj_device *device,
                          struct ftj_config *config)
{
    static const struct shape shapes[] = {{2, 8, 2, 64, 2}, {2, 4, 2, 64, 3},  {3, 4, 2, 64, 2},
                                          {1, 8, 4, 64, 3}, {1, 12, 4, 64, 2}, {2, 4, 2, 64, 2},
                                          {2, 4, 4, 64, 2}, {1, 8, 4, 64, 2},  {2, 4, 1, 32, 2},
                                          {2, 4, 1, 16, 2}, {1, 8, 1, 16, 2},  {1, 4, 1, 16, 2}};
    static const struct shape wide[] = {{1, 12, 2, 64, 2}, {1, 8, 2, 64, 3}, {1, 8, 4, 64, 2}};
    const ftj_kv_layout *kv = &problem->kv;
    const ftj_kv_array *arrays[] = {&kv->k.codes, &kv->k.row_scales, &kv->k.block_scales,
                                    &kv->v.codes, &kv->v.row_scales, &kv->v.block_scales};
    if (problem->table != FTJ_TABLE_BLOCKS || !problem->slots_contiguous || problem->page_size % 16)
        return false;
    for (size_t i = 0; i < sizeof(arrays) / sizeof(*arrays); i++) {
        if (arrays[i]->row_bytes && !is_spans(arrays[i]))
            return false;
    }
    config->n_tiles = ftj_decode_tiles(problem);
    config->overlaps_previous = true;
    const bool is_4bit = problem->k_format == FTJ_KV_NVFP4 || problem->v_format == FTJ_KV_NVFP4;
    const uint32_t dims = config->n_tiles * problem->head_dim;
    for (size_t i = 0; i < sizeof(wide) / sizeof(*wide); i++) {
        const bool is_for_it = wide[i].warps > WIDE_WARPS
                                   ? problem->run_queries > 1 && is_4bit && config->n_tiles > 1 &&
                                         dims == REGISTER_BUDGET
                                   : config->n_tiles > 2 && dims > REGISTER_BUDGET;
        if (is_for_it && fits_bulk(problem, device, &wide[i], config))
            return true;
    }
    for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
        if (fits_bulk(problem, device, &shapes[i], config))
            return true;
    }
    return false;
}

/* ---- the generated Config ---------------------------------------------------------------------
 */

struct number {
    const char *name;
    uint64_t value;
};

static void write_numbers(struct ftj_text *text, const struct number *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ftj_text_printf(text, "    static constexpr int %s = %llu;\n", numbers[i].name,
                        (unsigned long long)numbers[i].value);
}

static void write_common(struct ftj_text *text, const struct ftj_problem *problem,
                         const struct ftj_config *config, const struct ftj_device *device)
{
    const ftj_kv_layout *kv = &problem->kv;
    ftj_text_printf(text, "    using Element = %s;\n", ftj_type_name(problem->dtype));
    ftj_write_codec(text, "KCodec", problem->k_format, device);
    ftj_write_codec(text, "VCodec", problem->v_format, device);
    const struct number numbers[] = {
        {"page_size", problem->page_size},  {"num_warps", config->num_warps},
        {"num_stages", config->num_stages}, {"tile_tokens", config->tile_tokens},
        {"n_tiles", config->n_tiles},       {"warps_per_tile", config->warps_per_tile},
        {"unit_heads", config->unit_heads},
    };
    write_numbers(text, numbers, sizeof(numbers) / sizeof(*numbers));
    const struct {
        const char *name;
        bool value;
    } flags[] = {
        {"slots_contiguous", problem->slots_contiguous},
        {"one_allocation", ftj_has_one_stride(kv)},
        {"slot_table", problem->table == FTJ_TABLE_SLOTS},
        {"has_softcap", problem->has_softcap},
        {"has_runs", problem->run_queries > 1},
    };
    for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++)
        ftj_text_printf(text, "    static constexpr bool %s = %s;\n", flags[i].name,
                        flags[i].value ? "true" : "false");
}

void ftj_write_decode(struct ftj_text *text, const struct ftj_problem *problem,
                      const struct ftj_config *config, const struct ftj_device *device)
{
    const ftj_kv_layout *kv = &problem->kv;
    write_common(text, problem, config, device);
    const struct number chunks[] = {
        {"k_code_chunk", ftj_copy_chunk(&kv->k.codes)},
        {"v_code_chunk", ftj_copy_chunk(&kv->v.codes)},
        {"k_block_chunk", ftj_copy_chunk(&kv->k.block_scales)},
        {"v_block_chunk", ftj_copy_chunk(&kv->v.block_scales)},
    };
    write_numbers(text, chunks, sizeof(chunks) / sizeof(*chunks));
}

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
    write_common(text, problem, config, device);
    const struct number numbers[] = {
        {"record_bytes", record},
        {"k_codes_at", 0},
        {"k_scales_at", in_record(&kv->k.row_scales, first, record)},
        {"k_blocks_at", in_record(&kv->k.block_scales, first, record)},
        {"v_codes_at", in_record(&kv->v.codes, first, record)},
        {"v_scales_at", in_record(&kv->v.row_scales, first, record)},
        {"v_blocks_at", in_record(&kv->v.block_scales, first, record)},
    };
    write_numbers(text, numbers, sizeof(numbers) / sizeof(*numbers));
}
