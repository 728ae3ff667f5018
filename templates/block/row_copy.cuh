// SPDX-License-Identifier: MIT
// A block's copy of the rows of one array into shared memory, rows `pitch` bytes apart there. Rows
// that nobody may see are never read: they are zeros.
#pragma once
#include "block/copy_piece.cuh"
#include "block/types.cuh"

namespace ftj {

// Of the rows of a tile, first <= row < last are seen.
struct SeenRows {
    uint32_t first;
    uint32_t last;
};

template <int num_threads, uint32_t tokens>
struct RowCopy {
    // Row i is at base + i * stride; without gaps, `stride` is row_bytes. `thread` is the thread's
    // number: to ask for it here takes a while.
    template <int row_bytes, int pitch, int chunk>
    static __device__ __forceinline__ void strided(uint64_t base, uint64_t stride, uint32_t shared,
                                                   SeenRows seen, uint32_t thread) {
        constexpr uint32_t chunks = row_bytes / chunk;
        static_assert(row_bytes % chunk == 0, "a row is whole chunks");
        const bool whole = seen.first == 0 && seen.last >= tokens;
        if constexpr (num_threads % chunks == 0 && chunk >= 4) {
            if (whole) {
                constexpr uint32_t step = num_threads / chunks;  // rows at a time
                const uint32_t row = thread / chunks;
                const uint32_t byte = thread % chunks * chunk;
                const uint64_t from = base + row * stride + byte;
#pragma unroll
                for (uint32_t at = 0; at < tokens; at += step) {
                    if (tokens % step == 0 || row + at < tokens)
                        Copy::copy<chunk>(shared + (row + at) * pitch + byte,
                                          pointer<const unsigned char>(from + at * stride));
                }
                return;
            }
        }
        by_row<row_bytes, pitch, chunk>(shared, seen,
                                        [&](uint32_t row) { return base + row * stride; });
    }

    // Row i is at row_address(i).
    template <int row_bytes, int pitch, int chunk, class RowAddress>
    static __device__ __forceinline__ void scattered(uint32_t shared, SeenRows seen,
                                                     const RowAddress& row_address) {
        constexpr uint32_t chunks = row_bytes / chunk;
        static_assert(row_bytes % chunk == 0, "a row is whole chunks");
        if constexpr (num_threads % chunks == 0 && chunk >= 4) {
            if (seen.first == 0 && seen.last >= tokens) {
                constexpr uint32_t step = num_threads / chunks;  // rows at a time
                const uint32_t row = ptx::thread_index() / chunks;
                const uint32_t byte = ptx::thread_index() % chunks * chunk;
#pragma unroll 4
                for (uint32_t at = 0; at < tokens; at += step) {
                    if (tokens % step == 0 || row + at < tokens)
                        Copy::copy<chunk>(
                            shared + (row + at) * pitch + byte,
                            pointer<const unsigned char>(row_address(row + at) + byte));
                }
                return;
            }
        }
        by_row<row_bytes, pitch, chunk>(shared, seen, row_address);
    }

private:
    // Rolled up: it serves the ends of requests, and rows of odd sizes.
    template <int row_bytes, int pitch, int chunk, class RowAddress>
    static __device__ __forceinline__ void by_row(uint32_t shared, SeenRows seen,
                                                  const RowAddress& row_address) {
        constexpr uint32_t chunks = row_bytes / chunk;
        constexpr uint32_t total = tokens * chunks;
#pragma unroll 1
        for (uint32_t at = 0; at < total; at += num_threads) {
            const uint32_t mine = at + ptx::thread_index();
            const uint32_t piece = min_of(mine, total - 1);
            const uint32_t row = piece / chunks;
            const uint32_t byte = piece % chunks * chunk;
            const uint64_t from = row_address(row) + byte;
            const uint32_t to = shared + row * pitch + byte;
            if (mine > piece)
                continue;
            fetch_piece<chunk>(to, pointer<const unsigned char>(from),
                               row >= seen.first && row < seen.last);
        }
    }
};

}  // namespace ftj
