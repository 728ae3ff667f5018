/* SPDX-License-Identifier: MIT */
/* What is looked into after the writable root and never written to: bundles and shared roots. */
#ifndef FTJ_CACHE_TIER_H
#define FTJ_CACHE_TIER_H

#include "cache/bundle.h"
#include "cache/cache_dir.h"

/* One of the two is there. */
struct ftj_tier {
    struct ftj_bundle *bundle; /* owned */
    struct ftj_cache_dir dir;
};

/* A zeroed one is empty. */
struct ftj_tiers {
    struct ftj_tier *items; /* owned */
    size_t count;
};

/* Open what `path` names: folders and bundles, separated by colons, in the order they are asked.
 * One that cannot be used is said, as a warning that names `origin`, and passed over. */
FTJ_NODISCARD ftj_status ftj_tiers_init(struct ftj_tiers *tiers, const char *path,
                                        const char *origin, const struct ftj_owners *owners,
                                        const struct ftj_pins *pins, const struct ftj_log *log);
void ftj_tiers_finish(struct ftj_tiers *tiers);

/* FTJ_E_NOT_FOUND: it has none; FTJ_E_DAMAGED: none that can serve, which has been said;
 * FTJ_E_NO_MEMORY. Any thread. */
FTJ_NODISCARD ftj_status ftj_tier_get(const struct ftj_tier *tier, const struct ftj_key *key,
                                      enum ftj_match match, const struct ftj_log *log,
                                      struct ftj_entry *entry);

#endif
