/* SPDX-License-Identifier: MIT */
/* The tuned numbers of problems and devices, as one table: tuned.txt. */
#ifndef FTJ_TESTS_TUNED_NUMBERS_H
#define FTJ_TESTS_TUNED_NUMBERS_H

#include "base/bytes.h"

/* One line for each kernel of each problem of the compile matrix's short list on each device;
 * devices with the same numbers share it. */
void tuned_numbers_write(struct ftj_text *text);

#endif
