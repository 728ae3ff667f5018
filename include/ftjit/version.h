/* SPDX-License-Identifier: MIT */
/* The one place that states the version: Meson reads it from here. */
#ifndef FTJIT_VERSION_H
#define FTJIT_VERSION_H

#define FTJ_VERSION_MAJOR 0
#define FTJ_VERSION_MINOR 1
#define FTJ_VERSION_PATCH 0

#endif
