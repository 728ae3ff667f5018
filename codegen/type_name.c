/* SPDX-License-Identifier: MIT */
#include "codegen/type_name.h"

const char *ftj_type_name(ftj_dtype dtype)
{
    switch (dtype) {
    case FTJ_DTYPE_FP16:
        return "ftj::Fp16";
    case FTJ_DTYPE_FP32:
        return "ftj::Fp32";
    default:
        return "ftj::Bf16";
    }
}
