/* SPDX-License-Identifier: MIT */
/* Opening libcuda, with a fake one. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "library_copy.h"
#include "log_catcher.h"
#include "runtime/driver.h"
#include "temp_dir.h"

static struct log_catcher catcher;
static const struct ftj_log log_to_catcher = {catch_sentence, &catcher, FTJ_LOG_DEBUG};

#define expect_said(part)                                                                          \
    cr_expect(strstr(catcher.last, part), "\"%s\" is not in: %s", part, catcher.last)

/* The one libcuda of this machine, "" when it has none; NULL: whatever it really has. */
static const char *only;

/* The library's dlopen(), in the place of the C library's: nothing is really put where a driver is
 * looked for. */
void *dlopen(const char *name, int mode)
{
    void *(*really)(const char *, int) = NULL;
    void *const address = dlsym(RTLD_NEXT, "dlopen");
    memcpy(&really, &address, sizeof(address));
    if (!only || !name || !strstr(name, "libcuda.so"))
        return really(name, mode);
    return strcmp(name, only) == 0 ? really(FAKE_CUDA_PATH, mode) : NULL;
}

Test(driver, opens_the_library_that_the_setting_names)
{
    struct ftj_driver driver = {0};
    setenv("FTJIT_CUDA_DRIVER", "/nonexistent/libcuda.so", 1);
    setenv("FAKE_CUDA_VERSION", "12040", 1);
    cr_assert_eq(ftj_driver_init(&driver, FAKE_CUDA_PATH, &log_to_catcher), FTJ_OK);
    cr_expect_str_eq(driver.path, FAKE_CUDA_PATH);
    cr_expect_eq(driver.version, 12040);
    cr_expect_eq(catcher.num_sentences, 0);
    ftj_driver_finish(&driver);
    cr_expect_null(driver.library);
}

Test(driver, opens_the_library_that_the_environment_names)
{
    struct ftj_driver driver = {0};
    setenv("FTJIT_CUDA_DRIVER", FAKE_CUDA_PATH, 1);
    cr_assert_eq(ftj_driver_init(&driver, NULL, &log_to_catcher), FTJ_OK);
    cr_expect_str_eq(driver.path, FAKE_CUDA_PATH);
    ftj_driver_finish(&driver);
}

Test(driver, tries_nothing_else_when_a_named_library_is_not_there)
{
    struct ftj_driver driver = {0};
    cr_expect_eq(ftj_driver_init(&driver, "/nonexistent/libcuda.so", &log_to_catcher),
                 FTJ_E_DRIVER);
    expect_said("/nonexistent/libcuda.so");
    expect_said("driver_path");
    setenv("FTJIT_CUDA_DRIVER", "/nonexistent/other.so", 1);
    cr_expect_eq(ftj_driver_init(&driver, NULL, &log_to_catcher), FTJ_E_DRIVER);
    expect_said("FTJIT_CUDA_DRIVER names /nonexistent/other.so");
    cr_expect_null(driver.library);
    cr_expect_eq(catcher.num_sentences, 2);
}

/* Acceptance case O26 (a). */
Test(driver, lists_what_was_tried_when_there_is_no_driver)
{
    struct ftj_driver driver = {0};
    only = "";
    cr_expect_eq(ftj_driver_init(&driver, NULL, &log_to_catcher), FTJ_E_DRIVER);
    expect_said("libcuda.so.1, libcuda.so, /usr/lib/wsl/lib/libcuda.so.1");
    expect_said("FTJIT_CUDA_DRIVER");
}

/* Acceptance case O26 (b), and the other places the loader does not know. */
Test(driver, is_found_where_the_loader_does_not_look)
{
    static const char *const places[] = {"/usr/lib/wsl/lib/libcuda.so.1",
                                         "/usr/local/nvidia/lib64/libcuda.so.1",
                                         "/run/opengl-driver/lib/libcuda.so.1"};
    for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
        struct ftj_driver driver = {0};
        only = places[i];
        cr_expect_eq(ftj_driver_init(&driver, NULL, &log_to_catcher), FTJ_OK, "%s: %s", only,
                     catcher.last);
        cr_expect_str_eq(driver.path, FAKE_CUDA_PATH, "%s is used", only);
        ftj_driver_finish(&driver);
    }
    cr_expect_eq(catcher.num_sentences, 0);
}

Test(driver, names_each_required_symbol_that_is_missing)
{
    static const char *const symbols[] = {
#define SYMBOL_NAME(symbol, arguments) #symbol,
        FTJ_DRIVER_REQUIRED_MAP(SYMBOL_NAME)
#undef SYMBOL_NAME
    };
    char dir[256];
    temp_dir_init(dir);
    for (size_t i = 0; i < sizeof(symbols) / sizeof(*symbols); i++) {
        struct ftj_driver driver = {0};
        char path[512];
        library_path(path, dir, symbols[i], NULL);
        cr_assert(library_copy(FAKE_CUDA_PATH, path, symbols[i]), "%s", symbols[i]);
        cr_expect_eq(ftj_driver_init(&driver, path, &log_to_catcher), FTJ_E_DRIVER, "%s",
                     symbols[i]);
        char part[128];
        snprintf(part, sizeof(part), "has no %s:", symbols[i]);
        expect_said(part);
        cr_expect_null(driver.library);
    }
    temp_dir_finish(dir);
}

Test(driver, does_without_the_optional_symbols)
{
    char dir[256];
    char once[512];
    char twice[512];
    temp_dir_init(dir);
    library_path(once, dir, "once.so", NULL);
    library_path(twice, dir, "twice.so", NULL);
    cr_assert(library_copy(FAKE_CUDA_PATH, once, "cuFuncLoad"));
    cr_assert(library_copy(once, twice, "cuStreamGetCtx"));
    struct ftj_driver driver = {0};
    cr_assert_eq(ftj_driver_init(&driver, twice, &log_to_catcher), FTJ_OK, "%s", catcher.last);
    cr_expect(!driver.cuFuncLoad);
    cr_expect(!driver.cuStreamGetCtx);
    ftj_driver_finish(&driver);
    temp_dir_finish(dir);
}

Test(driver, reports_a_driver_that_cannot_start)
{
    struct ftj_driver driver = {0};
    setenv("FAKE_CUDA_FAIL", "cuInit:804", 1);
    cr_expect_eq(ftj_driver_init(&driver, FAKE_CUDA_PATH, &log_to_catcher), FTJ_E_DRIVER);
    expect_said("cuInit: the driver answered FAKE_ERROR_804 (804: as the test asked)");
    setenv("FAKE_CUDA_FAIL", "cuInit:100", 1);
    cr_expect_eq(ftj_driver_init(&driver, FAKE_CUDA_PATH, &log_to_catcher), FTJ_E_DRIVER);
    expect_said("CUDA_VISIBLE_DEVICES");
    setenv("FAKE_CUDA_FAIL", "cuDriverGetVersion", 1);
    cr_expect_eq(ftj_driver_init(&driver, FAKE_CUDA_PATH, &log_to_catcher), FTJ_E_DRIVER);
    expect_said("cuDriverGetVersion");
    cr_expect_null(driver.library);
}

Test(driver, has_words_for_a_result_that_it_does_not_know)
{
    struct ftj_driver driver = {0};
    char text[128];
    cr_assert_eq(ftj_driver_init(&driver, FAKE_CUDA_PATH, &log_to_catcher), FTJ_OK);
    setenv("FAKE_CUDA_FAIL", "cuGetErrorName,cuGetErrorString", 1);
    ftj_driver_result_text(&driver, 12345, text, sizeof(text));
    cr_expect_str_eq(text, "CUDA error (12345: unknown to this driver)");
    ftj_driver_finish(&driver);
}
