// SPDX-License-Identifier: MIT
// A block's first tiles, looked up before the kernel that it follows has ended.
//
// From lengths to the block's range, from there to a page, from the page to keys: three trips to
// memory, one after another, before the first product. Lengths and page tables are seldom what the
// kernel before has written. So while that one still runs, a block works out its range and the page
// of each ring's first tile from what then lies there; when the kernel has ended these are copied
// at once, and what was read is read again. If any of it has changed, the tiles are dropped, and
// the block begins anew.
//
// Until that is known, what was read may be anything. Every length is read once, so that a range is
// one of some lengths; columns are kept within a request's row of the table, and pages within the
// pool.
#pragma once
#include "block/merge_warps.cuh"
#include "block/segments.cuh"

namespace ftj {

// Reads a request's row of the table where the kernel before may have yet to write it, or has just
// done so: past the L1, and within the row and the pool.
struct NewestPages {
    const ftj_decode_params& p;
    bool is_early;

    __device__ __forceinline__ uint32_t operator()(const int32_t* row, uint32_t column) const {
        const uint32_t in_row = column < p.requests.table_stride ? column : 0;
        return min_of(ptx::ld_past_l1(row + in_row, is_early ? 2 : 0), p.num_pages - 1);
    }
};

template <class Config, class Tile>
struct FirstTiles {
    // It lies where warps will merge, and has as many requests as there is room for.
    static constexpr int room = OutputRows<Config, Tile>::shared_bytes / 4 - 1;
    static constexpr uint32_t max_requests =
        room < int(most_early_requests) ? room / int(warp_size) * warp_size : most_early_requests;

    uint32_t ends[max_requests];  // of the requests' keys, as they were
    uint32_t is_wrong;

    // Whether a block may look early. All threads call it, and the block meets before is_right().
    __device__ __forceinline__ bool start(const ftj_decode_params& p) {
        if (ptx::thread_index() == 0)
            is_wrong = 0;
        return p.requests.batch <= max_requests;
    }

    // Whether what was read is what lies there now. All threads call it, those of a warp that fills
    // a ring with where its first tile lies now, and where it was found. They agree: if it were to
    // change meanwhile, and they did not, they would wait for each other.
    template <class Table>
    __device__ __forceinline__ bool is_right(const ftj_decode_params& p, uint32_t now,
                                             uint32_t before) {
        bool is_other = now != before;
        if (ptx::thread_index() < warp_size) {
#pragma unroll 1
            for (uint32_t r = ptx::thread_index(); r < p.requests.batch; r += warp_size)
                is_other |= Table::newest(p, r, false).end != ends[r];
        }
        if (is_other)
            ptx::atomic_add(&is_wrong, 1);
        ptx::sync_block();
        return !is_wrong;
    }
};

}  // namespace ftj
