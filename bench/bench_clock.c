/* SPDX-License-Identifier: MIT */
/* A few calls of libnvidia-ml; its absence is no failure. */
#include "bench/bench_clock.h"

#include <string.h>

#include "base/dynlib.h"

#define CLOCK_OF_SM 1

typedef int (*start_fn)(void);
typedef int (*find_fn)(const char *bus_id, void **device);
typedef int (*release_fn)(char *text, unsigned size);

/* False when the symbol is not there. */
static bool symbol_into(void *library, const char *name, void *function)
{
    void *symbol = ftj_dynlib_symbol(library, name);
    memcpy(function, &symbol, sizeof(symbol));
    return symbol;
}

void bench_clock_open(struct bench_timer *timer)
{
    static const char *const names[] = {"libnvidia-ml.so.1", NULL};
    struct ftj_text tried = {0};
    timer->clock_library = ftj_dynlib_open(names, &tried, NULL, 0);
    ftj_text_finish(&tried);
    if (!timer->clock_library)
        return;

    start_fn start = NULL;
    find_fn find = NULL;
    char bus_id[32] = "";
    const bool usable =
        symbol_into(timer->clock_library, "nvmlInit_v2", &start) &&
        symbol_into(timer->clock_library, "nvmlDeviceGetHandleByPciBusId_v2", &find) &&
        symbol_into(timer->clock_library, "nvmlDeviceGetClockInfo", &timer->clock_query) &&
        start() == 0 &&
        timer->driver.device_bus_id(bus_id, sizeof(bus_id), timer->driver.device) == 0 &&
        find(bus_id, &timer->clock_device) == 0;
    if (!usable) {
        timer->clock_query = NULL;
        return;
    }
    release_fn release = NULL;
    if (symbol_into(timer->clock_library, "nvmlSystemGetDriverVersion", &release) &&
        release(timer->driver_release, sizeof(timer->driver_release)))
        timer->driver_release[0] = '\0';
}

void bench_clock_close(struct bench_timer *timer)
{
    ftj_dynlib_close(timer->clock_library);
    timer->clock_library = NULL;
    timer->clock_query = NULL;
}

unsigned bench_clock_mhz(const struct bench_timer *timer)
{
    unsigned mhz = 0;
    if (!timer->clock_query || timer->clock_query(timer->clock_device, CLOCK_OF_SM, &mhz))
        return 0;
    return mhz;
}
