/* SPDX-License-Identifier: MIT */
#include "cache/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache/finder.h"
#include "cache/gc.h"
#include "cache/store_state.h"

static void give_up(struct ftj_store *store, const struct ftj_reason *reason)
{
    atomic_store(&store->has_given_up, true);
    if (!atomic_exchange(&store->has_warned, true))
        ftj_say(&store->log, FTJ_LOG_WARNING,
                "cache directory %s (from %s) cannot be used: %s; kernels are kept in memory only",
                store->dir.root, store->dir.origin, reason->text);
}

/* Says what is wrong with the root now rather than after the first compile. */
static ftj_status choose_root(struct ftj_store *store, const char *dir)
{
    struct ftj_reason reason;
    ftj_status status = ftj_cache_dir_init(&store->dir, dir, &reason);
    if (status == FTJ_E_NO_MEMORY)
        return status;
    if (status) {
        atomic_store(&store->has_warned, true);
        ftj_say(&store->log, FTJ_LOG_WARNING,
                "no cache directory: %s; kernels are kept in memory only",
                status == FTJ_E_IO ? reason.text
                                   : "FTJIT_CACHE_DIR, XDG_CACHE_HOME and HOME are all unset");
        return FTJ_OK;
    }
    int fd = -1;
    status = ftj_cache_dir_open(&store->dir, "", false, &fd, &reason);
    if (status == FTJ_OK)
        close(fd);
    else if (status != FTJ_E_NOT_FOUND)
        give_up(store, &reason);
    return FTJ_OK;
}

ftj_status ftj_store_create(const char *dir, bool disabled, const struct ftj_log *log,
                            struct ftj_store **out)
{
    struct ftj_store *store = calloc(1, sizeof(*store));
    if (!store)
        return ftj_fail(log, FTJ_E_NO_MEMORY, "no memory for the cache");
    if (log)
        store->log = *log;
    store->is_disabled = disabled;
    store->max_bytes = FTJ_DEFAULT_MAX_BYTES;
    if (!disabled) {
        const ftj_status status = choose_root(store, dir);
        if (status) {
            ftj_store_destroy(store);
            return status;
        }
    }
    *out = store;
    return FTJ_OK;
}

void ftj_store_destroy(struct ftj_store *store)
{
    if (!store)
        return;
    ftj_tiers_finish(&store->tiers);
    ftj_cache_dir_finish(&store->dir);
    free(store);
}

static bool is_usable(const struct ftj_store *store)
{
    return store->dir.root && !atomic_load(&store->has_given_up);
}

const char *ftj_store_dir(const struct ftj_store *store)
{
    return is_usable(store) ? store->dir.root : "";
}

void ftj_store_count(const struct ftj_store *store, struct ftj_store_counts *counts)
{
    *counts = (struct ftj_store_counts){
        .root_hits = atomic_load(&store->counts.root_hits),
        .shared_hits = atomic_load(&store->counts.shared_hits),
        .bundle_hits = atomic_load(&store->counts.bundle_hits),
        .passed_over = atomic_load(&store->counts.passed_over),
        .evictions = atomic_load(&store->counts.evictions),
    };
}

/* ---- reading ---- */

/* The root is ours to mend. */
static void replace_bad_entry(void *data, const struct ftj_fault *fault)
{
    struct ftj_store *store = data;
    const bool removed = ftj_entry_file_remove(fault->folder, fault->name, fault->seen);
    if (!removed) /* said here, so not again when the new one cannot be put */
        atomic_store(&store->has_warned, true);
    ftj_say(&store->log, FTJ_LOG_WARNING, "cache entry %s/%s/%s %s; %s", store->dir.root,
            fault->place->folder, fault->name, fault->what,
            removed ? "it is removed and built again"
                    : "it cannot be removed, so this kernel is kept in memory only");
}

/* `name` gets the file that served. */
static ftj_status get_from_root(struct ftj_store *store, const struct ftj_key *key,
                                enum ftj_match match, struct ftj_entry *entry, int *folder,
                                char *name)
{
    if (!is_usable(store))
        return FTJ_E_NOT_FOUND;
    const struct ftj_finder finder = {&store->dir.owners, replace_bad_entry, store};
    const struct ftj_place place = ftj_place_of(key);
    struct ftj_reason reason;
    /* A folder that cannot be opened is a miss: the put that follows says why. */
    if (ftj_cache_dir_open(&store->dir, place.folder, false, folder, &reason))
        return FTJ_E_NOT_FOUND;
    return ftj_finder_get(&finder, *folder, &place, key, match, entry, name);
}

/* Ask every tier in turn. A damaged entry is passed over, for the next to serve. */
static ftj_status get_matching(struct ftj_store *store, const struct ftj_key *key,
                               enum ftj_match match, struct ftj_entry *entry, ftj_kernel_tier *from)
{
    char name[sizeof(((struct ftj_place *)0)->name)];
    int folder = -1;
    ftj_status worst = get_from_root(store, key, match, entry, &folder, name);
    if (folder >= 0)
        close(folder);
    if (worst == FTJ_OK) {
        atomic_fetch_add(&store->counts.root_hits, 1);
        *from = FTJ_TIER_ROOT;
    }
    if (worst != FTJ_E_NOT_FOUND && worst != FTJ_E_DAMAGED)
        return worst;

    for (size_t i = 0; i < store->tiers.count; i++) {
        const struct ftj_tier *tier = &store->tiers.items[i];
        const ftj_status status = ftj_tier_get(tier, key, match, &store->log, entry);
        if (status == FTJ_E_DAMAGED)
            worst = status;
        if (status == FTJ_E_NOT_FOUND || status == FTJ_E_DAMAGED)
            continue;
        if (status == FTJ_OK) {
            atomic_fetch_add(tier->bundle ? &store->counts.bundle_hits : &store->counts.shared_hits,
                             1);
            *from = tier->bundle ? FTJ_TIER_BUNDLE : FTJ_TIER_SHARED;
        }
        if (status == FTJ_OK && worst == FTJ_E_DAMAGED)
            atomic_fetch_add(&store->counts.passed_over, 1);
        return status;
    }
    return worst;
}

ftj_status ftj_store_get_from(struct ftj_store *store, const struct ftj_key *key,
                              struct ftj_entry *entry, ftj_kernel_tier *tier)
{
    const ftj_status status = get_matching(store, key, FTJ_MATCH_WHOLE, entry, tier);
    if (!store->any_compiler || (status != FTJ_E_NOT_FOUND && status != FTJ_E_DAMAGED))
        return status;
    const ftj_status second = get_matching(store, key, FTJ_MATCH_STEM, entry, tier);
    if (second == FTJ_OK && status == FTJ_E_DAMAGED)
        atomic_fetch_add(&store->counts.passed_over, 1);
    return second == FTJ_E_NOT_FOUND ? status : second;
}

ftj_status ftj_store_get(struct ftj_store *store, const struct ftj_key *key,
                         struct ftj_entry *entry)
{
    ftj_kernel_tier tier;
    return ftj_store_get_from(store, key, entry, &tier);
}

/* ---- publishing ---- */

/* Count what was published; the process that fills the root also makes room in it. */
static void count_published(struct ftj_store *store, uint64_t bytes)
{
    struct ftj_gc_result result;
    uint64_t pending = atomic_exchange(&store->pending_bytes, 0) + bytes;
    if (ftj_gc_count(&store->dir, store->max_bytes, &pending, &result) && result.num_evicted > 0) {
        atomic_fetch_add(&store->counts.evictions, result.num_evicted);
        ftj_say(&store->log, FTJ_LOG_INFO,
                "cache %s held %llu bytes, more than %llu: %zu entries that were not used for "
                "longest are removed, %llu bytes are left",
                store->dir.root, (unsigned long long)result.bytes_before,
                (unsigned long long)store->max_bytes, result.num_evicted,
                (unsigned long long)result.bytes_after);
    }
    atomic_fetch_add(&store->pending_bytes, pending);
}

ftj_status ftj_store_put(struct ftj_store *store, const struct ftj_key *key,
                         const struct ftj_entry *entry)
{
    if (store->is_disabled)
        return FTJ_OK;
    if (!is_usable(store))
        return FTJ_E_IO;

    struct ftj_bytes file = {0};
    ftj_status status = ftj_entry_encode(key, entry, &file);
    if (status)
        return status;
    const struct ftj_place place = ftj_place_of(key);
    struct ftj_reason reason;
    status = ftj_publish(&store->dir, place.folder, place.name, &file, &reason);
    if (!status)
        count_published(store, file.size);
    ftj_bytes_finish(&file);
    if (status && !atomic_exchange(&store->has_warned, true))
        ftj_say(&store->log, FTJ_LOG_WARNING,
                "cannot save kernels in %s (from %s): %s; they are kept in memory only",
                store->dir.root, store->dir.origin, reason.text);
    return status;
}

void ftj_store_drop(struct ftj_store *store, const struct ftj_key *key)
{
    const enum ftj_match matches[] = {FTJ_MATCH_WHOLE, FTJ_MATCH_STEM};
    for (int i = 0; i < (store->any_compiler ? 2 : 1); i++) {
        struct ftj_entry entry = {0};
        char name[sizeof(((struct ftj_place *)0)->name)];
        int folder = -1;
        const ftj_status status = get_from_root(store, key, matches[i], &entry, &folder, name);
        if (status == FTJ_OK)
            unlinkat(folder, name, 0);
        if (folder >= 0)
            close(folder);
        ftj_entry_finish(&entry);
        if (status == FTJ_OK)
            return;
    }
}
