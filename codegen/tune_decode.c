/* SPDX-License-Identifier: MIT */
/* The numbers of a decode whose lanes copy rows, or spans of rows, by themselves. */
#include "codegen/cache_config.h"
#include "codegen/decode_shape.h"
#include "codegen/tune.h"

#define COPY_REGISTERS 8u /* where lanes copy rows themselves, and 128 registers are all */
#define NHD_REGISTERS  4u /* the same where a row of all heads is one run of memory */

/* Several blocks of four warps to an SM, so that one computes while another merges. Tiles of 32
 * tokens keep two chains of products under way: worth more than a third stage, but not more than
 * half of the warps. Four and three blocks ask for O and Q to leave registers for sixteen and
 * twelve warps. The last resort (wide heads in the memory of sm_75) is one warp with one stage. */
bool ftj_tune_decode(const struct ftj_problem *problem, const struct ftj_device *device,
                     struct ftj_config *config)
{
    static const struct ftj_decode_shape shapes[] = {
        {4, 4, 1, 32, 2}, {3, 4, 1, 32, 2}, {2, 4, 1, 32, 3}, {2, 4, 1, 16, 3}, {1, 8, 1, 32, 2},
        {1, 8, 1, 16, 3}, {2, 4, 1, 16, 2}, {1, 8, 1, 16, 2}, {1, 4, 1, 16, 3}, {1, 4, 1, 16, 2},
        {1, 2, 1, 16, 3}, {1, 2, 1, 16, 2}, {1, 1, 1, 16, 2}, {1, 1, 1, 16, 1}};
    const ftj_kv_array *codes = &problem->kv.k.codes;
    const uint32_t registers =
        codes->head_stride_bytes == codes->row_bytes ? NHD_REGISTERS : COPY_REGISTERS;
    config->n_tiles = ftj_decode_tiles(problem);
    config->group_parts = 1;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
        if (!ftj_decode_has_registers(problem, config, &shapes[i], registers))
            continue;
        config->min_blocks = shapes[i].blocks;
        config->num_warps = shapes[i].warps;
        config->warps_per_tile = shapes[i].warps_per_tile;
        config->tile_tokens = shapes[i].tile_tokens;
        config->unit_heads = ftj_decode_side_heads(problem, config);
        const struct ftj_decode_ring ring = {
            .stage_bytes = config->tile_tokens * ftj_decode_token_bytes(problem), .warps = 1};
        if (ftj_decode_fill_stages(problem, device, &ring, shapes[i].least_stages, config))
            return true;
    }
    return false;
}

void ftj_write_decode(struct ftj_text *text, const struct ftj_problem *problem,
                      const struct ftj_config *config, const struct ftj_device *device)
{
    const ftj_kv_layout *kv = &problem->kv;
    ftj_write_decode_common(text, problem, config, device);
    const struct ftj_number chunks[] = {
        {"k_code_chunk", ftj_copy_chunk(&kv->k.codes)},
        {"v_code_chunk", ftj_copy_chunk(&kv->v.codes)},
        {"k_block_chunk", ftj_copy_chunk(&kv->k.block_scales)},
        {"v_block_chunk", ftj_copy_chunk(&kv->v.block_scales)},
    };
    ftj_write_numbers(text, chunks, sizeof(chunks) / sizeof(*chunks));
}
