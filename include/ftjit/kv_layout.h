/* SPDX-License-Identifier: MIT */
/*
 * How a paged KV cache lies in memory. Pure arithmetic: no GPU, no context, no allocation.
 *
 * A row is K or V of one (token, kv head). It is stored in up to three arrays:
 *
 *   format   codes                      row scale   block scales       bytes at head_dim 128
 *   16-bit   2 * head_dim                                              256
 *   fp8      head_dim (E4M3)            4 (fp32)                       132
 *   nvfp4    head_dim / 2 (E2M1 pairs)  4 (fp32)    head_dim / 16       76
 *
 * A slot is page * page_size + offset. Row `slot % page_size` of page `slot / page_size` and head h
 * starts at  base + offset + page * page_stride + h * head_stride + slot % page_size * slot_stride.
 */
#ifndef FTJIT_KV_LAYOUT_H
#define FTJIT_KV_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "ftjit/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ftj_kv_format {
    FTJ_KV_16BIT = 0, ///< the attention's dtype, bf16 or fp16, as it is
    FTJ_KV_FP8 = 1,   ///< E4M3 codes, one fp32 scale per row
    FTJ_KV_NVFP4 = 2, ///< E2M1 codes, an E4M3 scale per 16 values, one fp32 scale per row
} ftj_kv_format;

typedef enum ftj_kv_order {
    FTJ_KV_PACKED = 0, ///< page, head: one record with all of K, then all of V; one allocation
    FTJ_KV_HND = 1,    ///< page, head, slot; every array an allocation of its own
    FTJ_KV_NHD = 2,    ///< page, slot, head; every array an allocation of its own
} ftj_kv_order;

typedef struct ftj_kv_shape {
    ftj_kv_format k_format;
    ftj_kv_format v_format;
    ftj_kv_order order;
    uint32_t num_kv_heads; ///< 1 or more
    uint32_t head_dim;     ///< a multiple of 16 from 32 to 512
    uint32_t page_size;    ///< tokens a page holds, 1 or more, any number
} ftj_kv_shape;

/** One array of rows. All zero when the format has no such array. Units: bytes. */
typedef struct ftj_kv_array {
    uint32_t row_bytes;         ///< one row
    uint64_t offset_bytes;      ///< of page 0, head 0, slot 0 from the allocation's first byte
    uint64_t page_stride_bytes; ///< from a page to the next
    uint64_t head_stride_bytes; ///< from a kv head to the next
    uint64_t slot_stride_bytes; ///< from a slot to the next within a page
} ftj_kv_array;

/** The arrays of K, or of V. */
typedef struct ftj_kv_side {
    ftj_kv_array codes;        ///< offset and strides are multiples of gcd(16, row_bytes)
    ftj_kv_array row_scales;   ///< fp32; multiples of 4
    ftj_kv_array block_scales; ///< E4M3; gcd(16, row_bytes), or changed, any
    uint32_t row_bytes;        ///< of the three together
} ftj_kv_side;

typedef struct ftj_kv_layout {
    ftj_kv_shape shape;
    ftj_kv_side k;
    ftj_kv_side v;
    uint64_t token_bytes; ///< K and V of all heads, without padding
    uint64_t page_bytes;  ///< all arrays of one page, padding included; there is none where
                          ///< page_size is a multiple of 16
} ftj_kv_layout;

/**
 * Lay out a cache.
 *
 * Strides may be changed afterwards, to describe a view of somebody else's pool (layers
 * interleaved, rows padded): whoever uses the layout checks it again.
 *
 * @param layout Filled; untouched on failure.
 * @param shape  Borrowed for the call.
 *
 * @return FTJ_OK, or FTJ_E_INVALID with a sentence that names the field, its value and the range.
 */
FTJ_API FTJ_NODISCARD ftj_status ftj_kv_layout_init(ftj_kv_layout *layout,
                                                    const ftj_kv_shape *shape);

/**
 * Where a cache is: device pointers, borrowed for each call they are passed to.
 *
 * Aligned to 16 bytes. Of arrays of their own whose page_size is no multiple of 16, or whose slots
 * lie apart (NHD, padded rows), an alignment to gcd(16, row_bytes) is enough, but for a decode of
 * NHD on sm_90 and later.
 */
typedef struct ftj_kv_cache {
    void *packed;         ///< FTJ_KV_PACKED: the allocation of num_pages * page_bytes; else NULL
    void *k_codes;        ///< the others: one pointer per array the formats have, else NULL
    void *k_row_scales;   ///< fp32
    void *k_block_scales; ///< E4M3
    void *v_codes;
    void *v_row_scales;
    void *v_block_scales;
    uint64_t num_pages; ///< pages there are, 1 or more; slots at or past num_pages * page_size,
                        ///< which is below 2^63, do not exist
} ftj_kv_cache;

/** Name of a format, "16bit", "fp8", "nvfp4", and of an order, "packed", "hnd", "nhd". Static. */
FTJ_API const char *ftj_kv_format_name(ftj_kv_format format);
FTJ_API const char *ftj_kv_order_name(ftj_kv_order order);

#ifdef __cplusplus
}
#endif

#endif
