/* SPDX-License-Identifier: MIT */
#include "fake_state.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_calls.h"
#include "templates/block/params.h"

#define MAX_DEVICES   8
#define MAX_CONTEXTS  16
#define MAX_DEPTH     16
#define MACHINE_CUDA  190
#define BLOCKS_PER_SM 4

static struct CUctx_st primary[MAX_DEVICES];
static struct CUctx_st others[MAX_CONTEXTS];
static int num_others;
static _Atomic int num_retained;
static _Atomic int num_modules;
static struct fake_launch last_launch;

static _Thread_local struct CUctx_st *stack[MAX_DEPTH];
static _Thread_local int depth;

int fake_number(const char *variable, int otherwise)
{
    const char *text = getenv(variable);
    return text && *text ? atoi(text) : otherwise;
}

int fake_begin(const char *symbol)
{
    return fake_call("FAKE_CUDA_FAIL", symbol);
}

struct CUctx_st *fake_current(void)
{
    return depth > 0 ? stack[depth - 1] : NULL;
}

int fake_begin_in_context(const char *symbol)
{
    const int result = fake_begin(symbol);
    return result ? result : fake_current() ? 0 : INVALID_CONTEXT;
}

static bool is_device(int device)
{
    return device >= 0 && device < fake_number("FAKE_CUDA_DEVICES", 2) && device < MAX_DEVICES;
}

/* ---- helpers for the tests ----------------------------------------------------------- */

unsigned int fake_cuda_calls(const char *symbol)
{
    return fake_calls_of(symbol);
}

const struct fake_launch *fake_cuda_last_launch(void)
{
    return &last_launch;
}

struct CUctx_st *fake_cuda_context(int device)
{
    others[num_others].device = device;
    return &others[num_others++];
}

int fake_cuda_num_retained(void)
{
    return num_retained;
}

int fake_cuda_num_modules(void)
{
    return num_modules;
}

/* ---- driver, devices ----------------------------------------------------------------- */

int cuInit(unsigned int flags)
{
    const int result = fake_begin("cuInit");
    return result ? result : flags ? INVALID_VALUE : 0;
}

int cuDriverGetVersion(int *version)
{
    *version = fake_number("FAKE_CUDA_VERSION", 13000);
    return fake_begin("cuDriverGetVersion");
}

int cuGetErrorName(int result, const char **name)
{
    static _Thread_local char text[32];
    snprintf(text, sizeof(text), "FAKE_ERROR_%d", result);
    *name = text;
    return fake_begin("cuGetErrorName");
}

int cuGetErrorString(int result, const char **text)
{
    *text = result == OUT_OF_MEMORY ? "out of memory" : "as the test asked";
    return fake_begin("cuGetErrorString");
}

int cuDeviceGetCount(int *count)
{
    *count = fake_number("FAKE_CUDA_DEVICES", 2);
    return fake_begin("cuDeviceGetCount");
}

int cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    const int result = fake_begin("cuDeviceGet");
    return result ? result : is_device(ordinal) ? 0 : INVALID_DEVICE;
}

int cuDeviceGetName(char *name, int size, int device)
{
    snprintf(name, (size_t)size, "Fake GPU %d", device);
    return fake_begin("cuDeviceGetName");
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    const int arch = fake_number("FAKE_CUDA_ARCH", 90);
    const struct {
        int attribute;
        int value;
    } known[] = {
        {FTJ_CU_DEVICE_NUM_SMS, 132},
        {FTJ_CU_DEVICE_L2_BYTES, 50 << 20},
        {FTJ_CU_DEVICE_CAPABILITY_MAJOR, arch / 10},
        {FTJ_CU_DEVICE_CAPABILITY_MINOR, arch % 10},
        {FTJ_CU_DEVICE_SMEM_PER_SM, 228 << 10},
        {FTJ_CU_DEVICE_REGISTERS_PER_SM, 65536},
        {FTJ_CU_DEVICE_SMEM_PER_BLOCK_OPTIN, 227 << 10},
    };
    const int result = fake_begin("cuDeviceGetAttribute");
    if (result || !is_device(device))
        return result ? result : INVALID_DEVICE;
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        if (known[i].attribute == attribute) {
            *value = known[i].value;
            return 0;
        }
    }
    return UNKNOWN_ATTRIBUTE;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    (void)device;
    *bytes = (size_t)80 << 30;
    return fake_begin("cuDeviceTotalMem_v2");
}

/* ---- contexts ------------------------------------------------------------------------ */

int cuDevicePrimaryCtxRetain(struct CUctx_st **context, int device)
{
    const int result = fake_begin("cuDevicePrimaryCtxRetain");
    if (result || !is_device(device))
        return result ? result : INVALID_DEVICE;
    primary[device].device = device;
    num_retained++;
    *context = &primary[device];
    return 0;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    (void)device;
    num_retained--;
    return fake_begin("cuDevicePrimaryCtxRelease_v2");
}

int cuCtxGetCurrent(struct CUctx_st **context)
{
    *context = fake_current();
    return fake_begin("cuCtxGetCurrent");
}

int cuCtxGetDevice(int *device)
{
    const int result = fake_begin_in_context("cuCtxGetDevice");
    if (!result)
        *device = fake_current()->device;
    return result;
}

int fake_push(struct CUctx_st *context)
{
    if (depth == MAX_DEPTH)
        return INVALID_VALUE;
    stack[depth++] = context;
    return 0;
}

int cuCtxPushCurrent_v2(struct CUctx_st *context)
{
    const int result = fake_begin("cuCtxPushCurrent_v2");
    return result ? result : fake_push(context);
}

int cuCtxPopCurrent_v2(struct CUctx_st **context)
{
    const int result = fake_begin_in_context("cuCtxPopCurrent_v2");
    if (!result)
        *context = stack[--depth];
    return result;
}

/* ---- modules ------------------------------------------------------------------------- */

/* The header of the library's machine code, or text that a driver would compile. */
static int judge_image(const void *image)
{
    Elf64_Ehdr header;
    if (memcmp(image, ELFMAG, SELFMAG) != 0) {
        const char *refuse = getenv("FAKE_CUDA_REFUSE");
        return refuse && strcmp(refuse, "ptx") == 0 ? FTJ_CU_ERROR_UNSUPPORTED_PTX_VERSION
                                                    : FTJ_CU_ERROR_INVALID_IMAGE;
    }
    memcpy(&header, image, sizeof(header));
    if (header.e_machine != MACHINE_CUDA)
        return FTJ_CU_ERROR_INVALID_IMAGE;
    const int sm = (int)(header.e_flags >> 8 & 0xffu);
    return sm == fake_number("FAKE_CUDA_ARCH", 90) ? 0 : FTJ_CU_ERROR_NO_BINARY_FOR_GPU;
}

int cuModuleLoadData(struct CUmod_st **module, const void *image)
{
    int result = fake_begin_in_context("cuModuleLoadData");
    if (!result && fake_cuda_capture_mode() != FTJ_CU_CAPTURE_MODE_RELAXED)
        result = FTJ_CU_ERROR_STREAM_CAPTURE_FIRST;
    if (!result)
        result = judge_image(image);
    if (result)
        return result;
    struct CUmod_st *loaded = calloc(1, sizeof(*loaded));
    struct CUfunc_st *function = calloc(1, sizeof(*function));
    if (!loaded || !function) {
        free(loaded);
        free(function);
        return OUT_OF_MEMORY;
    }
    function->module = loaded;
    loaded->context = fake_current();
    loaded->function = function;
    num_modules++;
    *module = loaded;
    return 0;
}

int cuModuleUnload(struct CUmod_st *module)
{
    int result = fake_begin_in_context("cuModuleUnload");
    if (!result && fake_cuda_capture_mode() != FTJ_CU_CAPTURE_MODE_RELAXED)
        result = FTJ_CU_ERROR_STREAM_CAPTURE_FIRST;
    free(module->function);
    free(module);
    num_modules--;
    return result;
}

/* What a real driver reads in the code: the size of a kernel's one argument. */
static const struct {
    const char *begins; /* its name */
    size_t params_bytes;
} kernels[] = {
    {"ftj_kv_store", sizeof(ftj_store_params)},
    {"ftj_attn_decode", sizeof(ftj_decode_params)},
    {"ftj_attn_combine", sizeof(ftj_decode_params)},
    {"ftj_attn_extend", sizeof(ftj_extend_params)},
    {"ftj_extend_combine", sizeof(ftj_extend_params)},
    {"ftj_attn_generic", sizeof(ftj_generic_params)},
    {"ftj_state_merge", sizeof(ftj_merge_params)},
};

int cuModuleGetFunction(struct CUfunc_st **function, struct CUmod_st *module, const char *name)
{
    const int result = fake_begin_in_context("cuModuleGetFunction");
    if (result)
        return result;
    *function = module->function;
    for (size_t i = 0; i < sizeof(kernels) / sizeof(*kernels); i++) {
        if (strncmp(name, kernels[i].begins, strlen(kernels[i].begins)) == 0) {
            module->function->params_bytes = kernels[i].params_bytes;
            return 0;
        }
    }
    return FTJ_CU_ERROR_NOT_FOUND;
}

int cuFuncLoad(struct CUfunc_st *function)
{
    (void)function;
    return fake_begin_in_context("cuFuncLoad");
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

/* Two blocks to a cluster, of neighbours that FAKE_CUDA_ODD_SMS says some SMs lack. */
int cuOccupancyMaxActiveClusters(int *num_clusters, struct CUfunc_st *function,
                                 const struct ftj_cu_launch_config *config)
{
    const int result = fake_begin_in_context("cuOccupancyMaxActiveClusters");
    const bool fits = config->block_x <= 1024 && config->num_attributes == 0 &&
                      config->smem_bytes <= (unsigned int)function->max_dynamic_smem;
    const int num_sms = 132 - fake_number("FAKE_CUDA_ODD_SMS", 0);
    *num_clusters = fits ? num_sms * BLOCKS_PER_SM / 2 : 0;
    return result;
}

int cuLaunchKernel(struct CUfunc_st *function, unsigned int grid_x, unsigned int grid_y,
                   unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                   unsigned int block_z, unsigned int smem_bytes, struct CUstream_st *stream,
                   void **arguments, void **extra)
{
    const int result = fake_begin_in_context("cuLaunchKernel");
    if (result)
        return result;
    if (grid_x == 0 || grid_y != 1 || grid_z != 1 || block_x == 0 || block_x > 1024 ||
        block_y != 1 || block_z != 1 || !arguments || extra ||
        smem_bytes > (unsigned int)function->max_dynamic_smem)
        return INVALID_VALUE;
    if (function->module->context != fake_current() ||
        (stream && stream->context != fake_current()))
        return FTJ_CU_ERROR_INVALID_HANDLE;

    struct fake_launch launch = {.num_blocks = grid_x,
                                 .num_threads = block_x,
                                 .smem_bytes = smem_bytes,
                                 .stream = stream,
                                 .params_bytes = function->params_bytes};
    memcpy(launch.params, arguments[0], launch.params_bytes);
    last_launch = launch;
    return 0;
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
