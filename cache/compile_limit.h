/* SPDX-License-Identifier: MIT */
/* How many compiles this node has room for at once. */
#ifndef FTJ_CACHE_COMPILE_LIMIT_H
#define FTJ_CACHE_COMPILE_LIMIT_H

#include <stdint.h>

#define FTJ_MAX_COMPILES 256

/* Of what this process may use: its affinity and its cgroups' limits (v1 and v2). No more than one
 * compile per 200 MB of memory; each number is 1 to FTJ_MAX_COMPILES, the second no less than the
 * first. */
struct ftj_compile_limit {
    uint32_t beside; /* beside the work of the processes that want a kernel: half the cores,
                        rounded up */
    uint32_t alone;  /* by who has no other work, and may take what the others have left: all */
};
struct ftj_compile_limit ftj_compile_limit(void);

/* The same for `cores` and `memory_bytes` of hardware, with /proc and /sys below `root`: "" is the
 * real one. */
struct ftj_compile_limit ftj_compile_limit_below(const char *root, uint32_t cores,
                                                 uint64_t memory_bytes);

#endif
