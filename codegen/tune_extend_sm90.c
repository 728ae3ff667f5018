/* SPDX-License-Identifier: MIT */
/*
 * The numbers of the extend by wgmma: consumers of 64 rows, the tokens of a tile of keys, how many
 * tiles of K and of V, and of queries, a block's memory holds.
 * templates/kernel/attn_extend_sm90.cuh computes the same sizes; the kernel refuses to compile when
 * they differ.
 */
#include "codegen/cache_config.h"
#include "codegen/tune.h"
#include "codegen/type_name.h"

#define GROUP_THREADS    128u /* a warpgroup */
#define GROUP_ROWS       64u
#define WORK_BYTES       1024u /* where the block stands in its share */
#define ORDER_BYTES      128u  /* a unit handed on */
#define ORDERS           2u
#define BARRIER_BYTES    16u /* two of a stage */
#define COPY_BYTES       16u /* of a row, as the producer copies it */
#define BULK_BYTES       16u /* what bulk copies move comes in, and is aligned to */
#define CODE_BARRIER     8u  /* of a slot */
#define CODE_WARPS       4u  /* of the producer */
#define LANES            32u
#define SCALE_BYTES      4u
#define UNIT_BYTES       64u /* of a tile of K and of V */
#define TURN_BARRIER     8u  /* of a consumer */
#define TENSOR_BARRIER   8u  /* of a stage */
#define LEAST_TENSOR_RUN 32u
#define PEER_BYTES       32u /* of a producer warp */
#define SM_REGISTERS     65536u

struct shape {
    uint32_t head_dim;
    uint32_t consumers;
    uint32_t tokens;
    uint32_t stages; /* of K and of V in turn */
    uint32_t query_stages;
    uint32_t code_slots; /* of codes under way, a producer warp; 0: a 16-bit cache */
    uint32_t code_rows;  /* of a tile, the most that a producer warp brings at a time */
    uint32_t producer_registers;
    bool by_tensor;   /* for rows that tensor copies bring, only */
    bool takes_turns; /* consumers start their products in turn; measured */
};

/* Best first: the first that fits the memory. What is widened once, or fetched once, serves 192
 * rows rather than 128 where registers allow; where cp.async brings it, tiles of 64 keys cost too
 * many fences. */
static const struct shape shapes[] = {
    {64, 3, 128, 6, 1, 0, 0, 32, false, true},   {128, 3, 64, 7, 2, 0, 0, 56, true, false},
    {128, 2, 128, 6, 1, 0, 0, 72, false, false}, {256, 2, 64, 5, 1, 0, 0, 72, false, false},
    {64, 2, 128, 6, 2, 2, 64, 88, false, true},  {128, 3, 64, 8, 1, 2, 64, 80, false, true},
    {128, 3, 64, 6, 1, 2, 64, 80, false, true},  {256, 2, 64, 4, 1, 2, 16, 88, false, true},
};

/* Bytes of a row of codes, with its scales; 0 for one of 16-bit values. */
static uint32_t code_bytes(ftj_kv_format format, uint32_t head_dim)
{
    switch (format) {
    case FTJ_KV_FP8:
        return head_dim + SCALE_BYTES;
    case FTJ_KV_NVFP4:
        return head_dim / 2 + head_dim / 16 + SCALE_BYTES;
    default:
        return 0;
    }
}

static bool is_coded(const struct ftj_problem *problem)
{
    return problem->k_format != FTJ_KV_16BIT || problem->v_format != FTJ_KV_16BIT;
}

/* Rows of an array that follow each other lie on such boundaries that bulk copies can bring them.
 */
static bool is_bulk_array(const ftj_kv_array *array)
{
    return (array->offset_bytes | array->page_stride_bytes | array->head_stride_bytes) %
               BULK_BYTES ==
           0;
}

/* The most of those rows, a power of two, of which a page holds whole ones; 0 where bulk copies
 * cannot bring any. */
static uint32_t code_run(const struct ftj_problem *problem, const struct shape *shape)
{
    const ftj_kv_layout *kv = &problem->kv;
    const ftj_kv_array *arrays[] = {&kv->k.codes, &kv->k.row_scales, &kv->k.block_scales,
                                    &kv->v.codes, &kv->v.row_scales, &kv->v.block_scales};
    if (problem->table != FTJ_TABLE_BLOCKS || !problem->slots_contiguous ||
        problem->k_format == FTJ_KV_16BIT || problem->v_format == FTJ_KV_16BIT)
        return 0;
    for (size_t i = 0; i < sizeof(arrays) / sizeof(*arrays); i++) {
        if (!is_bulk_array(arrays[i]))
            return 0;
    }
    const uint32_t power = problem->page_size & (~problem->page_size + 1);
    const uint32_t run = power < shape->code_rows ? power : shape->code_rows;
    return run >= BULK_BYTES ? run : 0;
}

/* Of a tile, that a producer warp brings at a time. All of them copy 16-bit rows together. */
static uint32_t code_rows(const struct ftj_problem *problem, const struct shape *shape)
{
    if (problem->k_format == FTJ_KV_16BIT || problem->v_format == FTJ_KV_16BIT)
        return shape->tokens / CODE_WARPS;
    if (code_run(problem, shape) || shape->code_rows < LANES)
        return shape->code_rows;
    return LANES; /* of which each looks up a row */
}

/* Whether a page holds, of a head, all rows that a producer warp brings of K in one piece, in the
 * order that it has them in memory, and so of V. */
static bool has_records(const struct ftj_problem *problem, const struct shape *shape)
{
    const ftj_kv_side *sides[] = {&problem->kv.k, &problem->kv.v};
    const uint64_t rows = problem->page_size;
    if (!ftj_has_one_stride(&problem->kv) || code_run(problem, shape) != rows ||
        code_rows(problem, shape) != rows)
        return false;
    for (size_t i = 0; i < sizeof(sides) / sizeof(*sides); i++) {
        const ftj_kv_side *side = sides[i];
        const uint64_t scales = side->codes.offset_bytes + rows * side->codes.row_bytes;
        const uint64_t blocks = scales + rows * SCALE_BYTES;
        if (side->row_scales.offset_bytes != scales ||
            (side->block_scales.row_bytes && side->block_scales.offset_bytes != blocks))
            return false;
    }
    return true;
}

/* K and V that were codes are widened to fp16 with their row scales, by a unit that those tell:
 * where a producer warp has all of a tile. */
static bool has_half_rows(const struct ftj_problem *problem, const struct shape *shape)
{
    return problem->k_format != FTJ_KV_16BIT && problem->v_format != FTJ_KV_16BIT &&
           code_rows(problem, shape) == shape->tokens;
}

/* Two blocks of a cluster widen a tile together: an E2M1 costs the producer more than to copy what
 * it becomes. Where one SM is all there is, no cluster fits. */
static bool has_peer(const struct ftj_problem *problem, const struct shape *shape,
                     const struct ftj_device *device)
{
    return has_half_rows(problem, shape) && device->num_sms != 1 &&
           (problem->k_format == FTJ_KV_NVFP4 || problem->v_format == FTJ_KV_NVFP4);
}

/* Consumers of E4M3 that bring nothing but units to their scores fall into turns by themselves. */
static bool takes_turns(const struct ftj_problem *problem, const struct shape *shape)
{
    const bool is_fp8 = problem->k_format == FTJ_KV_FP8 && problem->v_format == FTJ_KV_FP8;
    return shape->takes_turns && !(is_fp8 && has_half_rows(problem, shape));
}

/* Rows that a tensor copy brings: the most, a power of two, of which a page holds whole ones. 0:
 * other copies do. Copies of 16 rows are no faster than those. Of a cache of codes it brings none,
 * but the rows beside it, by whole tiles. */
static uint32_t tensor_run(const struct ftj_problem *problem, const struct shape *shape)
{
    const uint32_t power = problem->page_size & (~problem->page_size + 1);
    const uint32_t run = power < shape->tokens ? power : shape->tokens;
    if (is_coded(problem))
        return shape->tokens;
    if (problem->table != FTJ_TABLE_BLOCKS)
        return 0;
    return run >= LEAST_TENSOR_RUN ? run : 0;
}

static uint32_t smem_bytes(const struct ftj_problem *problem, const struct shape *shape,
                           const struct ftj_device *device)
{
    const uint32_t row_bytes = 2 * shape->head_dim;
    const uint32_t rows = shape->query_stages * shape->consumers * GROUP_ROWS;
    const uint32_t keys = shape->stages * shape->tokens;
    const bool halves = has_half_rows(problem, shape);
    const uint32_t k_bytes =
        code_bytes(problem->k_format, shape->head_dim) + (halves ? SCALE_BYTES : 0);
    const uint32_t v_bytes = code_bytes(problem->v_format, shape->head_dim);
    const uint32_t coded = k_bytes > v_bytes ? k_bytes : v_bytes;
    const uint32_t columns = halves ? UNIT_BYTES : shape->tokens * SCALE_BYTES;
    const uint32_t own_rows = shape->tokens > GROUP_ROWS ? shape->tokens : GROUP_ROWS;
    const uint32_t own = halves ? GROUP_ROWS * SCALE_BYTES + UNIT_BYTES : own_rows * SCALE_BYTES;
    const uint32_t slots = coded ? CODE_WARPS * shape->code_slots : 0;
    const uint32_t per_row = slots * code_rows(problem, shape);
    const uint32_t turns = (shape->consumers * TURN_BARRIER + COPY_BYTES - 1) / COPY_BYTES;
    return (rows + keys) * row_bytes + per_row * coded + slots * CODE_BARRIER +
           (coded ? shape->stages / 2 * columns : 0) + WORK_BYTES + ORDERS * ORDER_BYTES +
           (ORDERS + shape->query_stages + shape->stages) * BARRIER_BYTES +
           (tensor_run(problem, shape) ? shape->stages * TENSOR_BARRIER : 0) + turns * COPY_BYTES +
           (problem->k_format == FTJ_KV_16BIT ? 0 : shape->consumers * own) +
           (has_peer(problem, shape, device) ? CODE_WARPS * PEER_BYTES : 0);
}

/* Rows come in whole chunks of 16 bytes, which are what a swizzled row is made of; block scales of
 * a row in one. */
static bool comes_in_chunks(const ftj_kv_side *side)
{
    const uint32_t blocks = side->block_scales.row_bytes;
    return ftj_copy_chunk(&side->codes) == COPY_BYTES &&
           (!blocks || ftj_copy_chunk(&side->block_scales) == blocks);
}

static const struct shape *find_shape(const struct ftj_problem *problem,
                                      const struct ftj_device *device)
{
    for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
        if (shapes[i].head_dim == problem->head_dim &&
            (shapes[i].code_slots > 0) == is_coded(problem) &&
            (!shapes[i].by_tensor || tensor_run(problem, &shapes[i])) &&
            smem_bytes(problem, &shapes[i], device) <= device->smem_bytes)
            return &shapes[i];
    }
    return NULL;
}

/* Some of V is widened to bf16, as fp16 would not hold its row scales, and so are its weights:
 * those of a model of bf16. */
bool ftj_tune_extend_sm90(const struct ftj_problem *problem, const struct ftj_device *device,
                          struct ftj_config *config)
{
    const struct shape *shape = find_shape(problem, device);
    if (!shape || !comes_in_chunks(&problem->kv.k) || !comes_in_chunks(&problem->kv.v) ||
        (shape->code_slots && problem->dtype != FTJ_DTYPE_BF16))
        return false;
    config->num_threads = GROUP_THREADS * (1 + shape->consumers);
    config->smem_bytes = smem_bytes(problem, shape, device);
    config->min_blocks = 1;
    config->block_rows = GROUP_ROWS * shape->consumers;
    config->tile_tokens = shape->tokens;
    config->new_tokens = shape->tokens;
    config->num_stages = shape->stages;
    config->query_stages = shape->query_stages;
    config->cluster_blocks = has_peer(problem, shape, device) ? 2 : 1;
    config->tensor_run = tensor_run(problem, shape);
    return true;
}

/* What the producer leaves to each consumer of the registers that the block is launched with. */
static uint32_t consumer_registers(const struct shape *shape)
{
    const uint32_t groups = 1 + shape->consumers;
    const uint32_t launched = SM_REGISTERS / (groups * GROUP_THREADS) / 8 * 8;
    return (groups * launched - shape->producer_registers) / shape->consumers / 8 * 8;
}

void ftj_write_extend_sm90(struct ftj_text *text, const struct ftj_problem *problem,
                           const struct ftj_config *config, const struct ftj_device *device)
{
    const struct shape *shape = find_shape(problem, device);
    ftj_text_printf(text, "    using Element = %s;\n", ftj_type_name(problem->dtype));
    ftj_write_widen(text, "KWiden", problem->k_format, device);
    ftj_write_widen(text, "VWiden", problem->v_format, device);
    const struct {
        const char *name;
        uint32_t value;
    } numbers[] = {
        {"page_size", problem->page_size},
        {"num_consumers", shape->consumers},
        {"block_rows", config->block_rows},
        {"tile_tokens", config->tile_tokens},
        {"new_tokens", config->new_tokens},
        {"num_stages", config->num_stages},
        {"query_stages", config->query_stages},
        {"code_slots", shape->code_slots},
        {"code_rows", code_rows(problem, shape)},
        {"code_run", code_run(problem, shape)},
        {"tensor_run", config->tensor_run},
        {"producer_registers", shape->producer_registers},
        {"consumer_registers", consumer_registers(shape)},
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
        {"takes_turns", takes_turns(problem, shape)},
        {"has_records", has_records(problem, shape)},
        {"has_peer", has_peer(problem, shape, device)},
    };
    for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++)
        ftj_text_printf(text, "    static constexpr bool %s = %s;\n", flags[i].name,
                        flags[i].value ? "true" : "false");
}
