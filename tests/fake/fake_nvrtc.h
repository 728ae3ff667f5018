/* SPDX-License-Identifier: MIT */
/*
 * A libnvrtc that compiles nothing: a shared object that the library opens like the real one.
 *
 * Environment, read at each call:
 *   FAKE_NVRTC_VERSION=13.0      what nvrtcVersion answers
 *   FAKE_NVRTC_NEWEST=121        --gpu-architecture above it is an invalid option
 *   FAKE_NVRTC_FAIL=symbol[:result][,...]   calls that fail, with 999 when no result is given
 *   FAKE_NVRTC_CUBIN=empty|foreign|other_sm|nameless   what is wrong with the machine code
 *   FAKE_NVRTC_DELAY_MS=200      how long a compile takes
 *   FAKE_NVRTC_FATE=crash|abort|kill|exit|hang   what becomes of the process that compiles
 *   FAKE_NVRTC_RECORD=file       gets a line for every compile: the source's hash
 *
 * The machine code is an ELF header for the target and the kernel's name. A source that contains
 * "syntax error" is rejected, with a log; one that ends in "fate: crash" meets that fate, whatever
 * the environment says. The helpers below are exported as well.
 */
#ifndef FTJ_TESTS_FAKE_NVRTC_H
#define FTJ_TESTS_FAKE_NVRTC_H

#include <stddef.h>

#include "codegen/nvrtc_symbols.h"

unsigned int fake_nvrtc_calls(const char *symbol);
/* The last compile's options, separated by blanks, and the names of the headers it was given. */
const char *fake_nvrtc_options(void);
const char *fake_nvrtc_headers(void);
/* Stack of the thread that compiled last, in bytes. */
size_t fake_nvrtc_stack_bytes(void);

#endif
