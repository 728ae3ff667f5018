/* SPDX-License-Identifier: MIT */
/* What is refused before a launch: pointers, streams, captures; and memory, against a fake driver.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/dynlib.h"
#include "fake_cuda.h"
#include "log_catcher.h"
#include "runtime/cuda_state.h"

static struct log_catcher catcher;
static const struct ftj_log log_to_catcher = {catch_sentence, &catcher, FTJ_LOG_DEBUG};
static struct ftj_backend backend;
static struct CUctx_st *(*new_context)(int device);
static void (*set_memory)(const void *pointer, const struct fake_memory *memory);
static unsigned int (*calls)(const char *symbol);

#define expect_said(part)                                                                          \
    cr_expect(strstr(catcher.last, part), "\"%s\" is not in: %s", part, catcher.last)

static void look_up(void *function, const char *name)
{
    void *address = ftj_dynlib_symbol(ftj_cuda_of(&backend)->driver.library, name);
    cr_assert_not_null(address, "%s", name);
    memcpy(function, &address, sizeof(address));
}

static void set_up(void)
{
    const ftj_settings settings = {.driver_path = FAKE_CUDA_PATH};
    cr_assert_eq(ftj_cuda_backend_init(&backend, &settings, &log_to_catcher), FTJ_OK);
    look_up(&new_context, "fake_cuda_context");
    look_up(&set_memory, "fake_cuda_set_memory");
    look_up(&calls, "fake_cuda_calls");
}

static void tear_down(void)
{
    ftj_backend_finish(&backend);
}

TestSuite(cuda_check, .init = set_up, .fini = tear_down);

Test(cuda_check, accepts_memory_that_a_kernel_can_reach)
{
    struct CUctx_st *ours = ftj_cuda_of(&backend)->context;
    struct CUctx_st *other = new_context(0);
    static char at[4];
    const struct {
        const char *kind;
        struct fake_memory memory;
    } rows[] = {
        {"allocated", {.context = ours, .type = 2, .ordinal = 0}},
        {"of a pool", {.context = NULL, .type = 2, .ordinal = 0}},
        {"managed", {.context = ours, .type = 1, .ordinal = 1, .is_managed = 1}},
        {"managed, of another context", {.context = other, .type = 2, .is_managed = 1}},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        set_memory(&at[i], &rows[i].memory);
        cr_expect_eq(backend.ops->check_pointer(&backend, "k", &at[i]), FTJ_OK, "%s: %s",
                     rows[i].kind, catcher.last);
    }
    cr_expect_eq(calls("cuPointerGetAttributes"), 4, "one driver call per pointer");
}

/* Acceptance case O21. */
Test(cuda_check, refuses_memory_that_a_kernel_cannot_reach)
{
    struct CUctx_st *ours = ftj_cuda_of(&backend)->context;
    struct CUctx_st *other = new_context(0);
    static char at[4];
    const struct {
        struct fake_memory memory;
        const char *said;
    } rows[] = {
        {{.context = NULL, .type = 0, .ordinal = -2}, "which is no CUDA memory"},
        {{.context = ours, .type = 1, .ordinal = 0}, "which is host memory"},
        {{.context = ours, .type = 2, .ordinal = 1},
         "which is memory of device 1; it must be memory of device 0"},
        {{.context = other, .type = 2, .ordinal = 0}, "another CUDA context of device 0"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        set_memory(&at[i], &rows[i].memory);
        cr_expect_eq(backend.ops->check_pointer(&backend, "cache.k_codes", &at[i]), FTJ_E_INVALID,
                     "%s", rows[i].said);
        expect_said("cache.k_codes is 0x");
        expect_said(rows[i].said);
    }
    cr_expect_eq(catcher.num_sentences, 4);
}

Test(cuda_check, refuses_what_is_allocated_on_another_device)
{
    void *memory = NULL;
    setenv("FAKE_CUDA_POINTER_DEVICE", "1", 1);
    cr_assert_eq(backend.ops->memory_alloc(&backend, 16, &memory), FTJ_OK);
    cr_expect_eq(backend.ops->check_pointer(&backend, "q", memory), FTJ_E_INVALID);
    expect_said("device 1");
    backend.ops->memory_free(&backend, memory);
}

Test(cuda_check, refuses_a_stream_of_another_context)
{
    const struct ftj_driver *driver = &ftj_cuda_of(&backend)->driver;
    struct CUctx_st *other = new_context(1);
    struct CUctx_st *popped = NULL;
    struct CUstream_st *ours = NULL;
    struct CUstream_st *foreign = NULL;
    cr_assert_eq(backend.ops->stream_create(&backend, &ours), FTJ_OK);
    cr_assert_eq(driver->cuCtxPushCurrent_v2(other), 0);
    cr_assert_eq(driver->cuStreamCreate(&foreign, 0), 0);

    cr_expect_eq(backend.ops->check_stream(&backend, NULL), FTJ_OK);
    cr_expect_eq(backend.ops->check_stream(&backend, ours), FTJ_OK);
    cr_expect_eq(backend.ops->check_stream(&backend, foreign), FTJ_E_INVALID);
    expect_said("(device 1); it must be of the context of device 0");
    struct CUctx_st *current = NULL;
    cr_assert_eq(driver->cuCtxGetCurrent(&current), 0);
    cr_expect_eq(current, other, "the caller's context is back");

    setenv("FAKE_CUDA_FAIL", "cuStreamGetCtx:400", 1);
    cr_expect_eq(backend.ops->check_stream(&backend, foreign), FTJ_E_INVALID);
    expect_said("FAKE_ERROR_400");
    unsetenv("FAKE_CUDA_FAIL");
    cr_expect_eq(driver->cuStreamDestroy_v2(foreign), 0);
    cr_expect_eq(driver->cuCtxPopCurrent_v2(&popped), 0);
    backend.ops->stream_destroy(&backend, ours);
}

Test(cuda_check, knows_a_capture_of_a_blocking_stream)
{
    cr_expect_not(backend.ops->is_capturing(&backend));
    setenv("FAKE_CUDA_CAPTURING", "1", 1);
    cr_expect(backend.ops->is_capturing(&backend));
    setenv("FAKE_CUDA_FAIL", "cuStreamIsCapturing", 1);
    cr_expect_not(backend.ops->is_capturing(&backend), "unknown is not known to be");
}

Test(cuda_check, moves_bytes_there_and_back)
{
    static const char words[] = "there and back";
    char back[sizeof(words)] = {0};
    void *memory = NULL;
    cr_assert_eq(backend.ops->memory_alloc(&backend, sizeof(words), &memory), FTJ_OK);
    cr_expect_eq((uintptr_t)memory % 256, 0);
    cr_expect_eq(backend.ops->memory_write(&backend, memory, words, sizeof(words)), FTJ_OK);
    cr_expect_eq(calls("cuStreamSynchronize"), 1, "a write has arrived when it returns");
    cr_expect_eq(backend.ops->memory_read(&backend, back, memory, sizeof(back)), FTJ_OK);
    cr_expect_arr_eq(back, words, sizeof(words));
    cr_expect_eq(backend.ops->memory_fill(&backend, memory, 0x5a, 3), FTJ_OK);
    cr_expect_eq(backend.ops->memory_read(&backend, back, memory, sizeof(back)), FTJ_OK);
    cr_expect_arr_eq(back, "ZZZre and back", sizeof(words));
    backend.ops->memory_free(&backend, memory);
    backend.ops->memory_free(&backend, NULL);

    void *empty = NULL;
    cr_expect_eq(backend.ops->memory_alloc(&backend, 0, &empty), FTJ_OK);
    cr_expect_not_null(empty);
    backend.ops->memory_free(&backend, empty);
}

Test(cuda_check, names_the_memory_call_that_failed)
{
    static const char *const failures[] = {"cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2", "cuMemsetD8_v2",
                                           "cuStreamCreate", "cuStreamSynchronize"};
    static char buffer[4];
    struct CUstream_st *stream = NULL;
    const struct ftj_backend_ops *ops = backend.ops;
    for (size_t i = 0; i < sizeof(failures) / sizeof(*failures); i++) {
        setenv("FAKE_CUDA_FAIL", failures[i], 1);
        const ftj_status statuses[] = {
            ops->memory_write(&backend, buffer, "abc", 4),
            ops->memory_read(&backend, buffer, buffer, 0),
            ops->memory_fill(&backend, buffer, 1, 4),
            i == 3 ? ops->stream_create(&backend, &stream) : FTJ_OK,
            ops->stream_synchronize(&backend, NULL),
        };
        cr_expect_eq(statuses[i], FTJ_E_DRIVER, "%s", failures[i]);
    }
    setenv("FAKE_CUDA_FAIL", "cuMemAlloc_v2:2", 1);
    void *memory = NULL;
    cr_expect_eq(ops->memory_alloc(&backend, 12345, &memory), FTJ_E_NO_MEMORY);
    expect_said("no 12345 bytes");
    cr_expect_null(memory);
    cr_expect_null(stream);
}

Test(cuda_check, tells_two_contexts_of_one_device_apart)
{
    struct ftj_backend other = {0};
    const ftj_settings settings = {.driver_path = FAKE_CUDA_PATH, .cuda_context = new_context(0)};
    cr_assert_eq(ftj_cuda_backend_init(&other, &settings, &log_to_catcher), FTJ_OK);
    void *ours = NULL;
    void *theirs = NULL;
    struct CUstream_st *stream = NULL;
    cr_assert_eq(backend.ops->memory_alloc(&backend, 16, &ours), FTJ_OK);
    cr_assert_eq(other.ops->memory_alloc(&other, 16, &theirs), FTJ_OK);
    cr_assert_eq(other.ops->stream_create(&other, &stream), FTJ_OK);

    cr_expect_eq(backend.ops->check_pointer(&backend, "q", ours), FTJ_OK);
    cr_expect_eq(other.ops->check_pointer(&other, "q", theirs), FTJ_OK);
    cr_expect_eq(backend.ops->check_pointer(&backend, "q", theirs), FTJ_E_INVALID);
    cr_expect_eq(other.ops->check_pointer(&other, "q", ours), FTJ_E_INVALID);
    cr_expect_eq(other.ops->check_stream(&other, stream), FTJ_OK);
    cr_expect_eq(backend.ops->check_stream(&backend, stream), FTJ_E_INVALID);

    other.ops->stream_destroy(&other, stream);
    other.ops->memory_free(&other, theirs);
    ftj_backend_finish(&other);
    cr_expect_eq(backend.ops->check_pointer(&backend, "q", ours), FTJ_OK, "and is still right");
    backend.ops->memory_free(&backend, ours);
}
