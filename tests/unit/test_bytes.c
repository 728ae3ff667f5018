/* SPDX-License-Identifier: MIT */
#include <criterion/criterion.h>
#include <string.h>

#include "base/bytes.h"

Test(bytes, copy_owns_what_it_holds)
{
    struct ftj_bytes bytes = {0};
    char source[] = {'a', '\0', 'b'};
    cr_assert_eq(ftj_bytes_copy(&bytes, source, sizeof(source)), FTJ_OK);
    source[0] = 'x';
    cr_expect_eq(bytes.size, 3);
    cr_expect_arr_eq(bytes.data, "a\0b", 3);
    ftj_bytes_finish(&bytes);
    cr_expect_null(bytes.data);
    cr_expect_eq(bytes.size, 0);
}

Test(bytes, copy_replaces_and_may_copy_a_part_of_itself)
{
    struct ftj_bytes bytes = {0};
    cr_assert_eq(ftj_bytes_copy(&bytes, "abcdef", 6), FTJ_OK);
    cr_assert_eq(ftj_bytes_copy(&bytes, bytes.data + 2, 3), FTJ_OK);
    cr_expect_eq(bytes.size, 3);
    cr_expect_arr_eq(bytes.data, "cde", 3);
    ftj_bytes_finish(&bytes);
}

Test(bytes, nothing_can_be_copied_and_finished)
{
    struct ftj_bytes bytes = {0};
    ftj_bytes_finish(&bytes);
    cr_expect_eq(ftj_bytes_copy(&bytes, NULL, 0), FTJ_OK);
    cr_expect_eq(bytes.size, 0);
    ftj_bytes_finish(&bytes);
}

/* Sanitizers' malloc aborts on a size like this unless told otherwise: tests/unit/meson.build does.
 */
Test(bytes, copy_without_memory_leaves_the_old_bytes)
{
    struct ftj_bytes bytes = {0};
    cr_assert_eq(ftj_bytes_copy(&bytes, "abc", 3), FTJ_OK);
    cr_expect_eq(ftj_bytes_copy(&bytes, "abc", PTRDIFF_MAX / 2), FTJ_E_NO_MEMORY);
    cr_expect_eq(bytes.size, 3);
    cr_expect_arr_eq(bytes.data, "abc", 3);
    cr_expect_neq(strstr(ftj_last_error(), "memory"), NULL);
    ftj_bytes_finish(&bytes);
}

Test(text, is_terminated_from_the_first_append_on)
{
    struct ftj_text text = {0};
    ftj_text_append(&text, "", 0);
    cr_assert_not_null(text.data);
    cr_expect_str_eq(text.data, "");
    ftj_text_append(&text, "ab", 2);
    ftj_text_printf(&text, "%d-%s", 12, "c");
    cr_expect_str_eq(text.data, "ab12-c");
    cr_expect_eq(text.size, 6);
    cr_expect_eq(text.failed, 0);
    ftj_text_finish(&text);
    cr_expect_null(text.data);
}

Test(text, grows_byte_by_byte_and_at_once)
{
    struct ftj_text text = {0};
    for (int i = 0; i < 1000; i++)
        ftj_text_printf(&text, "%c", 'a' + i % 26);
    char filler[5001];
    memset(filler, 'z', 5000);
    filler[5000] = '\0';
    ftj_text_printf(&text, "%s", filler);
    ftj_text_append(&text, filler, 5000);
    cr_assert_eq(text.failed, 0);
    cr_expect_eq(text.size, 11000);
    cr_expect_eq(strlen(text.data), 11000);
    for (int i = 0; i < 1000; i++)
        cr_expect_eq(text.data[i], 'a' + i % 26, "at %d", i);
    ftj_text_finish(&text);
}

Test(text, fails_once_and_then_stays_as_it_was)
{
    struct ftj_text text = {0};
    ftj_text_append(&text, "kept", 4);
    ftj_text_append(&text, "x", SIZE_MAX - 2);
    cr_expect_eq(text.failed, 1);
    ftj_text_append(&text, "more", 4);
    ftj_text_printf(&text, "more");
    cr_expect_str_eq(text.data, "kept");
    cr_expect_eq(text.size, 4);
    ftj_text_finish(&text);
    cr_expect_eq(text.failed, 0);
}
