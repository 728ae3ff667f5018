/* SPDX-License-Identifier: MIT */
/* The fields of a manifest, read back: for people, and for compiling an entry again. */
#ifndef FTJ_CACHE_MANIFEST_H
#define FTJ_CACHE_MANIFEST_H

#include "cache/key.h"

#define FTJ_MANIFEST_MAX_OPTIONS 32

/* A piece of the manifest; not terminated, may hold any byte. */
struct ftj_slice {
    const char *data;
    size_t size;
};

struct ftj_manifest {
    uint32_t schema;
    struct ftj_slice template_id;
    struct ftj_slice templates;
    struct ftj_slice target;
    struct ftj_slice output;
    struct ftj_slice options[FTJ_MANIFEST_MAX_OPTIONS];
    size_t num_options;
    struct ftj_slice source;
    struct ftj_slice compiler;
};

/* Slices point into `data`. FTJ_E_DAMAGED: no manifest of this schema; trusts nothing. */
FTJ_NODISCARD ftj_status ftj_manifest_parse(struct ftj_manifest *manifest, const void *data,
                                            size_t size);

/* The key whose manifest this is. The caller finishes it. FTJ_E_DAMAGED as above. */
FTJ_NODISCARD ftj_status ftj_manifest_key(const void *data, size_t size, struct ftj_key *key);

bool ftj_slice_is(const struct ftj_slice *slice, const char *text);

#endif
