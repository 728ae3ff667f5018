// SPDX-License-Identifier: MIT
// The row scales of a tile of keys, in shared memory in the order of its rows, on scores or
// weights: of a row of those, lane c of four has columns 8 * i + 2 * c + e in [4 * i + 2 * h + e].
#pragma once
#include "block/types.cuh"

namespace ftj {

template <int tokens>
struct ScaleColumns {
    static constexpr int bytes = tokens * 4;
    using Columns = float[tokens / 4];  // a lane's

    // What this lane's address is past the first scale's.
    static __device__ __forceinline__ uint32_t own_offset() {
        return 8 * (ptx::thread_index() % 4);
    }

    static __device__ __forceinline__ void load(uint32_t own, Columns& scales) {
#pragma unroll
        for (int i = 0; i < tokens / 4; i += 2) {
            const ptx::Words2 pair = ptx::ld_shared_v2(own + 16 * i);
            scales[i] = ptx::bits_float(pair.w[0]);
            scales[i + 1] = ptx::bits_float(pair.w[1]);
        }
    }
};

}  // namespace ftj
