/* SPDX-License-Identifier: MIT */
/* Which directory the store uses, and which it refuses (O24). */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/store.h"
#include "tests/unit/log_catcher.h"
#include "tests/unit/temp_dir.h"

static struct ftj_key any_key(void)
{
    const struct ftj_key_input input = {
        .template_id = "t",
        .source = "s",
        .source_bytes = 1,
        .templates = "00",
        .target = "cpu",
        .output = "so",
        .compiler = "c",
    };
    struct ftj_key key = {0};
    cr_assert_eq(ftj_key_init(&key, &input), FTJ_OK);
    return key;
}

static const struct ftj_entry sample = {.code = {(uint8_t *)"code", 4}};

static struct ftj_store *store_on(const char *dir, struct log_catcher *catcher)
{
    const struct ftj_log log = {catch_sentence, catcher, FTJ_LOG_DEBUG};
    struct ftj_store *store = NULL;
    cr_assert_eq(ftj_store_create(dir, false, &log, &store), FTJ_OK);
    return store;
}

static ftj_status put_and_get(struct ftj_store *store)
{
    struct ftj_key key = any_key();
    struct ftj_entry entry = {0};
    cr_expect_eq(ftj_store_get(store, &key, &entry), FTJ_E_NOT_FOUND);
    ftj_status status = ftj_store_put(store, &key, &sample);
    if (!status)
        status = ftj_store_get(store, &key, &entry);
    else
        cr_expect_eq(ftj_store_get(store, &key, &entry), FTJ_E_NOT_FOUND);
    ftj_entry_finish(&entry);
    ftj_key_finish(&key);
    return status;
}

/* Memory only: one warning, with all of what it must name. */
static void expect_refused(const char *dir, const char *origin, const char *path,
                           const char *reason)
{
    struct log_catcher catcher = {0};
    struct ftj_store *store = store_on(dir, &catcher);
    cr_expect_eq(put_and_get(store), FTJ_E_IO, "%s", path);
    cr_expect_eq(put_and_get(store), FTJ_E_IO, "%s", path);
    cr_expect_eq(catcher.num_sentences, 1, "%s: %s", path, catcher.last);
    cr_expect_eq(catcher.level, FTJ_LOG_WARNING);
    cr_expect_not_null(strstr(catcher.last, origin), "%s", catcher.last);
    cr_expect_not_null(strstr(catcher.last, path), "%s", catcher.last);
    cr_expect_not_null(strstr(catcher.last, reason), "%s", catcher.last);
    ftj_store_destroy(store);
}

static void expect_used(const char *dir, const char *root)
{
    struct log_catcher catcher = {0};
    struct ftj_store *store = store_on(dir, &catcher);
    cr_expect_str_eq(ftj_store_dir(store), root);
    cr_expect_eq(put_and_get(store), FTJ_OK, "%s", catcher.last);
    cr_expect_eq(catcher.num_sentences, 0, "%s", catcher.last);
    cr_expect_eq(temp_dir_count(root, ".ftk", NULL), 1, "%s", root);
    ftj_store_destroy(store);
}

Test(cache_dir, the_setting_then_three_variables_name_it)
{
    char dir[256], setting[300], ours[300], xdg[300], home[300];
    temp_dir_init(dir);
    snprintf(setting, sizeof(setting), "%s/setting", dir);
    snprintf(ours, sizeof(ours), "%s/ours", dir);
    snprintf(xdg, sizeof(xdg), "%s/xdg", dir);
    snprintf(home, sizeof(home), "%s/home", dir);
    setenv("FTJIT_CACHE_DIR", ours, 1);
    setenv("XDG_CACHE_HOME", xdg, 1);
    setenv("HOME", home, 1);
    expect_used(setting, setting);
    expect_used(NULL, ours);
    temp_dir_finish(ours);
    expect_used("", ours);
    setenv("FTJIT_CACHE_DIR", "", 1);
    expect_used(NULL, strcat(xdg, "/ftjit"));
    setenv("XDG_CACHE_HOME", "relative/is/ignored", 1);
    expect_used(NULL, strcat(home, "/.cache/ftjit"));
    temp_dir_finish(dir);
}

Test(cache_dir, O24a_nothing_names_one)
{
    unsetenv("FTJIT_CACHE_DIR");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    expect_refused(NULL, "FTJIT_CACHE_DIR, XDG_CACHE_HOME and HOME", "no cache directory",
                   "all unset");
}

Test(cache_dir, O24b_below_a_device)
{
    setenv("FTJIT_CACHE_DIR", "/dev/null/x", 1);
    expect_refused(NULL, "FTJIT_CACHE_DIR", "/dev/null/x", "Not a directory");
    expect_refused("/dev/null/y", "the setting cache_dir", "/dev/null/y", "Not a directory");
}

Test(cache_dir, O24c_a_regular_file)
{
    char dir[256], path[300];
    temp_dir_init(dir);
    snprintf(path, sizeof(path), "%s/file", dir);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fclose(file);
    setenv("FTJIT_CACHE_DIR", path, 1);
    expect_refused(NULL, "FTJIT_CACHE_DIR", path, "Not a directory");
    temp_dir_finish(dir);
}

/* Modes do not stop root; /proc does: nobody makes a folder there. */
Test(cache_dir, O24d_where_nothing_can_be_made)
{
    setenv("FTJIT_CACHE_DIR", "/proc/ftjit", 1);
    expect_refused(NULL, "FTJIT_CACHE_DIR", "/proc/ftjit", "mkdir");
}

Test(cache_dir, O24d_a_folder_without_write_permission)
{
    char dir[256], path[300];
    if (geteuid() == 0)
        cr_skip_test("root may write everywhere; the test of /proc stands in");
    temp_dir_init(dir);
    snprintf(path, sizeof(path), "%s/cache", dir);
    cr_assert_eq(mkdir(path, 0500), 0);
    setenv("FTJIT_CACHE_DIR", path, 1);
    expect_refused(NULL, "FTJIT_CACHE_DIR", path, "Permission denied");
    temp_dir_finish(dir);
}

Test(cache_dir, O24e_spaces_and_letters_of_any_alphabet)
{
    char dir[256], path[300];
    temp_dir_init(dir);
    snprintf(path, sizeof(path), "%s/a b  c/\xc3\xa9t\xc3\xa9/\xe7\xbc\x93\xe5\xad\x98", dir);
    setenv("FTJIT_CACHE_DIR", path, 1);
    expect_used(NULL, path);

    struct log_catcher catcher = {0};
    struct ftj_store *store = store_on(NULL, &catcher);
    struct ftj_key key = any_key();
    struct ftj_entry entry = {0};
    cr_expect_eq(ftj_store_get(store, &key, &entry), FTJ_OK, "the next process finds it");
    ftj_entry_finish(&entry);
    ftj_key_finish(&key);
    ftj_store_destroy(store);
    temp_dir_finish(dir);
}

Test(cache_dir, a_relative_one_stays_where_it_was_named)
{
    char dir[256], real[4096], path[4200];
    temp_dir_init(dir);
    cr_assert_eq(chdir(dir), 0);
    cr_assert_not_null(getcwd(real, sizeof(real)));
    snprintf(path, sizeof(path), "%s/here/cache", real);
    struct log_catcher catcher = {0};
    struct ftj_store *store = store_on("here/cache", &catcher);
    cr_assert_eq(chdir("/"), 0);
    cr_expect_eq(put_and_get(store), FTJ_OK);
    cr_expect_str_eq(ftj_store_dir(store), path);
    cr_expect_eq(temp_dir_count(path, ".ftk", NULL), 1);
    ftj_store_destroy(store);
    temp_dir_finish(dir);
}

Test(cache_dir, one_that_others_may_write_to_is_refused)
{
    char dir[256], path[300];
    temp_dir_init(dir);
    snprintf(path, sizeof(path), "%s/shared", dir);
    cr_assert_eq(mkdir(path, 0700), 0);
    static const mode_t modes[] = {0770, 0720, 0702, 0777};
    for (size_t i = 0; i < 4; i++) {
        cr_assert_eq(chmod(path, modes[i]), 0);
        expect_refused(path, "the setting cache_dir", path, "others may write to it");
    }
    cr_assert_eq(chmod(path, 0755), 0);
    expect_used(path, path);
    temp_dir_finish(dir);
}

Test(cache_dir, one_of_another_user_is_refused)
{
    char dir[256], path[300];
    if (geteuid() != 0)
        cr_skip_test("only root can give a folder away");
    temp_dir_init(dir);
    snprintf(path, sizeof(path), "%s/theirs", dir);
    cr_assert_eq(mkdir(path, 0700), 0);
    if (chown(path, 12345, (gid_t)-1) != 0)
        cr_skip_test("this root may not give a folder away");
    expect_refused(path, "the setting cache_dir", path, "belongs to user 12345");
    temp_dir_finish(dir);
}

Test(cache_dir, a_file_where_a_folder_of_ours_belongs_is_said_once)
{
    char dir[256], path[300];
    struct log_catcher catcher = {0};
    temp_dir_init(dir);
    snprintf(path, sizeof(path), "%s/v1", dir);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fclose(file);
    struct ftj_store *store = store_on(dir, &catcher);
    cr_expect_eq(put_and_get(store), FTJ_E_IO);
    cr_expect_eq(put_and_get(store), FTJ_E_IO);
    cr_expect_eq(catcher.num_sentences, 1);
    cr_expect_not_null(strstr(catcher.last, "v1: Not a directory"), "%s", catcher.last);
    ftj_store_destroy(store);
    temp_dir_finish(dir);
}
