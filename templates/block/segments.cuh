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

FTJ_DEVICE Visible visible_keys(const ftj_requests_params& requests, uint32_t request) {
    uint32_t length;
    if (requests.indptr) {
        const auto* indptr = pointer<const int32_t>(requests.indptr);
        length = static_cast<uint32_t>(max_of(indptr[request + 1] - indptr[request], 0));
    } else {
        length =
            static_cast<uint32_t>(max_of(pointer<const int32_t>(requests.lengths)[request], 0));
    }
    const uint32_t window = requests.window;
    return {window && length > window ? length - window : 0, length};
}

// Where a block stands: a run of tiles of one segment.
template <uint32_t tile_tokens>
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
            enter(request + 1, visible_keys(requests, request + 1));
        while (!tiles);
    }

    // First token of a tile of the segment, which may lie before the first visible key.
    __device__ __forceinline__ uint32_t token(uint32_t of_tile) const {
        return (keys.begin / tile_tokens + of_tile) * tile_tokens;
    }
};

// How all tiles were cut: what is needed to find the block that owns one. Kept in shared memory,
// for it is wanted once a segment.
struct Cut {
    uint64_t total;   // tiles of the whole call
    uint64_t begin;   // this block's first, counted over all segments
    uint32_t blocks;  // that have work

    __device__ __forceinline__ uint64_t begin_of(uint64_t block) const {
        return total * block / blocks;
    }
    // The block that owns a tile, by the same cut.
    __device__ __forceinline__ uint32_t owner(uint64_t tile) const {
        return static_cast<uint32_t>(((tile + 1) * blocks - 1) / total);
    }
};

// The share of one block.
template <uint32_t tile_tokens>
struct WorkRange {
    Segment<tile_tokens> first;
    uint32_t count;  // tiles; 0: nothing to do
    const Cut* cut;  // shared
};

// Every thread of the block gets the block's range. `sums` is scratch for num_threads values and
// four words. With few requests a thread has at most one; with very many it adds up a run of them,
// and the thread whose run holds the block's first tile walks that run once more.
template <uint32_t tile_tokens, uint32_t num_threads>
static __device__ WorkRange<tile_tokens> deal_work(const ftj_requests_params& requests,
                                                   uint32_t num_heads, uint32_t head_blocks,
                                                   uint32_t min_tiles, uint64_t* sums, Cut* cut) {
    const uint32_t num_units = num_heads * head_blocks;
    const uint32_t thread = ptx::thread_index();
    const uint32_t run = (requests.batch + num_threads - 1) / num_threads;
    const uint32_t run_begin = min_of(thread * run, requests.batch);
    const uint32_t run_end = min_of(run_begin + run, requests.batch);

    uint64_t sum = 0;
    for (uint32_t r = run_begin; r < run_end; r++)
        sum += visible_keys(requests, r).num_tiles<tile_tokens>();
    sums[thread] = sum * num_units;
    ptx::sync_block();

    Cut all = {};
    uint64_t before_run = 0;
    const uint32_t num_runs = (requests.batch + run - 1) / run;
    for (uint32_t t = 0; t < num_runs; t++) {
        if (t == thread)
            before_run = all.total;
        all.total += sums[t];
    }
    WorkRange<tile_tokens> range = {};
    const uint64_t wanted = (all.total + min_tiles - 1) / min_tiles;
    all.blocks = static_cast<uint32_t>(min_of(wanted, uint64_t(ptx::num_blocks())));
    if (ptx::block_index() >= all.blocks)
        return range;
    all.begin = all.begin_of(ptx::block_index());
    range.count = static_cast<uint32_t>(all.begin_of(ptx::block_index() + 1ull) - all.begin);
    range.cut = cut;
    if (thread == 0)
        *cut = all;

    // What the thread with the block's first tile found: request, tiles of it before ours, its
    // keys.
    auto* found = reinterpret_cast<uint32_t*>(sums + num_threads);
    if (all.begin >= before_run && all.begin < before_run + sums[thread]) {
        uint64_t before = before_run;
        for (uint32_t r = run_begin; r < run_end; r++) {
            const Visible keys = visible_keys(requests, r);
            const uint64_t tiles = uint64_t(keys.num_tiles<tile_tokens>()) * num_units;
            if (all.begin < before + tiles) {
                found[0] = r;
                found[1] = static_cast<uint32_t>(all.begin - before);
                found[2] = keys.begin;
                found[3] = keys.end;
                break;
            }
            before += tiles;
        }
    }
    ptx::sync_block();
    range.first.enter(found[0], {found[2], found[3]});
    const uint32_t unit = found[1] / range.first.tiles;
    range.first.tile = found[1] % range.first.tiles;
    range.first.head = unit / head_blocks;
    range.first.head_block = unit % head_blocks;
    ptx::sync_block();  // the scratch is free again
    return range;
}

}  // namespace ftj
