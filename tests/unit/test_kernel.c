/* SPDX-License-Identifier: MIT */
/* The pipeline with a fake driver and a fake NVRTC: where a kernel comes from, and what becomes of
 * one that the driver or the compiler refuses. */
#include <criterion/criterion.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "log_catcher.h"
#include "runtime/kernel.h"
#include "temp_dir.h"

static struct log_catcher catcher;
static ftj_log_level log_level = FTJ_LOG_WARNING;
static char cache[256];
static char reports[256];
static struct ftj_context *ctx;
static struct ftj_problem problem;

static void open_context(void)
{
    const ftj_settings settings = {
        .driver_path = FAKE_CUDA_PATH,
        .compiler_path = FAKE_NVRTC_PATH,
        .compile_mode = FTJ_COMPILE_THREAD,
        .cache_dir = cache,
        .log = catch_sentence,
        .log_data = &catcher,
        .log_level = log_level,
    };
    cr_assert_eq(ftj_context_create(&settings, &ctx), FTJ_OK, "%s", catcher.last);
}

static void reopen_context(void)
{
    ftj_context_destroy(ctx);
    open_context();
}

static void set_up(void)
{
    ftj_attention_desc desc = {.num_q_heads = 32};
    const ftj_kv_shape shape = {.num_kv_heads = 8, .head_dim = 128, .page_size = 64};
    cr_assert_eq(ftj_kv_layout_init(&desc.kv, &shape), FTJ_OK);
    ftj_problem_init(&problem, FTJ_KERNEL_DECODE, &desc);
    temp_dir_init(cache);
    temp_dir_init(reports);
    setenv("TMPDIR", reports, 1);
    open_context();
}

static void tear_down(void)
{
    ftj_context_destroy(ctx);
    temp_dir_finish(cache);
    temp_dir_finish(reports);
}

TestSuite(kernel, .init = set_up, .fini = tear_down);

static void expect_stats(uint64_t memory_hits, uint64_t disk_hits, uint64_t compiles,
                         uint64_t damaged)
{
    ftj_stats stats;
    ftj_context_stats(ctx, &stats);
    cr_expect_eq(stats.memory_hits, memory_hits, "%d memory hits", (int)stats.memory_hits);
    cr_expect_eq(stats.disk_hits, disk_hits, "%d disk hits", (int)stats.disk_hits);
    cr_expect_eq(stats.compiles, compiles, "%d compiles", (int)stats.compiles);
    cr_expect_eq(stats.damaged_entries, damaged, "%d damaged", (int)stats.damaged_entries);
}

static const struct ftj_kernel *get(void)
{
    const struct ftj_kernel *kernel = NULL;
    cr_assert_eq(ftj_kernel_get(ctx, &problem, &kernel), FTJ_OK, "%s", catcher.last);
    cr_assert_not_null(kernel);
    cr_expect_not_null(kernel->module.function);
    return kernel;
}

/* Under the kernel's own key, sound machine code of another architecture. */
static void publish_foreign_code(void)
{
    struct ftj_source source = {0};
    struct ftj_key key = {0};
    Elf64_Ehdr header = {.e_machine = 190, .e_flags = 80 << 8};
    memcpy(header.e_ident, ELFMAG, SELFMAG);
    const struct ftj_entry foreign = {.code = {(uint8_t *)&header, sizeof(header)}};
    cr_assert_eq(ftj_kernel_describe(&problem, &ctx->backend.device, &ctx->compiler, &source, &key,
                                     &ctx->log),
                 FTJ_OK);
    cr_assert_eq(ftj_store_put(ctx->store, &key, &foreign), FTJ_OK);
    ftj_key_finish(&key);
    ftj_source_finish(&source);
}

Test(kernel, is_compiled_once_then_found_in_memory_then_on_disk)
{
    const struct ftj_kernel *first = get();
    expect_stats(0, 0, 1, 0);
    cr_expect_eq(get(), first);
    expect_stats(1, 0, 1, 0);
    cr_expect_eq(temp_dir_count(cache, ".ftk", NULL), 1u);
    reopen_context();
    get();
    expect_stats(0, 1, 0, 0);
    cr_expect_eq(catcher.num_sentences, 0, "%s", catcher.last);
}

Test(kernel, that_the_driver_refuses_is_built_again_once_and_replaced)
{
    publish_foreign_code();
    get();
    expect_stats(0, 0, 1, 1);
    cr_expect_eq(temp_dir_count(cache, ".ftk", NULL), 1u);
    reopen_context();
    get();
    expect_stats(0, 1, 0, 0);
}

Test(kernel, compiled_now_is_one_line_with_its_cause)
{
    log_level = FTJ_LOG_INFO;
    reopen_context();
    get();
    cr_expect_eq(catcher.num_sentences, 1);
    cr_expect_eq(catcher.level, FTJ_LOG_INFO);
    cr_expect(strstr(catcher.last, "compiled attn_decode_sm90 for sm_90a in "), "%s", catcher.last);
    cr_expect(strstr(catcher.last, " ms: not in the cache ("), "%s", catcher.last);

    publish_foreign_code();
    reopen_context();
    get();
    cr_expect(strstr(catcher.last, " ms: its entry in the cache was damaged ("), "%s",
              catcher.last);
}

Test(kernel, that_is_refused_fresh_from_the_compiler_is_not_kept)
{
    const struct ftj_kernel *kernel = NULL;
    setenv("FAKE_CUDA_FAIL", "cuModuleLoadData:222", 1);
    cr_expect_eq(ftj_kernel_get(ctx, &problem, &kernel), FTJ_E_DAMAGED);
    cr_expect_null(kernel);
    cr_expect(strstr(ftj_last_error(), "(CUDA 13.0) refused machine code for sm_90a by nvrtc "),
              "%s", ftj_last_error());
    expect_stats(0, 0, 1, 0);
    cr_expect_eq(temp_dir_count(cache, ".ftk", NULL), 0u);
    unsetenv("FAKE_CUDA_FAIL");
    get();
    expect_stats(0, 0, 2, 0);
    cr_expect_eq(temp_dir_count(cache, ".ftk", NULL), 1u);
}

Test(kernel, that_does_not_compile_is_one_sentence_and_two_files)
{
    const struct ftj_kernel *kernel = NULL;
    char report[512];
    setenv("FAKE_NVRTC_FAIL", "nvrtcCompileProgram:6", 1);
    cr_expect_eq(ftj_kernel_get(ctx, &problem, &kernel), FTJ_E_COMPILE);
    cr_expect_eq(catcher.num_sentences, 1);
    cr_expect_str_eq(catcher.last, ftj_last_error());
    cr_expect(strstr(catcher.last, "for sm_90a does not compile: unit.cu(3): error:"), "%s",
              catcher.last);
    cr_expect_eq(temp_dir_count(reports, ".cu", report), 1u);
    cr_expect_eq(temp_dir_count(reports, ".log", NULL), 1u);
    cr_expect(strstr(catcher.last, report), "%s is not in: %s", report, catcher.last);
    expect_stats(0, 0, 0, 0);
    cr_expect_eq(temp_dir_count(cache, ".ftk", NULL), 0u);
}

Test(kernel, is_not_built_inside_a_capture)
{
    const struct ftj_kernel *kernel = NULL;
    setenv("FAKE_CUDA_CAPTURING", "1", 1);
    cr_expect_eq(ftj_kernel_get(ctx, &problem, &kernel), FTJ_E_CAPTURE);
    cr_expect(strstr(ftj_last_error(), "before the capture"), "%s", ftj_last_error());
    unsetenv("FAKE_CUDA_CAPTURING");
    const struct ftj_kernel *built = get();
    setenv("FAKE_CUDA_CAPTURING", "1", 1);
    cr_expect_eq(get(), built, "what is in memory may be had in a capture");
}

Test(kernel, that_no_variant_serves_says_why_of_each)
{
    const struct ftj_kernel *kernel = NULL;
    ctx->backend.device.features = 0;
    cr_expect_eq(ftj_kernel_get(ctx, &problem, &kernel), FTJ_E_UNSUPPORTED);
    static const char *const parts[] = {"head_dim 128", "on sm_90a", "attn_decode_sm80 needs",
                                        "attn_decode_sm75 needs mma_f16"};
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
        cr_expect(strstr(ftj_last_error(), parts[i]), "\"%s\" is not in: %s", parts[i],
                  ftj_last_error());
}
