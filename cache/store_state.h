/* SPDX-License-Identifier: MIT */
/* What a store holds, for the two files it is made of. */
#ifndef FTJ_CACHE_STORE_STATE_H
#define FTJ_CACHE_STORE_STATE_H

#include <stdatomic.h>

#include "cache/store.h"
#include "cache/tier.h"

struct ftj_store {
    struct ftj_cache_dir dir; /* no root: nowhere to put anything */
    struct ftj_tiers tiers;   /* asked after it */
    struct ftj_log log;
    bool any_compiler; /* an entry of another compiler will do */
    uint64_t max_bytes;
    bool is_disabled;                    /* by the caller: a dropped write is no failure */
    atomic_bool has_given_up;            /* the root is no use */
    atomic_bool has_warned;              /* that entries are not saved: once is enough */
    atomic_uint_least64_t pending_bytes; /* published, and not counted on disk yet */
    struct {
        atomic_uint_least64_t root_hits;
        atomic_uint_least64_t shared_hits;
        atomic_uint_least64_t bundle_hits;
        atomic_uint_least64_t passed_over;
        atomic_uint_least64_t evictions;
    } counts;
};

#endif
