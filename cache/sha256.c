/* SPDX-License-Identifier: MIT */
#include "cache/sha256.h"

#include <string.h>

enum { BLOCK_BYTES = 64, NUM_ROUNDS = 64 };

/* FIPS 180-4, 4.2.2: the first 32 bits of the fractions of the cube roots of the first 64 primes.
 */
static const uint32_t round_constants[NUM_ROUNDS] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

/* 5.3.3: the same of the square roots of the first eight. */
static const uint32_t initial_state[8] = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};

static uint32_t rotate_right(uint32_t value, int bits)
{
    return value >> bits | value << (32 - bits);
}

/* 6.2.2, step 1: the message schedule. */
static void expand(const uint8_t *block, uint32_t words[NUM_ROUNDS])
{
    for (int i = 0; i < 16; i++)
        words[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
                   (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < NUM_ROUNDS; i++) {
        const uint32_t a = words[i - 15];
        const uint32_t b = words[i - 2];
        const uint32_t sigma0 = rotate_right(a, 7) ^ rotate_right(a, 18) ^ a >> 3;
        const uint32_t sigma1 = rotate_right(b, 17) ^ rotate_right(b, 19) ^ b >> 10;
        words[i] = words[i - 16] + sigma0 + words[i - 7] + sigma1;
    }
}

/* One round: what the standard calls d and h is changed, and the names move on by one. */
static inline void round_of(const uint32_t a, const uint32_t b, const uint32_t c, uint32_t *d,
                            const uint32_t e, const uint32_t f, const uint32_t g, uint32_t *h,
                            const uint32_t input)
{
    const uint32_t sum1 = rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25);
    const uint32_t choice = g ^ (e & (f ^ g));
    const uint32_t t1 = *h + sum1 + choice + input;
    const uint32_t sum0 = rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22);
    const uint32_t majority = (a & b) | (c & (a | b));
    *d += t1;
    *h = t1 + sum0 + majority;
}

/* Steps 2 to 4, eight rounds at a time, after which every name is back where it was. */
static void compress(uint32_t state[8], const uint8_t *block)
{
    uint32_t w[NUM_ROUNDS];
    expand(block, w);
    for (int i = 0; i < NUM_ROUNDS; i++)
        w[i] += round_constants[i];
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int i = 0; i < NUM_ROUNDS; i += 8) {
        round_of(a, b, c, &d, e, f, g, &h, w[i]);
        round_of(h, a, b, &c, d, e, f, &g, w[i + 1]);
        round_of(g, h, a, &b, c, d, e, &f, w[i + 2]);
        round_of(f, g, h, &a, b, c, d, &e, w[i + 3]);
        round_of(e, f, g, &h, a, b, c, &d, w[i + 4]);
        round_of(d, e, f, &g, h, a, b, &c, w[i + 5]);
        round_of(c, d, e, &f, g, h, a, &b, w[i + 6]);
        round_of(b, c, d, &e, f, g, h, &a, w[i + 7]);
    }
    const uint32_t sums[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; i++)
        state[i] += sums[i];
}

void ftj_sha256_init(struct ftj_sha256 *hash)
{
    memset(hash, 0, sizeof(*hash));
    memcpy(hash->state, initial_state, sizeof(initial_state));
}

void ftj_sha256_update(struct ftj_sha256 *hash, const void *data, size_t size)
{
    const uint8_t *at = data;
    size_t used = (size_t)(hash->total_bytes % BLOCK_BYTES);
    hash->total_bytes += size;
    if (used > 0) {
        const size_t room = BLOCK_BYTES - used;
        const size_t part = size < room ? size : room;
        if (part > 0)
            memcpy(hash->block + used, at, part);
        at += part;
        size -= part;
        used += part;
        if (used < BLOCK_BYTES)
            return;
        compress(hash->state, hash->block);
    }
    for (; size >= BLOCK_BYTES; at += BLOCK_BYTES, size -= BLOCK_BYTES)
        compress(hash->state, at);
    if (size > 0)
        memcpy(hash->block, at, size);
}

void ftj_sha256_final(struct ftj_sha256 *hash, uint8_t digest[FTJ_SHA256_BYTES])
{
    const uint64_t bits = 8 * hash->total_bytes;
    const size_t used = (size_t)(hash->total_bytes % BLOCK_BYTES);
    const size_t zeros = (used < 56 ? 56 : 120) - used - 1;
    uint8_t padding[1 + 63 + 8] = {0x80};
    for (int i = 0; i < 8; i++)
        padding[1 + zeros + (size_t)i] = (uint8_t)(bits >> (56 - 8 * i));
    ftj_sha256_update(hash, padding, 1 + zeros + 8);
    for (int i = 0; i < FTJ_SHA256_BYTES; i++)
        digest[i] = (uint8_t)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
}

void ftj_sha256(const void *data, size_t size, uint8_t digest[FTJ_SHA256_BYTES])
{
    struct ftj_sha256 hash;
    ftj_sha256_init(&hash);
    ftj_sha256_update(&hash, data, size);
    ftj_sha256_final(&hash, digest);
}

void ftj_sha256_text(const uint8_t digest[FTJ_SHA256_BYTES], char hex[65])
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < FTJ_SHA256_BYTES; i++) {
        hex[2 * i] = digits[digest[i] >> 4];
        hex[2 * i + 1] = digits[digest[i] & 15];
    }
    hex[64] = '\0';
}
