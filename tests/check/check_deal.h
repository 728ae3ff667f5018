/* SPDX-License-Identifier: MIT */
/* Rows dealt out among processes: each in turn, or to whoever asks first. */
#ifndef FTJ_TESTS_CHECK_DEAL_H
#define FTJ_TESTS_CHECK_DEAL_H

#include <stdatomic.h>

#include "tests/check/check.h"

struct check_deal {
    _Atomic(uint64_t) *next; /* in a file that processes share; NULL: rows are dealt in turn */
    uint64_t num_seen;
    uint64_t mine; /* with `next`: the row that was taken */
    bool has_mine;
    uint32_t shard_index;
    uint32_t shard_count;
};

/* By options.deal, else by the shard; a list has all rows. FTJ_E_IO: the file cannot be had;
 * FTJ_E_INVALID: it is somebody's data, and stays as it is. */
FTJ_NODISCARD ftj_status check_deal_init(struct check_deal *deal,
                                         const struct check_options *options);
/* Whether the next of all rows is this process's. */
bool check_deal_next(struct check_deal *deal);
void check_deal_finish(struct check_deal *deal);

#endif
