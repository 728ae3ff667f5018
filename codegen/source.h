/* SPDX-License-Identifier: MIT */
/* The translation unit that is compiled: includes, one Config struct, one entry. */
#ifndef FTJ_CODEGEN_SOURCE_H
#define FTJ_CODEGEN_SOURCE_H

#include "base/bytes.h"
#include "codegen/variant.h"

struct ftj_source {
    const char *template_id; /* variant's name; static */
    struct ftj_text text;    /* owned */
    char target[16];
    bool allow_fma; /* false: the kernel's numbers forbid contraction */
};

/* FTJ_E_NO_MEMORY. The caller finishes it. */
FTJ_NODISCARD ftj_status ftj_source_init(struct ftj_source *source,
                                         const struct ftj_variant *variant,
                                         const struct ftj_problem *problem,
                                         const struct ftj_config *config,
                                         const struct ftj_device *device);
void ftj_source_finish(struct ftj_source *source);

/* What the kernel of variant `template_id` is called in its source and in the machine code. */
struct ftj_symbol {
    char name[64];
};
struct ftj_symbol ftj_kernel_symbol(const char *template_id);

#endif
