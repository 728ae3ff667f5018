/* SPDX-License-Identifier: MIT */
/* Looking for a key's entry in one open folder of a root. */
#ifndef FTJ_CACHE_FINDER_H
#define FTJ_CACHE_FINDER_H

#include "cache/entry_file.h"

/* What to do with a file that has the name of an entry and cannot serve. */
struct ftj_fault {
    int folder;
    const struct ftj_place *place;
    const char *name; /* in the folder */
    const struct stat *seen;
    const char *what; /* ends "cache entry PATH ..." */
};

struct ftj_finder {
    const struct ftj_owners *owners;
    void (*on_fault)(void *data, const struct ftj_fault *fault);
    void *data;
};

/* The entry of a key, or with FTJ_MATCH_STEM that of any compiler: the first sound one in order of
 * name. `name` gets which. FTJ_E_NOT_FOUND: none; FTJ_E_DAMAGED: none that can serve, and
 * on_fault() was told; FTJ_E_NO_MEMORY. */
FTJ_NODISCARD ftj_status ftj_finder_get(const struct ftj_finder *finder, int folder,
                                        const struct ftj_place *place, const struct ftj_key *key,
                                        enum ftj_match match, struct ftj_entry *entry,
                                        char name[sizeof(((struct ftj_place *)0)->name)]);

#endif
