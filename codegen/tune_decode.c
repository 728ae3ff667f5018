/* SPDX-License-Identifier: MIT */
/*
 * The decode's numbers: how many query heads a warp holds, how many tokens a tile has, how many
 * warps and stages share a block's memory. templates/block/stage.cuh, query.cuh and merge_warps.cuh
 * compute the same sizes; the kernel refuses to compile when they differ.
 */
#include "codegen/tune.h"

#define WARP_SIZE        32u
#define REGISTER_BUDGET  256u /* n_tiles * head_dim: what O and Q may take of 255 registers */
#define NARROW_REGISTERS 72u  /* O, Q and scores of a kernel that is to run sixteen warps */
#define MAX_N_TILES      4u   /* past it the scores take too many registers */
#define WIDE_HEAD        256u /* above it, Q is kept in shared memory */
#define MAX_STAGES       8u
#define SMEM_RESERVED    1024u /* what the system keeps of an SM's memory for each block */

static uint32_t divide_up(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

/* Query heads come in tiles of 8; a group that needs more than the registers hold is cut into
 * equal units. */
static uint32_t n_tiles(const struct ftj_problem *problem)
{
    const uint32_t by_registers = REGISTER_BUDGET / problem->head_dim;
    const uint32_t most = by_registers > MAX_N_TILES ? MAX_N_TILES : by_registers + !by_registers;
    const uint32_t all = divide_up(problem->group, 8);
    return divide_up(all, divide_up(all, most));
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

/* Shared memory beside the ring: wide queries, and the slots in which warps merge (block/
 * merge_warps.cuh: half of the warps at a time, 128 bytes for each register of O and state). */
static uint32_t fixed_bytes(const struct ftj_problem *problem, const struct ftj_config *config)
{
    const uint32_t slots = config->num_warps > 1 ? config->num_warps / 2 : 1;
    const uint32_t slot = config->n_tiles * (problem->head_dim / 4 + 4) * WARP_SIZE * 4;
    const uint32_t query = problem->head_dim > WIDE_HEAD
                               ? config->n_tiles * (problem->head_dim / 16) * 2 * WARP_SIZE * 4
                               : 0;
    return slots * slot + query;
}

/* Fill a block's memory with as many stages as there is use for; false when not even `least` fit. */
static bool fill_stages(const struct ftj_problem *problem, uint32_t budget, uint32_t least,
                        struct ftj_config *config)
{
    const uint32_t token = row_bytes(problem->k_format, problem->head_dim) +
                           row_bytes(problem->v_format, problem->head_dim);
    const uint32_t ring_row = config->num_warps * config->tile_tokens * token;
    const uint32_t fixed = fixed_bytes(problem, config);
    if (budget < fixed + least * ring_row)
        return false;
    config->num_stages = (budget - fixed) / ring_row;
    if (config->num_stages > MAX_STAGES)
        config->num_stages = MAX_STAGES;
    config->smem_bytes = config->num_stages * ring_row + fixed;
    config->num_threads = config->num_warps * WARP_SIZE;
    return true;
}

/* Several blocks of four warps to an SM, so that one computes while another merges. Tiles of 32 tokens
 * keep two chains of products under way: worth more than a third stage, but not more than half of
 * the warps. Four and three blocks ask for O and Q to leave registers for sixteen and twelve warps.
 * The last resort (wide heads in the memory of sm_75) is one warp with one stage. */
bool ftj_tune_decode(const struct ftj_problem *problem, const struct ftj_device *device,
                     struct ftj_config *config)
{
    static const struct {
        uint32_t blocks;
        uint32_t warps;
        uint32_t tile_tokens;
        uint32_t least_stages;
    } shapes[] = {{4, 4, 32, 2}, {3, 4, 32, 2}, {2, 4, 32, 3}, {2, 4, 16, 3}, {1, 8, 32, 2},
                  {1, 8, 16, 3}, {2, 4, 16, 2}, {1, 8, 16, 2}, {1, 4, 16, 3}, {1, 4, 16, 2},
                  {1, 2, 16, 3}, {1, 2, 16, 2}, {1, 1, 16, 2}, {1, 1, 16, 1}};
    config->n_tiles = n_tiles(problem);
    const bool narrow = config->n_tiles * (3 * problem->head_dim / 8 + 20) <= NARROW_REGISTERS;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
        if (shapes[i].blocks > 2 && !narrow)
            continue;
        const uint32_t share = device->smem_per_sm_bytes / shapes[i].blocks - SMEM_RESERVED;
        config->min_blocks = shapes[i].blocks;
        config->num_warps = shapes[i].warps;
        config->tile_tokens = shapes[i].tile_tokens;
        if (fill_stages(problem, share < device->smem_bytes ? share : device->smem_bytes,
                        shapes[i].least_stages, config))
            return true;
    }
    return false;
}

static const char *element(ftj_dtype dtype)
{
    return dtype == FTJ_DTYPE_FP16 ? "ftj::Fp16" : "ftj::Bf16";
}

static void write_codec(struct ftj_text *text, const char *name, ftj_kv_format format,
                        const struct ftj_device *device)
{
    const char *e4m3 =
        device->features & FTJ_HAS_FP8_CONVERT ? "ftj::E4m3Hardware" : "ftj::E4m3Software";
    switch (format) {
    case FTJ_KV_FP8:
        ftj_text_printf(text, "    using %s = ftj::CodecFp8<%s>;\n", name, e4m3);
        break;
    case FTJ_KV_NVFP4:
        ftj_text_printf(text, "    using %s = ftj::CodecNvfp4<%s>;\n", name, e4m3);
        break;
    default:
        ftj_text_printf(text, "    using %s = ftj::Codec16Bit<Element>;\n", name);
        break;
    }
}

/* The most bytes, up to 16, that every row of an array can be copied by. */
static uint32_t chunk(const ftj_kv_array *array)
{
    const uint64_t bits = array->row_bytes | array->offset_bytes | array->page_stride_bytes |
                          array->head_stride_bytes | array->slot_stride_bytes | 16;
    return (uint32_t)(bits & (~bits + 1));
}

/* All arrays step alike from page to page and from head to head: one address serves them all. */
static bool has_one_stride(const ftj_kv_layout *kv)
{
    const ftj_kv_array *first = &kv->k.codes;
    const ftj_kv_array *others[] = {&kv->k.row_scales, &kv->k.block_scales, &kv->v.codes,
                                    &kv->v.row_scales, &kv->v.block_scales};
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        if (others[i]->row_bytes && (others[i]->page_stride_bytes != first->page_stride_bytes ||
                                     others[i]->head_stride_bytes != first->head_stride_bytes))
            return false;
    }
    return true;
}

void ftj_write_decode(struct ftj_text *text, const struct ftj_problem *problem,
                      const struct ftj_config *config, const struct ftj_device *device)
{
    const ftj_kv_layout *kv = &problem->kv;
    ftj_text_printf(text, "    using Element = %s;\n", element(problem->dtype));
    write_codec(text, "KCodec", problem->k_format, device);
    write_codec(text, "VCodec", problem->v_format, device);
    const struct {
        const char *name;
        uint32_t value;
    } numbers[] = {
        {"page_size", problem->page_size},
        {"num_warps", config->num_warps},
        {"num_stages", config->num_stages},
        {"tile_tokens", config->tile_tokens},
        {"n_tiles", config->n_tiles},
        {"k_code_chunk", chunk(&kv->k.codes)},
        {"v_code_chunk", chunk(&kv->v.codes)},
        {"k_block_chunk", chunk(&kv->k.block_scales)},
        {"v_block_chunk", chunk(&kv->v.block_scales)},
    };
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
        ftj_text_printf(text, "    static constexpr int %s = %u;\n", numbers[i].name,
                        numbers[i].value);
    const struct {
        const char *name;
        bool value;
    } flags[] = {
        {"slots_contiguous", problem->slots_contiguous},
        {"one_allocation", kv->shape.order == FTJ_KV_PACKED && has_one_stride(kv)},
        {"slot_table", problem->table == FTJ_TABLE_SLOTS},
        {"has_softcap", problem->has_softcap},
    };
    for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++)
        ftj_text_printf(text, "    static constexpr bool %s = %s;\n", flags[i].name,
                        flags[i].value ? "true" : "false");
}

bool ftj_tune_combine(const struct ftj_problem *problem, const struct ftj_device *device,
                      struct ftj_config *config)
{
    (void)device;
    const uint32_t quads = problem->head_dim / 4;
    config->n_tiles = n_tiles(problem);
    config->num_threads = 256;
    config->min_blocks = 1;
    config->rows_per_block = 1;
    config->smem_bytes = config->num_threads / quads * (quads * 16 + 8);
    return true;
}

void ftj_write_combine(struct ftj_text *text, const struct ftj_problem *problem,
                       const struct ftj_config *config, const struct ftj_device *device)
{
    (void)device;
    ftj_text_printf(text, "    using Element = %s;\n", element(problem->dtype));
    ftj_text_printf(text, "    static constexpr int n_tiles = %u;\n", config->n_tiles);
}
