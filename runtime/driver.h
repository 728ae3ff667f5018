/* SPDX-License-Identifier: MIT */
/* libcuda, opened at run time. */
#ifndef FTJ_RUNTIME_DRIVER_H
#define FTJ_RUNTIME_DRIVER_H

#include "base/log.h"
#include "runtime/driver_symbols.h"

struct ftj_driver {
    void *library;  /* NULL: not open */
    char path[256]; /* the file that was loaded */
    int version;    /* 13000 is CUDA 13.0 */
#define FTJ_DRIVER_MEMBER(symbol, arguments) int(*symbol) arguments;
    FTJ_DRIVER_REQUIRED_MAP(FTJ_DRIVER_MEMBER)
    FTJ_DRIVER_OPTIONAL_MAP(FTJ_DRIVER_MEMBER)
#undef FTJ_DRIVER_MEMBER
};

/* Open libcuda and initialise it: `path`, else FTJIT_CUDA_DRIVER, else the usual names and places.
 * One that was named is the only one tried. FTJ_E_DRIVER: the sentence lists what was tried, or
 * says what the driver answered; `driver` is untouched. */
FTJ_NODISCARD ftj_status ftj_driver_init(struct ftj_driver *driver, const char *path,
                                         const struct ftj_log *log);

/* Forget the driver; zeroed is fine. The library stays mapped. */
void ftj_driver_finish(struct ftj_driver *driver);

/* "CUDA_ERROR_NOT_FOUND (500: named symbol not found)" into text. */
void ftj_driver_result_text(const struct ftj_driver *driver, int result, char *text, size_t size);

/* Report that the driver refused `call`. FTJ_E_NO_MEMORY when it says it is out of memory, else
 * `status`. */
ftj_status ftj_driver_fail(const struct ftj_driver *driver, const struct ftj_log *log,
                           ftj_status status, int result, const char *call);

#endif
