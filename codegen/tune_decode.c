/* SPDX-License-Identifier: MIT */
/*
 * The decode's numbers: how many query heads a warp holds, how many tokens a tile has, how many
 * warps and stages share a block's memory. templates/block/stage.cuh, query.cuh and merge_warps.cuh
 * compute the same sizes; the kernel refuses to compile when they differ.
 */
#include "codegen/tune.h"

#define WARP_SIZE        32u
#define REGISTER_BUDGET  256u /* n_tiles * head_dim: what O and Q may take of 255 registers */
#define WIDE_HEAD        256u /* above it, Q is kept in shared memory */
#define MAX_WARPS        8u
#define MAX_STAGES       8u

static uint32_t divide_up(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

/* Query heads come in tiles of 8; a group that needs more than the registers hold is cut into
 * equal units. */
static uint32_t n_tiles(const struct ftj_problem *problem)
{
    const uint32_t most = problem->head_dim > REGISTER_BUDGET ? 1 : REGISTER_BUDGET / problem->head_dim;
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

/* Fill the memory with as many stages as there is use for; false when not even `least` fit. */
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

/* Most warps first, then the wider tile if at least three of its stages fit; a memory too small for
 * that (sm_75, wide heads) gets fewer warps, at last one with one stage. */
bool ftj_tune_decode(const struct ftj_problem *problem, const struct ftj_device *device,
                     struct ftj_config *config)
{
    const uint32_t budget = device->smem_bytes;
    config->n_tiles = n_tiles(problem);
    config->min_blocks = 1;
    for (config->num_warps = MAX_WARPS; config->num_warps; config->num_warps /= 2) {
        config->tile_tokens = 32;
        if (fill_stages(problem, budget, 3, config))
            return true;
        config->tile_tokens = 16;
        if (fill_stages(problem, budget, 2, config))
            return true;
    }
    config->num_warps = 1;
    return fill_stages(problem, budget, 1, config);
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
