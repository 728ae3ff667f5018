/* SPDX-License-Identifier: MIT */
/* Every allocation of the library, from opening a device to the first launch, fails once: what
 * cannot do without it says so with FTJ_E_NO_MEMORY and a sentence of its own, what can goes on,
 * and nothing is lost. The linker puts the functions below in the place of the C library's, for the
 * library's calls of them alone. */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ftjit/ftjit.h"
#include "temp_dir.h"

#define MOST_ALLOCATIONS 5000

static atomic_int num_left; /* of allocations, until one fails */
static atomic_int num_live; /* that were not given back */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
char *__real_strdup(const char *text);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
char *__wrap_strdup(const char *text);
void __wrap_free(void *memory);

static bool fails(void)
{
    return atomic_fetch_sub(&num_left, 1) == 1;
}

static void *count(void *memory)
{
    atomic_fetch_add(&num_live, memory != NULL);
    return memory;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : count(__real_malloc(size));
}

void *__wrap_calloc(size_t count_of, size_t size)
{
    return fails() ? NULL : count(__real_calloc(count_of, size));
}

void *__wrap_realloc(void *memory, size_t size)
{
    if (fails())
        return NULL;
    void *moved = __real_realloc(memory, size);
    return memory ? moved : count(moved);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : count(__real_strdup(text));
}

void __wrap_free(void *memory)
{
    atomic_fetch_sub(&num_live, memory != NULL);
    __real_free(memory);
}

/* ---- what is done -------------------------------------------------------------------------------
 */

static char cache[256];
static char shared[256];
static ftj_compile_mode mode;

static ftj_status open_and_launch(ftj_context **ctx, ftj_attention **attn, void **memory)
{
    char record[300];
    snprintf(record, sizeof(record), "%s/record", cache);
    const ftj_settings settings = {.driver_path = FAKE_CUDA_PATH,
                                   .compiler_path = FAKE_NVRTC_PATH,
                                   .compile_mode = mode,
                                   .cache_dir = cache,
                                   .cache_path = shared,
                                   .record_path = record,
                                   .stats_path = record};
    ftj_attention_desc desc = {.ops = FTJ_OP_MERGE};
    const ftj_kv_shape shape = {.num_kv_heads = 1, .head_dim = 64, .page_size = 16};
    ftj_status status = ftj_context_create(&settings, ctx);
    if (!status)
        status = ftj_kv_layout_init(&desc.kv, &shape);
    if (!status)
        status = ftj_attention_create(*ctx, &desc, attn);
    if (!status)
        status = ftj_memory_alloc(*ctx, 4096, memory);
    if (status)
        return status;
    const ftj_merge_args args = {.o_a = *memory,
                                 .lse_a = *memory,
                                 .o_b = *memory,
                                 .lse_b = *memory,
                                 .o = *memory,
                                 .rows = 1};
    return ftj_state_merge(*attn, &args, NULL);
}

/* How many times an allocation was made to fail before none was left to fail. */
static int fail_each_in_turn(bool is_cold)
{
    for (int n = 1; n <= MOST_ALLOCATIONS; n++) {
        ftj_context *ctx = NULL;
        ftj_attention *attn = NULL;
        void *memory = NULL;
        if (is_cold) {
            temp_dir_finish(cache);
            temp_dir_init(cache);
        }
        cr_assert_eq(ftj_kv_layout_init(&(ftj_kv_layout){0}, &(ftj_kv_shape){0}), FTJ_E_INVALID);
        char before[512];
        snprintf(before, sizeof(before), "%s", ftj_last_error());

        atomic_store(&num_left, n);
        const ftj_status status = open_and_launch(&ctx, &attn, &memory);
        const bool has_failed = atomic_exchange(&num_left, 0) <= 0;
        cr_expect(status == FTJ_OK || status == FTJ_E_NO_MEMORY, "allocation %d: %s, %s", n,
                  ftj_status_name(status), ftj_last_error());
        cr_expect(!status || strcmp(ftj_last_error(), before) != 0,
                  "allocation %d: no memory, and no sentence", n);
        if (ctx) {
            ftj_memory_free(ctx, memory);
            ftj_attention_destroy(attn);
            ftj_context_destroy(ctx);
        }
        cr_expect_eq(atomic_load(&num_live), 0, "allocation %d: %d are lost", n,
                     atomic_load(&num_live));
        if (!has_failed) {
            cr_expect_eq(status, FTJ_OK, "%s", ftj_last_error());
            return n;
        }
    }
    return 0;
}

static void set_up(void)
{
    setenv("FAKE_CUDA_ARCH", "90", 1);
    temp_dir_init(cache);
    temp_dir_init(shared);
    mode = FTJ_COMPILE_THREAD;
}

static void tear_down(void)
{
    temp_dir_finish(cache);
    temp_dir_finish(shared);
}

TestSuite(no_memory, .init = set_up, .fini = tear_down);

Test(no_memory, is_said_wherever_it_is_found_with_a_cold_cache)
{
    cr_expect_gt(fail_each_in_turn(true), 30);
}

Test(no_memory, is_said_wherever_it_is_found_beside_a_compiler_of_its_own)
{
    setenv("FTJIT_CC", FTJIT_CC_PATH, 1);
    mode = FTJ_COMPILE_PROCESS;
    cr_expect_gt(fail_each_in_turn(true), 40);
}

Test(no_memory, is_said_wherever_it_is_found_with_a_warm_cache)
{
    ftj_context *ctx = NULL;
    ftj_attention *attn = NULL;
    void *memory = NULL;
    cr_assert_eq(open_and_launch(&ctx, &attn, &memory), FTJ_OK, "%s", ftj_last_error());
    ftj_memory_free(ctx, memory);
    ftj_attention_destroy(attn);
    ftj_context_destroy(ctx);
    cr_expect_gt(fail_each_in_turn(false), 25);
}
