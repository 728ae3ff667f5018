/* SPDX-License-Identifier: MIT */
/* A kernel: built once per context, launched for ever. */
#ifndef FTJ_RUNTIME_KERNEL_H
#define FTJ_RUNTIME_KERNEL_H

#include "cache/key.h"
#include "codegen/source.h"
#include "runtime/context_state.h"

struct ftj_kernel {
    const struct ftj_variant *variant;
    struct ftj_config config;
    struct ftj_module module;
};

/* Get the kernel of a problem: from memory, from disk, or built now. Borrowed from the context. */
FTJ_NODISCARD ftj_status ftj_kernel_get(struct ftj_context *ctx, const struct ftj_problem *problem,
                                        const struct ftj_kernel **out);

/* What ftj_kernel_get() would look up, without looking: for `ftjit source` and for tests. The
 * caller finishes both. */
FTJ_NODISCARD ftj_status ftj_kernel_describe(const struct ftj_problem *problem,
                                             const struct ftj_device *device,
                                             const struct ftj_compiler *compiler,
                                             struct ftj_source *source, struct ftj_key *key,
                                             const struct ftj_log *log);

/* Free function of the context's memo. */
void ftj_kernel_destroy(void *kernel, void *context);

#endif
