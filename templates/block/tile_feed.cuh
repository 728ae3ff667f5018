// SPDX-License-Identifier: MIT
// What a producer warpgroup brings into swizzled shared memory by cp.async: the rows of a query
// tile, and tiles of keys and values of 16 bits.
//
// Neighbouring threads copy neighbouring chunks of 16 bytes, so many rows at a time as the 128
// threads reach (a pass). Rows that nobody may see are never read: they are zeros.
#pragma once
#include "block/query_tile.cuh"
#include "block/swizzled.cuh"

namespace ftj {

constexpr uint32_t feed_threads = 128;

template <int head_dim>
struct FeedPass {
    static constexpr uint32_t chunks = head_dim / 8;  // of a row
    static constexpr uint32_t rows = feed_threads / chunks;
    static_assert(feed_threads % chunks == 0, "a pass is whole rows");

    static __device__ __forceinline__ uint32_t row() {
        return ptx::thread_index() % feed_threads / chunks;
    }
    static __device__ __forceinline__ uint32_t chunk() { return ptx::thread_index() % chunks; }
};

// Rows of a unit's queries, from `begin` to `end`: a swizzled tile per 64 of them. By so many
// threads, a power of two.
template <class Config, uint32_t threads = feed_threads>
static __device__ __forceinline__ void feed_queries(const ftj_extend_params& p,
                                                    const QueryTile<Config>& unit, uint32_t shared,
                                                    uint32_t begin, uint32_t end) {
    using Tile = SwizzledTile<64, Config::head_dim>;
    constexpr uint32_t chunks = Config::head_dim / 8, rows = threads / chunks;  // of a pass
    const uint32_t thread = ptx::thread_index() % threads;
    const uint32_t first = thread / chunks, chunk = thread % chunks;
    const uint32_t row = unit.first_row + begin + first, query = by_group(p).divide(row);
    const int64_t token_bytes = 2 * p.q_token_stride, head_bytes = 2 * p.q_head_stride;
    const uint32_t queries_on = by_group(p).divide(rows), heads_on = rows - queries_on * p.group;
    const int64_t on = queries_on * token_bytes + heads_on * head_bytes;
    const int64_t wrap = token_bytes - p.group * head_bytes;
    uint32_t head = row - query * p.group;  // of the group
    uint64_t from = p.q + chunk * 16 + (int64_t(unit.run.first) + query) * token_bytes +
                    (unit.head * p.group + head) * head_bytes;
    uint32_t to = shared + begin / 64 * Tile::bytes + Tile::at(first, chunk);
    const int32_t left = unit.end_row - unit.first_row - first;
#pragma unroll 1
    for (uint32_t at = begin; at < end; at += 64, to += Tile::bytes) {
#pragma unroll 2
        for (uint32_t i = 0; i < 64; i += rows) {
            const bool is_there = int32_t(at + i) < left;
            ptx::cp_async_of<16>((to ^ i % 8 * 16) + i * 128, pointer<const void>(from),
                                 is_there ? 16 : 0);
            head += heads_on;
            from += on;
            if (head >= p.group)
                head -= p.group, from += wrap;
        }
    }
}

// Tiles of K and V, from the paged cache or from the rows of this step beside it: row i of a tile
// is at base + page * page_stride + offset * stride, which new rows fill in with page 0.
//
// Where a power of two of rows lies in one page (a run, at least a pass), each lane looks up one of
// the tile's runs; else, one of the rows that its warp copies. A tile is looked up when the one
// before it is on its way, and copied when the table's answer has arrived.
template <class Config>
struct TileFeed {
    using Pass = FeedPass<Config::head_dim>;
    using Tile = SwizzledTile<Config::tile_tokens, Config::head_dim>;
    static constexpr uint32_t tokens = Config::tile_tokens;
    static constexpr uint32_t page_size = Config::page_size;
    static constexpr uint32_t page_power = page_size & (~page_size + 1);  // that divides it
    static constexpr uint32_t page_run = page_power < tokens ? page_power : tokens;
    static constexpr bool by_run = !Config::slot_table && page_run >= Pass::rows;
    static constexpr uint32_t warp_rows = Pass::rows / (feed_threads / warp_size);  // of a pass
    // Beside codes, these are few, and registers fewer.
    static constexpr int at_once = Config::KWiden::is_coded || Config::VWiden::is_coded ? 1 : 2;
    static_assert(warp_rows && tokens / Pass::rows * warp_rows <= warp_size,
                  "a lane for each of a warp's rows");

    // One side of a tile.
    struct Source {
        uint64_t base;
        uint64_t page_stride;
        uint64_t stride;
    };

    uint32_t page;
    uint32_t offset;
    KeyRange seen;  // of the tile's rows
    bool is_cached;

    // The tile from `first` on, in the cache.
    __device__ __forceinline__ void find_cached(const ftj_extend_params& p,
                                                const QueryTile<Config>& unit, uint32_t first) {
        const auto* table = pointer<const int32_t>(p.requests.table) + unit.table_start;
        const uint32_t token = first + own_row();
        enter(unit.cached, first, true);
        page = offset = 0;
        if (token >= unit.cached.end || token + (by_run ? page_run : 1) <= unit.cached.begin)
            return;
        if constexpr (Config::slot_table) {
            const auto slot = static_cast<uint32_t>(table[token]);
            page = slot / page_size;
            offset = slot % page_size;
        } else {
            page = static_cast<uint32_t>(table[token / page_size]);
            offset = token % page_size;
        }
    }
    // The same of the new rows.
    __device__ __forceinline__ void find_new(const QueryTile<Config>& unit, uint32_t first) {
        enter(unit.fresh, first, false);
        page = 0;
        offset = first - unit.fresh_base + own_row();
    }

    __device__ __forceinline__ Source cached_side(const QueryTile<Config>& unit,
                                                  const ftj_array_params& array) const {
        return {array.base + unit.head * array.head_stride, array.page_stride, array.slot_stride};
    }
    __device__ __forceinline__ Source new_side(const QueryTile<Config>& unit, uint64_t rows,
                                               int64_t token_stride, int64_t head_stride) const {
        const int64_t row = int64_t(unit.run.first) - unit.run.position + unit.fresh_base;
        const int64_t at = row * token_stride + unit.head * head_stride;
        return {rows + at * 2, 0, uint64_t(token_stride) * 2};
    }

    __device__ __forceinline__ void copy(const Source& source, uint32_t shared) const {
        const bool is_whole = seen.begin == 0 && seen.end >= tokens;
        if constexpr (by_run && Config::slots_contiguous) {
            if (is_whole && is_cached) {
                copy_runs(source, shared);
                return;
            }
        }
#pragma unroll at_once
        for (uint32_t at = 0; at < tokens; at += Pass::rows) {
            const uint32_t row = at + Pass::row();
            const uint32_t lane = by_run ? at / page_run
                                         : at / Pass::rows * warp_rows +
                                               ptx::thread_index() % warp_size / Pass::chunks;
            const uint32_t in_run = by_run ? row % page_run : 0;
            const uint64_t from = source.base + ptx::shfl(page, lane) * source.page_stride +
                                  (ptx::shfl(offset, lane) + in_run) * source.stride;
            const bool is_seen = row >= seen.begin && row < seen.end;
            ptx::cp_async_of<16>(shared + Tile::at(row, Pass::chunk()),
                                 pointer<const void>(from + Pass::chunk() * 16), is_seen ? 16 : 0);
        }
    }

private:
    __device__ __forceinline__ void enter(KeyRange keys, uint32_t first, bool in_cache) {
        seen = {keys.begin - min_of(keys.begin, first), keys.end - min_of(keys.end, first)};
        is_cached = in_cache;
    }

    // First row of the run, or the row, that this lane looks up.
    static __device__ __forceinline__ uint32_t own_row() {
        const uint32_t lane = ptx::thread_index() % warp_size;
        if constexpr (by_run)
            return lane % (tokens / page_run) * page_run;
        const uint32_t warp = ptx::thread_index() % feed_threads / warp_size;
        return lane / warp_rows * Pass::rows + warp * warp_rows + lane % warp_rows;
    }

    // A whole tile of rows that follow each other within a run: what most tiles are.
    __device__ __forceinline__ void copy_runs(const Source& source, uint32_t shared) const {
        constexpr uint32_t stride = 2 * Config::head_dim;
        const uint64_t mine = source.base + Pass::row() * stride + Pass::chunk() * 16;
        const uint32_t to = shared + Tile::at(Pass::row(), Pass::chunk());
#pragma unroll
        for (uint32_t run = 0; run < tokens; run += page_run) {
            const uint64_t from = mine + ptx::shfl(page, run / page_run) * source.page_stride +
                                  ptx::shfl(offset, run / page_run) * stride;
#pragma unroll
            for (uint32_t at = 0; at < page_run; at += Pass::rows)
                ptx::cp_async_16(step(to, run + at), pointer<const void>(from + at * stride));
        }
    }
    // Down a tile by whole passes: the swizzle of a row changes only where a pass is half a group.
    static __device__ __forceinline__ uint32_t step(uint32_t to, uint32_t rows) {
        return (to ^ rows % 8 * 16) + rows * 128;
    }
};

}  // namespace ftj
