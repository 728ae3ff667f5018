// SPDX-License-Identifier: MIT
// Tiles of K or V that the cache holds as codes. Each producer warp has a run of rows of every
// tile: it fetches their codes and scales by cp.async into slots of its own, some tiles ahead, and
// widens them once, into the swizzled tile that all consumers read. Row scales go beside the tile.
// Rows that nobody may see are never read: their codes and scales are zeros.
#pragma once
#include "block/query_tile.cuh"
#include "block/swizzled.cuh"
#include "block/tile_feed.cuh"
#include "block/widen_rows.cuh"

namespace ftj {

// How a warp's rows of one side lie in a slot.
template <class Widen_, int head_dim, int rows_>
struct CodeRows {
    using Widen = Widen_;
    static constexpr int rows = rows_;
    static constexpr int code_row = Widen::code_bytes(head_dim);
    static constexpr int block_row = Widen::block_bytes(head_dim);
    static constexpr int blocks = rows * code_row;
    static constexpr int scales = blocks + rows * block_row;
    static constexpr int bytes = Widen::is_coded ? scales + rows * 4 : 0;
    static_assert(bytes % 16 == 0, "slots follow each other on 16-byte boundaries");
};

template <class A, class B>
constexpr bool is_same = false;
template <class A>
constexpr bool is_same<A, A> = true;

template <class Config>
struct CodeFeed {
    static constexpr int head_dim = Config::head_dim;
    static constexpr int tokens = Config::tile_tokens;
    static constexpr int warps = int(feed_threads / warp_size);
    static constexpr int rows = tokens / warps;  // of a tile, a warp's
    static constexpr int slots = Config::code_slots;
    static constexpr uint32_t widen_batch = 4;  // loads of shared memory under way
    using Tile = SwizzledTile<tokens, head_dim>;
    using K = CodeRows<typename Config::KWiden, head_dim, rows>;
    using V = CodeRows<typename Config::VWiden, head_dim, rows>;
    static constexpr bool are_alike = is_same<K, V>;  // and served by the same code
    static constexpr int slot_bytes = K::bytes > V::bytes ? K::bytes : V::bytes;
    static constexpr int shared_bytes = warps * slots * slot_bytes;
    static_assert(rows <= int(warp_size), "a lane looks up a row");
    // The warp's rows follow each other in one page.
    static constexpr bool is_run =
        !Config::slot_table && Config::slots_contiguous && Config::page_size % rows == 0;

    uint32_t thread;    // of the producer; reading its register anew takes its turn behind copies
    uint32_t slots_at;  // shared address of the warp's
    uint32_t fetched;   // slot to be filled next
    uint32_t widened;   // slot to be read next
    uint32_t page;      // of this lane's row
    uint32_t offset;
    KeyRange seen;  // of the warp's rows

    __device__ __forceinline__ void init(uint32_t shared) {
        thread = ptx::opaque(ptx::thread_index() % feed_threads);
        slots_at = shared + warp() * (slots * slot_bytes);
        fetched = widened = 0;
    }

    // Where the rows of the tile from `first` on are.
    __device__ __forceinline__ void find(const ftj_extend_params& p, const QueryTile<Config>& unit,
                                         uint32_t first) {
        const auto* table = pointer<const int32_t>(p.requests.table) + unit.table_start;
        const uint32_t base = first + warp() * rows;
        const uint32_t token = base + (is_run ? 0 : lane() % rows);
        const KeyRange keys = unit.cached;
        seen = {keys.begin - min_of(keys.begin, base), keys.end - min_of(keys.end, base)};
        page = offset = 0;
        if (token >= keys.end || token + (is_run ? rows : 1) <= keys.begin)
            return;
        if constexpr (Config::slot_table) {
            const auto slot = static_cast<uint32_t>(table[token]);
            page = slot / Config::page_size;
            offset = slot % Config::page_size;
        } else {
            page = static_cast<uint32_t>(table[token / Config::page_size]);
            offset = token % Config::page_size;
        }
    }

    // Start the copies of one side of the tile that was found.
    template <class Side>
    __device__ __forceinline__ void fetch(const ftj_side_params& side, uint32_t head) {
        const uint32_t slot = slots_at + fetched * slot_bytes;
        ptx::sync_warp();  // the slot has been read
        fetch_rows<Side::code_row>(side.codes, head, slot);
        fetch_rows<Side::block_row>(side.block_scales, head, slot + Side::blocks);
        fetch_rows<4>(side.row_scales, head, slot + Side::scales);
        fetched = fetched == slots - 1 ? 0 : fetched + 1;
    }

    // The rows in the next slot, which have come, into their places.
    template <class Side>
    __device__ __forceinline__ void widen(uint32_t tile, uint32_t scales) {
        using Widen = typename Side::Widen;
        constexpr uint32_t lanes = Side::code_row / 16;  // that share a row
        constexpr uint32_t at_once = warp_size / lanes;  // rows
        constexpr uint32_t chunks = Widen::chunk_codes / 8;
        // Eight lanes store at a time: where they reach into several panels, each panel's lanes
        // take other rows, so that no two meet in a bank.
        constexpr uint32_t panels = lanes * chunks < 16 ? 1 : (lanes < 8 ? lanes : 8) * chunks / 8;
        constexpr uint32_t apart = lanes >= 8 ? 1 : 8 / lanes;
        ptx::sync_warp();  // the copies of all lanes have come
        const uint32_t q = lane() % lanes;
        const uint32_t first = lane() / lanes ^ q * chunks / 8 % panels * apart;
        uint32_t codes_at = slots_at + widened * slot_bytes + first * Side::code_row + q * 16;
        uint32_t blocks_at = slots_at + widened * slot_bytes + Side::blocks +
                             first * Side::block_row + q * (Widen::chunk_codes / 16);
        uint32_t to[chunks];
#pragma unroll
        for (uint32_t i = 0; i < chunks; i++)
            to[i] = tile + Tile::at(warp() * rows + first, q * chunks + i);
        // Loads first: stores in between would have each wait for the one before.
        constexpr uint32_t loads = rows / at_once;
        constexpr uint32_t batch = loads < widen_batch ? loads : widen_batch;
        static_assert(loads % batch == 0 && batch * at_once % 8 == 0, "whole groups of rows");
        const Widen widen;
#pragma unroll 1
        for (uint32_t row = 0; row < uint32_t(rows); row += batch * at_once) {
            ptx::Words4 codes[batch];
            uint32_t block_scales[batch] = {};
#pragma unroll
            for (uint32_t j = 0; j < batch; j++) {
                codes[j] = ptx::ld_shared_v4(codes_at + j * at_once * Side::code_row);
                if constexpr (Side::block_row > 0)
                    block_scales[j] = ptx::ld_shared_u16(blocks_at + j * at_once * Side::block_row);
            }
#pragma unroll
            for (uint32_t j = 0; j < batch; j++) {
                const uint32_t at = j * at_once;
#pragma unroll
                for (uint32_t i = 0; i < chunks; i++)
                    ptx::st_shared_v4((to[i] ^ at % 8 * 16) + at * 128,
                                      widen.widen(codes[j], block_scales[j], i));
            }
            codes_at += batch * at_once * Side::code_row;
            blocks_at += batch * at_once * Side::block_row;
#pragma unroll
            for (uint32_t i = 0; i < chunks; i++)
                to[i] += batch * at_once * 128;
        }
        if (lane() < rows)
            ptx::st_shared_u32(
                scales + 4 * (warp() * rows + lane()),
                ptx::ld_shared_u32(slots_at + widened * slot_bytes + Side::scales + 4 * lane()));
        widened = widened == slots - 1 ? 0 : widened + 1;
    }

private:
    __device__ __forceinline__ uint32_t lane() const { return thread % warp_size; }
    __device__ __forceinline__ uint32_t warp() const { return thread / warp_size; }

    template <int row_bytes>
    __device__ __forceinline__ void fetch_rows(const ftj_array_params& array, uint32_t head,
                                               uint32_t shared) const {
        if constexpr (row_bytes > 0) {
            constexpr uint32_t chunk = row_bytes < 16 ? row_bytes : 16;
            constexpr uint32_t chunks = row_bytes / chunk;
            const uint64_t base = array.base + head * array.head_stride;
            const uint64_t run = base + page * array.page_stride + offset * uint32_t(row_bytes);
#pragma unroll(is_run ? 8 : 4)
            for (uint32_t at = 0; at < rows * chunks; at += warp_size) {
                const uint32_t piece = at + lane(), row = piece / chunks;
                uint64_t from = run + piece * chunk;
                if constexpr (!is_run)
                    from = base + ptx::shfl(page, row) * array.page_stride +
                           ptx::shfl(offset, row) * array.slot_stride + piece % chunks * chunk;
                if (rows * chunks % warp_size != 0 && row >= rows)
                    continue;
                const bool is_seen = row >= seen.begin && row < seen.end;
                ptx::cp_async_of<chunk>(shared + piece * chunk, pointer<const void>(from),
                                        is_seen ? chunk : 0);
            }
        }
    }
};

}  // namespace ftj
