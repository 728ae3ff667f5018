/* SPDX-License-Identifier: MIT */
/* Whether this process is a fork of one that used the library: neither threads, nor the driver, nor
 * a compiler that was at work survive a fork. */
#ifndef FTJ_BASE_FORK_H
#define FTJ_BASE_FORK_H

#include <stdint.h>

/* Start to count. Any thread, any number of times. */
void ftj_fork_watch(void);

/* Forks between the process that first watched and this one: 0 in that process itself and in one
 * that never watched. Costs one load. */
uint32_t ftj_fork_generation(void);

#endif
