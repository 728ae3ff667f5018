/* SPDX-License-Identifier: MIT */
/* Entries as files in a folder that is open: their names, reading them, publishing them. */
#ifndef FTJ_CACHE_ENTRY_FILE_H
#define FTJ_CACHE_ENTRY_FILE_H

#include "cache/cache_dir.h"
#include "cache/entry.h"

/* Where a key's entry is, below a root. */
struct ftj_place {
    char folder[32]; /* "v1/sm_90a/ab" */
    char name[64];   /* "<30 hex>-<16 hex>.ftk": stem, compiler */
};
#define FTJ_PLACE_STEM_SIZE 31 /* characters of the name that are the same for every compiler */

struct ftj_place ftj_place_of(const struct ftj_key *key);

/* Read what has the name. `seen` is what was there, for ftj_entry_file_remove(); `fault` ends the
 * sentence "cache entry PATH ...". FTJ_E_NOT_FOUND: nothing, or a stale handle; FTJ_E_DAMAGED: it
 * cannot be an entry, or not one to be trusted. */
FTJ_NODISCARD ftj_status ftj_entry_file_read(const struct ftj_owners *owners, int folder,
                                             const char *name, struct stat *seen,
                                             struct ftj_bytes *file, struct ftj_reason *fault);
/* Somebody used it: its time of change moves on, at most hourly, if that is possible. */
void ftj_entry_file_touch(int folder, const char *name, const struct stat *seen);

/* Remove it, unless it is no longer what was seen. True: it is gone, or somebody's new one. */
bool ftj_entry_file_remove(int folder, const char *name, const struct stat *seen);

/* Make a file below `dir` appear whole, or not at all. FTJ_E_IO: `reason` says why, and no
 * temporary is left. */
FTJ_NODISCARD ftj_status ftj_publish(const struct ftj_cache_dir *dir, const char *folder,
                                     const char *name, const struct ftj_bytes *file,
                                     struct ftj_reason *reason);
/* The same in an open folder: the temporary lies in `tmp`, on the same file system. */
FTJ_NODISCARD ftj_status ftj_publish_at(int tmp, int folder, const char *name,
                                        const struct ftj_bytes *file, struct ftj_reason *reason);

/* The parts of a temporary's name, for whoever sweeps them. False: it is none of ours. */
bool ftj_temporary_parse(const char *name, char host[34], long *pid);

/* This machine, as such a name has it. */
void ftj_temporary_host(char host[34]);

#endif
