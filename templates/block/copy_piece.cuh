// SPDX-License-Identifier: MIT
// One piece of a row on its way into shared memory: 16, 8, 4, 2 or 1 bytes.
#pragma once
#include "block/types.cuh"

namespace ftj {

// cp.async moves no less than 4 bytes: block scales of an odd number of blocks go by hand.
template <int chunk>
FTJ_DEVICE void move_piece(uint32_t shared, const unsigned char* global) {
    if constexpr (chunk >= 4)
        Copy::copy<chunk>(shared, global);
    else if constexpr (chunk == 2)
        ptx::st_shared_u16(shared, *reinterpret_cast<const uint16_t*>(global));
    else
        ptx::st_shared_u8(shared, *global);
}

template <int chunk>
FTJ_DEVICE void clear_piece(uint32_t shared) {
    if constexpr (chunk == 16)
        ptx::st_shared_v4(shared, {});
    else if constexpr (chunk == 8)
        ptx::st_shared_v2(shared, {});
    else if constexpr (chunk == 4)
        ptx::st_shared_u32(shared, 0);
    else if constexpr (chunk == 2)
        ptx::st_shared_u16(shared, 0);
    else
        ptx::st_shared_u8(shared, 0);
}

}  // namespace ftj
