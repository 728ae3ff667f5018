/* SPDX-License-Identifier: MIT */
/* Launches, and what is asked before them: how many blocks fit, and the tensors that they read. */
#include <string.h>

#include "fake_state.h"
#include "templates/block/params.h"

#define BLOCKS_PER_SM 4

static struct fake_launch last_launch, launch_before_last;

const struct fake_launch *fake_cuda_last_launch(void)
{
    return &last_launch;
}

const struct fake_launch *fake_cuda_launch_before_last(void)
{
    return &launch_before_last;
}

int cuFuncSetAttribute(struct CUfunc_st *function, int attribute, int value)
{
    const int result = fake_begin_in_context("cuFuncSetAttribute");
    if (result || attribute != FTJ_CU_FUNC_MAX_DYNAMIC_SMEM || value > 227 << 10)
        return result ? result : INVALID_VALUE;
    function->max_dynamic_smem = value;
    return 0;
}

int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *num_blocks, struct CUfunc_st *function,
                                                int num_threads, size_t smem_bytes)
{
    const int result = fake_begin_in_context("cuOccupancyMaxActiveBlocksPerMultiprocessor");
    const bool fits = num_threads <= 1024 && smem_bytes <= (size_t)function->max_dynamic_smem;
    *num_blocks = fits ? BLOCKS_PER_SM : 0;
    return result;
}

/* The blocks of a cluster, or 1; 0: an attribute that the library has no use for. */
static unsigned int cluster_of(const struct ftj_cu_launch_config *config)
{
    unsigned int blocks = 1;
    for (unsigned int i = 0; i < config->num_attributes; i++) {
        const struct ftj_cu_launch_attribute *attribute = &config->attributes[i];
        if (attribute->id == FTJ_CU_LAUNCH_CLUSTER_DIMENSION && attribute->value.cluster[1] == 1 &&
            attribute->value.cluster[2] == 1)
            blocks = attribute->value.cluster[0];
        else if (attribute->id != FTJ_CU_LAUNCH_PROGRAMMATIC_ORDER || attribute->value.allowed != 1)
            return 0;
    }
    return blocks;
}

static bool overlaps_previous(const struct ftj_cu_launch_config *config)
{
    for (unsigned int i = 0; i < config->num_attributes; i++) {
        if (config->attributes[i].id == FTJ_CU_LAUNCH_PROGRAMMATIC_ORDER)
            return true;
    }
    return false;
}

/* Two blocks to a cluster, of neighbours that FAKE_CUDA_ODD_SMS says some SMs lack. */
int cuOccupancyMaxActiveClusters(int *num_clusters, struct CUfunc_st *function,
                                 const struct ftj_cu_launch_config *config)
{
    const int result = fake_begin_in_context("cuOccupancyMaxActiveClusters");
    const bool fits = config->block_x <= 1024 && cluster_of(config) == 2 &&
                      config->smem_bytes <= (unsigned int)function->max_dynamic_smem;
    const int num_sms = 132 - fake_number("FAKE_CUDA_ODD_SMS", 0);
    *num_clusters = fits ? num_sms * BLOCKS_PER_SM / 2 : 0;
    return result;
}

/* Either way of launching, counted as the older one. */
static int launch(const struct ftj_cu_launch_config *config, struct CUfunc_st *function,
                  void **arguments, void **extra)
{
    const int result = fake_begin_in_context("cuLaunchKernel");
    const unsigned int cluster_blocks = cluster_of(config);
    if (result)
        return result;
    if (config->grid_x == 0 || config->grid_y != 1 || config->grid_z != 1 || config->block_x == 0 ||
        config->block_x > 1024 || config->block_y != 1 || config->block_z != 1 || !arguments ||
        extra || config->smem_bytes > (unsigned int)function->max_dynamic_smem || !cluster_blocks ||
        config->grid_x % cluster_blocks)
        return INVALID_VALUE;
    if (function->module->context != fake_current() ||
        (config->stream && config->stream->context != fake_current()))
        return FTJ_CU_ERROR_INVALID_HANDLE;

    struct fake_launch made = {.num_blocks = config->grid_x,
                               .cluster_blocks = cluster_blocks,
                               .num_threads = config->block_x,
                               .smem_bytes = config->smem_bytes,
                               .overlaps_previous = overlaps_previous(config),
                               .stream = config->stream,
                               .params_bytes = function->params_bytes};
    memcpy(made.params, arguments[0], made.params_bytes);
    launch_before_last = last_launch;
    last_launch = made;
    return 0;
}

int cuLaunchKernel(struct CUfunc_st *function, unsigned int grid_x, unsigned int grid_y,
                   unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                   unsigned int block_z, unsigned int smem_bytes, struct CUstream_st *stream,
                   void **arguments, void **extra)
{
    const struct ftj_cu_launch_config config = {.grid_x = grid_x,
                                                .grid_y = grid_y,
                                                .grid_z = grid_z,
                                                .block_x = block_x,
                                                .block_y = block_y,
                                                .block_z = block_z,
                                                .smem_bytes = smem_bytes,
                                                .stream = stream};
    return launch(&config, function, arguments, extra);
}

int cuLaunchKernelEx(const struct ftj_cu_launch_config *config, struct CUfunc_st *function,
                     void **arguments, void **extra)
{
    const int result = fake_begin_in_context("cuLaunchKernelEx");
    return result ? result : launch(config, function, arguments, extra);
}

/* The map is the tensor that was described, for a test to read. */
int cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *address, const uint64_t *dims,
                           const uint64_t *strides, const uint32_t *box,
                           const uint32_t *element_strides, int interleave, int swizzle,
                           int l2_promotion, int fill)
{
    const int result = fake_begin_in_context("cuTensorMapEncodeTiled");
    if (result)
        return result;
    if ((uintptr_t)map % 128 || (uintptr_t)address % 16 || rank != 4 ||
        type != FTJ_CU_TENSOR_UINT16 || interleave != FTJ_CU_TENSOR_INTERLEAVE_NONE ||
        swizzle != FTJ_CU_TENSOR_SWIZZLE_128B || l2_promotion < 0 || fill < 0 || box[0] != 64)
        return INVALID_VALUE;
    for (uint32_t i = 0; i < rank; i++) {
        if (!dims[i] || dims[i] > 1ull << 32 || !box[i] || box[i] > 256 || element_strides[i] != 1)
            return INVALID_VALUE;
        if (i && (strides[i - 1] % 16 || strides[i - 1] >> 40))
            return INVALID_VALUE;
    }
    const ftj_tensor tensor = {.base = (uint64_t)(uintptr_t)address,
                               .strides = {strides[0], strides[1], strides[2]},
                               .dims = (uint32_t)dims[0],
                               .slots = (uint32_t)dims[1],
                               .heads = (uint32_t)dims[2],
                               .pages = (uint32_t)dims[3],
                               .box_dims = box[0],
                               .box_slots = box[1]};
    memcpy(map, &tensor, sizeof(tensor));
    return 0;
}
