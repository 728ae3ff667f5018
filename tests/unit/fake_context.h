/* SPDX-License-Identifier: MIT */
/* What a test of attentions on the fake driver begins with: a context on an sm_90 GPU, and memory
 * that all pointers of its calls may name, for nothing runs there. */
#ifndef FAKE_CONTEXT_H
#define FAKE_CONTEXT_H

#include <stdlib.h>

#include "fake_gpu.h"
#include "ftjit/memory.h"
#include "temp_dir.h"
#include "tests/fake/fake_cuda.h"

#define FAKE_CONTEXT_MEMORY 65536u /* bytes, which nobody reads or writes */

struct fake_context {
    struct log_catcher catcher;
    char dir[256]; /* of its cache */
    ftj_context *ctx;
    void *memory;
    const struct fake_launch *(*last_launch)(void), *(*launch_before_last)(void);
};

static inline void fake_context_init(struct fake_context *fake)
{
    temp_dir_init(fake->dir);
    setenv("FAKE_CUDA_ARCH", "90", 1);
    setenv("FTJIT_CC", FTJIT_CC_PATH, 1);
    const ftj_settings settings = fake_gpu_settings(FAKE_CUDA_PATH, fake->dir, &fake->catcher);
    cr_assert_eq(ftj_context_create(&settings, &fake->ctx), FTJ_OK, "%s", fake->catcher.last);
    cr_assert_eq(ftj_memory_alloc(fake->ctx, FAKE_CONTEXT_MEMORY, &fake->memory), FTJ_OK, "%s",
                 fake->catcher.last);
    fake_gpu_find(FAKE_CUDA_PATH, "fake_cuda_last_launch", &fake->last_launch);
    fake_gpu_find(FAKE_CUDA_PATH, "fake_cuda_launch_before_last", &fake->launch_before_last);
}

static inline void fake_context_finish(struct fake_context *fake)
{
    ftj_memory_free(fake->ctx, fake->memory);
    ftj_context_destroy(fake->ctx);
    temp_dir_finish(fake->dir);
}

#endif
