/* SPDX-License-Identifier: MIT */
/* The harness's gaussians, whose logarithm and sine are its own. */
#include <criterion/criterion.h>
#include <math.h>

#include "tests/check/check_random.h"

/* Of the same two draws, by libm. */
static double expected(struct check_random *random)
{
    const double pi = 3.14159265358979323846;
    const double u = ((double)(check_random_bits(random) >> 11) + 0.5) * 0x1p-53;
    const double v = (double)(check_random_bits(random) >> 11) * 0x1p-53;
    return sqrt(-2 * log(u)) * cos(2 * pi * v);
}

Test(check_random, gaussians_are_those_of_box_and_muller)
{
    struct check_random random = check_random_of(1, "gaussians", 0);
    struct check_random again = random;
    for (int i = 0; i < 100000; i++) {
        const double wanted = expected(&again);
        const double got = (double)check_random_gaussian(&random);
        cr_assert(fabs(got - wanted) <= 0x1p-24 * fabs(wanted) + 1e-14, "%d: got %.17g, not %.17g",
                  i, got, wanted);
    }
}

Test(check_random, a_row_of_gaussians_is_as_many_calls)
{
    static const uint32_t counts[] = {0, 1, 15, 16, 17, 80};
    struct check_random random = check_random_of(1, "rows", 0);
    struct check_random again = random;
    float row[80];
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
        check_random_gaussians(&random, counts[i], row);
        for (uint32_t d = 0; d < counts[i]; d++)
            cr_assert_eq(row[d], check_random_gaussian(&again));
        cr_assert_eq(random.state, again.state);
    }
}
