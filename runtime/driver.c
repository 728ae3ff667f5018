/* SPDX-License-Identifier: MIT */
#include "runtime/driver.h"

#include <stdio.h>
#include <string.h>

#include "base/dynlib.h"
#include "base/environment.h"

#define RESULT_TEXT_SIZE 256

/* The loader's own names first: they honour LD_LIBRARY_PATH and ld.so.conf. The folders after them
 * are where a driver is known to lie without the loader knowing. */
static const char *const usual_names[] = {
    "libcuda.so.1",
    "libcuda.so",
    "/usr/lib/wsl/lib/libcuda.so.1",
    "/usr/local/nvidia/lib64/libcuda.so.1",
    "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
    "/usr/lib/x86_64-linux-gnu/nvidia/current/libcuda.so.1",
    "/usr/lib/aarch64-linux-gnu/libcuda.so.1",
    "/usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1",
    "/usr/lib64/libcuda.so.1",
    "/run/opengl-driver/lib/libcuda.so.1",
    NULL,
};

static ftj_status open_library(struct ftj_driver *driver, const char *path,
                               const struct ftj_log *log)
{
    const char *source = "the setting driver_path";
    if (!path || !*path) {
        path = ftj_variable("FTJIT_CUDA_DRIVER");
        source = "FTJIT_CUDA_DRIVER";
    }
    const bool is_named = path != NULL;
    const char *const only[] = {path, NULL};

    struct ftj_text tried = {0};
    driver->library =
        ftj_dynlib_open(is_named ? only : usual_names, &tried, driver->path, sizeof(driver->path));
    ftj_status status = FTJ_OK;
    if (!driver->library && is_named)
        status = ftj_fail(log, FTJ_E_DRIVER,
                          "%s names %s, which cannot be loaded as the NVIDIA driver library",
                          source, path);
    else if (!driver->library)
        status =
            ftj_fail(log, FTJ_E_DRIVER,
                     "no NVIDIA driver library was found; tried %s; install the driver, or name "
                     "its libcuda in FTJIT_CUDA_DRIVER",
                     tried.data ? tried.data : "the usual names");
    ftj_text_finish(&tried);
    return status;
}

/* First required symbol that is not there; NULL when all are. */
static const char *resolve(struct ftj_driver *driver)
{
    /* memcpy: ISO C has no conversion from an object pointer to a function pointer. */
    void *address;
    const char *missing = NULL;
#define FTJ_DRIVER_RESOLVE(symbol, arguments)                                                      \
    address = ftj_dynlib_symbol(driver->library, #symbol);                                         \
    memcpy(&driver->symbol, &address, sizeof(address));
    FTJ_DRIVER_OPTIONAL_MAP(FTJ_DRIVER_RESOLVE)
    FTJ_DRIVER_REQUIRED_MAP(FTJ_DRIVER_RESOLVE)
#undef FTJ_DRIVER_RESOLVE
#define FTJ_DRIVER_REQUIRE(symbol, arguments)                                                      \
    if (!driver->symbol && !missing)                                                               \
        missing = #symbol;
    FTJ_DRIVER_REQUIRED_MAP(FTJ_DRIVER_REQUIRE)
#undef FTJ_DRIVER_REQUIRE
    return missing;
}

ftj_status ftj_driver_init(struct ftj_driver *driver, const char *path, const struct ftj_log *log)
{
    struct ftj_driver opened = {0};
    ftj_status status = open_library(&opened, path, log);
    if (status)
        return status;

    const char *missing = resolve(&opened);
    if (missing) {
        ftj_dynlib_close(opened.library);
        return ftj_fail(
            log, FTJ_E_DRIVER,
            "%s has no %s: the NVIDIA driver is older than CUDA 11, or this is no driver",
            opened.path, missing);
    }
    int result = opened.cuInit(0);
    if (result)
        return ftj_driver_fail(&opened, log, FTJ_E_DRIVER, result, "cuInit");
    result = opened.cuDriverGetVersion(&opened.version);
    if (result)
        return ftj_driver_fail(&opened, log, FTJ_E_DRIVER, result, "cuDriverGetVersion");
    *driver = opened;
    return FTJ_OK;
}

void ftj_driver_finish(struct ftj_driver *driver)
{
    /* NOTE(never closed): once initialised libcuda has threads and exit handlers of its own, and
     * the engine may be using it as well; unmapping it under them crashes. */
    *driver = (struct ftj_driver){0};
}

void ftj_driver_result_text(const struct ftj_driver *driver, int result, char *text, size_t size)
{
    const char *name = NULL;
    const char *meaning = NULL;
    if (driver->cuGetErrorName(result, &name) || !name)
        name = "CUDA error";
    if (driver->cuGetErrorString(result, &meaning) || !meaning)
        meaning = "unknown to this driver";
    snprintf(text, size, "%s (%d: %s)", name, result, meaning);
}

ftj_status ftj_driver_fail(const struct ftj_driver *driver, const struct ftj_log *log,
                           ftj_status status, int result, const char *call)
{
    char text[RESULT_TEXT_SIZE];
    ftj_driver_result_text(driver, result, text, sizeof(text));
    const char *hint = "";
    if (result == FTJ_CU_ERROR_NO_DEVICE)
        hint = "; is there a GPU, and does CUDA_VISIBLE_DEVICES show it?";
    else if (result == FTJ_CU_ERROR_NOT_INITIALIZED)
        hint = "; CUDA does not survive a fork: use it in the process that opened it";
    return ftj_fail(log, result == FTJ_CU_ERROR_OUT_OF_MEMORY ? FTJ_E_NO_MEMORY : status,
                    "%s: the driver answered %s%s", call, text, hint);
}
