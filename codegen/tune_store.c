/* SPDX-License-Identifier: MIT */
/* Numbers and Config of kernel/kv_store.cuh. */
#include "codegen/tune.h"
#include "codegen/type_name.h"

#define WARP_SIZE   32
#define LANE_VALUES 16 /* a lane holds one block of nvfp4 */
#define NUM_WARPS   8

/* A group of lanes is a power of two, so that lanes of a row reduce by exchanging. */
static uint32_t lanes_per_row(uint32_t head_dim)
{
    uint32_t lanes = 1;
    while (lanes * LANE_VALUES < head_dim)
        lanes *= 2;
    return lanes;
}

/* Five blocks to an SM: 48 registers, which hold the 16-bit values of a row of K and one of V at
 * once; forty warps keep enough bytes on their way. fp32 values take twice the room: three blocks.
 */
bool ftj_tune_store(const struct ftj_problem *problem, const struct ftj_device *device,
                    struct ftj_config *config)
{
    (void)device;
    *config = (struct ftj_config){
        .num_threads = NUM_WARPS * WARP_SIZE,
        .min_blocks = problem->io_dtype == FTJ_DTYPE_FP32 ? 3 : 5,
        .num_warps = NUM_WARPS,
        .rows_per_block = NUM_WARPS * (WARP_SIZE / lanes_per_row(problem->head_dim)),
    };
    return true;
}

bool ftj_tune_store_overlapped(const struct ftj_problem *problem, const struct ftj_device *device,
                               struct ftj_config *config)
{
    ftj_tune_store(problem, device, config);
    config->overlaps_previous = true;
    return true;
}

static const char *encoder_name(ftj_kv_format format)
{
    switch (format) {
    case FTJ_KV_FP8:
        return "ftj::EncodeFp8<E4m3>";
    case FTJ_KV_NVFP4:
        return "ftj::EncodeNvfp4<E4m3>";
    default:
        return "ftj::Encode16bit<Element>";
    }
}

void ftj_write_store(struct ftj_text *text, const struct ftj_problem *problem,
                     const struct ftj_config *config, const struct ftj_device *device)
{
    const bool converts = device->features & FTJ_HAS_FP8_CONVERT;
    ftj_text_printf(text, "    using Source = %s;\n", ftj_type_name(problem->io_dtype));
    ftj_text_printf(text, "    using Element = %s;\n", ftj_type_name(problem->dtype));
    ftj_text_printf(text, "    using E4m3 = %s;\n",
                    converts ? "ftj::E4m3Hardware" : "ftj::E4m3Software");
    ftj_text_printf(text, "    using KEncoder = %s;\n", encoder_name(problem->k_format));
    ftj_text_printf(text, "    using VEncoder = %s;\n", encoder_name(problem->v_format));
    ftj_text_printf(text, "    static constexpr uint32_t page_size = %u;\n", problem->page_size);
    ftj_text_printf(text, "    static constexpr uint32_t num_kv_heads = %u;\n",
                    problem->num_kv_heads);
    ftj_text_printf(text, "    static constexpr bool one_allocation = %s;\n",
                    ftj_has_one_stride(&problem->kv) ? "true" : "false");
    ftj_text_printf(text, "    static constexpr int tokens_per_warp = %u;\n",
                    config->rows_per_block / config->num_warps);
}
