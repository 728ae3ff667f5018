/* SPDX-License-Identifier: MIT */
/* Names that the templates have for what descriptors spell as enums. */
#ifndef FTJ_CODEGEN_TYPE_NAME_H
#define FTJ_CODEGEN_TYPE_NAME_H

#include "ftjit/attention.h"

/* "ftj::Bf16" and so on, of block/types.cuh. Static. */
const char *ftj_type_name(ftj_dtype dtype);

#endif
