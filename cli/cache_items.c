/* SPDX-License-Identifier: MIT */
#include "cli/cache_items.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache/bundle.h"
#include "cache/entry_file.h"
#include "cache/scan.h"
#include "cli/cli.h"

struct visitor {
    ftj_status (*visit)(void *data, const struct cache_item *item);
    void *data;
};

/* Whether the bytes are what their name says, and if so whose. */
static const char *examine(const struct ftj_bytes *file, const char *target, const char *name,
                           struct cache_item *item)
{
    if (ftj_entry_view(file->data, file->size, &item->view))
        return "fails its checks";
    if (ftj_manifest_parse(&item->manifest, item->view.manifest, item->view.manifest_bytes) ||
        ftj_manifest_key(item->view.manifest, item->view.manifest_bytes, &item->key))
        return "is of another version";
    const struct ftj_place place = ftj_place_of(&item->key);
    if (strcmp(item->key.target, item->view.target) != 0 || strcmp(item->key.target, target) != 0 ||
        strcmp(place.name, name) != 0) {
        ftj_key_finish(&item->key);
        return "lies under the name of another kernel";
    }
    return NULL;
}

static ftj_status show(const struct visitor *visitor, struct cache_item *item,
                       const struct ftj_bytes *file, const char *target, const char *name)
{
    if (!item->fault)
        item->fault = examine(file, target, name, item);
    const ftj_status status = visitor->visit(visitor->data, item);
    ftj_key_finish(&item->key);
    return status;
}

/* ---- a root ---- */

struct root_item {
    char target[16];
    char shard[3];
    char name[64];
};

struct root_list {
    struct root_item *items; /* owned */
    size_t count;
    size_t capacity;
};

static ftj_status add_found(void *data, const struct ftj_found *found)
{
    struct root_list *list = data;
    if (list->count == list->capacity) {
        const size_t capacity = list->capacity ? 2 * list->capacity : 256;
        struct root_item *grown = realloc(list->items, capacity * sizeof(*grown));
        if (!grown)
            return ftj_fail(NULL, FTJ_E_NO_MEMORY, "no memory for a list of %zu entries", capacity);
        list->items = grown;
        list->capacity = capacity;
    }
    struct root_item *item = &list->items[list->count++];
    snprintf(item->target, sizeof(item->target), "%s", found->target);
    snprintf(item->shard, sizeof(item->shard), "%s", found->shard);
    snprintf(item->name, sizeof(item->name), "%s", found->name);
    return FTJ_OK;
}

static int compare_root_items(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct root_item));
}

static ftj_status show_found(const struct ftj_cache_dir *dir, const struct root_item *found,
                             const struct visitor *visitor)
{
    char path[32];
    int folder = -1;
    struct stat seen = {0};
    struct ftj_bytes file = {0};
    struct ftj_reason reason;
    struct cache_item item = {0};
    snprintf(path, sizeof(path), "v1/%s/%s", found->target, found->shard);
    snprintf(item.path, sizeof(item.path), "%.4000s/%s/%s", dir->root, path, found->name);
    if (ftj_cache_dir_open(dir, path, false, &folder, &reason))
        return FTJ_OK; /* gone meanwhile, or not to be trusted */
    ftj_status status =
        ftj_entry_file_read(&dir->owners, folder, found->name, &seen, &file, &reason);
    close(folder);
    item.used = seen.st_mtime;
    item.bytes = (uint64_t)seen.st_size;
    item.fault = status == FTJ_E_DAMAGED ? reason.text : NULL;
    if (!status || status == FTJ_E_DAMAGED)
        status = show(visitor, &item, &file, found->target, found->name);
    ftj_bytes_finish(&file);
    return status == FTJ_E_NOT_FOUND ? FTJ_OK : status;
}

static bool each_in_root(const struct ftj_cache_dir *dir, const struct visitor *visitor)
{
    struct root_list list = {0};
    struct ftj_reason reason = {"no memory"};
    ftj_status status = ftj_scan(dir, false, add_found, &list, &reason);
    if (status == FTJ_E_NOT_FOUND)
        return true;
    if (status)
        fprintf(stderr, "ftjit cache: %s (from %s): %s\n", dir->root, dir->origin, reason.text);
    if (!status && list.count > 0)
        qsort(list.items, list.count, sizeof(*list.items), compare_root_items);
    for (size_t i = 0; i < list.count && !status; i++) {
        status = show_found(dir, &list.items[i], visitor);
        if (status)
            cli_failure("cache", status);
    }
    free(list.items);
    return !status;
}

/* ---- a bundle ---- */

static ftj_status show_record(const struct ftj_bundle *bundle, size_t index,
                              const struct visitor *visitor)
{
    struct cache_item item = {0};
    struct ftj_bundle_record record;
    struct ftj_bytes file = {0};
    char name[64];
    ftj_bundle_get_record(bundle, index, &record);
    item.bytes = record.size;
    snprintf(item.path, sizeof(item.path), "%.4000s: %s %s", ftj_bundle_path(bundle), record.target,
             record.hex);
    snprintf(name, sizeof(name), "%.30s-%.16s.ftk", record.hex + 2, record.compiler_hex);
    ftj_status status = ftj_bundle_read(bundle, index, &file);
    if (status == FTJ_E_DAMAGED) {
        item.fault = "fails its checks";
        status = FTJ_OK;
    }
    if (!status)
        status = show(visitor, &item, &file, record.target, name);
    ftj_bytes_finish(&file);
    return status;
}

static bool each_in_bundle(const char *path, const struct visitor *visitor)
{
    const struct ftj_owners owners = {.ids = {0}, .count = 1}; /* root's too */
    const struct ftj_pins pins = {.count = 0};
    struct ftj_reason reason = {"cannot be opened"};
    struct ftj_bundle *bundle = NULL;
    ftj_status status = ftj_bundle_open(path, &owners, &pins, &bundle, &reason);
    if (status) {
        fprintf(stderr, "ftjit cache: bundle %s %s\n", path, reason.text);
        return false;
    }
    for (size_t i = 0; i < ftj_bundle_count(bundle) && !status; i++) {
        status = show_record(bundle, i, visitor);
        if (status)
            cli_failure("cache", status);
    }
    ftj_bundle_close(bundle);
    return !status;
}

bool cache_each_item(const struct cache_request *request, const char *bundle,
                     ftj_status (*visit)(void *data, const struct cache_item *item), void *data)
{
    const struct visitor visitor = {visit, data};
    return bundle ? each_in_bundle(bundle, &visitor) : each_in_root(&request->dir, &visitor);
}
