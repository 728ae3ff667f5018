/* SPDX-License-Identifier: MIT */
/* The tiers of a device, and one context for each way its features are narrowed. */
#ifndef FTJ_TESTS_CHECK_TIERS_H
#define FTJ_TESTS_CHECK_TIERS_H

#include "tests/check/check_row.h"

#define CHECK_MAX_TIERS 24

struct check_contexts {
    struct {
        char narrow[96];
        ftj_context *ctx; /* owned */
    } open[CHECK_MAX_TIERS];
    size_t num_open;
};

/* Features as the probe found them. */
uint32_t check_features_parse(const char *names);

/* Tiers of an operation on a device that was probed with `probed`, of which the user's environment
 * left `features`; returns how many. */
size_t check_tiers_list(enum ftj_kernel_op op, uint32_t probed, uint32_t features,
                        struct check_tier tiers[CHECK_MAX_TIERS]);

/* The context for a narrowing, opened on first use. */
FTJ_NODISCARD ftj_status check_contexts_get(struct check_contexts *contexts,
                                            const struct check_options *options, const char *narrow,
                                            ftj_context **out);
void check_contexts_finish(struct check_contexts *contexts); /* a zeroed one is fine */

#endif
