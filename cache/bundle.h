/* SPDX-License-Identifier: MIT */
/*
 * A bundle: many entries in one file that is never written to again (.ftb).
 *
 * Relocatable, for any number of targets, and the same bytes whenever it is made from the same
 * entries. The digest is over the index, and the index holds the SHA-256 of every entry, so that
 * one digest vouches for all of it. Nothing is mapped: a file that is cut short while it is in use
 * costs misses, not the process. docs/cache.md has the layout.
 */
#ifndef FTJ_CACHE_BUNDLE_H
#define FTJ_CACHE_BUNDLE_H

#include "cache/entry.h"
#include "cache/sha256.h"
#include "cache/trust.h"

#define FTJ_BUNDLE_MAX_PINS 16

/* Digests a bundle may have. Zeroed: any, if its owner is to be trusted. */
struct ftj_pins {
    char hex[FTJ_BUNDLE_MAX_PINS][65];
    size_t count;
};

/* The digests of `list`, separated by commas (NULL or "": none).
 * FTJ_E_INVALID: it is no such list, with a sentence that names `origin`. */
FTJ_NODISCARD ftj_status ftj_pins_init(struct ftj_pins *pins, const char *list, const char *origin,
                                       const struct ftj_log *log);

/* One line of the index. */
struct ftj_bundle_record {
    char target[16];
    char hex[33];
    char compiler_hex[17];
    uint64_t offset;
    uint64_t size;
    uint8_t sha256[FTJ_SHA256_BYTES];
};

struct ftj_bundle; /* opaque: an open file and its index, checked */

/* With pins the digest must be one of them, and the file may be anybody's; without, it must be one
 * to be trusted. FTJ_E_NOT_FOUND: there is no such file; FTJ_E_DAMAGED, FTJ_E_IO: `reason` ends
 * "bundle PATH ..."; FTJ_E_NO_MEMORY. The caller closes it. */
FTJ_NODISCARD ftj_status ftj_bundle_open(const char *path, const struct ftj_owners *owners,
                                         const struct ftj_pins *pins, struct ftj_bundle **out,
                                         struct ftj_reason *reason);
void ftj_bundle_close(struct ftj_bundle *bundle); /* NULL is fine */

const char *ftj_bundle_path(const struct ftj_bundle *bundle);   /* borrowed */
const char *ftj_bundle_digest(const struct ftj_bundle *bundle); /* hex, borrowed */
size_t ftj_bundle_count(const struct ftj_bundle *bundle);
/* `index` is below the count. */
void ftj_bundle_get_record(const struct ftj_bundle *bundle, size_t index,
                           struct ftj_bundle_record *record);

/* Where the entries of a stem begin, whatever their compiler, and how many there are. */
size_t ftj_bundle_find(const struct ftj_bundle *bundle, const struct ftj_key *key, size_t *count);

/* An entry's bytes, which have the digest that the index says. FTJ_E_DAMAGED: they have not, or
 * cannot be read. Any thread. */
FTJ_NODISCARD ftj_status ftj_bundle_read(const struct ftj_bundle *bundle, size_t index,
                                         struct ftj_bytes *file);

/* ---- making one ---- */

struct ftj_bundle_writer; /* opaque */

FTJ_NODISCARD ftj_status ftj_bundle_writer_create(struct ftj_bundle_writer **out);
void ftj_bundle_writer_destroy(struct ftj_bundle_writer *writer); /* NULL is fine */

/* Put an entry in, in any order; one that is there already is passed over. What differs from one
 * compile to the next (its log, its time) is left out. */
FTJ_NODISCARD ftj_status ftj_bundle_writer_put(struct ftj_bundle_writer *writer,
                                               const struct ftj_key *key,
                                               const struct ftj_entry *entry);

/* Write the file beside its place and rename it there. `digest` gets the bundle's. FTJ_E_IO: with a
 * sentence. */
FTJ_NODISCARD ftj_status ftj_bundle_writer_save(struct ftj_bundle_writer *writer, const char *path,
                                                char digest[65]);

#endif
