/* SPDX-License-Identifier: MIT */
/*
 * A problem and the device it is for, as one line of text: what FTJIT_RECORD writes and `ftjit warm
 * --from` reads. docs/cache.md has the format.
 */
#ifndef FTJ_CODEGEN_PROBLEM_TEXT_H
#define FTJ_CODEGEN_PROBLEM_TEXT_H

#include "base/bytes.h"
#include "codegen/problem.h"

#define FTJ_PROBLEM_TEXT_MAX 2048 /* bytes of a line; a longer one is none of ours */

/* Append the line, with its newline. */
void ftj_problem_write(struct ftj_text *text, const struct ftj_problem *problem,
                       const struct ftj_device *device);

/* Read a line, without its newline. Trusts nothing: what it accepts has passed ftj_desc_check().
 * FTJ_E_INVALID: with a sentence that names the field. Both are untouched on failure. */
FTJ_NODISCARD ftj_status ftj_problem_parse(const char *line, size_t size,
                                           struct ftj_problem *problem, struct ftj_device *device);

/* Which of the public operations needs this kernel: an FTJ_OP_* bit. */
uint32_t ftj_kernel_op_bit(enum ftj_kernel_op op);

/* Names of kernels, "store", "decode", ...; "?" for none. Static. */
const char *ftj_kernel_op_name(enum ftj_kernel_op op);

#endif
