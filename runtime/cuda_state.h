/* SPDX-License-Identifier: MIT */
/* What the files of the CUDA backend share: its state, and the guard around every driver call. */
#ifndef FTJ_RUNTIME_CUDA_STATE_H
#define FTJ_RUNTIME_CUDA_STATE_H

#include "runtime/backend.h"
#include "runtime/driver.h"

struct ftj_cuda {
    struct ftj_driver driver;
    struct CUctx_st *context;
    int device;        /* the driver's handle */
    bool owns_primary; /* the context is the primary one, retained */
};

static inline struct ftj_cuda *ftj_cuda_of(const struct ftj_backend *backend)
{
    return backend->state;
}

/* Make the backend's context current unless it is already; `pushed` says whether it had to be. */
FTJ_NODISCARD ftj_status ftj_cuda_enter(const struct ftj_backend *backend, bool *pushed);
/* Give the caller's context back. */
void ftj_cuda_leave(const struct ftj_backend *backend, bool pushed);

/* Members of ftj_backend_ops; cuda_module.c. */
ftj_status ftj_cuda_module_load(struct ftj_backend *backend, const struct ftj_bytes *code,
                                const struct ftj_config *config, struct ftj_module *module);
void ftj_cuda_module_unload(struct ftj_backend *backend, struct ftj_module *module);
ftj_status ftj_cuda_launch(struct ftj_backend *backend, const struct ftj_module *module,
                           struct ftj_grid grid, const void *params, size_t params_bytes,
                           struct CUstream_st *stream);
ftj_status ftj_cuda_tensor_encode(struct ftj_backend *backend, const ftj_tensor *tensor,
                                  ftj_tensor_map *map);

/* cuda_check.c */
ftj_status ftj_cuda_check_pointer(struct ftj_backend *backend, const char *argument,
                                  const void *pointer);
ftj_status ftj_cuda_check_stream(struct ftj_backend *backend, struct CUstream_st *stream);
bool ftj_cuda_is_capturing(struct ftj_backend *backend);

/* cuda_memory.c */
ftj_status ftj_cuda_memory_alloc(struct ftj_backend *backend, size_t bytes, void **out);
void ftj_cuda_memory_free(struct ftj_backend *backend, void *memory);
ftj_status ftj_cuda_memory_write(struct ftj_backend *backend, void *device, const void *host,
                                 size_t bytes);
ftj_status ftj_cuda_memory_read(struct ftj_backend *backend, void *host, const void *device,
                                size_t bytes);
ftj_status ftj_cuda_memory_fill(struct ftj_backend *backend, void *device, uint8_t value,
                                size_t bytes);
ftj_status ftj_cuda_stream_create(struct ftj_backend *backend, struct CUstream_st **out);
void ftj_cuda_stream_destroy(struct ftj_backend *backend, struct CUstream_st *stream);
ftj_status ftj_cuda_stream_synchronize(struct ftj_backend *backend, struct CUstream_st *stream);

#endif
