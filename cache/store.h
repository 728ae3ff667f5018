/* SPDX-License-Identifier: MIT */
/*
 * The cache on disk: a writable root, <root>/v1/<target>/<2 hex>/<30 hex>-<16 hex>.ftk, with tmp/
 * beside the targets; and, asked after it, bundles and roots that are only read.
 *
 * No failure here is ever fatal: an unusable directory means memory only, with one sentence that
 * says which setting, which path and why. Any thread.
 */
#ifndef FTJ_CACHE_STORE_H
#define FTJ_CACHE_STORE_H

#include "cache/entry.h"
#include "ftjit/kernel_event.h"

struct ftj_store; /* opaque: an open directory, or none */

/* Always makes a store (except FTJ_E_NO_MEMORY). `dir` NULL: FTJIT_CACHE_DIR, XDG_CACHE_HOME/ftjit,
 * HOME/.cache/ftjit. `disabled` true: no directory, and no sentence. The directory is looked at, so
 * that an unusable one is said now, and made by the first put. `log` is copied. */
FTJ_NODISCARD ftj_status ftj_store_create(const char *dir, bool disabled, const struct ftj_log *log,
                                          struct ftj_store **out);
void ftj_store_destroy(struct ftj_store *store); /* NULL is fine */

/* What a store is beyond its root. Borrowed for the call; a zeroed one takes everything from the
 * environment, and defaults from there. */
struct ftj_store_options {
    const char *path;          /* NULL: FTJIT_CACHE_PATH */
    const char *bundle_digest; /* NULL: FTJIT_BUNDLE_SHA256 */
    const char *owners;        /* NULL: FTJIT_CACHE_OWNERS */
    const char *match;         /* "exact", "any"; NULL: FTJIT_COMPILER_MATCH */
    bool has_compiler;         /* without one, "any" is the default */
    uint64_t max_bytes;        /* 0: FTJIT_CACHE_MAX_BYTES */
};

/* Once, before the first get. FTJ_E_INVALID: an option or a variable cannot be; FTJ_E_NO_MEMORY.
 * What `path` names and cannot be used is said, and no failure. A disabled store stays so. */
FTJ_NODISCARD ftj_status ftj_store_configure(struct ftj_store *store,
                                             const struct ftj_store_options *options);

/* Root in use, "" when there is none. Borrowed. */
const char *ftj_store_dir(const struct ftj_store *store);

/* FTJ_OK; FTJ_E_NOT_FOUND: a miss; FTJ_E_DAMAGED: something was there and failed its checks, and
 * nothing else could serve: it has been said (one sentence naming the path) and is removed if that
 * is possible. FTJ_E_NO_MEMORY. */
FTJ_NODISCARD ftj_status ftj_store_get(struct ftj_store *store, const struct ftj_key *key,
                                       struct ftj_entry *entry);

/* The same, and which tier served. */
FTJ_NODISCARD ftj_status ftj_store_get_from(struct ftj_store *store, const struct ftj_key *key,
                                            struct ftj_entry *entry, ftj_kernel_tier *tier);

/* Publish by rename. FTJ_OK also when the store is disabled: there was nothing to lose. FTJ_E_IO:
 * not saved; it leaves no temporary behind and has been said once per store. */
FTJ_NODISCARD ftj_status ftj_store_put(struct ftj_store *store, const struct ftj_key *key,
                                       const struct ftj_entry *entry);

/* Remove an entry the driver refused: the one that a get would find. */
void ftj_store_drop(struct ftj_store *store, const struct ftj_key *key);

/* What has happened so far. */
struct ftj_store_counts {
    uint64_t root_hits;
    uint64_t shared_hits; /* from roots of FTJIT_CACHE_PATH */
    uint64_t bundle_hits;
    uint64_t passed_over; /* damaged entries that another tier made up for */
    uint64_t evictions;
};
void ftj_store_count(const struct ftj_store *store, struct ftj_store_counts *counts);

#endif
