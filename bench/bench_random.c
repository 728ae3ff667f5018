/* SPDX-License-Identifier: MIT */
/* SplitMix64, and what the benches draw from it. */
#include "bench/bench_random.h"

#include <stdlib.h>

#include "tests/ref/ref_codec.h"

/* Values after which rows repeat: a prime, so that no row of any width is like another. Drawing
 * hundreds of millions would take longer than all the timing. */
#define PERIOD 4194301

uint64_t bench_random_bits(struct bench_random *random)
{
    random->state += 0x9e3779b97f4a7c15u;
    uint64_t bits = random->state;
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111ebu;
    return bits ^ bits >> 31;
}

float bench_random_normal(struct bench_random *random)
{
    const uint64_t bits = bench_random_bits(random);
    const int32_t sum = (int32_t)(bits & 0xffff) + (int32_t)(bits >> 16 & 0xffff) +
                        (int32_t)(bits >> 32 & 0xffff) + (int32_t)(bits >> 48);
    /* Four uniform numbers of 65536 values: mean 2 * 65535, standard deviation 65536 / sqrt(3). */
    return (float)(sum - 2 * 65535) * (1.7320508f / 65536.0f);
}

uint16_t *bench_random_rows(struct bench_random *random, ftj_dtype dtype, size_t count)
{
    uint16_t *rows = malloc(count * sizeof(*rows));
    const size_t drawn = count < PERIOD ? count : PERIOD;
    for (size_t i = 0; rows && i < drawn; i++)
        rows[i] = ref_16bit_narrow(dtype, bench_random_normal(random));
    for (size_t i = drawn; rows && i < count; i++)
        rows[i] = rows[i - drawn];
    return rows;
}

int32_t *bench_random_permutation(struct bench_random *random, size_t count)
{
    int32_t *order = malloc(count * sizeof(*order));
    if (!order)
        return NULL;
    for (size_t i = 0; i < count; i++)
        order[i] = (int32_t)i;
    for (size_t i = count; i > 1; i--) {
        const size_t other = bench_random_bits(random) % i;
        const int32_t swapped = order[i - 1];
        order[i - 1] = order[other];
        order[other] = swapped;
    }
    return order;
}

int32_t *bench_random_slots(struct bench_random *random, size_t count, uint32_t run_length)
{
    int32_t *slots = malloc(count * sizeof(*slots));
    int32_t *runs = bench_random_permutation(random, (count + run_length - 1) / run_length);
    if (!slots || !runs) {
        free(slots);
        free(runs);
        return NULL;
    }
    for (size_t i = 0; i < count; i++)
        slots[i] = (int32_t)((uint32_t)runs[i / run_length] * run_length + i % run_length);
    free(runs);
    return slots;
}
