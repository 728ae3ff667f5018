/* SPDX-License-Identifier: MIT */
/* What a context tells about each kernel it had to get, with a fake driver and a fake compiler. */
#include <criterion/criterion.h>
#include <glob.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/bundle.h"
#include "cache/store.h"
#include "cli/warm_list.h"
#include "ftjit/ftjit.h"
#include "temp_dir.h"

static char dir[256];
static char root[300];
static char record[300]; /* of what set_up() missed */

/* What was told, with copies of its texts. */
struct told {
    atomic_uint count;
    ftj_kernel_event last;
    char kernel[64], target[16], key[40];
    ftj_context *create_in; /* where the call creates an attention of its own, once */
};

static ftj_status create_store(ftj_context *ctx, uint32_t head_dim)
{
    const ftj_kv_shape shape = {
        .k_format = FTJ_KV_FP8, .num_kv_heads = 2, .head_dim = head_dim, .page_size = 16};
    ftj_attention_desc desc = {.ops = FTJ_OP_STORE, .num_q_heads = 8};
    ftj_attention *attn = NULL;
    ftj_status status = ftj_kv_layout_init(&desc.kv, &shape);
    if (!status)
        status = ftj_attention_create(ctx, &desc, &attn);
    ftj_attention_destroy(attn);
    return status;
}

static void tell(void *data, const ftj_kernel_event *event)
{
    struct told *told = data;
    atomic_fetch_add(&told->count, 1);
    told->last = *event;
    snprintf(told->kernel, sizeof(told->kernel), "%s", event->kernel);
    snprintf(told->target, sizeof(told->target), "%s", event->target);
    snprintf(told->key, sizeof(told->key), "%s", event->key);
    ftj_context *ctx = told->create_in;
    told->create_in = NULL;
    if (ctx)
        cr_expect_eq(create_store(ctx, 256), FTJ_OK, "%s", ftj_last_error());
}

static ftj_settings settings_for(struct told *told)
{
    return (ftj_settings){.driver_path = FAKE_CUDA_PATH,
                          .compiler_path = FAKE_NVRTC_PATH,
                          .cache_dir = root,
                          .on_kernel = tell,
                          .on_kernel_data = told};
}

static ftj_context *open_context(struct told *told)
{
    const ftj_settings settings = settings_for(told);
    ftj_context *ctx = NULL;
    cr_assert_eq(ftj_context_create(&settings, &ctx), FTJ_OK, "%s", ftj_last_error());
    return ctx;
}

/* A kernel of 128 elements a head lies in the root. */
static void set_up(void)
{
    struct told told = {0};
    temp_dir_init(dir);
    snprintf(root, sizeof(root), "%s/root", dir);
    snprintf(record, sizeof(record), "%s/misses.txt", dir);
    setenv("FAKE_CUDA_ARCH", "90", 1);
    setenv("FTJIT_RECORD", record, 1);
    ftj_context *ctx = open_context(&told);
    unsetenv("FTJIT_RECORD");
    cr_assert_eq(create_store(ctx, 128), FTJ_OK, "%s", ftj_last_error());
    ftj_context_destroy(ctx);
}

static void tear_down(void)
{
    temp_dir_finish(dir);
}

TestSuite(kernel_event, .init = set_up, .fini = tear_down, .timeout = 30);

#define expect_told(told, expected_count, expected_status, expected_tier, expected_cause)          \
    cr_expect_eq(atomic_load(&(told)->count), expected_count);                                     \
    cr_expect_eq((told)->last.status, expected_status, "status %d", (told)->last.status);          \
    cr_expect_eq((told)->last.tier, expected_tier, "tier %d", (told)->last.tier);                  \
    cr_expect_eq((told)->last.cause, expected_cause, "cause %d", (told)->last.cause)

Test(kernel_event, names_the_kernel_and_what_its_compile_took)
{
    struct told told = {0};
    setenv("FAKE_NVRTC_DELAY_MS", "5", 1);
    ftj_context *ctx = open_context(&told);
    cr_assert_eq(create_store(ctx, 64), FTJ_OK);
    expect_told(&told, 1, FTJ_OK, FTJ_TIER_COMPILER, FTJ_MISS_ABSENT);
    cr_expect_str_eq(told.kernel, "kv_store_sm90");
    cr_expect_str_eq(told.target, "sm_90a");
    cr_expect_eq(strlen(told.key), 32);
    cr_expect_geq(told.last.compile_us, 5000);
    cr_expect_not(told.last.has_waited);
    ftj_stats stats;
    ftj_context_stats(ctx, &stats);
    cr_expect_eq(stats.compile_us, told.last.compile_us);

    char path[512];
    snprintf(path, sizeof(path), "%s/v1/sm_90a/%.2s/%s-*.ftk", root, told.key, told.key + 2);
    glob_t found = {0};
    cr_expect_eq(glob(path, 0, NULL, &found), 0, "%s is not there", path);
    globfree(&found);
    ftj_context_destroy(ctx);
}

Test(kernel_event, is_not_of_what_is_in_memory)
{
    struct told told = {0};
    ftj_context *ctx = open_context(&told);
    cr_assert_eq(create_store(ctx, 128), FTJ_OK);
    expect_told(&told, 1, FTJ_OK, FTJ_TIER_ROOT, FTJ_MISS_NONE);
    cr_expect_eq(told.last.compile_us, 0);
    cr_assert_eq(create_store(ctx, 128), FTJ_OK);
    cr_expect_eq(atomic_load(&told.count), 1);
    ftj_context_destroy(ctx);
}

/* ---- tiers ---- */

static void expect_tier(const char *path, ftj_kernel_tier tier)
{
    struct told told = {0};
    char empty[300];
    snprintf(empty, sizeof(empty), "%s/empty", dir);
    ftj_settings settings = settings_for(&told);
    settings.cache_dir = empty;
    settings.cache_path = path;
    ftj_context *ctx = NULL;
    cr_assert_eq(ftj_context_create(&settings, &ctx), FTJ_OK, "%s", ftj_last_error());
    cr_assert_eq(create_store(ctx, 128), FTJ_OK);
    expect_told(&told, 1, FTJ_OK, tier, FTJ_MISS_NONE);
    ftj_context_destroy(ctx);
}

/* Of the kernel in the root, found by the record of its miss. */
static void make_bundle(const char *path)
{
    char digest[65];
    struct warm_list list = {0};
    struct ftj_store *store = NULL;
    struct ftj_bundle_writer *writer = NULL;
    setenv("FTJIT_NVRTC", FAKE_NVRTC_PATH, 1);
    cr_assert_eq(warm_list_add_file(&list, record), FTJ_OK, "%s", ftj_last_error());
    cr_assert_eq(list.count, 1);
    struct warm_item *item = &list.items[0];
    cr_assert_eq(ftj_store_create(root, false, NULL, &store), FTJ_OK);
    cr_assert_eq(ftj_store_get(store, &item->key, &item->entry), FTJ_OK);
    cr_assert_eq(ftj_bundle_writer_create(&writer), FTJ_OK);
    cr_assert_eq(ftj_bundle_writer_put(writer, &item->key, &item->entry), FTJ_OK);
    cr_assert_eq(ftj_bundle_writer_save(writer, path, digest), FTJ_OK, "%s", ftj_last_error());
    ftj_bundle_writer_destroy(writer);
    ftj_store_destroy(store);
    warm_list_finish(&list);
}

/* The one entry of the root. */
static void find_entry(char path[300])
{
    char pattern[400];
    glob_t found = {0};
    snprintf(pattern, sizeof(pattern), "%s/v1/sm_90a/*/*.ftk", root);
    cr_assert_eq(glob(pattern, 0, NULL, &found), 0);
    cr_assert_eq(found.gl_pathc, 1);
    snprintf(path, 300, "%s", found.gl_pathv[0]);
    globfree(&found);
}

Test(kernel_event, tells_which_tier_served)
{
    char bundle[300];
    snprintf(bundle, sizeof(bundle), "%s/one.ftb", dir);
    make_bundle(bundle);
    expect_tier(bundle, FTJ_TIER_BUNDLE);
    expect_tier(root, FTJ_TIER_SHARED);
    static const char *const names[] = {"none", "root", "shared", "bundle", "compiler"};
    for (int tier = FTJ_TIER_NONE; tier <= FTJ_TIER_COMPILER; tier++)
        cr_expect_str_eq(ftj_kernel_tier_name((ftj_kernel_tier)tier), names[tier]);
    cr_expect_str_eq(ftj_kernel_tier_name((ftj_kernel_tier)99), "unknown");
}

Test(kernel_event, tells_that_an_entry_was_damaged)
{
    char path[300];
    struct told told = {0};
    find_entry(path);
    FILE *file = fopen(path, "r+");
    cr_assert_not_null(file);
    cr_assert_eq(fseek(file, -1, SEEK_END), 0);
    const int last = fgetc(file);
    cr_assert_eq(fseek(file, -1, SEEK_END), 0);
    cr_assert_neq(fputc(last ^ 1, file), EOF);
    cr_assert_eq(fclose(file), 0);

    ftj_context *ctx = open_context(&told);
    cr_assert_eq(create_store(ctx, 128), FTJ_OK);
    expect_told(&told, 1, FTJ_OK, FTJ_TIER_COMPILER, FTJ_MISS_DAMAGED);
    ftj_context_destroy(ctx);
}

/* ---- failures ---- */

Test(kernel_event, tells_why_there_is_no_kernel)
{
    struct told told = {0};
    ftj_context *ctx = open_context(&told);
    setenv("FAKE_CUDA_CAPTURING", "1", 1);
    cr_expect_eq(create_store(ctx, 64), FTJ_E_CAPTURE);
    expect_told(&told, 1, FTJ_E_CAPTURE, FTJ_TIER_NONE, FTJ_MISS_NONE);
    unsetenv("FAKE_CUDA_CAPTURING");
    setenv("FAKE_NVRTC_FAIL", "nvrtcCompileProgram:6", 1);
    setenv("TMPDIR", dir, 1);
    cr_expect_eq(create_store(ctx, 64), FTJ_E_COMPILE);
    expect_told(&told, 2, FTJ_E_COMPILE, FTJ_TIER_NONE, FTJ_MISS_ABSENT);
    cr_expect_eq(told.last.compile_us, 0);
    cr_expect_not_null(strstr(ftj_last_error(), "does not compile"));
    ftj_context_seal(ctx, true);
    cr_expect_eq(create_store(ctx, 64), FTJ_E_SEALED);
    expect_told(&told, 3, FTJ_E_SEALED, FTJ_TIER_NONE, FTJ_MISS_ABSENT);
    setenv("FAKE_CUDA_FAIL", "cuModuleLoadData:2", 1);
    cr_expect_neq(create_store(ctx, 128), FTJ_OK);
    cr_expect_eq(atomic_load(&told.count), 4);
    cr_expect_eq(told.last.tier, FTJ_TIER_NONE);
    ftj_context_destroy(ctx);
}

/* ---- what may be done in it ---- */

/* It would hang, were anything held. */
Test(kernel_event, may_ask_the_same_context_for_more)
{
    struct told told = {0};
    ftj_context *ctx = open_context(&told);
    told.create_in = ctx;
    cr_assert_eq(create_store(ctx, 64), FTJ_OK);
    cr_expect_eq(atomic_load(&told.count), 2);
    ftj_context_destroy(ctx);
}

static void count(void *data, const ftj_kernel_event *event)
{
    atomic_uint *counts = data;
    atomic_fetch_add(&counts[event->tier], 1);
}

static void *create_some(void *data)
{
    for (uint32_t head_dim = 32; head_dim <= 256; head_dim += 32)
        cr_expect_eq(create_store(data, head_dim), FTJ_OK, "%s", ftj_last_error());
    return NULL;
}

Test(kernel_event, comes_once_to_threads_that_want_one_kernel)
{
    enum { NUM_THREADS = 8, NUM_KERNELS = 8 };
    atomic_uint counts[FTJ_TIER_COMPILER + 1] = {0};
    pthread_t threads[NUM_THREADS];
    ftj_settings settings = settings_for(NULL);
    settings.on_kernel = count;
    settings.on_kernel_data = counts;
    ftj_context *ctx = NULL;
    ftj_stats stats;
    cr_assert_eq(ftj_context_create(&settings, &ctx), FTJ_OK, "%s", ftj_last_error());
    for (int i = 0; i < NUM_THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, create_some, ctx), 0);
    for (int i = 0; i < NUM_THREADS; i++)
        pthread_join(threads[i], NULL);
    ftj_context_stats(ctx, &stats);
    cr_expect_eq(atomic_load(&counts[FTJ_TIER_COMPILER]), NUM_KERNELS - 1);
    cr_expect_eq(atomic_load(&counts[FTJ_TIER_COMPILER]), stats.compiles);
    cr_expect_eq(atomic_load(&counts[FTJ_TIER_ROOT]), 1);
    cr_expect_eq(stats.memory_hits, NUM_KERNELS * (NUM_THREADS - 1));
    ftj_context_destroy(ctx);
}
