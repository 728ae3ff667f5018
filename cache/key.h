/* SPDX-License-Identifier: MIT */
/* The name of a compiled kernel: a hash of everything that went into it. */
#ifndef FTJ_CACHE_KEY_H
#define FTJ_CACHE_KEY_H

#include "base/bytes.h"

#define FTJ_KEY_SCHEMA 2

/* Everything that decides the machine code, and nothing else. Borrowed for the call. */
struct ftj_key_input {
    const char *template_id; /* "attn_decode", for people */
    const char *source;      /* the final source: no include is left to be resolved elsewhere */
    size_t source_bytes;
    const char *templates;      /* digest of the embedded templates the source includes */
    const char *const *options; /* as passed to the compiler, in order; no paths */
    size_t num_options;
    const char *target;   /* "sm_90a" */
    const char *output;   /* "cubin", "ptx", "so" */
    const char *compiler; /* version and build id; "" when there is none */
};

/* The compiler is the manifest's last field. What stands before it is the stem: the same wherever
 * the kernel is wanted, whatever compiler is installed there, or none. */
struct ftj_key {
    char hex[33];              /* XXH3-128 of the stem */
    char compiler_hex[17];     /* XXH3-64 of the compiler */
    char target[16];           /* the cache's first folder */
    struct ftj_bytes manifest; /* owned; compared byte for byte on a hit */
    size_t stem_bytes;
};

FTJ_NODISCARD ftj_status ftj_key_init(struct ftj_key *key, const struct ftj_key_input *input);
void ftj_key_finish(struct ftj_key *key);

#endif
