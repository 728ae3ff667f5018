// SPDX-License-Identifier: MIT
// Where a row of the cache lies: slot -> page and offset -> addresses. 64 bits from the first
// product.
#pragma once
#include "block/types.cuh"

namespace ftj {

struct Place {
    uint32_t page;
    uint32_t offset;  // within the page
};

template <uint32_t page_size>
FTJ_DEVICE Place place_of_slot(uint64_t slot) {
    return {static_cast<uint32_t>(slot / page_size), static_cast<uint32_t>(slot % page_size)};
}

FTJ_DEVICE uint64_t row_address(const ftj_array_params& array, Place place, uint32_t head) {
    return array.base + place.page * array.page_stride + head * array.head_stride +
           place.offset * array.slot_stride;
}

// The three parts of a row of K or of V; those that the format lacks mean nothing.
struct CacheRow {
    uint64_t codes;
    uint64_t row_scale;
    uint64_t block_scales;
};

FTJ_DEVICE CacheRow cache_row(const ftj_side_params& side, Place place, uint32_t head) {
    return {row_address(side.codes, place, head), row_address(side.row_scales, place, head),
            row_address(side.block_scales, place, head)};
}

}  // namespace ftj
