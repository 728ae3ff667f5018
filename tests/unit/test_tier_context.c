/* SPDX-License-Identifier: MIT */
/* A context that is served by tiers alone, as in an image without NVRTC: fake driver and compiler.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/warm_list.h"
#include "ftjit/ftjit.h"
#include "log_catcher.h"
#include "temp_dir.h"

static struct log_catcher catcher;

struct fixture {
    char dir[256];
    char full[300];   /* a cache that was filled */
    char empty[300];  /* one that was not */
    char record[300]; /* FTJIT_RECORD */
    char stats[300];
};

static ftj_settings settings_of(const struct fixture *f, bool has_compiler)
{
    return (ftj_settings){
        .driver_path = FAKE_CUDA_PATH,
        .compiler_path = has_compiler ? FAKE_NVRTC_PATH : "/nowhere/libnvrtc.so.13",
        .compile_mode = FTJ_COMPILE_THREAD,
        .cache_dir = has_compiler ? f->full : f->empty,
        .log = catch_sentence,
        .log_data = &catcher,
        .log_level = FTJ_LOG_WARNING,
    };
}

/* Open, create one attention, and leave. */
static ftj_status attend(const ftj_settings *settings, ftj_stats *stats)
{
    ftj_context *ctx = NULL;
    ftj_attention *attention = NULL;
    ftj_attention_desc desc = {.num_q_heads = 8};
    cr_assert_eq(ftj_kv_layout_init(&desc.kv, &(ftj_kv_shape){.k_format = FTJ_KV_FP8,
                                                              .v_format = FTJ_KV_NVFP4,
                                                              .num_kv_heads = 2,
                                                              .head_dim = 128,
                                                              .page_size = 16}),
                 FTJ_OK);
    catcher.num_sentences = 0;
    cr_assert_eq(ftj_context_create(settings, &ctx), FTJ_OK, "%s", ftj_last_error());
    const ftj_status status = ftj_attention_create(ctx, &desc, &attention);
    ftj_context_stats(ctx, stats);
    ftj_attention_destroy(attention);
    ftj_context_destroy(ctx);
    return status;
}

static void init(struct fixture *f)
{
    ftj_stats stats;
    temp_dir_init(f->dir);
    snprintf(f->full, sizeof(f->full), "%s/full", f->dir);
    snprintf(f->empty, sizeof(f->empty), "%s/empty", f->dir);
    snprintf(f->record, sizeof(f->record), "%s/misses.txt", f->dir);
    snprintf(f->stats, sizeof(f->stats), "%s/stats.json", f->dir);
    ftj_settings settings = settings_of(f, true);
    settings.record_path = f->record;
    cr_assert_eq(attend(&settings, &stats), FTJ_OK, "%s", ftj_last_error());
    cr_assert_eq(stats.compiles, 4);
}

Test(tier_context, a_shared_root_serves_without_a_compiler)
{
    struct fixture f;
    ftj_stats stats;
    init(&f);
    ftj_settings settings = settings_of(&f, false);
    settings.cache_path = f.full;
    settings.stats_path = f.stats;
    cr_expect_eq(attend(&settings, &stats), FTJ_OK, "%s", ftj_last_error());
    cr_expect_eq(stats.disk_hits, 4);
    cr_expect_eq(stats.shared_hits, 4);
    cr_expect_eq(stats.compiles, 0);
    cr_expect_eq(catcher.num_sentences, 0, "%s", catcher.last);
    cr_expect_eq(access(f.empty, F_OK), -1, "nothing is copied");

    char line[1024] = "";
    FILE *file = fopen(f.stats, "r");
    cr_assert_not_null(file);
    cr_expect_not_null(fgets(line, sizeof(line), file));
    fclose(file);
    cr_expect_not_null(strstr(line, "\"shared_hits\":4,"), "%s", line);
    cr_expect_not_null(strstr(line, "\"target\":\"sm_90a\""), "%s", line);

    settings.compiler_match = "exact";
    cr_expect_eq(attend(&settings, &stats), FTJ_E_COMPILER);
    temp_dir_finish(f.dir);
}

Test(tier_context, what_is_missing_is_recorded_whatever_becomes_of_it)
{
    struct fixture f;
    ftj_stats stats;
    init(&f);
    ftj_settings settings = settings_of(&f, false);
    settings.record_path = f.record;
    cr_expect_eq(attend(&settings, &stats), FTJ_E_COMPILER);
    size_t num_lines = 0;
    char line[2048];
    FILE *file = fopen(f.record, "r");
    while (fgets(line, sizeof(line), file))
        num_lines++;
    fclose(file);
    cr_expect_eq(num_lines, 4 + 1, "the first that could not be had ends it");
    temp_dir_finish(f.dir);
}

/* The record names the very keys that were looked up: those of the real device, not of its part. */
Test(tier_context, a_record_gives_the_keys_that_were_missed)
{
    struct fixture f;
    struct warm_list list = {0};
    init(&f);
    setenv("FTJIT_NVRTC", FAKE_NVRTC_PATH, 1);
    cr_assert_eq(warm_list_add_file(&list, f.record), FTJ_OK, "%s", ftj_last_error());
    cr_assert_eq(warm_list_settle(&list, 0, 1), FTJ_OK);
    cr_expect_eq(list.count, 4);
    for (size_t i = 0; i < list.count; i++) {
        char path[512];
        const struct ftj_key *key = &list.items[i].key;
        snprintf(path, sizeof(path), "%s/v1/sm_90a/%.2s/%s-%s.ftk", f.full, key->hex, key->hex + 2,
                 key->compiler_hex);
        cr_expect_eq(access(path, F_OK), 0, "%s", path);
    }
    warm_list_finish(&list);
    temp_dir_finish(f.dir);
}

Test(tier_context, a_setting_that_cannot_be_is_refused)
{
    struct fixture f;
    ftj_context *ctx = NULL;
    init(&f);
    ftj_settings settings = settings_of(&f, true);
    settings.compiler_match = "some";
    cr_expect_eq(ftj_context_create(&settings, &ctx), FTJ_E_INVALID);
    cr_expect_not_null(strstr(ftj_last_error(), "compiler_match"), "%s", ftj_last_error());
    temp_dir_finish(f.dir);
}
