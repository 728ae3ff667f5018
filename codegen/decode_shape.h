/* SPDX-License-Identifier: MIT */
/* What the rules of the decode's kernels share. */
#ifndef FTJ_CODEGEN_DECODE_SHAPE_H
#define FTJ_CODEGEN_DECODE_SHAPE_H

#include "base/bytes.h"
#include "codegen/variant.h"

#define REGISTER_BUDGET 256u /* n_tiles * head_dim: what O and Q may take of 255 registers */
#define WIDE_WARPS      8u   /* an SM runs with 255 registers each */

struct ftj_decode_shape {
    uint32_t blocks; /* of an SM */
    uint32_t warps;
    uint32_t warps_per_tile;
    uint32_t tile_tokens;
    uint32_t least_stages;
};

/* Stages that some warps of a block share, or that each has to itself. */
struct ftj_decode_ring {
    uint32_t stage_bytes;
    uint32_t warps;
    bool is_bulk;
    uint32_t most_stages; /* 0: as many as fit */
    uint32_t query_bytes; /* of a block, and what its warps merge in; 0: those of mma.sync */
    uint32_t merge_bytes;
};

/* Units that the group of a kv head is cut into, with one query a request. */
uint32_t ftj_decode_passes(const struct ftj_problem *problem);

/* Of both rows, of one kv head. */
uint32_t ftj_decode_token_bytes(const struct ftj_problem *problem);

/* Whether Q is kept in shared memory: block/query.cuh. */
bool ftj_decode_shares_query(const struct ftj_problem *problem, uint32_t n_tiles,
                             uint32_t num_warps);

/* Whether an SM's registers are enough for O, Q and scores of a shape's warps, and for so many more
 * where sixteen warps share them. */
bool ftj_decode_has_registers(const struct ftj_problem *problem, const struct ftj_config *config,
                              const struct ftj_decode_shape *shape, uint32_t others);

/* How many kv heads the warps of a block have side by side. Memory gives 64 bytes at once, which
 * are the scales of several heads, or more than a short row: where the rows of one head do not
 * follow each other in runs, those of all heads of a token do. Not where there are few keys, which
 * the warps of a block had better share: it is latency that counts then; nor so many that the parts
 * of their units, which have the rows of all of them, take longer to write and to read. */
uint32_t ftj_decode_side_heads(const struct ftj_problem *problem, const struct ftj_config *config);

/* Fill a block's memory with as many stages as there is use for; false when not even `least` fit.
 */
bool ftj_decode_fill_stages(const struct ftj_problem *problem, const struct ftj_device *device,
                            const struct ftj_decode_ring *ring, uint32_t least,
                            struct ftj_config *config);

struct ftj_number {
    const char *name;
    uint64_t value;
};

void ftj_write_numbers(struct ftj_text *text, const struct ftj_number *numbers, size_t count);
void ftj_write_decode_common(struct ftj_text *text, const struct ftj_problem *problem,
                             const struct ftj_config *config, const struct ftj_device *device);

#endif
