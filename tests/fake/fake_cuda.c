/* SPDX-License-Identifier: MIT */
#include "fake_state.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_calls.h"
#include "templates/block/params.h"

#define MAX_DEVICES  8
#define MAX_CONTEXTS 16
#define MAX_DEPTH    16
#define MACHINE_CUDA 190

static struct CUctx_st primary[MAX_DEVICES];
static struct CUctx_st others[MAX_CONTEXTS];
static int num_others;
static _Atomic int num_retained;
static _Atomic int num_modules;

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
