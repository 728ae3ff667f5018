/* SPDX-License-Identifier: MIT */
/* The two halves of `ftjit verify`. */
#ifndef FTJ_CLI_VERIFY_H
#define FTJ_CLI_VERIFY_H

#include "cli/cli.h"

/* `ftjit verify --input DIR`: real q, k, v through every format pair. */
int cli_activations(const struct cli_device *device, const char *folder);

#endif
