// SPDX-License-Identifier: MIT
// One piece of a row on its way into shared memory: 16, 8, 4, 2 or 1 bytes.
#pragma once
#include "block/types.cuh"

namespace ftj {

// The piece, or zeros where its row is not visible. cp.async moves no less than 4 bytes: block
// scales of an odd number of blocks go by hand.
template <int chunk>
FTJ_DEVICE void fetch_piece(uint32_t shared, const unsigned char* global, bool is_visible) {
    if constexpr (chunk >= 4)
        Copy::copy_or_clear<chunk>(shared, global, is_visible);
    else if constexpr (chunk == 2)
        ptx::st_shared_u16(shared,
                           is_visible ? *reinterpret_cast<const uint16_t*>(global) : uint16_t(0));
    else
        ptx::st_shared_u8(shared, is_visible ? *global : uint8_t(0));
}

}  // namespace ftj
