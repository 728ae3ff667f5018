// SPDX-License-Identifier: MIT
// Tiles of 16-bit keys and values by tensor copies, which write the swizzle that wgmma reads, and
// cost a warp one instruction for 64 dims of a run of rows that lie in one page. Lane by lane: each
// run of a tile and panel of its dims has one.
//
// Beside a cache of codes they bring the new rows, and all lanes that fill stages arrive.
//
// A copy brings what is there, also where nobody may see it. Such keys are masked, whatever they
// are; such values have weights of nothing, which would not hide a NaN: they are cleared.
#pragma once
#include "block/query_tile.cuh"
#include "block/swizzled.cuh"

namespace ftj {

template <class Config>
struct TensorFeed {
    using Tile = SwizzledTile<Config::tile_tokens, Config::head_dim>;
    static constexpr uint32_t tokens = Config::tile_tokens;
    static constexpr uint32_t run_rows = Config::tensor_run > 0 ? Config::tensor_run : tokens;
    static constexpr uint32_t runs = tokens / run_rows;
    static constexpr uint32_t panel_dims = 64;
    static constexpr uint32_t panels = Config::head_dim / panel_dims;
    static constexpr uint32_t chunks = Config::head_dim / 8;  // of a row, 16 bytes each
    static constexpr bool is_coded = Config::KWiden::is_coded || Config::VWiden::is_coded;
    static_assert(tokens % run_rows == 0 && runs * panels <= warp_size, "a lane for each copy");

    uint32_t lane;
    uint32_t slot;  // of the first row of this lane's run
    uint32_t page;
    KeyRange seen;  // of the tile's rows
    bool is_cached;

    __device__ __forceinline__ TensorFeed() : lane(ptx::thread_index() % warp_size) {}

    // Where the rows of the tile from `first` on are, in the cache or beside it.
    __device__ __forceinline__ void find(const ftj_extend_params& p, const QueryTile<Config>& unit,
                                         bool in_cache, uint32_t first) {
        const uint32_t token = first + lane % runs * run_rows;
        look_at(unit, in_cache, first);
        is_cached = in_cache;
        page = 0;
        slot = unit.run.first - unit.run.position + token;
        if (in_cache && is_fetched()) {
            const auto* table = pointer<const int32_t>(p.requests.table) + unit.table_start;
            page = static_cast<uint32_t>(table[token / Config::page_size]);
            slot = token % Config::page_size;
        }
    }

    // Which rows of that tile somebody may see.
    __device__ __forceinline__ void look_at(const QueryTile<Config>& unit, bool in_cache,
                                            uint32_t first) {
        const KeyRange keys = in_cache ? unit.cached : unit.fresh;
        seen = {min_of(keys.begin - min_of(keys.begin, first), tokens),
                min_of(keys.end - min_of(keys.end, first), tokens)};
    }
    __device__ __forceinline__ bool is_whole() const {
        return seen.begin == 0 && seen.end == tokens;
    }

    __device__ __forceinline__ void copy_keys(const ftj_extend_params& p, uint32_t head,
                                              uint32_t tile, uint32_t filled) const {
        copy(is_cached ? p.k_tensor : p.k_new_tensor, head, tile, filled);
    }
    __device__ __forceinline__ void copy_values(const ftj_extend_params& p, uint32_t head,
                                                uint32_t tile, uint32_t counted) const {
        copy(is_cached ? p.v_tensor : p.v_new_tensor, head, tile, counted);
    }
    // Values that have come, of a tile that is not whole.
    __device__ __forceinline__ void clear_unseen(uint32_t tile, uint32_t filled) const {
        clear(tile, 0, seen.begin);
        clear(tile, max_of(seen.begin, seen.end), tokens);
        ptx::fence_proxy_async_shared();  // the products read through another proxy
        ptx::sync_warp();
        if (is_coded || lane == 0)
            ptx::mbarrier_arrive(filled);
    }

private:
    // Whether this lane's run has a row that somebody may see.
    __device__ __forceinline__ bool is_fetched() const {
        const uint32_t first = lane % runs * run_rows;
        return first < seen.end && first + run_rows > seen.begin;
    }

    __device__ __forceinline__ void copy(const ftj_tensor_map& map, uint32_t head, uint32_t tile,
                                         uint32_t counted) const {
        constexpr uint32_t run_bytes = run_rows * 2 * Config::head_dim;
        ptx::sync_warp();  // a lane that has no copy to make could fall two phases behind
        const uint32_t first = seen.begin / run_rows;
        const uint32_t end = (seen.end + run_rows - 1) / run_rows;
        if (lane == 0)
            ptx::mbarrier_arrive_expect_tx(counted, end > first ? (end - first) * run_bytes : 0);
        if (lane < runs * panels && is_fetched()) {
            const uint32_t to =
                tile + lane / runs * Tile::panel_bytes + lane % runs * run_rows * 128;
            ptx::cp_async_bulk_tensor(to, &map, lane / runs * panel_dims, slot, head, page,
                                      counted);
        }
    }

    __device__ __forceinline__ void clear(uint32_t tile, uint32_t first, uint32_t end) const {
#pragma unroll 1
        for (uint32_t at = first * chunks + lane; at < end * chunks; at += warp_size)
            ptx::st_shared_v4(tile + Tile::at(at / chunks, at % chunks), {{0, 0, 0, 0}});
    }
};

}  // namespace ftj
