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
#include "block/unit_sums.cuh"

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

    // To query tile `to` of the request that `run` describes. Where that is paired (1), tiles 2 i
    // and 2 i + 1 walk the same keys: those of both.
    __device__ __forceinline__ void enter(const ftj_extend_params& p, uint32_t to,
                                          uint32_t paired = 0) {
        index = to;
        first_row = to * block_rows;
        end_row = min_of(first_row + block_rows, run.num_rows(p.group));
        const uint32_t from = (to & ~paired) * block_rows;
        const uint32_t until = min_of(((to | paired) + 1) * block_rows, run.num_rows(p.group));
        const KeyRange first = run.seen_by(by_group(p).divide(from), p.requests.window);
        const KeyRange last = run.seen_by(by_group(p).divide(until - 1), p.requests.window);
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
    using Sums = UnitSums<1, num_threads>;
    static constexpr int shared_bytes = Sums::shared_bytes;  // scratch of deal()

    // What is cut is cost, counted over all units: unit_cost of each, then one of each of its
    // tiles.
    Tile unit;                 // where the block stands: at first, where its share begins
    EqualShares shares;        // of the whole call
    uint64_t begin;            // of this block's
    uint32_t count;            // of it; 0: nothing to do
    uint32_t owed;             // of it, for the start of the unit that it begins in
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

    // The block that has it, this one or one after it.
    __device__ __forceinline__ uint32_t owner(uint64_t cost) const {
        uint32_t block = ptx::block_index();
#pragma unroll 1
        while (shares.begin(block + 1) <= cost)
            block++;
        return block;
    }

    // The block's share, into `to`, in shared memory: it is the same for all threads, which have no
    // registers to spare for it. Each thread counts the query tiles of a run of requests,
    // then the tiles of keys of a run of query tiles; the thread whose run holds the block's first
    // tile walks that run once more. It is the same walk, for the sake of the time to compile it.
    static __device__ void deal(const ftj_extend_params& p, unsigned char* shared, ExtendWork& to) {
        Sums sums(shared);
        uint64_t skip = not_here;  // to where the block's share begins
#pragma unroll 1
        for (uint32_t pass = 0;; pass++) {
            if (pass == 0)
                count_query_tiles(p, sums);
            else
                to.walk(p, sums, skip, pass == 2);
            if (pass == 2)
                break;
            sums.add_up();
            if (pass == 0)
                sums.share_query_tiles();
            else
                skip = to.cut(sums);
        }
        ptx::sync_block();
    }

private:
    static constexpr uint64_t not_here = ~0ull;

    static __device__ __forceinline__ void count_query_tiles(const ftj_extend_params& p,
                                                             Sums& sums) {
        const uint32_t thread = ptx::thread_index();
        sums.requests = (p.requests.batch + num_threads - 1) / num_threads;
        const uint32_t end = min_of((thread + 1) * sums.requests, p.requests.batch);
#pragma unroll 1
        for (uint32_t r = thread * sums.requests; r < end; r++)
            sums.cost.of[0] += Tile::tiles_of(QueryRun::of(p, r), p.group);
    }

    // What the thread's share of all query tiles costs; or where in it the block's share begins.
    __device__ __forceinline__ void walk(const ftj_extend_params& p, Sums& sums, uint64_t skip,
                                         bool enters) {
        Tile at;
        uint32_t left = enters && skip == not_here ? 0 : sums.mine;
        uint32_t index = left ? sums.start(at) : 0;
#pragma unroll 1
        while (left-- > 0) {
            at.go(p, index);
            const uint32_t of_unit = at.tiles + unit_cost;
            const uint64_t of_all_heads = uint64_t(of_unit) * p.num_kv_heads;
            index = at.index + 1;
            if (!enters) {
                sums.cost.of[0] += of_all_heads;
                continue;
            }
            if (skip >= of_all_heads) {
                skip -= of_all_heads;
                continue;
            }
            uint32_t in_unit = uint32_t(skip);
            at.head = 0;
#pragma unroll 1
            for (; in_unit >= of_unit; at.head++)
                in_unit -= of_unit;
            at.tile = in_unit - min_of(in_unit, unit_cost);
            owed = unit_cost - min_of(in_unit, unit_cost);
            unit = at;
            break;
        }
    }

    // A block's part of what all costs; how far into that of the thread's query tiles it begins.
    __device__ __forceinline__ uint64_t cut(const Sums& sums) {
        const uint32_t block = ptx::block_index();
        const EqualShares all = {sums.total.of[0], Divisor::of(ptx::num_blocks()), min_share};
        const uint64_t first = all.begin(block), last = all.begin(block + 1);
        if (ptx::thread_index() == 0) {
            shares = all;
            begin = first;
            count = uint32_t(last - first);
            out_of_range = follows_maximum = 0;
        }
        const uint64_t skip = first - sums.before.of[0];
        return first < last && skip < sums.cost.of[0] ? skip : not_here;
    }
};

}  // namespace ftj
