/* SPDX-License-Identifier: MIT */
/* Opening libcuda for the bench. */
#include "bench/bench_driver.h"

#include <stdbool.h>
#include <string.h>

#include "base/dynlib.h"
#include "base/environment.h"

static bool resolve(struct bench_driver *driver)
{
    bool complete = true;
    void *symbol;
    /* Object and function pointers are one size wherever dlsym exists; memcpy keeps ISO C out of
     * the question. */
#define BENCH_DRIVER_RESOLVE(member, name, parameters)                                             \
    symbol = ftj_dynlib_symbol(driver->library, name);                                             \
    memcpy(&driver->member, &symbol, sizeof(symbol));                                              \
    complete = complete && symbol;
    BENCH_DRIVER_SYMBOLS(BENCH_DRIVER_RESOLVE)
#undef BENCH_DRIVER_RESOLVE
    return complete;
}

static ftj_status take_context(struct bench_driver *driver, int ordinal)
{
    ftj_status status = bench_driver_check(driver, driver->init(0), "cuInit");
    if (status)
        return status;
    status =
        bench_driver_check(driver, driver->device_get(&driver->device, ordinal), "cuDeviceGet");
    if (status)
        return status;
    status = bench_driver_check(driver, driver->context_retain(&driver->context, driver->device),
                                "cuDevicePrimaryCtxRetain");
    if (status)
        return status;
    return bench_driver_check(driver, driver->context_set(driver->context), "cuCtxSetCurrent");
}

ftj_status bench_driver_init(struct bench_driver *driver, const char *path, int ordinal)
{
    struct bench_driver opened = {0};
    struct ftj_text tried = {0};
    if (!path)
        path = ftj_variable("FTJIT_CUDA_DRIVER");
    const char *const names[] = {path ? path : "libcuda.so.1",
                                 path ? NULL : "/usr/lib/wsl/lib/libcuda.so.1", NULL};
    ftj_status status = FTJ_OK;

    opened.library = ftj_dynlib_open(names, &tried, NULL, 0);
    if (!opened.library)
        status = ftj_fail(NULL, FTJ_E_DRIVER, "no CUDA driver could be opened; tried %s",
                          tried.data ? tried.data : names[0]);
    else if (!resolve(&opened))
        status = ftj_fail(NULL, FTJ_E_DRIVER,
                          "%s lacks an entry point that the bench needs (CUDA 11.4 or newer has "
                          "them all)",
                          names[0]);
    else
        status = take_context(&opened, ordinal);

    ftj_text_finish(&tried);
    if (status) {
        bench_driver_finish(&opened);
        return status;
    }
    *driver = opened;
    return FTJ_OK;
}

void bench_driver_finish(struct bench_driver *driver)
{
    if (driver->context) {
        driver->context_set(NULL);
        driver->context_release(driver->device);
    }
    ftj_dynlib_close(driver->library);
    *driver = (struct bench_driver){0};
}

ftj_status bench_driver_check(const struct bench_driver *driver, int result, const char *call)
{
    if (result == 0)
        return FTJ_OK;
    const char *text = NULL;
    driver->error_string(result, &text);
    return ftj_fail(NULL, FTJ_E_DRIVER, "%s failed with error %d, %s", call, result,
                    text ? text : "which the driver does not know");
}
