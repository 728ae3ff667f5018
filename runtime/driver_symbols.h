/* SPDX-License-Identifier: MIT */
/*
 * Every entry point of libcuda that is used, against our own declarations: no CUDA header is read.
 *
 * A header would rename functions to whichever version it thinks newest; here the version that is
 * meant stands in the name, so a build does not depend on any toolkit. Handles are the driver's own
 * opaque structs; CUdevice is int, CUdeviceptr is uint64_t, and every enum is int.
 */
#ifndef FTJ_RUNTIME_DRIVER_SYMBOLS_H
#define FTJ_RUNTIME_DRIVER_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>

struct CUctx_st;
struct CUfunc_st;
struct CUmod_st;
struct CUstream_st;

/* The formatter takes the pointers among a macro's arguments for products. */
/* clang-format off */
/* X(symbol, its arguments): the driver is refused without them. */
#define FTJ_DRIVER_REQUIRED_MAP(X)                                                                 \
    X(cuInit, (unsigned int flags))                                                                \
    X(cuDriverGetVersion, (int *version))                                                          \
    X(cuGetErrorName, (int result, const char **name))                                             \
    X(cuGetErrorString, (int result, const char **text))                                           \
    X(cuDeviceGetCount, (int *count))                                                              \
    X(cuDeviceGet, (int *device, int ordinal))                                                     \
    X(cuDeviceGetName, (char *name, int size, int device))                                         \
    X(cuDeviceGetAttribute, (int *value, int attribute, int device))                               \
    X(cuDeviceTotalMem_v2, (size_t *bytes, int device))                                            \
    X(cuDevicePrimaryCtxRetain, (struct CUctx_st **context, int device))                           \
    X(cuDevicePrimaryCtxRelease_v2, (int device))                                                  \
    X(cuCtxGetCurrent, (struct CUctx_st **context))                                                \
    X(cuCtxGetDevice, (int *device))                                                               \
    X(cuCtxPushCurrent_v2, (struct CUctx_st *context))                                             \
    X(cuCtxPopCurrent_v2, (struct CUctx_st **context))                                             \
    X(cuModuleLoadData, (struct CUmod_st **module, const void *image))                             \
    X(cuModuleUnload, (struct CUmod_st *module))                                                   \
    X(cuModuleGetFunction,                                                                         \
      (struct CUfunc_st **function, struct CUmod_st *module, const char *name))                    \
    X(cuFuncSetAttribute, (struct CUfunc_st *function, int attribute, int value))                  \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor,                                                 \
      (int *num_blocks, struct CUfunc_st *function, int num_threads, size_t smem_bytes))           \
    X(cuLaunchKernel,                                                                              \
      (struct CUfunc_st *function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,  \
       unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int smem_bytes,  \
       struct CUstream_st *stream, void **arguments, void **extra))                                \
    X(cuPointerGetAttributes,                                                                      \
      (unsigned int num_attributes, int *attributes, void **data, uint64_t pointer))               \
    X(cuMemAlloc_v2, (uint64_t *pointer, size_t bytes))                                            \
    X(cuMemFree_v2, (uint64_t pointer))                                                            \
    X(cuMemcpyHtoD_v2, (uint64_t device, const void *host, size_t bytes))                          \
    X(cuMemcpyDtoH_v2, (void *host, uint64_t device, size_t bytes))                                \
    X(cuMemsetD8_v2, (uint64_t device, unsigned char value, size_t bytes))                         \
    X(cuStreamCreate, (struct CUstream_st **stream, unsigned int flags))                           \
    X(cuStreamDestroy_v2, (struct CUstream_st *stream))                                            \
    X(cuStreamSynchronize, (struct CUstream_st *stream))                                           \
    X(cuStreamIsCapturing, (struct CUstream_st *stream, int *status))

/* NULL where the driver is older; whoever calls one copes. */
#define FTJ_DRIVER_OPTIONAL_MAP(X)                                                                 \
    X(cuStreamGetCtx, (struct CUstream_st *stream, struct CUctx_st **context)) /* 9.2 */           \
    X(cuFuncLoad, (struct CUfunc_st *function))                                /* 12.4 */          \
    X(cuThreadExchangeStreamCaptureMode, (int *mode))                          /* 10.1 */          \
    X(cuTensorMapEncodeTiled,                                                  /* 12.0 */          \
      (void *map, int type, uint32_t rank, void *address, const uint64_t *dims,                    \
       const uint64_t *strides, const uint32_t *box, const uint32_t *element_strides,              \
       int interleave, int swizzle, int l2_promotion, int fill))                                   \
    X(cuLaunchKernelEx,                                                        /* 11.8 */          \
      (const struct ftj_cu_launch_config *config, struct CUfunc_st *function, void **arguments,    \
       void **extra))                                                                              \
    X(cuOccupancyMaxActiveClusters,                                            /* 11.8 */          \
      (int *num_clusters, struct CUfunc_st *function, const struct ftj_cu_launch_config *config))

/* clang-format on */

/* The driver's numbers that are compared with or passed. */
enum {
    FTJ_CU_ERROR_OUT_OF_MEMORY = 2,
    FTJ_CU_ERROR_NOT_INITIALIZED = 3,
    FTJ_CU_ERROR_NO_DEVICE = 100,
    FTJ_CU_ERROR_INVALID_IMAGE = 200,
    FTJ_CU_ERROR_NO_BINARY_FOR_GPU = 209,
    FTJ_CU_ERROR_INVALID_PTX = 218,
    FTJ_CU_ERROR_UNSUPPORTED_PTX_VERSION = 222,
    FTJ_CU_ERROR_INVALID_SOURCE = 300,
    FTJ_CU_ERROR_INVALID_HANDLE = 400,
    FTJ_CU_ERROR_NOT_FOUND = 500,
    FTJ_CU_ERROR_STREAM_CAPTURE_FIRST = 900, /* unsupported, ... */
    FTJ_CU_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
    FTJ_CU_ERROR_STREAM_CAPTURE_LAST = 908, /* ..., wrong thread */

    FTJ_CU_CAPTURE_MODE_RELAXED = 2,

    FTJ_CU_DEVICE_NUM_SMS = 16,
    FTJ_CU_DEVICE_L2_BYTES = 38,
    FTJ_CU_DEVICE_CAPABILITY_MAJOR = 75,
    FTJ_CU_DEVICE_CAPABILITY_MINOR = 76,
    FTJ_CU_DEVICE_SMEM_PER_SM = 81,
    FTJ_CU_DEVICE_REGISTERS_PER_SM = 82,
    FTJ_CU_DEVICE_SMEM_PER_BLOCK_OPTIN = 97,

    FTJ_CU_FUNC_MAX_DYNAMIC_SMEM = 8,

    FTJ_CU_POINTER_CONTEXT = 1,
    FTJ_CU_POINTER_MEMORY_TYPE = 2,
    FTJ_CU_POINTER_IS_MANAGED = 8,
    FTJ_CU_POINTER_DEVICE_ORDINAL = 9,

    FTJ_CU_MEMORY_HOST = 1,

    FTJ_CU_TENSOR_UINT16 = 1,
    FTJ_CU_TENSOR_INTERLEAVE_NONE = 0,
    FTJ_CU_TENSOR_SWIZZLE_128B = 3,
    FTJ_CU_TENSOR_L2_PROMOTION_256B = 3,
    FTJ_CU_TENSOR_FILL_ZEROS = 0,
};

/* The calling thread's own default stream, where a program asks for one per thread. */
#define FTJ_CU_STREAM_PER_THREAD ((struct CUstream_st *)2)

/* cuLaunchKernelEx: the driver's CUlaunchConfig and CUlaunchAttribute. */
#define FTJ_CU_LAUNCH_CLUSTER_DIMENSION  4 /* value: blocks of a cluster */
#define FTJ_CU_LAUNCH_PROGRAMMATIC_ORDER 6 /* value: start before the previous kernel has ended */
struct ftj_cu_launch_attribute {
    int id;
    int padding;
    union {
        int allowed;
        unsigned int cluster[3];
        char bytes[64];
    } value;
};
struct ftj_cu_launch_config {
    unsigned int grid_x, grid_y, grid_z;
    unsigned int block_x, block_y, block_z;
    unsigned int smem_bytes;
    struct CUstream_st *stream;
    const struct ftj_cu_launch_attribute *attributes;
    unsigned int num_attributes;
};

#endif
