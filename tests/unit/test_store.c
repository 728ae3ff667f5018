/* SPDX-License-Identifier: MIT */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/store.h"
#include "tests/unit/log_catcher.h"
#include "tests/unit/temp_dir.h"

/* A folder of the test's own, a root inside it that does not exist yet, and a store on that. */
struct fixture {
    char dir[256];
    char root[300];
    struct log_catcher catcher;
    struct ftj_log log;
    struct ftj_store *store;
    struct ftj_key key;
};

static struct ftj_key key_of(const char *source)
{
    const struct ftj_key_input input = {
        .template_id = "t",
        .source = source,
        .source_bytes = strlen(source),
        .templates = "00",
        .target = "sm_90a",
        .output = "cubin",
        .compiler = "c",
    };
    struct ftj_key key = {0};
    cr_assert_eq(ftj_key_init(&key, &input), FTJ_OK);
    return key;
}

static void open_store(struct fixture *f, const char *dir)
{
    ftj_store_destroy(f->store);
    f->store = NULL;
    memset(&f->catcher, 0, sizeof(f->catcher));
    cr_assert_eq(ftj_store_create(dir, false, &f->log, &f->store), FTJ_OK);
}

static void init(struct fixture *f)
{
    *f = (struct fixture){0};
    temp_dir_init(f->dir);
    snprintf(f->root, sizeof(f->root), "%s/cache", f->dir);
    f->log = (struct ftj_log){catch_sentence, &f->catcher, FTJ_LOG_DEBUG};
    f->key = key_of("kernel");
    open_store(f, f->root);
}

static void finish(struct fixture *f)
{
    ftj_store_destroy(f->store);
    ftj_key_finish(&f->key);
    temp_dir_finish(f->dir);
}

static const struct ftj_entry sample = {
    .code = {(uint8_t *)"machine code", 12},
    .log = {(uint8_t *)"log", 3},
    .facts = {.registers = 128},
};

static void put(struct fixture *f)
{
    cr_assert_eq(ftj_store_put(f->store, &f->key, &sample), FTJ_OK, "%s", f->catcher.last);
}

static ftj_status get(struct fixture *f)
{
    struct ftj_entry entry = {0};
    const ftj_status status = ftj_store_get(f->store, &f->key, &entry);
    if (status == FTJ_OK) {
        cr_expect_eq(entry.code.size, 12);
        cr_expect_arr_eq(entry.code.data, "machine code", 12);
        cr_expect_eq(entry.facts.registers, 128);
    } else {
        cr_expect_null(entry.code.data);
    }
    ftj_entry_finish(&entry);
    return status;
}

static void entry_path(const struct fixture *f, char path[512])
{
    snprintf(path, 512, "%s/v1/sm_90a/%.2s/%s-%s.ftk", f->root, f->key.hex, f->key.hex + 2,
             f->key.compiler_hex);
}

static void write_file(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    cr_assert_not_null(file, "%s", path);
    cr_assert_eq(fwrite(data, 1, size, file), size);
    fclose(file);
}

static mode_t mode_of(const char *path)
{
    struct stat info;
    cr_assert_eq(lstat(path, &info), 0, "%s", path);
    return info.st_mode & 07777;
}

Test(store, gets_what_was_put_also_in_another_process)
{
    struct fixture f;
    init(&f);
    cr_expect_eq(get(&f), FTJ_E_NOT_FOUND);
    put(&f);
    cr_expect_eq(get(&f), FTJ_OK);
    open_store(&f, f.root);
    cr_expect_eq(get(&f), FTJ_OK);
    cr_expect_str_eq(ftj_store_dir(f.store), f.root);
    cr_expect_eq(f.catcher.num_sentences, 0, "%s", f.catcher.last);
    finish(&f);
}

Test(store, one_file_at_the_documented_path_and_no_temporary)
{
    struct fixture f;
    char path[512];
    char found[512] = "";
    init(&f);
    put(&f);
    put(&f); /* over the first */
    entry_path(&f, path);
    cr_expect_eq(temp_dir_count(f.root, ".ftk", found), 1);
    cr_expect_str_eq(found, path);
    cr_expect_eq(temp_dir_count(f.root, "", NULL), 3, "the entry, CACHEDIR.TAG and usage");
    finish(&f);
}

Test(store, a_miss_creates_nothing)
{
    struct fixture f;
    init(&f);
    cr_expect_eq(get(&f), FTJ_E_NOT_FOUND);
    cr_expect_eq(access(f.root, F_OK), -1);
    finish(&f);
}

Test(store, makes_private_folders_and_a_tag)
{
    struct fixture f;
    char path[512];
    init(&f);
    umask(0);
    open_store(&f, f.root);
    put(&f);
    cr_expect_eq(mode_of(f.root), 0700);
    snprintf(path, sizeof(path), "%s/v1", f.root);
    cr_expect_eq(mode_of(path), 0700);
    entry_path(&f, path);
    cr_expect_eq(mode_of(path), 0600);

    char text[64] = "";
    snprintf(path, sizeof(path), "%s/CACHEDIR.TAG", f.root);
    FILE *tag = fopen(path, "rb");
    cr_assert_not_null(tag);
    cr_expect_gt(fread(text, 1, 43, tag), 0);
    fclose(tag);
    cr_expect_str_eq(text, "Signature: 8a477f597d28d172789f06886806bc55");
    finish(&f);
}

Test(store, a_folder_that_was_there_gets_no_tag)
{
    struct fixture f;
    init(&f);
    cr_assert_eq(mkdir(f.root, 0700), 0);
    put(&f);
    cr_expect_eq(temp_dir_count(f.root, "CACHEDIR.TAG", NULL), 0);
    finish(&f);
}

/* O22: whatever was done to the entry, it is said once, naming the path, and can be put again. */
static void expect_replaced(struct fixture *f, const char *what, const char *fault)
{
    char path[512];
    entry_path(f, path);
    cr_expect_eq(get(f), FTJ_E_DAMAGED, "%s", what);
    cr_expect_eq(f->catcher.num_sentences, 1, "%s", what);
    cr_expect_eq(f->catcher.level, FTJ_LOG_WARNING);
    cr_expect_not_null(strstr(f->catcher.last, path), "%s: %s", what, f->catcher.last);
    cr_expect_not_null(strstr(f->catcher.last, fault), "%s: %s", what, f->catcher.last);
    cr_expect_eq(access(path, F_OK), -1, "%s must be gone", what);
    cr_expect_eq(get(f), FTJ_E_NOT_FOUND, "%s", what);
    put(f);
    cr_expect_eq(get(f), FTJ_OK, "%s", what);
    cr_expect_eq(f->catcher.num_sentences, 1, "%s", what);
    memset(&f->catcher, 0, sizeof(f->catcher));
}

Test(store, O22_a_truncated_entry_is_said_and_replaced)
{
    struct fixture f;
    char path[512];
    struct stat info;
    init(&f);
    put(&f);
    entry_path(&f, path);
    cr_assert_eq(stat(path, &info), 0);
    const off_t sizes[] = {0, 1, info.st_size / 2, info.st_size - 1};
    for (size_t i = 0; i < 4; i++) {
        cr_assert_eq(truncate(path, sizes[i]), 0);
        expect_replaced(&f, "a truncated entry", i == 0 ? "is empty" : "fails its checks");
    }
    struct stat after;
    cr_assert_eq(stat(path, &after), 0);
    cr_expect_eq(after.st_size, info.st_size);
    finish(&f);
}

Test(store, O22_an_empty_folder_in_its_place_is_replaced)
{
    struct fixture f;
    char path[512];
    init(&f);
    put(&f);
    entry_path(&f, path);
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(mkdir(path, 0700), 0);
    expect_replaced(&f, "a folder", "is not a regular file");
    finish(&f);
}

Test(store, O22_a_full_folder_in_its_place_is_said_once_and_stays)
{
    struct fixture f;
    char path[512], inside[600];
    init(&f);
    put(&f);
    entry_path(&f, path);
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(mkdir(path, 0700), 0);
    snprintf(inside, sizeof(inside), "%s/file", path);
    write_file(inside, "x", 1);
    cr_expect_eq(get(&f), FTJ_E_DAMAGED);
    cr_expect_eq(ftj_store_put(f.store, &f.key, &sample), FTJ_E_IO);
    cr_expect_eq(f.catcher.num_sentences, 1, "%s", f.catcher.last);
    cr_expect_not_null(strstr(f.catcher.last, path));
    cr_expect_not_null(strstr(f.catcher.last, "kept in memory only"), "%s", f.catcher.last);
    cr_expect_eq(temp_dir_count(f.root, ".tmp", NULL), 0);
    cr_expect_eq(access(inside, F_OK), 0, "what is not ours is not removed");
    finish(&f);
}

Test(store, what_only_looks_like_an_entry_is_not_followed)
{
    struct fixture f;
    char path[512], target[600];
    init(&f);
    put(&f);
    entry_path(&f, path);
    snprintf(target, sizeof(target), "%s/elsewhere", f.dir);
    cr_assert_eq(rename(path, target), 0);
    cr_assert_eq(symlink(target, path), 0);
    expect_replaced(&f, "a symbolic link", "is not a regular file");
    cr_expect_eq(access(target, F_OK), 0, "the link's target stays");

    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(mkfifo(path, 0600), 0);
    expect_replaced(&f, "a named pipe", "is not a regular file");
    finish(&f);
}

Test(store, an_entry_of_another_kernel_is_replaced)
{
    struct fixture f;
    char path[512], foreign[512];
    init(&f);
    struct ftj_key other = key_of("another kernel");
    cr_assert_eq(ftj_store_put(f.store, &other, &sample), FTJ_OK);
    cr_expect_eq(temp_dir_count(f.root, ".ftk", foreign), 1);
    put(&f);
    entry_path(&f, path);
    cr_assert_eq(rename(foreign, path), 0);
    expect_replaced(&f, "a foreign entry", "holds another kernel");
    ftj_key_finish(&other);
    finish(&f);
}

Test(store, drop_removes_an_entry)
{
    struct fixture f;
    init(&f);
    ftj_store_drop(f.store, &f.key); /* nothing there: nothing happens */
    put(&f);
    ftj_store_drop(f.store, &f.key);
    cr_expect_eq(get(&f), FTJ_E_NOT_FOUND);
    cr_expect_eq(f.catcher.num_sentences, 0);
    finish(&f);
}

Test(store, disabled_is_silent_and_touches_nothing)
{
    struct fixture f;
    init(&f);
    ftj_store_destroy(f.store);
    cr_assert_eq(ftj_store_create(f.root, true, &f.log, &f.store), FTJ_OK);
    cr_expect_eq(ftj_store_put(f.store, &f.key, &sample), FTJ_OK);
    cr_expect_eq(get(&f), FTJ_E_NOT_FOUND);
    ftj_store_drop(f.store, &f.key);
    cr_expect_str_eq(ftj_store_dir(f.store), "");
    cr_expect_eq(f.catcher.num_sentences, 0);
    cr_expect_eq(access(f.root, F_OK), -1);
    finish(&f);
}

Test(store, a_root_removed_meanwhile_is_made_again)
{
    struct fixture f;
    init(&f);
    put(&f);
    temp_dir_finish(f.root);
    cr_expect_eq(get(&f), FTJ_E_NOT_FOUND);
    put(&f);
    cr_expect_eq(get(&f), FTJ_OK);
    finish(&f);
}

/* A disk that is full, in the form a test without a mount can have: a limit on the file's size. */
Test(store, put_leaves_no_temporary_on_failure)
{
    struct fixture f;
    init(&f);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = 100;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    const ftj_status first = ftj_store_put(f.store, &f.key, &sample);
    const ftj_status second = ftj_store_put(f.store, &f.key, &sample);
    limit.rlim_cur = before;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);

    cr_expect_eq(first, FTJ_E_IO);
    cr_expect_eq(second, FTJ_E_IO);
    cr_expect_eq(f.catcher.num_sentences, 1, "once per store");
    cr_expect_not_null(strstr(f.catcher.last, "File too large"), "%s", f.catcher.last);
    cr_expect_eq(temp_dir_count(f.root, ".tmp", NULL), 0);
    cr_expect_eq(temp_dir_count(f.root, ".ftk", NULL), 0);
    put(&f); /* room again */
    cr_expect_eq(get(&f), FTJ_OK);
    finish(&f);
}
