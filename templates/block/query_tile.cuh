// SPDX-License-Identifier: MIT
// The rows of an extend, and dealing its work on the device.
//
// A query tile is block_rows rows of one request: row = query * group + head within the group, so
// that a kv head's whole group shares each key. A unit is a query tile and a kv head; it walks
// tiles of keys: those that the cache holds, then those given beside it. All tiles of all units, in
// order of (request, query tile, kv head), are cut into one contiguous, equal range per block. A
// causal triangle, a ragged batch and one query over a long prefix are the same to it. Nothing
// depends on anything but lengths and grid, so a replayed graph computes what an eager call would.
#pragma once
#include "block/query_run.cuh"

namespace ftj {

// A unit's place in the work, and its keys.
template <class Config>
struct QueryTile {
    static constexpr uint32_t block_rows = Config::block_rows;
    static constexpr uint32_t cached_tokens = Config::tile_tokens;
    static constexpr uint32_t new_tokens = Config::new_tokens;

    uint32_t request;
    uint32_t index;  // of the query tile in the request
    uint32_t head;   // kv head
    uint32_t tile;   // first tile of the block's run, counted from the unit's first
    uint32_t tiles;  // of the whole unit; one where there is no key, so that somebody writes O
    uint32_t cached_tiles;
    uint32_t first_row;
    uint32_t end_row;
    KeyRange cached;
    KeyRange fresh;
    uint32_t fresh_base;  // position of the first key that is not in the cache
    QueryRun run;
    int64_t table_start;  // of the request in the table

    static __device__ __forceinline__ uint32_t tiles_of(const QueryRun& run, uint32_t group) {
        return (run.num_rows(group) + block_rows - 1) / block_rows;
    }

    // To query tile `to` of the request that `run` describes.
    __device__ __forceinline__ void enter(const ftj_extend_params& p, uint32_t to) {
        index = to;
        first_row = to * block_rows;
        end_row = min_of(first_row + block_rows, run.num_rows(p.group));
        const KeyRange first = run.seen_by(first_row / p.group, p.requests.window);
        const KeyRange last = run.seen_by((end_row - 1) / p.group, p.requests.window);
        const uint32_t base = run.cached(p);
        fresh_base = base;
        cached = {min_of(first.begin, base), min_of(last.end, base)};
        fresh = {max_of(first.begin, base), max_of(last.end, base)};
        cached_tiles = count<cached_tokens>(cached, 0);
        tiles = max_of(cached_tiles + count<new_tokens>(fresh, base), 1u);
        if constexpr (Config::slot_table)
            table_start = pointer<const int32_t>(p.requests.indptr)[request];
        else
            table_start = request * p.requests.table_stride;
    }

    // To the start of the next unit. There must be one.
    __device__ __forceinline__ void next(const ftj_extend_params& p) {
        tile = 0;
        if (++head < p.num_kv_heads)
            return;
        head = 0;
        go(p, index + 1);
    }

    // To query tile `to` of the request, or so many on in those that follow. There must be one.
    __device__ __forceinline__ void go(const ftj_extend_params& p, uint32_t to) {
#pragma unroll 1
        for (uint32_t tiles; to >= (tiles = tiles_of(run, p.group)); to -= tiles)
            run = QueryRun::of(p, ++request);
        enter(p, to);
    }

private:
    template <uint32_t tokens>
    static __device__ __forceinline__ uint32_t count(KeyRange keys, uint32_t base) {
        if (keys.begin >= keys.end)
            return 0;
        return (keys.end - 1 - base) / tokens - (keys.begin - base) / tokens + 1;
    }
};

// What a block tells the combine of the one unit it may leave to others: the last it starts.
struct Split {
    uint32_t first_query;  // of the request: row of qo_indptr
    uint32_t first_row;    // of the unit, in the request
    uint32_t end_row;
    uint32_t head;
    uint32_t slot;   // of the first part; part i > 0 is slot 2 * (block + i)
    uint32_t parts;  // 0: every unit that starts here ends here
    uint32_t unused[2];

    template <class Config>
    static __device__ __forceinline__ Split of(const QueryTile<Config>& unit, uint32_t slot,
                                               uint32_t parts) {
        return {unit.run.first, unit.first_row, unit.end_row, unit.head, slot, parts, {}};
    }
};

template <class Config>
struct ExtendWork {
    using Tile = QueryTile<Config>;
    static constexpr uint32_t num_threads = Config::num_threads;
    static constexpr uint32_t min_share = 2;  // a block's least
    // To start a unit takes a block as much time as two tiles: its queries, the first tile without
    // another under it, its result. Not counted, the block with a request's first units, which are
    // short, ends last: by a fifth of a causal 16k.
    static constexpr uint32_t unit_cost = 2;
    // Scratch of deal(): a sum of tiles and one of query tiles per thread.
    static constexpr int shared_bytes = num_threads * 12;

    // What is cut is cost, counted over all units: unit_cost of each, then one of each of its
    // tiles.
    Tile unit;                 // where the block stands: at first, where its share begins
    uint64_t total;            // of the whole call
    uint64_t begin;            // of this block's share
    uint32_t count;            // of it; 0: nothing to do
    uint32_t owed;             // of it, for the start of the unit that it begins in
    uint32_t blocks;           // that have work
    uint32_t out_of_range;     // a warp has found what it did of the unit to be so
    uint32_t follows_maximum;  // the unit is done again, with references that follow the maximum

    // By one thread, when all have ended what they do of a unit: to the next one, if there is one,
    // or to the same once more.
    __device__ __forceinline__ void go_on(const ftj_extend_params& p, bool has_next) {
        follows_maximum = out_of_range;
        out_of_range = 0;
        if (!follows_maximum && has_next)
            unit.next(p);
    }

    // The block that has it, by the same cut as begin and count.
    __device__ __forceinline__ uint32_t owner(uint64_t cost) const {
        return static_cast<uint32_t>(((cost + 1) * blocks - 1) / total);
    }

    // The block's share, into `to`, in shared memory: it is the same for all threads, which have no
    // registers to spare for it. Each thread counts the query tiles of a run of requests,
    // then the tiles of keys of a run of query tiles; the thread whose run holds the block's first
    // tile walks that run once more. It is the same walk, for the sake of the time to compile it.
    static __device__ void deal(const ftj_extend_params& p, unsigned char* shared, ExtendWork& to) {
        auto* cost_sums = reinterpret_cast<uint64_t*>(shared);
        const uint32_t thread = ptx::thread_index();
        const Share share = share_of(p, reinterpret_cast<uint32_t*>(cost_sums + num_threads));
        uint64_t mine = 0;  // cost
        uint64_t skip = 0;  // to where the block's share begins
        bool is_here = false;
#pragma unroll 1
        for (bool enters = false;; enters = true) {
            Tile at;
            uint32_t left = enters && !is_here ? 0 : share.mine;
            uint32_t index = left ? share.start(at) : 0;
#pragma unroll 1
            while (left-- > 0) {
                at.go(p, index);
                const uint64_t of_all_heads = uint64_t(at.tiles + unit_cost) * p.num_kv_heads;
                if (!enters) {
                    mine += of_all_heads;
                } else if (skip >= of_all_heads) {
                    skip -= of_all_heads;
                } else {
                    const uint32_t in_unit = uint32_t(skip) % (at.tiles + unit_cost);
                    at.head = uint32_t(skip) / (at.tiles + unit_cost);
                    at.tile = in_unit - min_of(in_unit, unit_cost);
                    to.owed = unit_cost - min_of(in_unit, unit_cost);
                    to.unit = at;
                    left = 0;
                }
                index = at.index + 1;
            }
            if (enters)
                break;
            cost_sums[thread] = mine;
            ptx::sync_block();
            uint64_t before = 0, total = 0;
#pragma unroll 4
            for (uint32_t t = 0; t < num_threads; t++) {
                if (t == thread)
                    before = total;
                total += cost_sums[t];
            }
            const ExtendWork work = cut(total);
            skip = work.begin - before;
            is_here = work.count && work.begin >= before && skip < mine;
            if (thread == 0) {
                to.total = total;
                to.begin = work.begin;
                to.count = work.count;
                to.blocks = work.blocks;
                to.out_of_range = to.follows_maximum = 0;
            }
        }
        ptx::sync_block();
    }

private:
    // The query tiles that a thread counts the tiles of.
    struct Share {
        const uint32_t* query_sums;
        uint32_t run;    // requests of a thread
        uint32_t begin;  // its first query tile, counted over all requests
        uint32_t mine;

        // Where to go() from `at` to be at the first. There must be one.
        __device__ __forceinline__ uint32_t start(Tile& at) const {
            uint32_t index = begin, thread = 0;
            for (; index >= query_sums[thread]; thread++)
                index -= query_sums[thread];
            at = {};
            at.request = thread * run - 1;
            return index;
        }
    };

    static __device__ __forceinline__ Share share_of(const ftj_extend_params& p,
                                                     uint32_t* query_sums) {
        const uint32_t thread = ptx::thread_index();
        const uint32_t run = (p.requests.batch + num_threads - 1) / num_threads;
        const uint32_t run_end = min_of((thread + 1) * run, p.requests.batch);
        uint32_t query_tiles = 0;
#pragma unroll 1
        for (uint32_t r = thread * run; r < run_end; r++)
            query_tiles += Tile::tiles_of(QueryRun::of(p, r), p.group);
        query_sums[thread] = query_tiles;
        ptx::sync_block();
        query_tiles = 0;
#pragma unroll 4
        for (uint32_t t = 0; t < num_threads; t++)
            query_tiles += query_sums[t];

        const uint32_t share = (query_tiles + num_threads - 1) / num_threads;
        const uint32_t begin = min_of(thread * share, query_tiles);
        return {query_sums, run, begin, min_of(share, query_tiles - begin)};
    }

    // A block's part of all tiles.
    static __device__ __forceinline__ ExtendWork cut(uint64_t total) {
        const uint64_t wanted = (total + min_share - 1) / min_share;
        const uint32_t block = ptx::block_index();
        ExtendWork work;
        work.blocks = static_cast<uint32_t>(min_of(wanted, uint64_t(ptx::num_blocks())));
        work.begin = work.count = 0;
        if (block >= work.blocks)
            return work;
        const uint64_t each = total / work.blocks;
        const auto rest = static_cast<uint32_t>(total - each * work.blocks);
        const uint32_t of_rest = rest * block / work.blocks;
        work.begin = each * block + of_rest;
        work.count = static_cast<uint32_t>(each) + rest * (block + 1) / work.blocks - of_rest;
        return work;
    }
};

}  // namespace ftj
