/* SPDX-License-Identifier: MIT */
#include <criterion/criterion.h>

#include "ftjit/ftjit.h"

Test(status, values_are_pinned)
{
    /* Stored and compared across versions: only ever append. */
    cr_expect_eq(FTJ_OK, 0);
    cr_expect_eq(FTJ_E_INVALID, 1);
    cr_expect_eq(FTJ_E_UNSUPPORTED, 2);
    cr_expect_eq(FTJ_E_NO_MEMORY, 3);
    cr_expect_eq(FTJ_E_NOT_FOUND, 4);
    cr_expect_eq(FTJ_E_IO, 5);
    cr_expect_eq(FTJ_E_DAMAGED, 6);
    cr_expect_eq(FTJ_E_DRIVER, 7);
    cr_expect_eq(FTJ_E_COMPILER, 8);
    cr_expect_eq(FTJ_E_COMPILE, 9);
    cr_expect_eq(FTJ_E_LAUNCH, 10);
    cr_expect_eq(FTJ_E_CAPTURE, 11);
    cr_expect_eq(FTJ_E_SEALED, 12);
}

Test(status, has_a_name_and_a_text_for_every_value)
{
    cr_expect_str_eq(ftj_status_name(FTJ_OK), "FTJ_OK");
    cr_expect_str_eq(ftj_status_name(FTJ_E_CAPTURE), "FTJ_E_CAPTURE");
    cr_expect_str_eq(ftj_status_text(FTJ_OK), "success");
    cr_expect_str_eq(ftj_status_text(FTJ_E_DAMAGED), "stored data fails its checks");
}

Test(status, names_a_value_that_is_none)
{
    cr_expect_str_eq(ftj_status_name((ftj_status)13), "FTJ_E_?");
    cr_expect_str_eq(ftj_status_name((ftj_status)-1), "FTJ_E_?");
    cr_expect_str_neq(ftj_status_text((ftj_status)13), "");
}

Test(version, is_the_one_meson_read_from_the_header)
{
    cr_expect_str_eq(ftj_version(), PROJECT_VERSION);
}
