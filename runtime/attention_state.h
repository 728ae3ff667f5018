/* SPDX-License-Identifier: MIT */
/* What an attention holds. */
#ifndef FTJ_RUNTIME_ATTENTION_STATE_H
#define FTJ_RUNTIME_ATTENTION_STATE_H

#include "ftjit/attention.h"
#include "runtime/kernel.h"

/* A decode's grid fills the device once, whatever the batch: work is dealt out inside it. */
struct ftj_decode_plan {
    const struct ftj_kernel *kernel; /* borrowed; NULL: not built */
    const struct ftj_kernel *combine;
    uint32_t kv_heads;     /* as the kernels see them: each half of a group may count as one */
    uint32_t group;        /* query heads of one of these */
    uint32_t unit_columns; /* one block works on so many at a time: query heads of a kv head, */
    uint32_t head_sets;    /* of config.unit_heads kv heads; there are so many such sets */
    uint32_t head_blocks;  /* units that a kv head's group is cut into, with one query a request */
    uint32_t unit_cost;    /* tiles that a block reads in the time it takes to start on a unit */
    uint32_t blocks;       /* the grid, */
    uint32_t most_idle;    /* and how many of it may be left with nothing to do, */
    uint32_t slack;        /* or for how many tiles a few */
    uint32_t combine_blocks;    /* of the combine that fit at once, */
    uint32_t most_combine_rows; /* and rows that one has threads for */
};

struct ftj_attention {
    struct ftj_context *ctx;                              /* borrowed */
    ftj_attention_desc desc;                              /* defaults filled in */
    const struct ftj_kernel *kernels[FTJ_NUM_KERNEL_OPS]; /* borrowed; NULL: not built */
    uint32_t group;
    bool copies_spans; /* every array of the cache must start on 16 bytes */
    struct ftj_decode_plan decode;
    struct ftj_decode_plan short_runs; /* extend: of a few queries a request */
    uint32_t extend_blocks;            /* extend: the grid, likewise, */
    struct ftj_grid extend_pairs;      /* and where its blocks may work in pairs */
    uint32_t extend_rows;              /* extend: rows of a query tile */
};

#endif
