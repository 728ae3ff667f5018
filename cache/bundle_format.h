/* SPDX-License-Identifier: MIT */
/* The bytes of a bundle, for its reader and its writer. docs/cache.md draws them. */
#ifndef FTJ_CACHE_BUNDLE_FORMAT_H
#define FTJ_CACHE_BUNDLE_FORMAT_H

#include <stdint.h>

#define FTJ_BUNDLE_MAGIC                                                                           \
    "\x89"                                                                                         \
    "FTB\r\n\x1a\n"
#define FTJ_BUNDLE_VERSION 1

enum ftj_bundle_header {
    FTJ_BUNDLE_AT_VERSION = 8,
    FTJ_BUNDLE_AT_COUNT = 12,
    FTJ_BUNDLE_AT_FILE_BYTES = 16,
    FTJ_BUNDLE_AT_RESERVED = 24, /* 8 zeros */
    FTJ_BUNDLE_AT_DIGEST = 32,   /* of the 32 bytes before it, and of the index */
    FTJ_BUNDLE_HEADER_BYTES = 64,
};

/* A record; the first three fields are what the index is sorted by. */
enum ftj_bundle_record_offset {
    FTJ_RECORD_AT_TARGET = 0,
    FTJ_RECORD_AT_STEM = 16,
    FTJ_RECORD_AT_COMPILER = 32,
    FTJ_RECORD_KEY_BYTES = 40,
    FTJ_RECORD_AT_OFFSET = 40,
    FTJ_RECORD_AT_SIZE = 48,
    FTJ_RECORD_AT_SHA256 = 56,
    FTJ_RECORD_BYTES = 88,
};
#define FTJ_RECORD_STEM_BYTES 32 /* target and stem */

/* The first FTJ_RECORD_KEY_BYTES of a record. The hexes are well formed. */
void ftj_bundle_put_key(uint8_t *at, const char target[16], const char *hex,
                        const char *compiler_hex);

#endif
