/* SPDX-License-Identifier: MIT */
/* The harness's buffers: what is written outside of one fails its row, whatever its size. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/check/check_buffer.h"

static const size_t sizes[] = {0, 1, 20, CHECK_GUARD_BYTES, CHECK_GUARD_BYTES + 1, 300000};
static const size_t num_sizes = sizeof(sizes) / sizeof(*sizes);
static uint8_t values[300000];
static ftj_context *ctx;

static void set_up(void)
{
    cr_assert_eq(ftj_context_create(&(ftj_settings){.kind = FTJ_DEVICE_CPU}, &ctx), FTJ_OK);
    for (size_t i = 0; i < sizeof(values); i++)
        values[i] = (uint8_t)(i % 251);
}

static void tear_down(void)
{
    ftj_context_destroy(ctx);
}

TestSuite(check_buffer, .init = set_up, .fini = tear_down);

static struct check_row new_row(void)
{
    return (struct check_row){.ctx = ctx, .outcome = CHECK_PASSED};
}

/* Memory of the CPU device is the host's. */
Test(check_buffer, holds_what_it_was_given_between_poison)
{
    for (size_t i = 0; i < num_sizes; i++) {
        struct check_row row = new_row();
        struct check_buffer buffer, empty;
        cr_assert(check_buffer_init_with(&buffer, &row, "values", values, sizes[i]));
        cr_assert(check_buffer_init(&empty, &row, "empty", sizes[i]));
        const uint8_t *device = buffer.device;
        cr_expect_eq(memcmp(device, values, sizes[i]), 0);
        for (size_t at = 0; at < CHECK_GUARD_BYTES; at++)
            cr_assert(device[-1 - (ptrdiff_t)at] == CHECK_POISON_BYTE &&
                      device[sizes[i] + at] == CHECK_POISON_BYTE);
        for (size_t at = 0; at < sizes[i]; at++)
            cr_assert_eq(((const uint8_t *)empty.device)[at], CHECK_POISON_BYTE);
        check_buffer_finish(&buffer, &row);
        check_buffer_finish(&empty, &row);
        cr_expect_eq(row.outcome, CHECK_PASSED, "%s", row.message);
        cr_expect_null(buffer.device);
    }
}

Test(check_buffer, fails_its_row_when_a_band_was_written)
{
    static const struct {
        const char *side;
        size_t at; /* in the band */
    } rows[] = {{"before", 0},
                {"before", CHECK_GUARD_BYTES - 1},
                {"after", 0},
                {"after", CHECK_GUARD_BYTES - 1}};
    for (size_t i = 0; i < num_sizes; i++) {
        for (size_t j = 0; j < sizeof(rows) / sizeof(*rows); j++) {
            struct check_row row = new_row();
            struct check_buffer buffer;
            char expected[100];
            cr_assert(check_buffer_init_with(&buffer, &row, "values", values, sizes[i]));
            uint8_t *band = (uint8_t *)buffer.device +
                            (j < 2 ? -(ptrdiff_t)CHECK_GUARD_BYTES : (ptrdiff_t)sizes[i]);
            band[rows[j].at] = 0x12;
            check_buffer_finish(&buffer, &row);
            snprintf(expected, sizeof(expected),
                     "guard band %s values: byte %zu was written (0x12)", rows[j].side, rows[j].at);
            cr_expect_eq(row.outcome, CHECK_FAILED, "%zu bytes, %s", sizes[i], expected);
            cr_expect_str_eq(row.message, expected);
        }
    }
}
