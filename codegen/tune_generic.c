/* SPDX-License-Identifier: MIT */
/* Numbers and Config of kernel/attn_generic.cuh. */
#include "codegen/tune.h"
#include "codegen/type_name.h"

bool ftj_tune_generic(const struct ftj_problem *problem, const struct ftj_device *device,
                      struct ftj_config *config)
{
    (void)problem;
    (void)device;
    *config = (struct ftj_config){
        .num_threads = 128,
        .min_blocks = 1,
        .num_warps = 4, /* a row each */
        .rows_per_block = 4,
    };
    return true;
}

static const char *row_name(ftj_kv_format format)
{
    switch (format) {
    case FTJ_KV_FP8:
        return "ftj::RowValueFp8";
    case FTJ_KV_NVFP4:
        return "ftj::RowValueNvfp4";
    default:
        return "ftj::RowValue16bit<Element>";
    }
}

void ftj_write_generic(struct ftj_text *text, const struct ftj_problem *problem,
                       const struct ftj_config *config, const struct ftj_device *device)
{
    (void)config;
    (void)device;
    ftj_text_printf(text, "    using Query = %s;\n", ftj_type_name(problem->io_dtype));
    ftj_text_printf(text, "    using Element = %s;\n", ftj_type_name(problem->dtype));
    ftj_text_printf(text, "    using KRow = %s;\n", row_name(problem->k_format));
    ftj_text_printf(text, "    using VRow = %s;\n", row_name(problem->v_format));
    ftj_text_printf(text, "    static constexpr uint32_t page_size = %u;\n", problem->page_size);
    ftj_text_printf(text, "    static constexpr bool slot_table = %s;\n",
                    problem->table == FTJ_TABLE_SLOTS ? "true" : "false");
}
