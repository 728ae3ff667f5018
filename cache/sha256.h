/* SPDX-License-Identifier: MIT */
/* SHA-256 (FIPS 180-4). */
#ifndef FTJ_CACHE_SHA256_H
#define FTJ_CACHE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define FTJ_SHA256_BYTES 32

struct ftj_sha256 {
    uint32_t state[8];
    uint64_t total_bytes;
    uint8_t block[64];
};

void ftj_sha256_init(struct ftj_sha256 *hash);
void ftj_sha256_update(struct ftj_sha256 *hash, const void *data, size_t size);
void ftj_sha256_final(struct ftj_sha256 *hash, uint8_t digest[FTJ_SHA256_BYTES]);

/* All of it at once. */
void ftj_sha256(const void *data, size_t size, uint8_t digest[FTJ_SHA256_BYTES]);

/* 64 hex digits and a terminator. */
void ftj_sha256_text(const uint8_t digest[FTJ_SHA256_BYTES], char hex[65]);

#endif
