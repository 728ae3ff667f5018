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

    template <uint32_t tile_tokens>
    __device__ __forceinline__ uint32_t num_tiles() const {
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

// The same where the kind of table is not known when the kernel is compiled.
FTJ_DEVICE Visible visible_keys(const ftj_requests_params& requests, uint32_t request) {
    return requests.indptr ? visible_keys<true>(requests, request)
                           : visible_keys<false>(requests, request);
}

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
        tiles = keys.num_tiles<tile_tokens>();
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

// How all tiles were cut: the first `longer` blocks have `each` + 1 of them, the others `each`.
// Kept in shared memory, for it is wanted once a segment.
struct Cut {
    uint64_t begin;  // this block's first tile, counted over all segments
    uint32_t each;
    uint32_t longer;

    __device__ __forceinline__ uint64_t begin_of(uint32_t block) const {
        return uint64_t(each) * block + min_of(block, longer);
    }
    __device__ __forceinline__ uint32_t count_of(uint32_t block) const {
        return each + (block < longer);
    }
    // The block that owns a tile.
    __device__ __forceinline__ uint32_t owner(uint64_t tile) const {
        const uint64_t of_longer = uint64_t(each + 1) * longer;
        return static_cast<uint32_t>(tile < of_longer ? quotient(tile, each + 1)
                                                      : longer + quotient(tile - of_longer, each));
    }

    // a / b. In nearly every call all tiles can be counted in 32 bits, and divided so.
    static __device__ __forceinline__ uint64_t quotient(uint64_t a, uint32_t b) {
        return a >> 32 ? a / b : static_cast<uint32_t>(a) / b;
    }
};

// The share of one block.
template <uint32_t tile_tokens, bool slot_table>
struct WorkRange {
    Segment<tile_tokens, slot_table> first;
    uint32_t count;  // tiles; 0: nothing to do
    const Cut* cut;  // shared; to be read after a barrier of the block
};

FTJ_DEVICE uint64_t shfl_u64(uint64_t v, uint32_t lane) {
    return ptx::shfl(static_cast<uint32_t>(v), lane) |
           uint64_t(ptx::shfl(static_cast<uint32_t>(v >> 32), lane)) << 32;
}

// The sum over the lanes up to this one.
FTJ_DEVICE uint64_t sum_up_to(uint64_t v) {
    const uint32_t lane = ptx::thread_index() % warp_size;
#pragma unroll 1
    for (uint32_t delta = 1; delta < warp_size; delta *= 2) {
        const uint64_t other = shfl_u64(v, lane < delta ? lane : lane - delta);
        v += lane < delta ? 0 : other;
    }
    return v;
}

// Every thread of the block gets the block's range, of at least min_tiles tiles where there are as
// many. Each warp does the same by itself, without a barrier: a lane adds up a run of requests
// (one, with up to 32), and the lane whose run holds the block's first tile walks it once more.
template <uint32_t tile_tokens, bool slot_table>
static __device__ WorkRange<tile_tokens, slot_table> deal_work(const ftj_requests_params& requests,
                                                               uint32_t num_heads,
                                                               uint32_t head_blocks,
                                                               uint32_t min_tiles,
                                                               Cut* shared_cut) {
    const uint32_t num_units = num_heads * head_blocks;
    const uint32_t run = (requests.batch + warp_size - 1) / warp_size;
    const uint32_t run_begin = min_of(ptx::thread_index() % warp_size * run, requests.batch);
    const uint32_t run_end = min_of(run_begin + run, requests.batch);

    uint64_t tiles = 0;
#pragma unroll 4
    for (uint32_t r = run_begin; r < run_end; r++) {
        const Visible keys = visible_keys<slot_table>(requests, r);
        tiles += keys.num_tiles<tile_tokens>();
    }
    tiles *= num_units;
    const uint64_t upto = sum_up_to(tiles);
    const uint64_t total = shfl_u64(upto, warp_size - 1);

    const uint64_t wanted = (total + min_tiles - 1) / min_tiles;
    const auto blocks = static_cast<uint32_t>(min_of(wanted, uint64_t(ptx::num_blocks())));
    WorkRange<tile_tokens, slot_table> range = {};
    if (ptx::block_index() >= blocks)
        return range;
    Cut cut;
    cut.each = static_cast<uint32_t>(Cut::quotient(total, blocks));
    cut.longer = static_cast<uint32_t>(total - uint64_t(cut.each) * blocks);
    cut.begin = cut.begin_of(ptx::block_index());
    range.count = cut.count_of(ptx::block_index());
    range.cut = shared_cut;
    if (ptx::thread_index() == 0)
        *shared_cut = cut;

    // What the lane with the block's first tile finds: request, tiles of it before ours, its keys.
    uint32_t request = 0, before = 0;
    Visible keys = {};
    const bool has_first = cut.begin >= upto - tiles && cut.begin < upto;
    if (has_first) {
        uint64_t left = cut.begin - (upto - tiles);
        for (request = run_begin;; request++) {
            keys = visible_keys<slot_table>(requests, request);
            const uint64_t its_tiles = uint64_t(keys.num_tiles<tile_tokens>()) * num_units;
            if (left < its_tiles)
                break;
            left -= its_tiles;
        }
        before = static_cast<uint32_t>(left);
    }
    const uint32_t lane = ptx::first_lane(has_first);
    range.first.enter(ptx::shfl(request, lane),
                      {ptx::shfl(keys.begin, lane), ptx::shfl(keys.end, lane)});
    before = ptx::shfl(before, lane);
    const uint32_t unit = before / range.first.tiles;
    range.first.tile = before % range.first.tiles;
    range.first.head = unit / head_blocks;
    range.first.head_block = unit % head_blocks;
    return range;
}

}  // namespace ftj
