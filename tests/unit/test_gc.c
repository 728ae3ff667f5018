/* SPDX-License-Identifier: MIT */
/* The life of a root: its counter, what goes when there is too much, and clearing it. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cache/entry_file.h"
#include "cache/gc.h"
#include "cache/scan.h"
#include "cache/store.h"
#include "tests/unit/log_catcher.h"
#include "tests/unit/temp_dir.h"

#define HOUR       3600
#define CODE_BYTES 10000

struct fixture {
    char dir[256];
    char root[300];
    struct log_catcher catcher;
    struct ftj_log log;
    struct ftj_cache_dir cache;
    struct ftj_store *store;
};

static void open_store(struct fixture *f, uint64_t max_bytes)
{
    ftj_store_destroy(f->store);
    cr_assert_eq(ftj_store_create(f->root, false, &f->log, &f->store), FTJ_OK);
    cr_assert_eq(ftj_store_configure(f->store, &(struct ftj_store_options){.max_bytes = max_bytes,
                                                                           .has_compiler = true}),
                 FTJ_OK);
}

static void init(struct fixture *f)
{
    struct ftj_reason reason;
    *f = (struct fixture){0};
    temp_dir_init(f->dir);
    snprintf(f->root, sizeof(f->root), "%s/cache", f->dir);
    f->log = (struct ftj_log){catch_sentence, &f->catcher, FTJ_LOG_INFO};
    cr_assert_eq(ftj_cache_dir_init(&f->cache, f->root, &reason), FTJ_OK);
    open_store(f, 0);
}

static void finish(struct fixture *f)
{
    ftj_store_destroy(f->store);
    ftj_cache_dir_finish(&f->cache);
    temp_dir_finish(f->dir);
}

static struct ftj_key key_of(int index)
{
    char source[24];
    struct ftj_key key = {0};
    snprintf(source, sizeof(source), "%d", index);
    cr_assert_eq(ftj_key_init(&key, &(struct ftj_key_input){.template_id = "t",
                                                            .source = source,
                                                            .source_bytes = strlen(source),
                                                            .templates = "00",
                                                            .target = "sm_90a",
                                                            .output = "cubin",
                                                            .compiler = "c"}),
                 FTJ_OK);
    return key;
}

static void path_of(const struct fixture *f, int index, char path[512])
{
    struct ftj_key key = key_of(index);
    const struct ftj_place place = ftj_place_of(&key);
    snprintf(path, 512, "%s/%s/%s", f->root, place.folder, place.name);
    ftj_key_finish(&key);
}

/* `age` in seconds, negative for a clock that is ahead. */
static void set_age(const char *path, long age)
{
    const struct timespec times[2] = {{.tv_sec = time(NULL) - age}, {.tv_sec = time(NULL) - age}};
    cr_assert_eq(utimensat(AT_FDCWD, path, times, 0), 0, "%s", path);
}

static void put(struct fixture *f, int index)
{
    static uint8_t code[CODE_BYTES];
    struct ftj_key key = key_of(index);
    const struct ftj_entry entry = {.code = {code, sizeof(code)}};
    cr_assert_eq(ftj_store_put(f->store, &key, &entry), FTJ_OK, "%s", f->catcher.last);
    ftj_key_finish(&key);
}

static void put_aged(struct fixture *f, int index, long age)
{
    char path[512];
    put(f, index);
    path_of(f, index, path);
    set_age(path, age);
}

static bool is_there(const struct fixture *f, int index)
{
    char path[512];
    path_of(f, index, path);
    return access(path, F_OK) == 0;
}

static struct ftj_gc_result collect(struct fixture *f, uint64_t max_bytes, uint64_t min_age)
{
    struct ftj_gc_result result = {0};
    struct ftj_reason reason = {""};
    cr_assert_eq(ftj_gc_run(&f->cache, max_bytes, min_age, &result, &reason), FTJ_OK, "%s",
                 reason.text);
    return result;
}

Test(gc, removes_what_was_used_longest_ago_down_to_four_fifths)
{
    struct fixture f;
    init(&f);
    for (int i = 0; i < 10; i++)
        put_aged(&f, i, (10 - i) * HOUR);
    const struct ftj_gc_result result = collect(&f, 80000, 600);
    cr_expect_gt(result.bytes_before, 100000);
    cr_expect_leq(result.bytes_after, 64000);
    cr_expect_eq(result.num_evicted, 4);
    for (int i = 0; i < 10; i++)
        cr_expect_eq(is_there(&f, i), i >= 4, "%d", i);
    cr_expect_eq(collect(&f, 80000, 600).num_evicted, 0);
    finish(&f);
}

Test(gc, a_get_counts_as_use_but_at_most_hourly)
{
    struct fixture f;
    char path[512];
    struct stat before, after;
    struct ftj_entry entry = {0};
    struct ftj_key key = key_of(0);
    init(&f);
    put_aged(&f, 0, 2 * HOUR);
    path_of(&f, 0, path);
    cr_assert_eq(ftj_store_get(f.store, &key, &entry), FTJ_OK);
    ftj_entry_finish(&entry);
    cr_assert_eq(stat(path, &after), 0);
    cr_expect_lt(time(NULL) - after.st_mtime, 60);

    set_age(path, HOUR / 2);
    cr_assert_eq(stat(path, &before), 0);
    cr_assert_eq(ftj_store_get(f.store, &key, &entry), FTJ_OK);
    ftj_entry_finish(&entry);
    cr_assert_eq(stat(path, &after), 0);
    cr_expect_eq(before.st_mtime, after.st_mtime);
    ftj_key_finish(&key);
    finish(&f);
}

Test(gc, young_entries_stay_even_if_there_are_too_many)
{
    struct fixture f;
    init(&f);
    for (int i = 0; i < 5; i++)
        put_aged(&f, i, i == 2 ? HOUR : 60);
    const struct ftj_gc_result result = collect(&f, 10000, 600);
    cr_expect_eq(result.num_evicted, 1);
    cr_expect_not(is_there(&f, 2));
    finish(&f);
}

Test(gc, clocks_that_are_ahead_make_an_entry_new_for_a_day_only)
{
    struct fixture f;
    init(&f);
    put_aged(&f, 0, -HOUR);
    put_aged(&f, 1, -48 * HOUR);
    collect(&f, 1, 600);
    cr_expect(is_there(&f, 0));
    cr_expect_not(is_there(&f, 1));
    finish(&f);
}

Test(gc, publishing_past_the_limit_collects)
{
    struct fixture f;
    struct ftj_store_counts counts;
    init(&f);
    open_store(&f, 50000);
    for (int i = 0; i < 4; i++)
        put_aged(&f, i, (10 - i) * HOUR);
    cr_expect(is_there(&f, 0));
    put(&f, 4); /* more than 50000 now */
    ftj_store_count(f.store, &counts);
    cr_expect_eq(counts.evictions, 2);
    cr_expect_not(is_there(&f, 0));
    cr_expect_not(is_there(&f, 1));
    cr_expect(is_there(&f, 4));
    cr_expect_not_null(strstr(f.catcher.last, "2 entries"), "%s", f.catcher.last);
    finish(&f);
}

/* A root from before there was a counter, and a counter that no longer makes sense. */
Test(gc, counts_anew_where_the_counter_is_missing_or_nonsense)
{
    struct fixture f;
    char usage[512];
    init(&f);
    for (int i = 0; i < 5; i++)
        put_aged(&f, i, (10 - i) * HOUR);
    snprintf(usage, sizeof(usage), "%s/v1/usage", f.root);
    for (int round = 0; round < 2; round++) {
        FILE *file = fopen(usage, "w");
        fputs(round ? "nonsense" : "", file);
        fclose(file);
        if (round == 0)
            cr_assert_eq(unlink(usage), 0);
        open_store(&f, round ? 30000 : 1u << 30);
        put(&f, 5 + round);
        cr_expect_eq(is_there(&f, 0), round == 0);
    }
    finish(&f);
}

Test(gc, a_counter_in_use_delays_the_count_and_stops_nobody)
{
    struct fixture f;
    char usage[512];
    unsigned long long before = 0, after = 0;
    init(&f);
    put(&f, 0);
    snprintf(usage, sizeof(usage), "%s/v1/usage", f.root);
    FILE *file = fopen(usage, "r");
    cr_assert_eq(fscanf(file, "%llu", &before), 1);
    cr_assert_eq(flock(fileno(file), LOCK_EX), 0);
    put(&f, 1);
    struct ftj_gc_result result;
    struct ftj_reason reason;
    cr_expect_eq(ftj_gc_run(&f.cache, 1, 0, &result, &reason), FTJ_E_IO);
    cr_expect_not_null(strstr(reason.text, "usage"), "%s", reason.text);
    fclose(file);
    put(&f, 2);
    file = fopen(usage, "r");
    cr_assert_eq(fscanf(file, "%llu", &after), 1);
    fclose(file);
    cr_expect_eq(after, 3 * before, "%llu, once %llu", after, before);
    finish(&f);
}

Test(gc, sweeps_temporaries_of_processes_that_are_gone)
{
    struct fixture f;
    char path[600], host[34];
    init(&f);
    put(&f, 0);
    ftj_temporary_host(host);
    const struct {
        const char *host;
        long pid;
        long age;
        bool stays;
    } rows[] = {
        {host, 4194305, 30, true},         /* dead, but new: it may be another container's */
        {host, 4194306, 120, false},       /* dead */
        {host, (long)getpid(), 120, true}, /* alive */
        {host, (long)getpid(), 2 * HOUR, false},
        {"elsewhere", 4194307, 120, true},
        {"elsewhere", 4194307, 2 * HOUR, false},
    };
    char paths[6][600];
    for (size_t i = 0; i < 6; i++) {
        snprintf(paths[i], sizeof(paths[i]), "%s/v1/tmp/%s-%ld-%016zx.tmp", f.root, rows[i].host,
                 rows[i].pid, i);
        fclose(fopen(paths[i], "w"));
        set_age(paths[i], rows[i].age);
    }
    snprintf(path, sizeof(path), "%s/v1/tmp/notes.txt", f.root);
    fclose(fopen(path, "w"));
    set_age(path, 9 * HOUR);
    cr_expect_eq(collect(&f, 1u << 30, 600).num_swept, 3);
    for (size_t i = 0; i < 6; i++)
        cr_expect_eq(access(paths[i], F_OK) == 0, rows[i].stays, "row %zu", i);
    cr_expect_eq(access(path, F_OK), 0, "not ours");
    finish(&f);
}

Test(gc, a_root_that_is_not_there_is_fine)
{
    struct fixture f;
    struct ftj_gc_result result = {.num_entries = 9};
    struct ftj_reason reason;
    init(&f);
    cr_expect_eq(ftj_gc_run(&f.cache, 1, 0, &result, &reason), FTJ_E_NOT_FOUND);
    cr_assert_eq(mkdir(f.root, 0700), 0);
    cr_expect_eq(ftj_gc_run(&f.cache, 1, 0, &result, &reason), FTJ_OK);
    cr_expect_eq(result.num_entries, 0);
    finish(&f);
}

Test(gc, clear_removes_all_that_is_ours)
{
    struct fixture f;
    size_t num_files = 0;
    struct ftj_reason reason;
    init(&f);
    put(&f, 0);
    put(&f, 1);
    cr_expect_eq(ftj_cache_clear(&f.cache, &num_files, &reason), FTJ_OK);
    cr_expect_eq(num_files, 2);
    cr_expect_eq(access(f.root, F_OK), -1, "the root was made here");
    cr_expect_eq(ftj_cache_clear(&f.cache, &num_files, &reason), FTJ_E_NOT_FOUND);
    finish(&f);
}

Test(gc, clear_removes_nothing_else)
{
    struct fixture f;
    static const char *const kept[] = {"notes.txt",           "v1/notes.txt",
                                       "v1/sm_90a/notes.txt", "v1/tmp/notes.txt",
                                       "v1/sm_90a/zz/a.ftk",  "CACHEDIR.TAG"};
    char path[600], link[600];
    size_t num_files = 0;
    struct ftj_reason reason;
    init(&f);
    put(&f, 0);
    snprintf(path, sizeof(path), "%s/v1/sm_90a/zz", f.root);
    cr_assert_eq(mkdir(path, 0700), 0);
    for (size_t i = 0; i < 6; i++) {
        snprintf(path, sizeof(path), "%s/%s", f.root, kept[i]);
        FILE *file = fopen(path, "w");
        cr_assert_not_null(file, "%s", path);
        fputs("somebody's", file);
        fclose(file);
    }
    snprintf(link, sizeof(link), "%s/v1/sm_80", f.root);
    snprintf(path, sizeof(path), "%s/other", f.dir);
    cr_assert_eq(mkdir(path, 0700), 0);
    cr_assert_eq(symlink(path, link), 0);
    cr_expect_eq(ftj_cache_clear(&f.cache, &num_files, &reason), FTJ_OK);
    cr_expect_eq(num_files, 1);
    for (size_t i = 0; i < 6; i++) {
        snprintf(path, sizeof(path), "%s/%s", f.root, kept[i]);
        cr_expect_eq(access(path, F_OK), 0, "%s", kept[i]);
    }
    finish(&f);
}
