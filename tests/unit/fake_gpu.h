/* SPDX-License-Identifier: MIT */
/* A context on the fake driver and the fake compiler, and what the fake driver tells of itself. */
#ifndef FAKE_GPU_H
#define FAKE_GPU_H

#include <criterion/criterion.h>
#include <string.h>

#include "base/dynlib.h"
#include "ftjit/context.h"
#include "log_catcher.h"

/* `driver` is FAKE_CUDA_PATH, or a copy of that; warnings and errors go to the catcher. */
static inline ftj_settings fake_gpu_settings(const char *driver, const char *cache_dir,
                                             struct log_catcher *catcher)
{
    return (ftj_settings){.driver_path = driver,
                          .compiler_path = FAKE_NVRTC_PATH,
                          .cache_dir = cache_dir,
                          .log = catch_sentence,
                          .log_data = catcher,
                          .log_level = FTJ_LOG_WARNING};
}

/* Put the address of a function of the fake driver's own (tests/fake) into the function pointer at
 * `function`. */
static inline void fake_gpu_find(const char *driver, const char *name, void *function)
{
    const char *const names[] = {driver, NULL};
    struct ftj_text tried = {0};
    void *address = ftj_dynlib_symbol(ftj_dynlib_open(names, &tried, NULL, 0), name);
    ftj_text_finish(&tried);
    cr_assert_not_null(address, "%s", name);
    memcpy(function, &address, sizeof(address));
}

#endif
