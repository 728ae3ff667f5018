/* SPDX-License-Identifier: MIT */
#include "runtime/cpu/cpu_barrier.h"

#define MAX_ARRIVALS 1024u /* threads of a block, which nobody here exceeds */

bool ftj_cpu_barrier_init(struct ftj_cpu_barrier *barrier, uint32_t arrivals)
{
    if (arrivals == 0 || arrivals > MAX_ARRIVALS)
        return false;
    *barrier =
        (struct ftj_cpu_barrier){.arrivals = (uint16_t)arrivals, .pending = (uint16_t)arrivals};
    return true;
}

bool ftj_cpu_barrier_arrive(struct ftj_cpu_barrier *barrier)
{
    if (--barrier->pending > 0)
        return false;
    barrier->pending = barrier->arrivals;
    barrier->phase++;
    return true;
}

bool ftj_cpu_barrier_has_ended(const struct ftj_cpu_barrier *barrier, uint32_t parity)
{
    return (barrier->phase & 1) != (parity & 1);
}

bool ftj_cpu_barrier_is_sound(const struct ftj_cpu_barrier *barrier)
{
    return barrier->arrivals > 0 && barrier->arrivals <= MAX_ARRIVALS && barrier->pending > 0 &&
           barrier->pending <= barrier->arrivals;
}
