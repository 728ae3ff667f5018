/* SPDX-License-Identifier: MIT */
/* The numbers of the combine that ends a decode: templates/kernel/attn_combine.cuh. */
#include "codegen/tune.h"
#include "codegen/type_name.h"

#define SPLIT_BYTES 32u /* a unit that several blocks share */

/* Four threads, or so, have the same four columns of a row. */
bool ftj_tune_combine(const struct ftj_problem *problem, const struct ftj_device *device,
                      struct ftj_config *config)
{
    (void)device;
    const uint32_t quads = problem->head_dim / 4;
    config->n_tiles = ftj_decode_tiles(problem);
    config->num_threads = 256;
    config->min_blocks = 1;
    config->rows_per_block = quads < 64 ? 64 / quads : 1;
    config->smem_bytes = config->num_threads * PART_SUM_BYTES + SPLIT_BYTES;
    return true;
}

bool ftj_tune_combine_overlapped(const struct ftj_problem *problem, const struct ftj_device *device,
                                 struct ftj_config *config)
{
    config->overlaps_previous = true;
    return ftj_tune_combine(problem, device, config);
}

void ftj_write_combine(struct ftj_text *text, const struct ftj_problem *problem,
                       const struct ftj_config *config, const struct ftj_device *device)
{
    (void)device;
    ftj_text_printf(text, "    using Element = %s;\n", ftj_type_name(problem->dtype));
    ftj_text_printf(text, "    static constexpr int n_tiles = %u;\n", config->n_tiles);
    ftj_text_printf(text, "    static constexpr bool has_runs = %s;\n",
                    problem->run_queries > 1 ? "true" : "false");
}
