/* SPDX-License-Identifier: MIT */
/*
 * One file of the cache: header, manifest, machine code, facts, compile log, checksum.
 *
 * Little-endian throughout; docs/cache.md has the layout. view() and decode() trust nothing: every
 * length is checked against the file's size and the XXH3-128 over all of it before a byte is handed
 * on.
 */
#ifndef FTJ_CACHE_ENTRY_H
#define FTJ_CACHE_ENTRY_H

#include "cache/key.h"

/* Facts of a compile that a user may want to see later; 0 when unknown. */
struct ftj_facts {
    uint32_t registers;
    uint32_t smem_bytes; /* static */
    uint32_t spill_bytes;
    uint32_t compile_us;
};

struct ftj_entry {
    struct ftj_bytes code; /* machine code; owned */
    struct ftj_bytes log;  /* compile log, may be empty; owned */
    struct ftj_facts facts;
};

/* How much of the manifest an entry must have in common with the key. */
enum ftj_match {
    FTJ_MATCH_WHOLE, /* all of it */
    FTJ_MATCH_STEM,  /* all but the compiler */
};

/* A sound entry's parts, inside the file's bytes. */
struct ftj_entry_view {
    char target[16];
    const uint8_t *manifest;
    size_t manifest_bytes;
    const uint8_t *code;
    size_t code_bytes;
    const uint8_t *log;
    size_t log_bytes;
    struct ftj_facts facts;
};

/* The file's bytes. */
FTJ_NODISCARD ftj_status ftj_entry_encode(const struct ftj_key *key, const struct ftj_entry *entry,
                                          struct ftj_bytes *file);

/* FTJ_E_DAMAGED: not an entry, or its checksum or lengths are wrong. Whose it is, is not asked. */
FTJ_NODISCARD ftj_status ftj_entry_view(const void *file, size_t size, struct ftj_entry_view *view);

/* FTJ_E_DAMAGED as above. FTJ_E_NOT_FOUND: a sound entry of another manifest (a collision, or a
 * foreign file). `entry` is untouched on failure. */
FTJ_NODISCARD ftj_status ftj_entry_decode(const struct ftj_key *key, enum ftj_match match,
                                          const void *file, size_t size, struct ftj_entry *entry);
void ftj_entry_finish(struct ftj_entry *entry);

#endif
