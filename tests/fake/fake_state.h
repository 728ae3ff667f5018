/* SPDX-License-Identifier: MIT */
/* The fake driver's own structs, shared by its files. */
#ifndef FTJ_TESTS_FAKE_STATE_H
#define FTJ_TESTS_FAKE_STATE_H

#include <stdbool.h>

#include "fake_cuda.h"

enum {
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    UNKNOWN_ATTRIBUTE = INVALID_VALUE,
};

/* The prototypes are the library's own: a list that disagrees with its users does not compile. */
#define FAKE_CUDA_PROTOTYPE(symbol, arguments) int symbol arguments;
FTJ_DRIVER_REQUIRED_MAP(FAKE_CUDA_PROTOTYPE)
FTJ_DRIVER_OPTIONAL_MAP(FAKE_CUDA_PROTOTYPE)
#undef FAKE_CUDA_PROTOTYPE

struct CUctx_st {
    int device;
};
struct CUstream_st {
    struct CUctx_st *context;
};
struct CUmod_st {
    struct CUctx_st *context;
    struct CUfunc_st *function;
};
struct CUfunc_st {
    struct CUmod_st *module;
    int max_dynamic_smem;
    size_t params_bytes;
};

/* A number of the environment. */
int fake_number(const char *variable, int otherwise);
/* Count a call; what it must answer at once, or 0. */
int fake_begin(const char *symbol);
/* The same for a call that needs a current context. */
int fake_begin_in_context(const char *symbol);
/* Make a context this thread's: what cuCtxPushCurrent_v2 does, which a test may take away. */
int fake_push(struct CUctx_st *context);
/* This thread's; NULL when it has none. */
struct CUctx_st *fake_current(void);

#endif
