/* SPDX-License-Identifier: MIT */
/* Which kernel serves a problem on a device: a table, best first, and the rule that reads it. */
#ifndef FTJ_CODEGEN_VARIANT_H
#define FTJ_CODEGEN_VARIANT_H

#include "codegen/problem.h"

/* The tuned numbers of a kernel. Names are those of the generated Config's members. */
struct ftj_config {
    uint32_t num_threads;
    uint32_t smem_bytes; /* dynamic */
    uint32_t min_blocks; /* per SM, for __launch_bounds__ */
    uint32_t tile_tokens;
    uint32_t num_stages;
    uint32_t num_warps;
    uint32_t n_tiles;       /* decode: tiles of 8 query heads a warp holds */
    uint32_t rows_per_warp; /* store: rows a warp encodes at a time */
};

struct ftj_variant {
    const char *name;
    enum ftj_kernel_op op;
    uint32_t covers; /* FTJ_NEED_* */
    uint32_t uses;   /* FTJ_HAS_* */
    /* False: no tile fits the device's shared memory. */
    bool (*tune)(const struct ftj_problem *problem, const struct ftj_device *device,
                 struct ftj_config *config);
    const char *include; /* "kernel/attn_decode.cuh" */
    const char *params;  /* "ftj_decode_params" */
};

extern const struct ftj_variant ftj_variants[];
extern const size_t ftj_num_variants;

/* First row that fits; NULL when none does. `config` is filled. */
const struct ftj_variant *ftj_variant_select(const struct ftj_problem *problem,
                                             const struct ftj_device *device,
                                             struct ftj_config *config);

/* Why a variant does not fit, or "fits", into text. */
void ftj_variant_explain(const struct ftj_variant *variant, const struct ftj_problem *problem,
                         const struct ftj_device *device, char *text, size_t size);

#endif
