/* SPDX-License-Identifier: MIT */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

#include "tests/unit/log_catcher.h"

Test(log, last_error_is_empty_before_the_first_failure)
{
    cr_expect_str_eq(ftj_last_error(), "");
}

Test(log, a_failure_is_logged_kept_and_returned)
{
    struct log_catcher catcher = {0};
    const struct ftj_log log = {.write = catch_sentence, .data = &catcher};
    cr_expect_eq(ftj_fail(&log, FTJ_E_IO, "file %d", 7), FTJ_E_IO);
    cr_expect_str_eq(catcher.last, "file 7");
    cr_expect_eq(catcher.level, FTJ_LOG_ERROR);
    cr_expect_eq(catcher.num_sentences, 1);
    cr_expect_str_eq(ftj_last_error(), "file 7");
}

Test(log, nobody_needs_to_listen)
{
    const struct ftj_log deaf = {0};
    cr_expect_eq(ftj_fail(NULL, FTJ_E_INVALID, "one"), FTJ_E_INVALID);
    cr_expect_eq(ftj_fail(&deaf, FTJ_E_INVALID, "two"), FTJ_E_INVALID);
    cr_expect_str_eq(ftj_last_error(), "two");
    ftj_say(NULL, FTJ_LOG_ERROR, "three");
    ftj_say(&deaf, FTJ_LOG_ERROR, "four");
    cr_expect_str_eq(ftj_last_error(), "two", "saying is not failing");
}

Test(log, levels_above_the_chosen_one_are_dropped)
{
    struct log_catcher catcher = {0};
    const struct ftj_log log = {catch_sentence, &catcher, FTJ_LOG_WARNING};
    ftj_say(&log, FTJ_LOG_INFO, "dropped");
    ftj_say(&log, FTJ_LOG_DEBUG, "dropped");
    cr_expect_eq(catcher.num_sentences, 0);
    ftj_say(&log, FTJ_LOG_WARNING, "kept %s", "one");
    cr_expect_eq(catcher.num_sentences, 1);
    cr_expect_eq(catcher.level, FTJ_LOG_WARNING);
    cr_expect_str_eq(catcher.last, "kept one");
}

Test(log, last_error_may_be_an_argument_of_the_next)
{
    cr_expect_eq(ftj_fail(NULL, FTJ_E_IO, "inner"), FTJ_E_IO);
    cr_expect_eq(ftj_fail(NULL, FTJ_E_IO, "outer: %s", ftj_last_error()), FTJ_E_IO);
    cr_expect_str_eq(ftj_last_error(), "outer: inner");
}

static void fail_within(void *data, ftj_log_level level, const char *sentence)
{
    struct log_catcher *catcher = data;
    cr_expect_eq(ftj_fail(NULL, FTJ_E_IO, "within"), FTJ_E_IO);
    catch_sentence(catcher, level, sentence);
}

Test(log, a_callback_that_fails_itself_changes_nothing)
{
    struct log_catcher catcher = {0};
    const struct ftj_log log = {fail_within, &catcher, FTJ_LOG_ERROR};
    cr_expect_eq(ftj_fail(&log, FTJ_E_INVALID, "the reason"), FTJ_E_INVALID);
    cr_expect_str_eq(catcher.last, "the reason");
    cr_expect_str_eq(ftj_last_error(), "the reason");
}

Test(log, a_sentence_too_long_shows_that_it_was_cut)
{
    char text[4000];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    cr_expect_eq(ftj_fail(NULL, FTJ_E_IO, "%s", text), FTJ_E_IO);
    const size_t size = strlen(ftj_last_error());
    cr_expect_eq(size, 2047);
    cr_expect_str_eq(ftj_last_error() + size - 4, "x...");
}

static void *fail_elsewhere(void *first_error)
{
    snprintf(first_error, 16, "%s", ftj_last_error());
    cr_expect_eq(ftj_fail(NULL, FTJ_E_IO, "theirs"), FTJ_E_IO);
    return NULL;
}

Test(log, every_thread_has_its_own_last_error)
{
    char seen[16] = "not run";
    pthread_t thread;
    cr_expect_eq(ftj_fail(NULL, FTJ_E_IO, "ours"), FTJ_E_IO);
    cr_assert_eq(pthread_create(&thread, NULL, fail_elsewhere, seen), 0);
    pthread_join(thread, NULL);
    cr_expect_str_eq(seen, "");
    cr_expect_str_eq(ftj_last_error(), "ours");
}
