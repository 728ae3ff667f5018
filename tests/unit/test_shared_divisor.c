/* SPDX-License-Identifier: MIT */
/* The arithmetic of templates/block/shared_divisor.cuh: two instructions a quotient, and no code of
 * e2m1 or e4m3 other than IEEE division gives. EVERY 1 tries all 2^33 pairs of significands. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define EVERY            509u /* of the divisors */
#define FIRST_DIVISOR    (1u << 23)
#define LAST_DIVISOR     ((1u << 24) - 1)
#define FIRST_NUMERATOR  (1u << 10)
#define NUMERATORS_END   (1u << 11)
#define FIVE_BITS_BEYOND 0x7ffffu /* mantissa bits that a tie between two codes does not have */

static float multiply_up(float a, float b)
{
    const double product = (double)a * b; /* exact */
    const float nearest = (float)product;
    return nearest < product ? nextafterf(nearest, INFINITY) : nearest;
}

static bool may_be_tie(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof(bits));
    return (bits & FIVE_BITS_BEYOND) == 0;
}

static void try_divisor(uint32_t significand, uint32_t *differing)
{
    const float divisor = (float)significand;
    const float reciprocal = 1.0f / divisor;
    const float rest = multiply_up(fmaf(-divisor, reciprocal, 1.0f), reciprocal);
    for (uint32_t i = FIRST_NUMERATOR; i < NUMERATORS_END; i++) {
        const float x = (float)i;
        const float quotient = fmaf(x, reciprocal, x * rest);
        const float wanted = x / divisor;
        if (quotient == wanted)
            continue;
        ++*differing;
        cr_assert(!may_be_tie(quotient) && !may_be_tie(wanted), "%u / %u is %a and not %a", i,
                  significand, quotient, wanted);
    }
}

Test(shared_divisor, no_quotient_is_on_the_other_side_of_a_tie)
{
    uint32_t differing = 0;
    for (uint32_t divisor = FIRST_DIVISOR; divisor <= LAST_DIVISOR; divisor += EVERY)
        try_divisor(divisor, &differing);
    try_divisor(LAST_DIVISOR, &differing);
    cr_expect_leq(differing, 14u); /* of all pairs */
}
