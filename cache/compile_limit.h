/* SPDX-License-Identifier: MIT */
/* How many compiles this node has room for at once. */
#ifndef FTJ_CACHE_COMPILE_LIMIT_H
#define FTJ_CACHE_COMPILE_LIMIT_H

#include <stdint.h>

#define FTJ_MAX_COMPILES 256

/* Half the cores, rounded up, and no more than one per 200 MB of memory; of what this process may
 * use: its affinity and its cgroups' limits (v1 and v2). 1 to FTJ_MAX_COMPILES. */
uint32_t ftj_compile_limit(void);

/* The same for `cores` and `memory_bytes` of hardware, with /proc and /sys below `root`: "" is the
 * real one. */
uint32_t ftj_compile_limit_below(const char *root, uint32_t cores, uint64_t memory_bytes);

#endif
