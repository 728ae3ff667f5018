/* SPDX-License-Identifier: MIT */
#include "tests/check/check_random.h"

#include <math.h>
#include <string.h>

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

/*
 * Logarithm and sine by series, within 2e-15 of the exact values: libm's took half of the harness's
 * time. Straight lines, so that a loop over them is done in vectors.
 */

/* Of a normal x = m * 2^e > 0 with m from sqrt(1/2) to sqrt(2): log m = 2 artanh((m-1) / (m+1)). */
static inline double series_log(double x)
{
    const double log_two = 0.69314718055994530942;
    const uint64_t half = UINT64_C(0x3fe0000000000000), sqrt_half = UINT64_C(0x3fe6a09e667f3bcd);
    uint64_t bits;
    double m, e;
    memcpy(&bits, &x, sizeof(bits));
    const uint64_t of_m = (bits & UINT64_C(0x000fffffffffffff)) | half;
    const uint64_t is_low = (of_m - sqrt_half) >> 63; /* m below sqrt(1/2): twice that, then */
    const uint64_t doubled = of_m + (is_low << 52);
    const uint64_t of_e = ((bits >> 52) - is_low) | UINT64_C(0x4330000000000000); /* 2^52 + it */
    memcpy(&m, &doubled, sizeof(m));
    memcpy(&e, &of_e, sizeof(e));
    e -= 0x1p52 + 1022;

    const double s = (m - 1) / (m + 1);
    const double s2 = s * s;
    double sum = 1.0 / 17;
    sum = sum * s2 + 1.0 / 15;
    sum = sum * s2 + 1.0 / 13;
    sum = sum * s2 + 1.0 / 11;
    sum = sum * s2 + 1.0 / 9;
    sum = sum * s2 + 1.0 / 7;
    sum = sum * s2 + 1.0 / 5;
    sum = sum * s2 + 1.0 / 3;
    return e * log_two + (2 * s + 2 * s * (s2 * sum));
}

/* Of -pi/2 <= x <= pi/2. */
static inline double series_sin(double x)
{
    const double x2 = x * x;
    double sum = -1 / 121645100408832000.0; /* 1 / 19! */
    sum = sum * x2 + 1 / 355687428096000.0;
    sum = sum * x2 - 1 / 1307674368000.0;
    sum = sum * x2 + 1 / 6227020800.0;
    sum = sum * x2 - 1 / 39916800.0;
    sum = sum * x2 + 1 / 362880.0;
    sum = sum * x2 - 1 / 5040.0;
    sum = sum * x2 + 1 / 120.0;
    sum = sum * x2 - 1 / 6.0;
    return x + x * (x2 * sum);
}

/* By Box and Muller, from u in (0, 1) and v in [0, 1): cos(2 pi v) is the sine of the same angle
 * counted from a quarter turn, where it is an odd function. */
static inline float gaussian_of(double u, double v)
{
    const double two_pi = 6.28318530717958647693;
    return (float)(sqrt(-2.0 * series_log(u)) * series_sin(two_pi * (fabs(v - 0.5) - 0.25)));
}

void check_random_gaussians(struct check_random *random, uint32_t count, float *values)
{
    double u[16], v[16];
    for (uint32_t first = 0; first < count; first += 16) {
        const uint32_t some = count - first < 16 ? count - first : 16;
        for (uint32_t i = 0; i < some; i++) {
            u[i] = ((double)(check_random_bits(random) >> 11) + 0.5) * 0x1p-53;
            v[i] = (double)(check_random_bits(random) >> 11) * 0x1p-53;
        }
        for (uint32_t i = 0; i < some; i++)
            values[first + i] = gaussian_of(u[i], v[i]);
    }
}

float check_random_gaussian(struct check_random *random)
{
    float value;
    check_random_gaussians(random, 1, &value);
    return value;
}

void check_random_permutation(struct check_random *random, uint32_t *order, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t j = check_random_below(random, i + 1);
        order[i] = order[j];
        order[j] = i;
    }
}
