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
#include "block/segments.cuh"

namespace ftj {

template <class Config, class Tile>
struct FirstTiles {
    static constexpr uint32_t num_rings = Config::num_warps / Tile::ring_warps;
    static_assert(num_rings <= warp_size, "a lane looks at one of them");

    uint64_t entries[num_rings];  // of the table: that of each ring's tile,
    uint32_t pages[num_rings];    // and what it was
    uint32_t ends[warp_size];     // of the requests' keys, as they were
    uint32_t is_wrong;

    static __device__ __forceinline__ bool may(const ftj_decode_params& p) {
        return p.requests.batch <= warp_size;
    }

    // By a warp that fills a ring: where its first tile lies, which has that token.
    __device__ __forceinline__ typename Tile::Place find(const ftj_decode_params& p, uint32_t ring,
                                                         uint32_t request, uint32_t token) {
        const uint32_t column = token / Config::page_size;
        const uint64_t entry =
            request * p.requests.table_stride + (column < p.requests.table_stride ? column : 0);
        const auto* table = pointer<const int32_t>(p.requests.table);
        const uint32_t page = min_of(ptx::ld_past_l1(table + entry, 2), p.num_pages - 1);
        if (ptx::thread_index() % warp_size == 0) {
            entries[ring] = entry;
            pages[ring] = page;
        }
        return Tile::place_in(page, token);
    }

    // Whether what was read is what lies there now. All threads call it, and one warp looks: if it
    // were to change meanwhile, warps must not disagree, or they would wait for each other.
    template <class Table>
    __device__ __forceinline__ bool is_right(const ftj_decode_params& p, uint32_t rings) {
        const uint32_t thread = ptx::thread_index();
        if (thread < warp_size) {
            const auto* table = pointer<const int32_t>(p.requests.table);
            bool is_other = false;
            if (thread < p.requests.batch)
                is_other = Table::newest(p, thread, false).end != ends[thread];
            if (thread < rings)
                is_other |= ptx::ld_past_l1(table + entries[thread], 0) != pages[thread];
            is_wrong = ptx::any(is_other);
        }
        ptx::sync_block();
        return !is_wrong;
    }
};

}  // namespace ftj
