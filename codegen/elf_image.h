/* SPDX-License-Identifier: MIT */
/* The little of ELF that is needed: who built a library, and whether machine code is what was
 * asked for. Nothing is loaded or executed. */
#ifndef FTJ_CODEGEN_ELF_IMAGE_H
#define FTJ_CODEGEN_ELF_IMAGE_H

#include <stdbool.h>
#include <stddef.h>

/* GNU build-id of a library file as hex. False: no such note, or no 64-bit ELF file. */
bool ftj_elf_build_id(const char *path, char *hex, size_t size);

/* NULL when `data` is GPU machine code for SM number `sm` (90 for sm_90a: the letter is not in the
 * file) and defines `symbol`; else what is wrong with it, static. */
const char *ftj_elf_cubin_fault(const void *data, size_t size, unsigned int sm, const char *symbol);

#endif
