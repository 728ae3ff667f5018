/* SPDX-License-Identifier: MIT */
/* The one place that asks a GPU what it is. */
#ifndef FTJ_RUNTIME_PROBE_H
#define FTJ_RUNTIME_PROBE_H

#include "base/device.h"
#include "runtime/driver.h"

/* Describe device `ordinal`, its features narrowed by `features`, else by FTJIT_FEATURES.
 * FTJ_E_INVALID: no such device or feature; FTJ_E_UNSUPPORTED: older than sm_75; FTJ_E_DRIVER.
 * `device` is untouched on failure. */
FTJ_NODISCARD ftj_status ftj_probe(const struct ftj_driver *driver, int ordinal,
                                   const char *features, const struct ftj_log *log,
                                   struct ftj_device *device);

#endif
