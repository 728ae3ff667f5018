/* SPDX-License-Identifier: MIT */
/*
 * The two machines kernels run on, behind one table: the CUDA driver (cuda_backend.c) and the host
 * (cpu/cpu_backend.c). Nothing above this file asks which one it is.
 */
#ifndef FTJ_RUNTIME_BACKEND_H
#define FTJ_RUNTIME_BACKEND_H

#include "base/bytes.h"
#include "base/device.h"
#include "codegen/compile.h"
#include "codegen/variant.h"
#include "templates/block/params.h"

/* Loaded machine code, ready to launch. A zeroed one is empty. */
struct ftj_module {
    void *library;           /* owned */
    void *function;          /* borrowed from it */
    uint32_t num_threads;    /* per block */
    uint32_t smem_bytes;     /* dynamic, per block */
    uint32_t blocks_per_sm;  /* that fit at once, 1 or more */
    bool overlaps_previous;  /* may start before the kernel before it in the stream has ended */
    uint32_t cluster_blocks; /* 1, or the blocks of a cluster, which a launch may be of */
    uint32_t num_clusters;   /* that fit the device at once; 0: a launch is of blocks alone */
};

/* The blocks of a launch. */
struct ftj_grid {
    uint32_t num_blocks;
    uint32_t cluster_blocks; /* 2: in clusters of two, whole ones; 0 and 1: alone */
};

struct ftj_backend {
    const struct ftj_backend_ops *ops;
    const struct ftj_log *log; /* borrowed from the context */
    const char *compiler;      /* id of whose code it loads, borrowed likewise; NULL: unknown */
    struct ftj_device device;  /* as probed and narrowed */
    void *state;               /* owned by the implementation */
};

/* Every member may be called from any thread, leaves the caller's current CUDA context as it was,
 * and reports its failures through ftj_fail(). */
struct ftj_backend_ops {
    /* Code -> function. FTJ_E_DAMAGED: the driver refused the image as such (a bad or foreign
     * entry), and building it again may help. */
    ftj_status (*module_load)(struct ftj_backend *backend, const struct ftj_bytes *code,
                              const struct ftj_config *config, struct ftj_module *module);
    void (*module_unload)(struct ftj_backend *backend, struct ftj_module *module);

    /* `params` is the kernel's one argument, by value. */
    ftj_status (*launch)(struct ftj_backend *backend, const struct ftj_module *module,
                         struct ftj_grid grid, const void *params, size_t params_bytes,
                         struct CUstream_st *stream);

    /* What tensor copies of a kernel read. Nothing is launched. */
    ftj_status (*tensor_encode)(struct ftj_backend *backend, const ftj_tensor *tensor,
                                ftj_tensor_map *map);

    /* Refuse memory a kernel cannot reach: host memory, another device's or another context's. The
     * sentence names `argument`. NULL is the caller's business. */
    ftj_status (*check_pointer)(struct ftj_backend *backend, const char *argument,
                                const void *pointer);
    /* Refuse a stream of another context. */
    ftj_status (*check_stream)(struct ftj_backend *backend, struct CUstream_st *stream);
    /* True while any stream of this thread may be capturing, as far as the driver can tell. */
    bool (*is_capturing)(struct ftj_backend *backend);

    ftj_status (*memory_alloc)(struct ftj_backend *backend, size_t bytes, void **out);
    void (*memory_free)(struct ftj_backend *backend, void *memory);
    ftj_status (*memory_write)(struct ftj_backend *backend, void *device, const void *host,
                               size_t bytes);
    ftj_status (*memory_read)(struct ftj_backend *backend, void *host, const void *device,
                              size_t bytes);
    ftj_status (*memory_fill)(struct ftj_backend *backend, void *device, uint8_t value,
                              size_t bytes);
    ftj_status (*stream_create)(struct ftj_backend *backend, struct CUstream_st **out);
    void (*stream_destroy)(struct ftj_backend *backend, struct CUstream_st *stream);
    ftj_status (*stream_synchronize)(struct ftj_backend *backend, struct CUstream_st *stream);

    void (*finish)(struct ftj_backend *backend);
};

/* Open a GPU: load the driver, take the context, probe. `backend` is untouched on failure. */
FTJ_NODISCARD ftj_status ftj_cuda_backend_init(struct ftj_backend *backend,
                                               const ftj_settings *settings,
                                               const struct ftj_log *log);
/* libcuda as it was opened; "" on the CPU. Borrowed. */
const char *ftj_cuda_backend_driver_path(const struct ftj_backend *backend);

/* Open the host. */
FTJ_NODISCARD ftj_status ftj_cpu_backend_init(struct ftj_backend *backend,
                                              const ftj_settings *settings,
                                              const struct ftj_log *log);
/* Find the host's C++ compiler: `path`, FTJIT_CXX, then c++, g++, clang++ on PATH. As
 * ftj_nvrtc_find(). */
FTJ_NODISCARD ftj_status ftj_host_compiler_find(struct ftj_compiler *compiler, const char *path,
                                                const struct ftj_log *log);

void ftj_backend_finish(struct ftj_backend *backend); /* a zeroed one is fine */

/* Blocks that fill the device once, or most_blocks if that is fewer and not 0. */
uint32_t ftj_backend_grid(const struct ftj_backend *backend, const struct ftj_module *module,
                          uint32_t most_blocks);
/* The same in whole clusters; none, where the kernel has none, or not one fits. */
struct ftj_grid ftj_backend_clusters(const struct ftj_backend *backend,
                                     const struct ftj_module *module, uint32_t most_blocks);

#endif
