/* SPDX-License-Identifier: MIT */
/*
 * A libcuda without a GPU: a shared object that the library opens like the real one.
 *
 * Environment, read at each call:
 *   FAKE_CUDA_ARCH=90            compute capability of every device; 90 is 9.0, 121 is 12.1
 *   FAKE_CUDA_DEVICES=2          how many devices there are
 *   FAKE_CUDA_VERSION=13000      what cuDriverGetVersion answers
 *   FAKE_CUDA_FAIL=symbol[:result][,...]   calls that fail, with 999 when no result is given
 *   FAKE_CUDA_REFUSE=ptx         images that are no machine code get 222
 *   FAKE_CUDA_POINTER_DEVICE=1   allocated memory claims to be this device's
 *   FAKE_CUDA_ODD_SMS=2          SMs of 132 that have no neighbour to form a cluster with
 *   FAKE_CUDA_CAPTURING=1        a blocking stream is being captured; 2: the thread's own is
 *
 * Code is loaded and unloaded in relaxed capture mode only: else the answer is 900.
 *
 * Device memory is malloc; kernels are recorded, never run. Calls that need a current context
 * answer 201 without one, and a launch on a stream of another context 400, as the driver does.
 *
 * The helpers below are exported as well: look them up in the library that was opened.
 */
#ifndef FTJ_TESTS_FAKE_CUDA_H
#define FTJ_TESTS_FAKE_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/driver_symbols.h"

struct fake_launch {
    unsigned int num_blocks;
    unsigned int cluster_blocks; /* 1: alone */
    unsigned int num_threads;
    unsigned int smem_bytes;
    bool overlaps_previous;
    struct CUstream_st *stream;
    unsigned char params[2048];
    size_t params_bytes;
};

/* What cuPointerGetAttributes answers for a pointer. */
struct fake_memory {
    struct CUctx_st *context;
    unsigned int type; /* 1 host, 2 device */
    int ordinal;
    unsigned int is_managed;
};

unsigned int fake_cuda_calls(const char *symbol);
const struct fake_launch *fake_cuda_last_launch(void);
const struct fake_launch *fake_cuda_launch_before_last(void);
/* A context that is no primary one; never freed. */
struct CUctx_st *fake_cuda_context(int device);
/* From now on `pointer` is memory of this kind. */
void fake_cuda_set_memory(const void *pointer, const struct fake_memory *memory);
/* Primary contexts retained and not released. */
int fake_cuda_num_retained(void);
/* Modules loaded and not unloaded. */
int fake_cuda_num_modules(void);
/* Of the calling thread: 0 is global, 2 relaxed. */
int fake_cuda_capture_mode(void);

#endif
