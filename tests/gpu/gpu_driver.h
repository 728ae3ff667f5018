/* SPDX-License-Identifier: MIT */
/* What these tests ask of libcuda themselves, as an engine would: contexts, capture, graphs. */
#ifndef FTJ_TESTS_GPU_DRIVER_H
#define FTJ_TESTS_GPU_DRIVER_H

#include "tests/check/check_row.h"

struct CUgraph_st;
struct CUgraphExec_st;

struct gpu_driver {
    void *library; /* stays open */
    int (*device_get_count)(int *count);
    int (*primary_retain)(struct CUctx_st **context, int device);
    int (*primary_release)(int device);
    int (*context_create)(struct CUctx_st **context, unsigned flags, int device);
    int (*context_destroy)(struct CUctx_st *context);
    int (*context_push)(struct CUctx_st *context);
    int (*context_pop)(struct CUctx_st **context);
    int (*context_current)(struct CUctx_st **context);
    int (*begin_capture)(struct CUstream_st *stream, int mode);
    int (*end_capture)(struct CUstream_st *stream, struct CUgraph_st **graph);
    int (*graph_instantiate)(struct CUgraphExec_st **exec, struct CUgraph_st *graph,
                             unsigned long long flags);
    int (*graph_launch)(struct CUgraphExec_st *exec, struct CUstream_st *stream);
    int (*exec_destroy)(struct CUgraphExec_st *exec);
    int (*graph_destroy)(struct CUgraph_st *graph);
};

/* Open the driver and GPU 0, whose context is left current in this thread. When there is none,
 * prints why, and the test program must end with GPU_SKIPPED. */
bool gpu_open(struct gpu_driver *driver, ftj_context **ctx);
#define GPU_SKIPPED 77

/* True for CUDA_SUCCESS; else the row fails. */
bool gpu_ok(struct check_row *row, int result, const char *call);

/* Run tests in turn, each with a row of its own, and print TAP. Returns the exit status. */
struct gpu_test {
    const char *name;
    void (*run)(struct check_row *row, const struct gpu_driver *driver);
};
int gpu_run(const struct gpu_test *tests, size_t num_tests);

#endif
