/* SPDX-License-Identifier: MIT */
/* A store's tiers: the writable root, then bundles and roots that are only read; and whose entries
 * are believed. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/bundle.h"
#include "cache/store.h"
#include "tests/unit/log_catcher.h"
#include "tests/unit/temp_dir.h"

struct fixture {
    char dir[256];
    char root[300];   /* writable */
    char shared[300]; /* read only */
    char bundle[300];
    char digest[65];
    struct log_catcher catcher;
    struct ftj_log log;
    struct ftj_key key;       /* of compiler "c" */
    struct ftj_key other_key; /* the same kernel of compiler "d" */
    struct ftj_store *store;
};

static struct ftj_key key_of(const char *compiler)
{
    struct ftj_key key = {0};
    cr_assert_eq(ftj_key_init(&key,
                              &(struct ftj_key_input){
                                  .template_id = "t",
                                  .source = "kernel",
                                  .source_bytes = 6,
                                  .templates = "00",
                                  .target = "sm_90a",
                                  .output = "cubin",
                                  .compiler = compiler,
                              }),
                 FTJ_OK);
    return key;
}

static void open_store(struct fixture *f, const struct ftj_store_options *options)
{
    ftj_store_destroy(f->store);
    f->store = NULL;
    memset(&f->catcher, 0, sizeof(f->catcher));
    cr_assert_eq(ftj_store_create(f->root, false, &f->log, &f->store), FTJ_OK);
    cr_assert_eq(ftj_store_configure(f->store, options), FTJ_OK, "%s", ftj_last_error());
}

/* Code that says where it was put. */
static void put_in(const char *root, const struct ftj_key *key, const char *code)
{
    struct ftj_store *store = NULL;
    const struct ftj_entry entry = {.code = {(uint8_t *)(uintptr_t)code, strlen(code)}};
    cr_assert_eq(ftj_store_create(root, false, NULL, &store), FTJ_OK);
    cr_assert_eq(ftj_store_put(store, key, &entry), FTJ_OK);
    ftj_store_destroy(store);
}

static void put_in_bundle(struct fixture *f, const struct ftj_key *key, const char *code)
{
    struct ftj_bundle_writer *writer = NULL;
    const struct ftj_entry entry = {.code = {(uint8_t *)(uintptr_t)code, strlen(code)}};
    cr_assert_eq(ftj_bundle_writer_create(&writer), FTJ_OK);
    cr_assert_eq(ftj_bundle_writer_put(writer, key, &entry), FTJ_OK);
    cr_assert_eq(ftj_bundle_writer_save(writer, f->bundle, f->digest), FTJ_OK);
    ftj_bundle_writer_destroy(writer);
}

static void init(struct fixture *f)
{
    *f = (struct fixture){0};
    temp_dir_init(f->dir);
    snprintf(f->root, sizeof(f->root), "%s/root", f->dir);
    snprintf(f->shared, sizeof(f->shared), "%s/shared", f->dir);
    snprintf(f->bundle, sizeof(f->bundle), "%s/kernels.ftb", f->dir);
    f->log = (struct ftj_log){catch_sentence, &f->catcher, FTJ_LOG_DEBUG};
    f->key = key_of("c");
    f->other_key = key_of("d");
    unsetenv("FTJIT_CACHE_PATH");
    unsetenv("FTJIT_COMPILER_MATCH");
}

static void finish(struct fixture *f)
{
    ftj_store_destroy(f->store);
    ftj_key_finish(&f->key);
    ftj_key_finish(&f->other_key);
    temp_dir_finish(f->dir);
}

static void expect_from(struct fixture *f, const struct ftj_key *key, const char *code)
{
    struct ftj_entry entry = {0};
    const ftj_status status = ftj_store_get(f->store, key, &entry);
    cr_expect_eq(status, FTJ_OK, "%s: %s", code, f->catcher.last);
    if (!status)
        cr_expect(entry.code.size == strlen(code) && !memcmp(entry.code.data, code, strlen(code)),
                  "%s, not %.*s", code, (int)entry.code.size, (const char *)entry.code.data);
    ftj_entry_finish(&entry);
}

static void expect_status(struct fixture *f, const struct ftj_key *key, ftj_status expected)
{
    struct ftj_entry entry = {0};
    cr_expect_eq(ftj_store_get(f->store, key, &entry), expected, "%s", f->catcher.last);
    ftj_entry_finish(&entry);
}

static void entry_path(const char *root, const struct ftj_key *key, char path[512])
{
    snprintf(path, 512, "%s/v1/sm_90a/%.2s/%s-%s.ftk", root, key->hex, key->hex + 2,
             key->compiler_hex);
}

/* "SHARED:BUNDLE" or the other way round. */
static const char *both(const struct fixture *f, bool bundle_first, char text[640])
{
    snprintf(text, 640, "%s:%s", bundle_first ? f->bundle : f->shared,
             bundle_first ? f->shared : f->bundle);
    return text;
}

Test(tiers, are_asked_in_order_and_counted)
{
    struct fixture f;
    char path[640];
    struct ftj_store_counts counts;
    init(&f);
    put_in(f.shared, &f.key, "shared");
    put_in_bundle(&f, &f.key, "bundle");
    open_store(&f, &(struct ftj_store_options){.path = both(&f, true, path), .has_compiler = true});
    expect_from(&f, &f.key, "bundle");
    ftj_store_count(f.store, &counts);
    cr_expect_eq(counts.bundle_hits, 1);
    open_store(&f,
               &(struct ftj_store_options){.path = both(&f, false, path), .has_compiler = true});
    expect_from(&f, &f.key, "shared");
    put_in(f.root, &f.key, "root");
    expect_from(&f, &f.key, "root");
    ftj_store_count(f.store, &counts);
    cr_expect_eq(counts.shared_hits, 1);
    cr_expect_eq(counts.root_hits, 1);
    cr_expect_eq(f.catcher.num_sentences, 0, "%s", f.catcher.last);
    finish(&f);
}

Test(tiers, come_from_the_environment_too)
{
    struct fixture f;
    init(&f);
    put_in(f.shared, &f.key, "shared");
    setenv("FTJIT_CACHE_PATH", f.shared, 1);
    open_store(&f, &(struct ftj_store_options){.has_compiler = true});
    expect_from(&f, &f.key, "shared");
    cr_expect_eq(temp_dir_count(f.root, "", NULL), 0, "nothing is copied up");
    finish(&f);
}

Test(tiers, what_cannot_be_used_is_said_once_and_passed_over)
{
    struct fixture f;
    char path[640];
    init(&f);
    put_in_bundle(&f, &f.key, "bundle");
    snprintf(path, sizeof(path), "/nowhere/x.ftb:%s", f.bundle);
    open_store(&f, &(struct ftj_store_options){.path = path, .has_compiler = true});
    cr_expect_eq(f.catcher.num_sentences, 1);
    cr_expect_eq(f.catcher.level, FTJ_LOG_WARNING);
    cr_expect_not_null(strstr(f.catcher.last, "/nowhere/x.ftb"), "%s", f.catcher.last);
    cr_expect_not_null(strstr(f.catcher.last, "the setting cache_path"), "%s", f.catcher.last);
    expect_from(&f, &f.key, "bundle");
    cr_expect_eq(f.catcher.num_sentences, 1);
    finish(&f);
}

/* A lower tier makes up for a damaged entry, which is counted and not an error. */
Test(tiers, a_damaged_entry_is_passed_over)
{
    struct fixture f;
    char path[512];
    struct ftj_store_counts counts;
    init(&f);
    put_in(f.root, &f.key, "root");
    put_in_bundle(&f, &f.key, "bundle");
    entry_path(f.root, &f.key, path);
    cr_assert_eq(truncate(path, 30), 0);
    open_store(&f, &(struct ftj_store_options){.path = f.bundle, .has_compiler = true});
    expect_from(&f, &f.key, "bundle");
    cr_expect_eq(f.catcher.num_sentences, 1, "%s", f.catcher.last);
    cr_expect_eq(access(path, F_OK), -1, "the root is ours to mend");
    ftj_store_count(f.store, &counts);
    cr_expect_eq(counts.passed_over, 1);
    finish(&f);
}

Test(tiers, a_shared_root_is_not_mended)
{
    struct fixture f;
    char path[512];
    init(&f);
    put_in(f.shared, &f.key, "shared");
    entry_path(f.shared, &f.key, path);
    cr_assert_eq(truncate(path, 30), 0);
    open_store(&f, &(struct ftj_store_options){.path = f.shared, .has_compiler = true});
    expect_status(&f, &f.key, FTJ_E_DAMAGED);
    cr_expect_not_null(strstr(f.catcher.last, path), "%s", f.catcher.last);
    cr_expect_eq(access(path, F_OK), 0);
    finish(&f);
}

/* ---- compilers ---- */

Test(tiers, without_a_compiler_any_will_do)
{
    struct fixture f;
    struct ftj_key nobodys = key_of("");
    init(&f);
    put_in(f.shared, &f.other_key, "of d");
    open_store(&f, &(struct ftj_store_options){.path = f.shared});
    expect_from(&f, &nobodys, "of d");
    open_store(&f, &(struct ftj_store_options){.path = f.shared, .match = "exact"});
    expect_status(&f, &nobodys, FTJ_E_NOT_FOUND);
    put_in_bundle(&f, &f.other_key, "of d, bundled");
    open_store(&f, &(struct ftj_store_options){.path = f.bundle});
    expect_from(&f, &nobodys, "of d, bundled");
    cr_expect_eq(f.catcher.num_sentences, 0, "%s", f.catcher.last);
    ftj_key_finish(&nobodys);
    finish(&f);
}

Test(tiers, with_a_compiler_only_its_own_will_do_unless_it_is_said)
{
    struct fixture f;
    init(&f);
    put_in(f.root, &f.other_key, "of d");
    open_store(&f, &(struct ftj_store_options){.has_compiler = true});
    expect_status(&f, &f.key, FTJ_E_NOT_FOUND);
    open_store(&f, &(struct ftj_store_options){.has_compiler = true, .match = "any"});
    expect_from(&f, &f.key, "of d");
    setenv("FTJIT_COMPILER_MATCH", "any", 1);
    open_store(&f, &(struct ftj_store_options){.has_compiler = true});
    expect_from(&f, &f.key, "of d");
    finish(&f);
}

Test(tiers, one_s_own_compiler_is_preferred_wherever_it_is)
{
    struct fixture f;
    init(&f);
    put_in(f.root, &f.other_key, "of d");
    put_in_bundle(&f, &f.key, "of c");
    open_store(&f,
               &(struct ftj_store_options){.path = f.bundle, .has_compiler = true, .match = "any"});
    expect_from(&f, &f.key, "of c");
    expect_from(&f, &f.other_key, "of d");
    finish(&f);
}

Test(tiers, drop_removes_the_entry_that_was_served)
{
    struct fixture f;
    init(&f);
    put_in(f.root, &f.other_key, "of d");
    open_store(&f, &(struct ftj_store_options){.match = "any"});
    expect_from(&f, &f.key, "of d");
    ftj_store_drop(f.store, &f.key);
    expect_status(&f, &f.key, FTJ_E_NOT_FOUND);
    cr_expect_eq(temp_dir_count(f.root, ".ftk", NULL), 0);
    finish(&f);
}

/* The stem is compared as a whole: another kernel under a name of this stem does not serve. */
Test(tiers, any_compiler_is_not_any_kernel)
{
    struct fixture f;
    char from[512], to[512];
    init(&f);
    struct ftj_key foreign = {0};
    cr_assert_eq(ftj_key_init(&foreign, &(struct ftj_key_input){.template_id = "t",
                                                                .source = "another",
                                                                .source_bytes = 7,
                                                                .templates = "00",
                                                                .target = "sm_90a",
                                                                .output = "cubin",
                                                                .compiler = "d"}),
                 FTJ_OK);
    put_in(f.root, &foreign, "foreign");
    put_in(f.root, &f.other_key, "of d");
    entry_path(f.root, &foreign, from);
    entry_path(f.root, &f.other_key, to);
    cr_assert_eq(rename(from, to), 0);
    open_store(&f, &(struct ftj_store_options){.match = "any"});
    expect_status(&f, &f.key, FTJ_E_DAMAGED);
    cr_expect_not_null(strstr(f.catcher.last, "holds another kernel"), "%s", f.catcher.last);
    ftj_key_finish(&foreign);
    finish(&f);
}

/* ---- trust ---- */

Test(tiers, what_others_may_write_to_is_not_believed)
{
    struct fixture f;
    char path[512], folder[512];
    init(&f);
    put_in(f.shared, &f.key, "shared");
    entry_path(f.shared, &f.key, path);
    snprintf(folder, sizeof(folder), "%s/v1/sm_90a", f.shared);

    cr_assert_eq(chmod(path, 0620), 0);
    open_store(&f, &(struct ftj_store_options){.path = f.shared, .has_compiler = true});
    expect_status(&f, &f.key, FTJ_E_DAMAGED);
    cr_expect_not_null(strstr(f.catcher.last, "cannot be trusted"), "%s", f.catcher.last);
    cr_assert_eq(chmod(path, 0600), 0);
    expect_from(&f, &f.key, "shared");

    cr_assert_eq(chmod(folder, 0777), 0);
    expect_status(&f, &f.key, FTJ_E_NOT_FOUND);
    cr_assert_eq(chmod(folder, 0755), 0);
    expect_from(&f, &f.key, "shared");

    cr_assert_eq(chmod(f.shared, 01777), 0);
    open_store(&f, &(struct ftj_store_options){.path = f.shared, .has_compiler = true});
    cr_expect_not_null(strstr(f.catcher.last, "others may write"), "%s", f.catcher.last);
    expect_status(&f, &f.key, FTJ_E_NOT_FOUND);
    finish(&f);
}

Test(tiers, links_below_a_root_are_not_followed)
{
    struct fixture f;
    char folder[512], moved[512];
    init(&f);
    put_in(f.shared, &f.key, "shared");
    snprintf(folder, sizeof(folder), "%s/v1/sm_90a", f.shared);
    snprintf(moved, sizeof(moved), "%s/elsewhere", f.dir);
    cr_assert_eq(rename(folder, moved), 0);
    cr_assert_eq(symlink(moved, folder), 0);
    open_store(&f, &(struct ftj_store_options){.path = f.shared, .has_compiler = true});
    expect_status(&f, &f.key, FTJ_E_NOT_FOUND);
    finish(&f);
}

/* Giving files away takes root's rights. */
Test(tiers, foreign_owners_are_believed_only_when_they_are_named)
{
    struct fixture f;
    char path[512];
    struct ftj_key key;
    init(&f);
    key = f.key;
    put_in(f.shared, &key, "shared");
    put_in_bundle(&f, &f.other_key, "bundle");
    entry_path(f.shared, &key, path);
    if (chown(path, 12345, 12345) || chown(f.bundle, 12345, 12345)) {
        finish(&f);
        cr_skip_test("only root can give a file away");
    }
    char both_paths[640];
    both(&f, true, both_paths);
    open_store(&f, &(struct ftj_store_options){.path = both_paths, .has_compiler = true});
    cr_expect_not_null(strstr(f.catcher.last, "belongs to user 12345"), "%s", f.catcher.last);
    expect_status(&f, &key, FTJ_E_DAMAGED);
    expect_status(&f, &f.other_key, FTJ_E_NOT_FOUND);

    open_store(&f, &(struct ftj_store_options){
                       .path = both_paths, .has_compiler = true, .owners = "7,12345"});
    expect_from(&f, &key, "shared");
    expect_from(&f, &f.other_key, "bundle");

    open_store(&f, &(struct ftj_store_options){
                       .path = f.bundle, .has_compiler = true, .bundle_digest = f.digest});
    expect_from(&f, &f.other_key, "bundle");
    finish(&f);
}
