/* SPDX-License-Identifier: MIT */
/* Numbers in files, whatever the machine's own byte order. */
#ifndef FTJ_BASE_LITTLE_ENDIAN_H
#define FTJ_BASE_LITTLE_ENDIAN_H

#include <stdint.h>

static inline void ftj_put_u32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

static inline void ftj_put_u64(uint8_t *at, uint64_t value)
{
    ftj_put_u32(at, (uint32_t)value);
    ftj_put_u32(at + 4, (uint32_t)(value >> 32));
}

static inline uint32_t ftj_get_u32(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static inline uint64_t ftj_get_u64(const uint8_t *at)
{
    return ftj_get_u32(at) | (uint64_t)ftj_get_u32(at + 4) << 32;
}

#endif
