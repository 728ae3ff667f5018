/* SPDX-License-Identifier: MIT */
/* Repeatable random inputs. Never zeros: a card given zeros draws less power and clocks higher. */
#ifndef FTJ_BENCH_RANDOM_H
#define FTJ_BENCH_RANDOM_H

#include <stddef.h>
#include <stdint.h>

#include "ftjit/attention.h"

struct bench_random {
    uint64_t state;
};

uint64_t bench_random_bits(struct bench_random *random);

/* Near enough a standard normal number: the sum of four uniform ones, scaled. */
float bench_random_normal(struct bench_random *random);

/* [count] 16-bit values of `dtype` (BF16 or FP16), normal; many of them repeat themselves. The
 * caller frees it; NULL: no memory. */
uint16_t *bench_random_rows(struct bench_random *random, ftj_dtype dtype, size_t count);

/* A permutation of 0 .. count - 1. The caller frees it; NULL: no memory. */
int32_t *bench_random_permutation(struct bench_random *random, size_t count);

/* [count] slots, none twice: runs of run_length in a row, each on a multiple of it, in random
 * order. They are below count, rounded up to whole runs. The caller frees them; NULL: no memory. */
int32_t *bench_random_slots(struct bench_random *random, size_t count, uint32_t run_length);

#endif
