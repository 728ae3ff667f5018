/* SPDX-License-Identifier: MIT */
/* Members of a Config that say what a cache is made of. */
#ifndef FTJ_CODEGEN_CACHE_CONFIG_H
#define FTJ_CODEGEN_CACHE_CONFIG_H

#include "base/bytes.h"
#include "codegen/problem.h"

/* "    using KCodec = ftj::CodecFp8<ftj::E4m3Hardware>;" for a format on a device. */
void ftj_write_codec(struct ftj_text *text, const char *name, ftj_kv_format format,
                     const struct ftj_device *device);

/* "    using KWiden = ftj::WidenFp8<ftj::E4m3Hardware>;": how such rows become 16-bit values in
 * shared memory. */
void ftj_write_widen(struct ftj_text *text, const char *name, ftj_kv_format format,
                     const struct ftj_device *device);

/* The most bytes, up to 16, that every row of an array can be copied by. */
uint32_t ftj_copy_chunk(const ftj_kv_array *array);

#endif
