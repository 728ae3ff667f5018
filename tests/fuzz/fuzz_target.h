/* SPDX-License-Identifier: MIT */
/* What every fuzz target gives: to libFuzzer (tests/fuzz/run.sh), and to the replay that is a part
 * of the test suite. */
#ifndef FTJ_FUZZ_TARGET_H
#define FTJ_FUZZ_TARGET_H

#include <stddef.h>
#include <stdint.h>

/* Any bytes; must come back, whatever they are. Aborts where a promise is broken. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The index-th well-formed input into `data`, which holds `max` bytes; 0: there is none. */
size_t fuzz_seed(int index, uint8_t *data, size_t max);

#endif
