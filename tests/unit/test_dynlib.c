/* SPDX-License-Identifier: MIT */
#include <criterion/criterion.h>
#include <string.h>

#include "base/dynlib.h"

Test(dynlib, opens_the_first_that_loads_and_says_where_it_is)
{
    const char *const names[] = {"libftjit_is_not_there.so", "libm.so.6", "libc.so.6", NULL};
    struct ftj_text tried = {0};
    char path[256] = "";
    void *library = ftj_dynlib_open(names, &tried, path, sizeof(path));
    cr_assert_not_null(library);
    cr_expect_str_eq(tried.data, "libftjit_is_not_there.so, libm.so.6");
    cr_expect_eq(path[0], '/', "%s", path);
    cr_expect_neq(strstr(path, "libm.so.6"), NULL, "%s", path);
    cr_expect_not_null(ftj_dynlib_symbol(library, "cos"));
    cr_expect_null(ftj_dynlib_symbol(library, "ftj_no_such_symbol"));
    ftj_dynlib_close(library);
    ftj_text_finish(&tried);
}

Test(dynlib, lists_all_that_was_tried_when_nothing_loads)
{
    const char *const names[] = {"libftjit_one.so", "/nowhere/libftjit_two.so", NULL};
    const char *const none[] = {NULL};
    struct ftj_text tried = {0};
    cr_expect_null(ftj_dynlib_open(names, &tried, NULL, 0));
    cr_expect_str_eq(tried.data, "libftjit_one.so, /nowhere/libftjit_two.so");
    ftj_text_finish(&tried);
    cr_expect_null(ftj_dynlib_open(none, &tried, NULL, 0));
    cr_expect_str_eq(tried.data, "");
    ftj_text_finish(&tried);
    ftj_dynlib_close(NULL);
}
