/* SPDX-License-Identifier: MIT */
/* Numbers and Config of kernel/state_merge.cuh. */
#include "codegen/tune.h"
#include "codegen/type_name.h"

bool ftj_tune_merge(const struct ftj_problem *problem, const struct ftj_device *device,
                    struct ftj_config *config)
{
    (void)problem;
    (void)device;
    *config = (struct ftj_config){
        .num_threads = 256,
        .min_blocks = 1,
        .num_warps = 8, /* a row each */
        .rows_per_block = 8,
    };
    return true;
}

void ftj_write_merge(struct ftj_text *text, const struct ftj_problem *problem,
                     const struct ftj_config *config, const struct ftj_device *device)
{
    (void)config;
    (void)device;
    ftj_text_printf(text, "    using Element = %s;\n", ftj_type_name(problem->dtype));
}
