/* SPDX-License-Identifier: MIT */
/* Which kernel serves a problem on a device: a table, best first, and the rule that reads it. */
#ifndef FTJ_CODEGEN_VARIANT_H
#define FTJ_CODEGEN_VARIANT_H

#include "base/bytes.h"
#include "codegen/problem.h"

/* The tuned numbers of a kernel. Names are those of the generated Config's members. */
struct ftj_config {
    const char *variant; /* its name */
    uint32_t num_threads;
    uint32_t smem_bytes; /* dynamic */
    uint32_t min_blocks; /* per SM, for __launch_bounds__ */
    uint32_t tile_tokens;
    uint32_t num_stages;
    uint32_t num_warps;
    uint32_t warps_per_tile; /* decode: warps that share a ring and the tokens of its tiles */
    uint32_t n_tiles;        /* decode: tiles of 8 query heads a warp holds */
    uint32_t unit_heads;     /* decode: kv heads that a block's warps have side by side */
    uint32_t group_parts; /* decode: that a kv head's group is in, each a kv head of its own to all
                             but the tiles of keys, which they share */
    uint32_t value_shift; /* decode: bytes that every 16 rows of V lie further apart in a stage */
    bool copies_runs;     /* decode: of several kv heads; every array must start on 16 bytes */
    bool overlaps_previous;  /* launched to start before the kernel before it has ended */
    uint32_t cluster_blocks; /* 2: of a launch of clusters; 0 and 1: there is none */
    uint32_t rows_per_block; /* store, merge, generic, combine: rows a block serves, or the least */
    uint32_t block_rows;     /* extend: rows of a query tile */
    uint32_t m_tiles;        /* extend: tiles of 16 of them a warp holds */
    uint32_t part_dims;      /* extend: dims of O a warp holds */
    uint32_t new_tokens;     /* extend: tokens of a tile that is not in the cache */
    uint32_t step_tokens;    /* extend: tokens whose scores a warp holds at a time */
    bool widens;             /* extend by mma.sync: codes are widened in shared memory */
    uint32_t query_stages;   /* extend by wgmma: query tiles in memory */
    uint32_t tensor_run;     /* the same: rows of K or V that a tensor copy brings; 0: none does */
};

struct ftj_variant {
    const char *name;
    enum ftj_kernel_op op;
    uint32_t covers; /* FTJ_NEED_* */
    uint32_t uses;   /* FTJ_HAS_* */
    /* False: not for this layout, or no tile fits the device's shared memory. */
    bool (*tune)(const struct ftj_problem *problem, const struct ftj_device *device,
                 struct ftj_config *config);
    /* Members of the generated Config. */
    void (*write)(struct ftj_text *text, const struct ftj_problem *problem,
                  const struct ftj_config *config, const struct ftj_device *device);
    const char *includes;    /* "kernel/attn_decode.cuh block/copy_async.cuh", in order */
    const char *kernel;      /* "AttnDecode" */
    const char *params_type; /* "ftj_decode_params" */
    bool exact_rounding;     /* compiled without FMA contraction */
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
