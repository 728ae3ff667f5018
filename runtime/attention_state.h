/* SPDX-License-Identifier: MIT */
/* What an attention holds. */
#ifndef FTJ_RUNTIME_ATTENTION_STATE_H
#define FTJ_RUNTIME_ATTENTION_STATE_H

#include "ftjit/attention.h"
#include "runtime/kernel.h"

struct ftj_attention {
    struct ftj_context *ctx;                              /* borrowed */
    ftj_attention_desc desc;                              /* defaults filled in */
    const struct ftj_kernel *kernels[FTJ_NUM_KERNEL_OPS]; /* borrowed; NULL: not built */
    uint32_t group;
    uint32_t heads_per_unit; /* decode: query heads one block works on at a time */
    uint32_t head_blocks;    /* decode: units a kv head's group is cut into */
    bool copies_spans;       /* decode: every array of the cache must start on 16 bytes */
    uint32_t decode_blocks;  /* decode: the grid, whatever the batch */
    uint32_t unit_cost;      /* decode: tiles that a block reads in the time it takes to start on
                                another unit */
    uint32_t extend_blocks;  /* extend: likewise */
    uint32_t extend_rows;    /* extend: rows of a query tile */
};

#endif
