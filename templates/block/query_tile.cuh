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
        uint32_t to = index + 1;
        while (to >= tiles_of(run, p.group)) {
            to = 0;
            run = QueryRun::of(p, ++request);
        }
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
    uint32_t request;
    uint32_t index;  // of the query tile
    uint32_t head;
    uint32_t slot;   // of the first part; part i > 0 is slot 2 * (block + i)
    uint32_t parts;  // 0: every unit that starts here ends here
    uint32_t unused[3];
};

template <class Config>
struct ExtendWork {
    using Tile = QueryTile<Config>;
    static constexpr uint32_t num_threads = Config::num_threads;
    static constexpr uint32_t min_tiles = 2;  // a block's least share
    // Scratch of deal(): a sum of tiles and one of query tiles per thread.
    static constexpr int shared_bytes = num_threads * 12;

    Tile unit;        // where the block stands: at first, where its share begins
    uint64_t total;   // tiles of the whole call
    uint64_t begin;   // this block's first, counted over all units
    uint32_t count;   // this block's tiles; 0: nothing to do
    uint32_t blocks;  // that have work

    // The block that owns a tile, by the same cut as begin and count.
    __device__ __forceinline__ uint32_t owner(uint64_t tile) const {
        return static_cast<uint32_t>(((tile + 1) * blocks - 1) / total);
    }

    // The block's share, into `to`, in shared memory: it is the same for all threads, which have no
    // registers to spare for it. Each thread counts the query tiles of a run of requests,
    // then the tiles of keys of a run of query tiles; the thread whose run holds the block's first
    // tile walks that run once more.
    static __device__ void deal(const ftj_extend_params& p, unsigned char* shared, ExtendWork& to) {
        auto* tile_sums = reinterpret_cast<uint64_t*>(shared);
        auto* query_sums = reinterpret_cast<uint32_t*>(tile_sums + num_threads);
        const uint32_t thread = ptx::thread_index();

        const uint32_t run = (p.requests.batch + num_threads - 1) / num_threads;
        const uint32_t run_begin = min_of(thread * run, p.requests.batch);
        const uint32_t run_end = min_of(run_begin + run, p.requests.batch);
        uint32_t query_tiles = 0;
        for (uint32_t r = run_begin; r < run_end; r++)
            query_tiles += Tile::tiles_of(QueryRun::of(p, r), p.group);
        query_sums[thread] = query_tiles;
        ptx::sync_block();
        query_tiles = 0;
        for (uint32_t t = 0; t < num_threads; t++)
            query_tiles += query_sums[t];

        const uint32_t share = (query_tiles + num_threads - 1) / num_threads;
        const uint32_t share_begin = min_of(thread * share, query_tiles);
        const uint32_t mine = min_of(share, query_tiles - share_begin);
        Tile start = {};
        uint64_t tiles = 0;
        if (mine) {
            start = locate(p, query_sums, run, share_begin);
            Tile at = start;
            for (uint32_t i = 0; i < mine; i++) {
                if (i)
                    step(p, at);
                tiles += uint64_t(at.tiles) * p.num_kv_heads;
            }
        }
        tile_sums[thread] = tiles;
        ptx::sync_block();

        ExtendWork work = {};
        uint64_t before = 0;
        for (uint32_t t = 0; t < num_threads; t++) {
            if (t == thread)
                before = work.total;
            work.total += tile_sums[t];
        }
        work.cut();
        if (work.count && work.begin >= before && work.begin < before + tiles) {
            work.enter(p, start, uint32_t(work.begin - before));
            to = work;
        }
        if (!work.count && thread == 0)
            to = work;
        ptx::sync_block();
    }

private:
    __device__ __forceinline__ void cut() {
        const uint64_t wanted = (total + min_tiles - 1) / min_tiles;
        blocks = static_cast<uint32_t>(min_of(wanted, uint64_t(ptx::num_blocks())));
        if (ptx::block_index() >= blocks)
            return;
        begin = total * ptx::block_index() / blocks;
        count = static_cast<uint32_t>(total * (ptx::block_index() + 1) / blocks - begin);
    }

    // The query tile `at`, counted over all requests.
    static __device__ __forceinline__ Tile locate(const ftj_extend_params& p,
                                                  const uint32_t* query_sums, uint32_t run,
                                                  uint32_t at) {
        Tile tile = {};
        uint32_t thread = 0;
        for (; at >= query_sums[thread]; thread++)
            at -= query_sums[thread];
        tile.request = thread * run;
        tile.run = QueryRun::of(p, tile.request);
        for (uint32_t tiles; at >= (tiles = Tile::tiles_of(tile.run, p.group));) {
            at -= tiles;
            tile.run = QueryRun::of(p, ++tile.request);
        }
        tile.enter(p, at);
        return tile;
    }

    // To the next query tile.
    static __device__ __forceinline__ void step(const ftj_extend_params& p, Tile& tile) {
        tile.head = p.num_kv_heads - 1;
        tile.next(p);
    }

    // To the tile that is `skip` tiles past the start of query tile `at`.
    __device__ __forceinline__ void enter(const ftj_extend_params& p, Tile at, uint32_t skip) {
        for (uint32_t tiles; skip >= (tiles = at.tiles * p.num_kv_heads); skip -= tiles)
            step(p, at);
        unit = at;
        unit.head = skip / at.tiles;
        unit.tile = skip % at.tiles;
    }
};

}  // namespace ftj
