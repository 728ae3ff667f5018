/* SPDX-License-Identifier: MIT */
/* An mbarrier in a block's shared memory: eight bytes that only these functions understand. A phase
 * ends when all arrivals and all expected bytes have come; phases are told apart by their parity.
 */
#ifndef FTJ_RUNTIME_CPU_BARRIER_H
#define FTJ_RUNTIME_CPU_BARRIER_H

#include <stdbool.h>
#include <stdint.h>

#define FTJ_CPU_BARRIER_BYTES 8

struct ftj_cpu_barrier {
    uint16_t arrivals;   /* a phase takes; 0: not initialised */
    uint16_t pending;    /* of the phase under way */
    int32_t bytes : 31;  /* expected, less those that have come */
    uint32_t parity : 1; /* of the phase under way */
};

/* False: an mbarrier cannot count to that. */
bool ftj_cpu_barrier_init(struct ftj_cpu_barrier *barrier, uint32_t arrivals);
/* The phase under way waits for so many bytes more. */
void ftj_cpu_barrier_expect(struct ftj_cpu_barrier *barrier, uint32_t bytes);
/* True: a phase has ended. */
bool ftj_cpu_barrier_arrive(struct ftj_cpu_barrier *barrier);
bool ftj_cpu_barrier_complete(struct ftj_cpu_barrier *barrier, uint32_t bytes);
/* Whether the phase of that parity, the one under way or the one before it, has ended. */
bool ftj_cpu_barrier_has_ended(const struct ftj_cpu_barrier *barrier, uint32_t parity);
/* False: never initialised, or overwritten. */
bool ftj_cpu_barrier_is_sound(const struct ftj_cpu_barrier *barrier);

#endif
