/* SPDX-License-Identifier: MIT */
#include "cache/tier.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache/finder.h"

static void tier_finish(struct ftj_tier *tier)
{
    ftj_bundle_close(tier->bundle);
    ftj_cache_dir_finish(&tier->dir);
    *tier = (struct ftj_tier){0};
}

void ftj_tiers_finish(struct ftj_tiers *tiers)
{
    for (size_t i = 0; i < tiers->count; i++)
        tier_finish(&tiers->items[i]);
    free(tiers->items);
    *tiers = (struct ftj_tiers){0};
}

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static ftj_status open_folder(struct ftj_tier *tier, const char *path, const char *origin,
                              const struct ftj_owners *owners, struct ftj_reason *reason)
{
    ftj_status status = ftj_cache_dir_init_at(&tier->dir, path, origin, reason);
    if (status)
        return status;
    tier->dir.owners = *owners;
    int fd = -1;
    struct ftj_reason why;
    status = ftj_cache_dir_open(&tier->dir, "", false, &fd, &why);
    if (status)
        snprintf(reason->text, sizeof(reason->text), "cannot be used: %.400s", why.text);
    else
        close(fd);
    return status;
}

static ftj_status open_tier(struct ftj_tier *tier, const char *path, const char *origin,
                            const struct ftj_owners *owners, const struct ftj_pins *pins,
                            const struct ftj_log *log)
{
    struct ftj_reason reason = {"cannot be used"};
    const ftj_status status = is_folder(path)
                                  ? open_folder(tier, path, origin, owners, &reason)
                                  : ftj_bundle_open(path, owners, pins, &tier->bundle, &reason);
    if (status && status != FTJ_E_NO_MEMORY)
        ftj_say(log, FTJ_LOG_WARNING, "%s (in %s) %s; it is passed over", path, origin,
                reason.text);
    return status;
}

ftj_status ftj_tiers_init(struct ftj_tiers *tiers, const char *path, const char *origin,
                          const struct ftj_owners *owners, const struct ftj_pins *pins,
                          const struct ftj_log *log)
{
    size_t max_tiers = 1;
    for (const char *at = path; *at; at++)
        max_tiers += *at == ':';
    struct ftj_tiers opened = {.items = calloc(max_tiers, sizeof(*opened.items))};
    char *names = strdup(path);
    ftj_status status =
        opened.items && names ? FTJ_OK : ftj_fail(log, FTJ_E_NO_MEMORY, "no memory for %s", origin);

    char *rest = NULL;
    for (char *name = status ? NULL : strtok_r(names, ":", &rest); name && !status;
         name = strtok_r(NULL, ":", &rest)) {
        struct ftj_tier *tier = &opened.items[opened.count];
        const ftj_status result = open_tier(tier, name, origin, owners, pins, log);
        if (result == FTJ_OK)
            opened.count++;
        else
            tier_finish(tier);
        if (result == FTJ_E_NO_MEMORY)
            status = result;
    }
    free(names);
    if (status)
        ftj_tiers_finish(&opened);
    else
        *tiers = opened;
    return status;
}

/* ---- looking up ---- */

struct reader {
    const struct ftj_tier *tier;
    const struct ftj_log *log;
};

/* Nothing here is ours to mend. */
static void say_fault(void *data, const struct ftj_fault *fault)
{
    const struct reader *reader = data;
    ftj_say(reader->log, FTJ_LOG_WARNING, "cache entry %s/%s/%s %s; it is passed over",
            reader->tier->dir.root, fault->place->folder, fault->name, fault->what);
}

static ftj_status get_from_folder(const struct ftj_tier *tier, const struct ftj_key *key,
                                  enum ftj_match match, const struct ftj_log *log,
                                  struct ftj_entry *entry)
{
    struct reader reader = {tier, log};
    const struct ftj_finder finder = {&tier->dir.owners, say_fault, &reader};
    const struct ftj_place place = ftj_place_of(key);
    struct ftj_reason reason;
    char name[sizeof(place.name)];
    int folder = -1;
    if (ftj_cache_dir_open(&tier->dir, place.folder, false, &folder, &reason))
        return FTJ_E_NOT_FOUND;
    const ftj_status status = ftj_finder_get(&finder, folder, &place, key, match, entry, name);
    close(folder);
    return status;
}

static ftj_status get_from_bundle(const struct ftj_bundle *bundle, const struct ftj_key *key,
                                  enum ftj_match match, const struct ftj_log *log,
                                  struct ftj_entry *entry)
{
    size_t count = 0;
    ftj_status worst = FTJ_E_NOT_FOUND;
    const size_t first = ftj_bundle_find(bundle, key, &count);
    for (size_t i = first; i < first + count; i++) {
        struct ftj_bundle_record record;
        struct ftj_bytes file = {0};
        ftj_bundle_get_record(bundle, i, &record);
        if (match == FTJ_MATCH_WHOLE && strcmp(record.compiler_hex, key->compiler_hex) != 0)
            continue;
        ftj_status status = ftj_bundle_read(bundle, i, &file);
        if (!status)
            status = ftj_entry_decode(key, match, file.data, file.size, entry);
        ftj_bytes_finish(&file);
        if (status == FTJ_OK || status == FTJ_E_NO_MEMORY)
            return status;
        ftj_say(log, FTJ_LOG_WARNING, "entry %s of bundle %s %s; it is passed over", record.hex,
                ftj_bundle_path(bundle),
                status == FTJ_E_DAMAGED ? "fails its checks" : "holds another kernel");
        worst = FTJ_E_DAMAGED;
    }
    return worst;
}

ftj_status ftj_tier_get(const struct ftj_tier *tier, const struct ftj_key *key,
                        enum ftj_match match, const struct ftj_log *log, struct ftj_entry *entry)
{
    return tier->bundle ? get_from_bundle(tier->bundle, key, match, log, entry)
                        : get_from_folder(tier, key, match, log, entry);
}
