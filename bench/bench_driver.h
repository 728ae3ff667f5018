/* SPDX-License-Identifier: MIT */
/* The few driver entry points that measuring needs and the library does not offer: events, graphs,
 * and kernels of the bench's own. Opened at run time, like the library's. */
#ifndef FTJ_BENCH_DRIVER_H
#define FTJ_BENCH_DRIVER_H

#include "base/log.h"

struct CUctx_st;
struct CUevent_st;
struct CUfunc_st;
struct CUgraph_st;
struct CUgraphExec_st;
struct CUgraphNode_st;
struct CUmod_st;
struct CUstream_st;

/* X(member, symbol, parameters) */
// clang-format off
#define BENCH_DRIVER_SYMBOLS(X)                                                                    \
    X(init, "cuInit", (unsigned flags))                                                            \
    X(error_string, "cuGetErrorString", (int result, const char **text))                           \
    X(device_get, "cuDeviceGet", (int *device, int ordinal))                                       \
    X(context_retain, "cuDevicePrimaryCtxRetain", (struct CUctx_st **out, int device))             \
    X(context_release, "cuDevicePrimaryCtxRelease_v2", (int device))                               \
    X(context_set, "cuCtxSetCurrent", (struct CUctx_st *context))                                  \
    X(event_create, "cuEventCreate", (struct CUevent_st **out, unsigned flags))                    \
    X(event_destroy, "cuEventDestroy_v2", (struct CUevent_st *event))                              \
    X(event_record, "cuEventRecord", (struct CUevent_st *event, struct CUstream_st *stream))       \
    X(event_synchronize, "cuEventSynchronize", (struct CUevent_st *event))                         \
    X(event_elapsed, "cuEventElapsedTime",                                                         \
      (float *ms, struct CUevent_st *begin, struct CUevent_st *end))                               \
    X(capture_begin, "cuStreamBeginCapture_v2", (struct CUstream_st *stream, int mode))            \
    X(capture_end, "cuStreamEndCapture", (struct CUstream_st *stream, struct CUgraph_st **out))    \
    X(graph_instantiate, "cuGraphInstantiateWithFlags",                                            \
      (struct CUgraphExec_st **out, struct CUgraph_st *graph, unsigned long long flags))           \
    X(graph_nodes, "cuGraphGetNodes",                                                              \
      (struct CUgraph_st *graph, struct CUgraphNode_st **nodes, size_t *num_nodes))                \
    X(graph_launch, "cuGraphLaunch", (struct CUgraphExec_st *exec, struct CUstream_st *stream))    \
    X(graph_exec_destroy, "cuGraphExecDestroy", (struct CUgraphExec_st *exec))                     \
    X(graph_destroy, "cuGraphDestroy", (struct CUgraph_st *graph))                                 \
    X(stream_synchronize, "cuStreamSynchronize", (struct CUstream_st *stream))                     \
    X(module_load, "cuModuleLoadData", (struct CUmod_st **out, const void *image))                 \
    X(module_unload, "cuModuleUnload", (struct CUmod_st *module))                                  \
    X(module_function, "cuModuleGetFunction",                                                      \
      (struct CUfunc_st **out, struct CUmod_st *module, const char *name))                         \
    X(launch, "cuLaunchKernel",                                                                    \
      (struct CUfunc_st *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,              \
       unsigned block_x, unsigned block_y, unsigned block_z, unsigned smem_bytes,                  \
       struct CUstream_st *stream, void **arguments, void **extra))                                \
    X(copy_on_device, "cuMemcpyDtoDAsync_v2",                                                      \
      (unsigned long long to, unsigned long long from, size_t bytes, struct CUstream_st *stream))
// clang-format on

/* A zeroed one is closed. */
struct bench_driver {
    void *library; /* owned */
    int device;
    struct CUctx_st *context; /* the primary one, retained */
#define BENCH_DRIVER_MEMBER(member, symbol, parameters) int(*member) parameters;
    BENCH_DRIVER_SYMBOLS(BENCH_DRIVER_MEMBER)
#undef BENCH_DRIVER_MEMBER
};

/* Open libcuda (`path` NULL: FTJIT_CUDA_DRIVER, the loader's name, WSL's folder) and make the
 * device's primary context current. */
FTJ_NODISCARD ftj_status bench_driver_init(struct bench_driver *driver, const char *path,
                                           int ordinal);
void bench_driver_finish(struct bench_driver *driver); /* zeroed is fine */

/* FTJ_OK for 0, else a failure whose sentence names the call and the driver's words. */
ftj_status bench_driver_check(const struct bench_driver *driver, int result, const char *call);

#endif
