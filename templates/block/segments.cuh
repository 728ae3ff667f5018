// SPDX-License-Identifier: MIT
// Dealing a decode's work on the device, from lengths that only the device knows.
//
// A tile is tile_tokens tokens, aligned, of one (request, kv head, block of query heads). All tiles
// of all such segments in a row are cut into one contiguous, equal range per block; a block walks
// its range segment by segment. Nothing here depends on anything but lengths and grid, so a
// replayed graph computes what an eager call would.
#pragma once
#include "block/types.cuh"

namespace ftj {

// The keys one request shows to its query.
struct Visible {
    uint32_t begin;
    uint32_t end;

    __device__ __forceinline__ uint32_t num_tiles(uint32_t tile_tokens) const {
        return end > begin ? (end - 1) / tile_tokens - begin / tile_tokens + 1 : 0;
    }
};

template <bool slot_table>
FTJ_DEVICE Visible visible_keys(const ftj_requests_params& requests, uint32_t request) {
    int32_t given;
    if constexpr (slot_table) {
        const auto* indptr = pointer<const int32_t>(requests.indptr);
        given = indptr[request + 1] - indptr[request];
    } else {
        given = pointer<const int32_t>(requests.lengths)[request];
    }
    const auto length = static_cast<uint32_t>(max_of(given, 0));
    const uint32_t window = requests.window;
    return {window && length > window ? length - window : 0, length};
}

// The kind of table, known when a kernel is compiled or not.
template <bool slot_table>
struct OfTable {
    static __device__ __forceinline__ Visible keys(const ftj_requests_params& requests,
                                                   uint32_t request) {
        return visible_keys<slot_table>(requests, request);
    }
};
struct OfAnyTable {
    static __device__ __forceinline__ Visible keys(const ftj_requests_params& requests,
                                                   uint32_t request) {
        return requests.indptr ? visible_keys<true>(requests, request)
                               : visible_keys<false>(requests, request);
    }
};

// Where a block stands: a run of tiles of one segment.
template <uint32_t tile_tokens, bool slot_table>
struct Segment {
    uint32_t request;
    uint32_t head;        // kv head
    uint32_t head_block;  // of its query heads
    uint32_t tile;        // first tile of the run, counted from the segment's first
    uint32_t tiles;       // of the whole segment
    Visible keys;

    __device__ __forceinline__ void enter(uint32_t to, Visible its_keys) {
        request = to;
        keys = its_keys;
        tiles = keys.num_tiles(tile_tokens);
    }

    // To the start of the next segment that has tiles. There must be one.
    __device__ __forceinline__ void next(const ftj_requests_params& requests, uint32_t num_heads,
                                         uint32_t head_blocks) {
        tile = 0;
        if (++head_block < head_blocks)
            return;
        head_block = 0;
        if (++head < num_heads)
            return;
        head = 0;
        do
            enter(request + 1, visible_keys<slot_table>(requests, request + 1));
        while (!tiles);
    }

    // First token of a tile of the segment, which may lie before the first visible key.
    __device__ __forceinline__ uint32_t token(uint32_t of_tile) const {
        return (keys.begin / tile_tokens + of_tile) * tile_tokens;
    }
};

// a / b. In nearly every call all tiles can be counted in 32 bits, and divided so.
FTJ_DEVICE uint64_t quotient(uint64_t a, uint32_t b) {
    return a >> 32 ? a / b : static_cast<uint32_t>(a) / b;
}

// How all tiles are cut: the first `longer` blocks have `each` + 1 of them, the others `each`.
struct Cut {
    uint32_t blocks;  // that have work
    uint32_t each;
    uint32_t longer;

    // At least min_tiles tiles to a block, where there are as many.
    static __device__ __forceinline__ Cut of(uint64_t total, uint32_t min_tiles,
                                             uint32_t num_blocks) {
        const uint64_t wanted = quotient(total + min_tiles - 1, min_tiles);
        Cut cut = {static_cast<uint32_t>(min_of(wanted, uint64_t(num_blocks))), 0, 0};
        if (cut.blocks) {
            cut.each = static_cast<uint32_t>(quotient(total, cut.blocks));
            cut.longer = static_cast<uint32_t>(total - uint64_t(cut.each) * cut.blocks);
        }
        return cut;
    }
    __device__ __forceinline__ uint64_t begin_of(uint32_t block) const {
        return uint64_t(each) * block + min_of(block, longer);
    }
    __device__ __forceinline__ uint32_t count_of(uint32_t block) const {
        return each + (block < longer);
    }
    // The block that has a tile.
    __device__ __forceinline__ uint32_t owner(uint64_t tile) const {
        const uint64_t of_longer = uint64_t(each + 1) * longer;
        return static_cast<uint32_t>(tile < of_longer ? quotient(tile, each + 1)
                                                      : longer + quotient(tile - of_longer, each));
    }
};

// Where a tile lies: its request, and how many of the request's tiles, over all units, come before.
struct TilePlace {
    uint32_t request;
    uint32_t before;
    Visible keys;
};

FTJ_DEVICE uint64_t shfl_u64(uint64_t v, uint32_t lane) {
    return ptx::shfl(static_cast<uint32_t>(v), lane) |
           uint64_t(ptx::shfl(static_cast<uint32_t>(v >> 32), lane)) << 32;
}

// The tiles of all requests, added up by one warp: a lane has a run of requests (one, with up to
// 32). Every warp that wants to know does it by itself, without a barrier.
template <class Table>
struct Tally {
    uint32_t run_begin;
    uint32_t run_end;
    uint64_t upto;  // tiles of this lane's run and all before
    uint64_t before;
    uint64_t total;

    static __device__ __forceinline__ Tally of(const ftj_requests_params& requests,
                                               uint32_t num_units, uint32_t tile_tokens) {
        const uint32_t lane = ptx::thread_index() % warp_size;
        const uint32_t run = (requests.batch + warp_size - 1) / warp_size;
        Tally tally;
        tally.run_begin = min_of(lane * run, requests.batch);
        tally.run_end = min_of(tally.run_begin + run, requests.batch);
        uint64_t tiles = 0;
#pragma unroll 4
        for (uint32_t r = tally.run_begin; r < tally.run_end; r++)
            tiles += Table::keys(requests, r).num_tiles(tile_tokens);
        tiles *= num_units;

        tally.upto = tiles;
#pragma unroll 1
        for (uint32_t delta = 1; delta < warp_size; delta *= 2) {
            const uint64_t other = shfl_u64(tally.upto, lane < delta ? lane : lane - delta);
            tally.upto += lane < delta ? 0 : other;
        }
        tally.before = tally.upto - tiles;
        tally.total = shfl_u64(tally.upto, warp_size - 1);
        return tally;
    }

    // Of a tile below total; the lane that has it in its run walks the run once more.
    __device__ __forceinline__ TilePlace locate(const ftj_requests_params& requests,
                                                uint32_t num_units, uint32_t tile_tokens,
                                                uint64_t tile) const {
        TilePlace place = {};
        const bool has_it = tile >= before && tile < upto;
        if (has_it) {
            uint64_t left = tile - before;
            for (place.request = run_begin;; place.request++) {
                place.keys = Table::keys(requests, place.request);
                const uint64_t tiles = uint64_t(place.keys.num_tiles(tile_tokens)) * num_units;
                if (left < tiles)
                    break;
                left -= tiles;
            }
            place.before = static_cast<uint32_t>(left);
        }
        const uint32_t lane = ptx::first_lane(has_it);
        return {ptx::shfl(place.request, lane),
                ptx::shfl(place.before, lane),
                {ptx::shfl(place.keys.begin, lane), ptx::shfl(place.keys.end, lane)}};
    }
};

// The share of one block.
template <uint32_t tile_tokens, bool slot_table>
struct WorkRange {
    Segment<tile_tokens, slot_table> first;
    uint32_t count;  // tiles; 0: nothing to do
};

// Every thread of the block gets the block's range.
template <uint32_t tile_tokens, bool slot_table>
static __device__ __forceinline__ WorkRange<tile_tokens, slot_table> deal_work(
    const ftj_requests_params& requests, uint32_t num_heads, uint32_t head_blocks,
    uint32_t min_tiles) {
    const uint32_t num_units = num_heads * head_blocks;
    const auto all = Tally<OfTable<slot_table>>::of(requests, num_units, tile_tokens);
    const Cut cut = Cut::of(all.total, min_tiles, ptx::num_blocks());
    WorkRange<tile_tokens, slot_table> range = {};
    if (ptx::block_index() >= cut.blocks)
        return range;
    range.count = cut.count_of(ptx::block_index());
    const TilePlace place =
        all.locate(requests, num_units, tile_tokens, cut.begin_of(ptx::block_index()));
    range.first.enter(place.request, place.keys);
    const uint32_t unit = place.before / range.first.tiles;
    range.first.tile = place.before % range.first.tiles;
    range.first.head = unit / head_blocks;
    range.first.head_block = unit % head_blocks;
    return range;
}

}  // namespace ftj
