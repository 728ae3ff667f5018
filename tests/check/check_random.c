/* SPDX-License-Identifier: MIT */
#include "tests/check/check_random.h"

#include <math.h>

uint64_t check_random_bits(struct check_random *random)
{
    /* A Weyl sequence through a mixer: any state is a good one. */
    random->state += 0x9e3779b97f4a7c15u;
    uint64_t x = random->state;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

struct check_random check_random_of(uint64_t seed, const char *name, uint64_t index)
{
    struct check_random random = {.state = seed};
    for (const char *c = name; *c; c++)
        random.state = check_random_bits(&random) ^ (uint8_t)*c;
    random.state = check_random_bits(&random) ^ index;
    check_random_bits(&random);
    return random;
}

uint32_t check_random_below(struct check_random *random, uint32_t bound)
{
    return (uint32_t)(((check_random_bits(random) >> 32) * bound) >> 32);
}

float check_random_uniform(struct check_random *random, float low, float high)
{
    const float unit = (float)(check_random_bits(random) >> 40) * 0x1p-24f;
    return low + (high - low) * unit;
}

float check_random_gaussian(struct check_random *random)
{
    const double pi = 3.14159265358979323846;
    const double u = ((double)(check_random_bits(random) >> 11) + 0.5) * 0x1p-53;
    const double v = (double)(check_random_bits(random) >> 11) * 0x1p-53;
    return (float)(sqrt(-2.0 * log(u)) * cos(2.0 * pi * v));
}

void check_random_permutation(struct check_random *random, uint32_t *order, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t j = check_random_below(random, i + 1);
        order[i] = order[j];
        order[j] = i;
    }
}
