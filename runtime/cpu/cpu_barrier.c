/* SPDX-License-Identifier: MIT */
#include "runtime/cpu/cpu_barrier.h"

_Static_assert(sizeof(struct ftj_cpu_barrier) == FTJ_CPU_BARRIER_BYTES, "it lies in shared memory");

#define MAX_ARRIVALS 1024u /* threads of a block, which nobody here exceeds */

bool ftj_cpu_barrier_init(struct ftj_cpu_barrier *barrier, uint32_t arrivals)
{
    if (arrivals == 0 || arrivals > MAX_ARRIVALS)
        return false;
    *barrier =
        (struct ftj_cpu_barrier){.arrivals = (uint16_t)arrivals, .pending = (uint16_t)arrivals};
    return true;
}

static bool end_phase(struct ftj_cpu_barrier *barrier)
{
    if (barrier->pending > 0 || barrier->bytes != 0)
        return false;
    barrier->pending = barrier->arrivals;
    barrier->parity ^= 1;
    return true;
}

void ftj_cpu_barrier_expect(struct ftj_cpu_barrier *barrier, uint32_t bytes)
{
    barrier->bytes += (int32_t)bytes;
}

bool ftj_cpu_barrier_arrive(struct ftj_cpu_barrier *barrier)
{
    barrier->pending--;
    return end_phase(barrier);
}

bool ftj_cpu_barrier_complete(struct ftj_cpu_barrier *barrier, uint32_t bytes)
{
    barrier->bytes -= (int32_t)bytes;
    return end_phase(barrier);
}

bool ftj_cpu_barrier_has_ended(const struct ftj_cpu_barrier *barrier, uint32_t parity)
{
    return barrier->parity != (parity & 1);
}

bool ftj_cpu_barrier_is_sound(const struct ftj_cpu_barrier *barrier)
{
    return barrier->arrivals > 0 && barrier->arrivals <= MAX_ARRIVALS &&
           barrier->pending <= barrier->arrivals;
}
