/* SPDX-License-Identifier: MIT */
/* A caller that has CUDA's headers: its CUstream and CUcontext fit our arguments without a cast,
 * whatever the version of cuda.h, in C and in C++. Compiled, never run. */
#include <cuda.h>
#include <string.h>

#include "ftjit/ftjit.h"

ftj_status cuda_caller(CUcontext context, CUstream stream, ftj_attention *attn);

ftj_status cuda_caller(CUcontext context, CUstream stream, ftj_attention *attn)
{
    ftj_settings settings;
    memset(&settings, 0, sizeof(settings));
    settings.cuda_context = context;

    ftj_context *ctx = NULL;
    ftj_status status = ftj_context_create(&settings, &ctx);
    if (status != FTJ_OK)
        return status;

    ftj_store_args args;
    memset(&args, 0, sizeof(args));
    status = ftj_kv_store(attn, &args, stream);
    ftj_context_destroy(ctx);
    return status;
}
