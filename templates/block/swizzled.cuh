// SPDX-License-Identifier: MIT
// A tile of rows of 16-bit values in shared memory, as wgmma reads it: panels of 64 dims, a row of
// a panel 128 bytes, and the eight chunks of 16 bytes of row r in the order chunk ^ r % 8. A column
// of chunks then meets every bank, whoever reads or writes it. Tiles start on a multiple of 1024
// bytes, the period of the pattern.
#pragma once
#include "block/types.cuh"

namespace ftj {

template <int rows_, int dims_>
struct SwizzledTile {
    static constexpr int rows = rows_;
    static constexpr int dims = dims_;
    static constexpr int panel_bytes = rows * 128;
    static constexpr int bytes = dims / 64 * panel_bytes;
    static_assert(dims % 64 == 0 && rows % 8 == 0, "whole panels of whole groups of rows");

    // Bytes from the tile's first to chunk `chunk` (of 8 dims) of a row.
    static __device__ __forceinline__ uint32_t at(uint32_t row, uint32_t chunk) {
        return chunk / 8 * panel_bytes + row * 128 + ((chunk % 8 ^ row % 8) * 16);
    }

    // Descriptors of the tile at shared address `tile` as an operand whose k is its dims, or its
    // rows. The leading byte offset is from panel to panel; the first form does not use it.
    static __device__ __forceinline__ uint32_t over_dims(uint32_t tile) {
        return tile / 16 | 1u << 16;
    }
    static __device__ __forceinline__ uint32_t over_rows(uint32_t tile) {
        return tile / 16 | uint32_t(panel_bytes / 16) << 16;
    }
    // What is to be added for k = 64 * step on.
    static constexpr uint32_t step_over_dims(int step) { return uint32_t(step * panel_bytes / 16); }
    static constexpr uint32_t step_over_rows(int step) { return uint32_t(step * (64 * 128 / 16)); }
};

}  // namespace ftj
