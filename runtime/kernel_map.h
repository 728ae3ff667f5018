/* SPDX-License-Identifier: MIT */
/* From a problem straight to its kernel: what a look-up costs when the kernel is there. */
#ifndef FTJ_RUNTIME_KERNEL_MAP_H
#define FTJ_RUNTIME_KERNEL_MAP_H

#include <stdatomic.h>

#include "codegen/problem.h"

struct ftj_kernel;
struct ftj_kernel_node;

#define FTJ_KERNEL_MAP_BUCKETS 64

/* A zeroed one is empty. Grows only: kernels live as long as their context. Any thread. */
struct ftj_kernel_map {
    _Atomic(struct ftj_kernel_node *) buckets[FTJ_KERNEL_MAP_BUCKETS];
    atomic_uint num_nodes;
};

/* NULL: not there, which need not mean that there is no such kernel. Borrowed. */
const struct ftj_kernel *ftj_kernel_map_get(struct ftj_kernel_map *map,
                                            const struct ftj_problem *problem);
/* Without memory nothing is kept: the next look-up takes the long way again. */
void ftj_kernel_map_put(struct ftj_kernel_map *map, const struct ftj_problem *problem,
                        const struct ftj_kernel *kernel);
void ftj_kernel_map_finish(struct ftj_kernel_map *map);

#endif
