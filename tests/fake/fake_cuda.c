/* SPDX-License-Identifier: MIT */
#include "fake_state.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_calls.h"

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

int cuModuleGetFunction(struct CUfunc_st **function, struct CUmod_st *module, const char *name)
{
    const int result = fake_begin_in_context("cuModuleGetFunction");
    if (result)
        return result;
    *function = module->function;
    return strncmp(name, "ftj_", 4) == 0 ? 0 : FTJ_CU_ERROR_NOT_FOUND;
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

int cuLaunchKernel(struct CUfunc_st *function, unsigned int grid_x, unsigned int grid_y,
                   unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                   unsigned int block_z, unsigned int smem_bytes, struct CUstream_st *stream,
                   void **arguments, void **extra)
{
    const int result = fake_begin_in_context("cuLaunchKernel");
    if (result)
        return result;
    const bool has_buffer = extra && extra[0] == FTJ_CU_LAUNCH_BUFFER &&
                            extra[2] == FTJ_CU_LAUNCH_BUFFER_SIZE && extra[4] == FTJ_CU_LAUNCH_END;
    if (grid_x == 0 || grid_y != 1 || grid_z != 1 || block_x == 0 || block_x > 1024 ||
        block_y != 1 || block_z != 1 || arguments || !has_buffer ||
        smem_bytes > (unsigned int)function->max_dynamic_smem)
        return INVALID_VALUE;
    if (function->module->context != fake_current() ||
        (stream && stream->context != fake_current()))
        return FTJ_CU_ERROR_INVALID_HANDLE;

    struct fake_launch launch = {.num_blocks = grid_x,
                                 .num_threads = block_x,
                                 .smem_bytes = smem_bytes,
                                 .stream = stream,
                                 .params_bytes = *(size_t *)extra[3]};
    if (launch.params_bytes > sizeof(launch.params))
        return INVALID_VALUE;
    memcpy(launch.params, extra[1], launch.params_bytes);
    last_launch = launch;
    return 0;
}
