/* SPDX-License-Identifier: MIT */
/* Entries as `ftjit cache` sees them, whether they lie in a root or in a bundle. */
#ifndef FTJ_CLI_CACHE_ITEMS_H
#define FTJ_CLI_CACHE_ITEMS_H

#include <time.h>

#include "cache/cache_dir.h"
#include "cache/entry.h"
#include "cache/manifest.h"

/* What was asked of `ftjit cache`. */
struct cache_request {
    struct ftj_cache_dir dir;
    const char *cache_dir;
    const char *bundle;
    const char *max_bytes;
    const char *code_path;
    bool show_source;
    bool show_log;
    bool recompiles;
    bool is_json;
    char **arguments;
    int num_arguments;
};

/* One entry, for the call. */
struct cache_item {
    char path[4200]; /* of its file; in a bundle that of the bundle and its key */
    time_t used;     /* 0 in a bundle */
    uint64_t bytes;
    const char *fault; /* NULL, or what is wrong; then nothing below is there */
    struct ftj_key key;
    struct ftj_entry_view view;
    struct ftj_manifest manifest;
};

/* Visit every entry of the root, or of a bundle, in order of target and key. False: it cannot be
 * read at all, which has been said. A status other than FTJ_OK from `visit` ends it and is said. */
bool cache_each_item(const struct cache_request *request, const char *bundle,
                     ftj_status (*visit)(void *data, const struct cache_item *item), void *data);

int cache_run_ls(struct cache_request *request);
int cache_run_show(struct cache_request *request);
int cache_run_verify(struct cache_request *request);

#endif
