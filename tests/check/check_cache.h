/* SPDX-License-Identifier: MIT */
/* A KV cache as the host sees it: an image of every allocation, poisoned where nothing was put. */
#ifndef FTJ_TESTS_CHECK_CACHE_H
#define FTJ_TESTS_CHECK_CACHE_H

#include "tests/check/check_buffer.h"
#include "tests/ref/ref_codec.h"

#define CHECK_CACHE_ARRAYS 6

enum check_side { CHECK_K, CHECK_V };
enum check_part { CHECK_CODES, CHECK_ROW_SCALES, CHECK_BLOCK_SCALES };

struct check_cache {
    ftj_kv_layout layout;
    ftj_dtype dtype; /* of a 16-bit side */
    uint64_t num_pages;
    uint8_t
        *images[CHECK_CACHE_ARRAYS]; /* owned; packed uses the first alone, else side * 3 + part */
    size_t image_bytes[CHECK_CACHE_ARRAYS];
};

/* The same cache on a device. A zeroed one is empty. */
struct check_cache_memory {
    struct check_buffer buffers[CHECK_CACHE_ARRAYS];
    ftj_kv_cache view;
};

/* Rows hold NaN: codes 0x7F (NaN bits for 16-bit), scales NaN; padding is 0xFF. */
void check_cache_init(struct check_cache *cache, const ftj_kv_layout *layout, ftj_dtype dtype,
                      uint64_t num_pages);
void check_cache_copy(struct check_cache *copy, const struct check_cache *cache);
void check_cache_finish(struct check_cache *cache);

/* First byte of a row of one array, within its image; NULL when the format has no such array. */
uint8_t *check_cache_row(const struct check_cache *cache, enum check_side side,
                         enum check_part part, uint64_t slot, uint32_t head);
void check_cache_put(struct check_cache *cache, enum check_side side, uint64_t slot, uint32_t head,
                     const struct ref_row *row);
void check_cache_get(const struct check_cache *cache, enum check_side side, uint64_t slot,
                     uint32_t head, struct ref_row *row);
/* Encode and put, get and decode. */
void check_cache_encode(struct check_cache *cache, enum check_side side, uint64_t slot,
                        uint32_t head, const float *values);
void check_cache_decode(const struct check_cache *cache, enum check_side side, uint64_t slot,
                        uint32_t head, double *values);

bool check_cache_upload(const struct check_cache *cache, struct check_row *row,
                        struct check_cache_memory *memory);
/* Every byte of the device's cache must be the image's. */
void check_cache_compare(const struct check_cache *expected, struct check_row *row,
                         const struct check_cache_memory *memory);
/* Read a device's cache back into the image. */
bool check_cache_download(struct check_cache *cache, struct check_row *row,
                          const struct check_cache_memory *memory);
/* Checks the guard bands. */
void check_cache_memory_finish(struct check_cache_memory *memory, struct check_row *row);

/* Different gaps in the strides of K and of V, as in a view of somebody else's pool. HND and NHD
 * only; a packed layout stays as it is. */
void check_layout_widen(ftj_kv_layout *layout);

#endif
