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

    uint32_t slots_at;  // shared address of the warp's
    uint32_t fetched;   // slot to be filled next
    uint32_t widened;   // slot to be read next
    uint32_t page;      // of this lane's row
    uint32_t offset;
    KeyRange seen;  // of the warp's rows

    __device__ __forceinline__ void init(uint32_t shared) {
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
        constexpr uint32_t group = at_once > 8 ? at_once : 8;
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
        const Widen widen;
#pragma unroll 2
        for (uint32_t row = 0; row < uint32_t(rows); row += group) {
#pragma unroll
            for (uint32_t at = 0; at < group; at += at_once) {
                const ptx::Words4 codes = ptx::ld_shared_v4(codes_at + at * Side::code_row);
                uint32_t block_scales = 0;
                if constexpr (Side::block_row > 0)
                    block_scales = ptx::ld_shared_u16(blocks_at + at * Side::block_row);
#pragma unroll
                for (uint32_t i = 0; i < chunks; i++)
                    ptx::st_shared_v4((to[i] ^ at % 8 * 16) + at * 128,
                                      widen.widen(codes, block_scales, i));
            }
            codes_at += group * Side::code_row;
            blocks_at += group * Side::block_row;
#pragma unroll
            for (uint32_t i = 0; i < chunks; i++)
                to[i] += group * 128;
        }
        if (lane() < rows)
            ptx::st_shared_u32(
                scales + 4 * (warp() * rows + lane()),
                ptx::ld_shared_u32(slots_at + widened * slot_bytes + Side::scales + 4 * lane()));
        widened = widened == slots - 1 ? 0 : widened + 1;
    }

private:
    static __device__ __forceinline__ uint32_t lane() { return ptx::thread_index() % warp_size; }
    static __device__ __forceinline__ uint32_t warp() {
        return ptx::thread_index() % feed_threads / warp_size;
    }

    template <int row_bytes>
    __device__ __forceinline__ void fetch_rows(const ftj_array_params& array, uint32_t head,
                                               uint32_t shared) const {
        if constexpr (row_bytes > 0) {
            constexpr int chunk = row_bytes < 16 ? row_bytes : 16;
            constexpr uint32_t chunks = row_bytes / chunk;
            const uint64_t base = array.base + head * array.head_stride;
#pragma unroll 4
            for (uint32_t at = 0; at < rows * chunks; at += warp_size) {
                const uint32_t row = (at + lane()) / chunks, byte = lane() % chunks * chunk;
                uint64_t from = base + byte;
                if constexpr (is_run)
                    from += page * array.page_stride + (offset + row) * uint32_t(row_bytes);
                else
                    from += ptx::shfl(page, row) * array.page_stride +
                            ptx::shfl(offset, row) * array.slot_stride;
                if (rows * chunks % warp_size != 0 && row >= rows)
                    continue;
                if (row >= seen.begin && row < seen.end)
                    copy<chunk>(shared + row * row_bytes + byte, pointer<const void>(from));
                else
                    clear<chunk>(shared + row * row_bytes + byte);
            }
        }
    }

    template <int bytes>
    static __device__ __forceinline__ void copy(uint32_t shared, const void* global) {
        static_assert(bytes == 16 || bytes == 8 || bytes == 4, "what cp.async can move");
        if constexpr (bytes == 16)
            ptx::cp_async_16(shared, global);
        else if constexpr (bytes == 8)
            ptx::cp_async_8(shared, global);
        else
            ptx::cp_async_4(shared, global);
    }
    template <int bytes>
    static __device__ __forceinline__ void clear(uint32_t shared) {
        if constexpr (bytes == 16)
            ptx::st_shared_v4(shared, {});
        else if constexpr (bytes == 8)
            ptx::st_shared_v2(shared, {});
        else
            ptx::st_shared_u32(shared, 0);
    }
};

}  // namespace ftj
