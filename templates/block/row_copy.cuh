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
    static constexpr int num_warps = num_threads / int(warp_size);

    // Row i is at base() + i * stride; without gaps, `stride` is row_bytes. `thread` is the
    // thread's number: to ask for it here takes a while. A whole tile's first chunk is that of
    // thread `first`: who has none of a short array knows so before any address is made.
    template <int row_bytes, int pitch, int chunk, bool has_gaps, uint32_t first, class Base>
    static __device__ __forceinline__ void strided(const Base& base, uint64_t stride,
                                                   uint32_t shared, SeenRows seen,
                                                   uint32_t thread) {
        constexpr uint32_t chunks = row_bytes / chunk;
        static_assert(row_bytes % chunk == 0, "a row is whole chunks");
        const bool whole = seen.first == 0 && seen.last >= tokens;
        if constexpr (num_threads % chunks == 0 && chunk >= 4) {
            if (whole) {
                constexpr uint32_t step = num_threads / chunks;  // rows at a time
                const uint32_t mine =
                    first == 0 ? thread : (thread + (num_threads - first)) % num_threads;
                if (step > tokens && mine >= tokens * chunks)
                    return;
                const uint32_t byte = mine % chunks * chunk;
                if constexpr (!has_gaps && step < tokens && tokens % step == 0 &&
                              warp_size % chunks == 0) {
                    constexpr uint32_t at_once = warp_size / chunks;
                    constexpr uint32_t middle = tokens / num_warps / 2 / at_once * at_once;
                    const uint32_t row = mine / warp_size * (tokens / num_warps) +
                                         mine % warp_size / chunks + middle;
                    copy_dense<row_bytes, pitch, chunk, at_once, -int(middle)>(
                        base() + row * row_bytes + byte, shared + row * pitch + byte);
                    return;
                }
                const uint32_t row = mine / chunks;
                const uint64_t from = base() + row * stride + byte;
                const uint32_t to = shared + row * pitch + byte;
#pragma unroll
                for (uint32_t at = 0; at < tokens; at += step) {
                    if (step >= tokens || tokens % step == 0 || row + at < tokens)
                        Copy::copy<chunk>(to + at * pitch,
                                          pointer<const unsigned char>(from + at * stride));
                }
                return;
            }
        }
        const uint64_t start = base();
        by_row<row_bytes, pitch, chunk>(shared, seen,
                                        [&](uint32_t row) { return start + row * stride; });
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
    // A warp's run of rows, `at_once` of them at a time: an instruction holds distances of 2 KiB
    // either way, and others would have to be added up.
    template <int row_bytes, int pitch, int chunk, uint32_t at_once, int at>
    static __device__ __forceinline__ void copy_dense(uint64_t from, uint32_t to) {
        constexpr int run = tokens / num_warps;
        if constexpr (at < run - run / 2 / int(at_once) * int(at_once)) {
            Copy::copy_past<chunk, at * pitch, at * row_bytes>(to,
                                                               pointer<const unsigned char>(from));
            copy_dense<row_bytes, pitch, chunk, at_once, at + int(at_once)>(from, to);
        }
    }

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
