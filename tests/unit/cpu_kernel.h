/* SPDX-License-Identifier: MIT */
/* A kernel written in a test, compiled for the CPU target and run: words in, words out. */
#ifndef CPU_KERNEL_H
#define CPU_KERNEL_H

#include "log_catcher.h"
#include "runtime/backend.h"

struct cpu_kernel {
    struct ftj_backend backend;
    struct ftj_module module;
    struct log_catcher catcher;
    struct ftj_log log;
};

/* `body` may use: thread (index), block (index), in and out (uint32_t *), and namespace ftj. A
 * failure to compile fails the test. */
void cpu_kernel_init(struct cpu_kernel *kernel, const char *body, uint32_t num_threads,
                     uint32_t smem_bytes);
/* The same with all of a config: its num_threads, smem_bytes and cluster_blocks. */
void cpu_kernel_init_of(struct cpu_kernel *kernel, const char *body,
                        const struct ftj_config *config);
void cpu_kernel_finish(struct cpu_kernel *kernel);

ftj_status cpu_kernel_launch(struct cpu_kernel *kernel, uint32_t num_blocks, const void *in,
                             void *out);

/* All three for a kernel that must succeed. */
void cpu_kernel_run(const char *body, uint32_t num_blocks, uint32_t num_threads,
                    uint32_t smem_bytes, const void *in, void *out);

/* Compile a whole unit; the caller frees `code`. */
ftj_status cpu_kernel_compile(const char *unit, const struct ftj_log *log, struct ftj_bytes *code);

#endif
