/* SPDX-License-Identifier: MIT */
/* Every entry point of libnvrtc that is used, against our own declarations: no CUDA header. */
#ifndef FTJ_CODEGEN_NVRTC_SYMBOLS_H
#define FTJ_CODEGEN_NVRTC_SYMBOLS_H

#include <stddef.h>

struct ftj_nvrtc_program; /* the library's own opaque struct */

/* The formatter takes the pointers among a macro's arguments for products. */
/* clang-format off */
/* X(symbol, its arguments) */
#define FTJ_NVRTC_SYMBOL_MAP(X)                                                                    \
    X(nvrtcVersion, (int *major, int *minor))                                                      \
    X(nvrtcCreateProgram, (struct ftj_nvrtc_program **program, const char *source, const char *name,\
                           int num_headers, const char *const *headers,                            \
                           const char *const *include_names))                                      \
    X(nvrtcDestroyProgram, (struct ftj_nvrtc_program **program))                                   \
    X(nvrtcCompileProgram, (struct ftj_nvrtc_program *program, int num_options,                    \
                            const char *const *options))                                           \
    X(nvrtcGetProgramLogSize, (struct ftj_nvrtc_program *program, size_t *size))                   \
    X(nvrtcGetProgramLog, (struct ftj_nvrtc_program *program, char *log))                          \
    X(nvrtcGetCUBINSize, (struct ftj_nvrtc_program *program, size_t *size))                        \
    X(nvrtcGetCUBIN, (struct ftj_nvrtc_program *program, char *code))
/* clang-format on */

/* Looked up apart from the map: it answers with text. */
#define FTJ_NVRTC_ERROR_STRING "nvrtcGetErrorString"

enum {
    FTJ_NVRTC_ERROR_OUT_OF_MEMORY = 1,
    FTJ_NVRTC_ERROR_INVALID_OPTION = 5,
    FTJ_NVRTC_ERROR_COMPILATION = 6,
};

#endif
