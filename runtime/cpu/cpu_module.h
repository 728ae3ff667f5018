/* SPDX-License-Identifier: MIT */
/* A kernel's shared object, from bytes to its entry. */
#ifndef FTJ_RUNTIME_CPU_MODULE_H
#define FTJ_RUNTIME_CPU_MODULE_H

#include "base/bytes.h"
#include "templates/block/cpu_runtime.h"

struct ftj_cpu_module;

/* FTJ_E_DAMAGED: no shared object of ours, or of another version. Unload with
 * ftj_cpu_module_destroy(). */
FTJ_NODISCARD ftj_status ftj_cpu_module_create(const struct ftj_bytes *code,
                                               const struct ftj_log *log,
                                               struct ftj_cpu_module **out);
void ftj_cpu_module_destroy(struct ftj_cpu_module *module); /* NULL is fine */

const ftj_cpu_entry *ftj_cpu_module_entry(const struct ftj_cpu_module *module); /* borrowed */

#endif
