/* SPDX-License-Identifier: MIT */
#include "tests/gpu/gpu_driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* X(member, symbol) */
#define SYMBOLS(X)                                                                                 \
    X(device_get_count, "cuDeviceGetCount")                                                        \
    X(primary_retain, "cuDevicePrimaryCtxRetain")                                                  \
    X(primary_release, "cuDevicePrimaryCtxRelease_v2")                                             \
    X(context_create, "cuCtxCreate_v2")                                                            \
    X(context_destroy, "cuCtxDestroy_v2")                                                          \
    X(context_push, "cuCtxPushCurrent_v2")                                                         \
    X(context_pop, "cuCtxPopCurrent_v2")                                                           \
    X(context_current, "cuCtxGetCurrent")                                                          \
    X(begin_capture, "cuStreamBeginCapture_v2")                                                    \
    X(end_capture, "cuStreamEndCapture")                                                           \
    X(graph_instantiate, "cuGraphInstantiateWithFlags")                                            \
    X(graph_launch, "cuGraphLaunch")                                                               \
    X(exec_destroy, "cuGraphExecDestroy")                                                          \
    X(graph_destroy, "cuGraphDestroy")

static bool load(struct gpu_driver *driver, const char *path)
{
    driver->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!driver->library) {
        printf("1..0 # SKIP %s: %s\n", path, dlerror());
        return false;
    }
    const char *missing = NULL;
    void *address = NULL;
#define RESOLVE(member, symbol)                                                                    \
    address = dlsym(driver->library, symbol);                                                      \
    memcpy(&driver->member, &address, sizeof(address));                                            \
    missing = address ? missing : symbol;
    SYMBOLS(RESOLVE)
#undef RESOLVE
    if (missing)
        printf("1..0 # SKIP %s has no %s\n", path, missing);
    return !missing;
}
#undef SYMBOLS

bool gpu_open(struct gpu_driver *driver, ftj_context **ctx)
{
    ftj_device_info info = {0};
    struct CUctx_st *primary = NULL;
    *driver = (struct gpu_driver){0};
    if (ftj_context_create(NULL, ctx)) {
        printf("1..0 # SKIP there is no GPU: %s\n", ftj_last_error());
        return false;
    }
    ftj_context_info(*ctx, &info);
    if (!load(driver, info.driver_path))
        return false;
    if (driver->primary_retain(&primary, 0) || driver->context_push(primary)) {
        printf("1..0 # SKIP the driver gives no context on GPU 0\n");
        return false;
    }
    return true;
}

bool gpu_ok(struct check_row *row, int result, const char *call)
{
    if (result)
        check_fail(row, "%s: driver error %d", call, result);
    return result == 0;
}

int gpu_run(const struct gpu_test *tests, size_t num_tests)
{
    static const struct check_options options = {.kind = FTJ_DEVICE_CUDA, .seed = 1};
    static const struct check_tier tier = {.name = "gpu"};
    struct gpu_driver driver;
    ftj_context *ctx = NULL;
    bool failed = false;
    if (!gpu_open(&driver, &ctx)) {
        ftj_context_destroy(ctx);
        return GPU_SKIPPED;
    }
    printf("1..%zu\n", num_tests);
    for (size_t i = 0; i < num_tests; i++) {
        struct check_row row = {.options = &options,
                                .ctx = ctx,
                                .tier = &tier,
                                .test = tests[i].name,
                                .random = check_random_of(options.seed, tests[i].name, i),
                                .outcome = CHECK_PASSED};
        tests[i].run(&row, &driver);
        const bool ok = row.outcome != CHECK_FAILED;
        printf("%s %zu - %s%s%s\n", ok ? "ok" : "not ok", i + 1, tests[i].name,
               row.outcome == CHECK_SKIPPED ? " # SKIP " : "",
               row.outcome == CHECK_SKIPPED ? row.message : "");
        if (!ok)
            printf("# %s\n", row.message);
        fflush(stdout);
        failed = failed || !ok;
    }
    ftj_context_destroy(ctx);
    driver.context_pop(&(struct CUctx_st *){NULL});
    driver.primary_release(0);
    return failed;
}
