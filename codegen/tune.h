/* SPDX-License-Identifier: MIT */
/*
 * Per kernel: the rule that chooses its numbers, and the writer of its Config's members.
 *
 * tune: a pure function of problem and device; false when nothing fits the shared memory.
 * write: appends the members of `struct Config`, indented by four spaces, one per line.
 */
#ifndef FTJ_CODEGEN_TUNE_H
#define FTJ_CODEGEN_TUNE_H

#include "base/bytes.h"
#include "codegen/variant.h"

bool ftj_tune_store(const struct ftj_problem *problem, const struct ftj_device *device,
                    struct ftj_config *config);
/* The same, started while the kernel before it still runs. */
bool ftj_tune_store_overlapped(const struct ftj_problem *problem, const struct ftj_device *device,
                               struct ftj_config *config);
void ftj_write_store(struct ftj_text *text, const struct ftj_problem *problem,
                     const struct ftj_config *config, const struct ftj_device *device);

/* block/part_sum.cuh: of each thread of a combine */
#define PART_SUM_BYTES 24u

/* Whether decode's kernels serve runs of up to so many queries faster than an extend's. */
bool ftj_runs_pay(const ftj_kv_shape *kv, uint32_t group, uint32_t queries);

bool ftj_tune_decode(const struct ftj_problem *problem, const struct ftj_device *device,
                     struct ftj_config *config);
/* The same for tiles that come by bulk copies; false where a tile is not spans of memory. */
bool ftj_tune_decode_bulk(const struct ftj_problem *problem, const struct ftj_device *device,
                          struct ftj_config *config);
/* The same by wgmma, for groups of more columns than a warp holds; false for others. */
bool ftj_tune_decode_group(const struct ftj_problem *problem, const struct ftj_device *device,
                           struct ftj_config *config);
void ftj_write_decode_bulk(struct ftj_text *text, const struct ftj_problem *problem,
                           const struct ftj_config *config, const struct ftj_device *device);
/* The same for pages of one token, whose records of a few kv heads are one run of memory. */
bool ftj_tune_decode_heads(const struct ftj_problem *problem, const struct ftj_device *device,
                           struct ftj_config *config);
void ftj_write_decode_heads(struct ftj_text *text, const struct ftj_problem *problem,
                            const struct ftj_config *config, const struct ftj_device *device);
void ftj_write_decode(struct ftj_text *text, const struct ftj_problem *problem,
                      const struct ftj_config *config, const struct ftj_device *device);

/* Tiles of 8 columns that a unit of a decode has, and so each of its slots for parts. */
uint32_t ftj_decode_tiles(const struct ftj_problem *problem);
bool ftj_tune_combine(const struct ftj_problem *problem, const struct ftj_device *device,
                      struct ftj_config *config);
/* The same, started while the decode before it still runs. */
bool ftj_tune_combine_overlapped(const struct ftj_problem *problem, const struct ftj_device *device,
                                 struct ftj_config *config);
void ftj_write_combine(struct ftj_text *text, const struct ftj_problem *problem,
                       const struct ftj_config *config, const struct ftj_device *device);

/* By mma.sync; that of sm_80 may widen codes in shared memory. */
bool ftj_tune_extend_sm80(const struct ftj_problem *problem, const struct ftj_device *device,
                          struct ftj_config *config);
bool ftj_tune_extend(const struct ftj_problem *problem, const struct ftj_device *device,
                     struct ftj_config *config);
void ftj_write_extend(struct ftj_text *text, const struct ftj_problem *problem,
                      const struct ftj_config *config, const struct ftj_device *device);

/* The same by wgmma; false for other widths of head than it is for. */
bool ftj_tune_extend_sm90(const struct ftj_problem *problem, const struct ftj_device *device,
                          struct ftj_config *config);
void ftj_write_extend_sm90(struct ftj_text *text, const struct ftj_problem *problem,
                           const struct ftj_config *config, const struct ftj_device *device);

bool ftj_tune_extend_combine(const struct ftj_problem *problem, const struct ftj_device *device,
                             struct ftj_config *config);
bool ftj_tune_extend_combine_overlapped(const struct ftj_problem *problem,
                                        const struct ftj_device *device, struct ftj_config *config);
void ftj_write_extend_combine(struct ftj_text *text, const struct ftj_problem *problem,
                              const struct ftj_config *config, const struct ftj_device *device);

bool ftj_tune_merge(const struct ftj_problem *problem, const struct ftj_device *device,
                    struct ftj_config *config);
void ftj_write_merge(struct ftj_text *text, const struct ftj_problem *problem,
                     const struct ftj_config *config, const struct ftj_device *device);

bool ftj_tune_generic(const struct ftj_problem *problem, const struct ftj_device *device,
                      struct ftj_config *config);
void ftj_write_generic(struct ftj_text *text, const struct ftj_problem *problem,
                       const struct ftj_config *config, const struct ftj_device *device);

#endif
