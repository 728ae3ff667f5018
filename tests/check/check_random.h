/* SPDX-License-Identifier: MIT */
/* Repeatable random numbers for the inputs of rows. */
#ifndef FTJ_TESTS_CHECK_RANDOM_H
#define FTJ_TESTS_CHECK_RANDOM_H

#include <stdint.h>

struct check_random {
    uint64_t state;
};

/* A stream of its own for each (seed, name, index). */
struct check_random check_random_of(uint64_t seed, const char *name, uint64_t index);

uint64_t check_random_bits(struct check_random *random);
uint32_t check_random_below(struct check_random *random, uint32_t bound); /* bound >= 1 */
float check_random_uniform(struct check_random *random, float low, float high);
float check_random_gaussian(struct check_random *random);

/* Fill order[0 .. count) with a permutation of 0 .. count - 1. */
void check_random_permutation(struct check_random *random, uint32_t *order, uint32_t count);

#endif
