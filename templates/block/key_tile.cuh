// SPDX-License-Identifier: MIT
// A tile of keys and values in a block's shared memory, and the two places it comes from: the paged
// cache, and rows of 16-bit elements given beside it.
//
// Rows lie 32 or 96 bytes past a multiple of 128 apart. With that, and with row r of a fragment
// being token spread(r), neither the loads of K (8 rows of 4 neighbouring pieces) nor those of V (4
// rows of 8) meet a bank twice, whatever the codec and the width of its loads.
#pragma once
#include "block/codec_16bit.cuh"
#include "block/query_tile.cuh"
#include "block/row_copy.cuh"

namespace ftj {

// Row r of a fragment of 8 tokens.
constexpr uint32_t spread(uint32_t row) { return row % 2 ? 4 + ((row / 2) ^ 2) : row / 2; }

// K or V of a tile: bytes from its first.
template <class Codec_, int head_dim, int tokens>
struct SideLayout {
    using Codec = Codec_;
    static constexpr int code_row = Codec::code_bytes(head_dim);
    static constexpr int block_row = Codec::has_block_scale ? head_dim / 16 : 0;
    static constexpr int scale_row = Codec::has_row_scale ? 4 : 0;
    static constexpr int pitch = (code_row + 31) / 64 * 64 + 32;
    static_assert(pitch >= code_row && pitch % 64 == 32, "see above");
    static constexpr int blocks = tokens * pitch;
    static constexpr int scales = blocks + tokens * block_row;
    static constexpr int bytes = scales + tokens * scale_row;
    static_assert(bytes % 16 == 0, "what follows is aligned");
};

template <class Config, class KCodec, class VCodec, int tokens_>
struct KeyTile {
    static constexpr int tokens = tokens_;
    using K = SideLayout<KCodec, Config::head_dim, tokens>;
    using V = SideLayout<VCodec, Config::head_dim, tokens>;
    static constexpr int k = 0;  // bytes from the stage's first
    static constexpr int v = K::bytes;
    static constexpr int bytes = K::bytes + V::bytes;

    static __device__ __forceinline__ SeenRows seen(KeyRange keys, uint32_t token) {
        return {keys.begin - min_of(keys.begin, token), keys.end - token};
    }
};

// Keys that the cache holds. Tiles are aligned to positions of the request. A tile is looked up
// when the one before it has been fetched, and fetched when the table's answer has arrived.
template <class Config>
struct CachedKeys {
    using Tile =
        KeyTile<Config, typename Config::KCodec, typename Config::VCodec, Config::tile_tokens>;
    using Rows = RowCopy<Config::num_threads, Tile::tokens>;
    static constexpr uint32_t page_size = Config::page_size;
    static constexpr uint32_t tokens = Tile::tokens;
    static constexpr bool one_page = !Config::slot_table && page_size % tokens == 0;
    static constexpr int places = one_page ? 1 : (tokens + warp_size - 1) / warp_size;
    static constexpr uint32_t most_threads = 1024;  // of a block

    // Scratch of a warp: where each token of a tile lies.
    static constexpr int warp_bytes = one_page ? 0 : Tile::tokens * 8;

    // Of the unit. What a warp holds is not in shared memory: to ask there takes a while, and what
    // it holds once takes none of its lanes' registers.
    KeyRange keys;
    uint32_t head;
    uint32_t table_start[2];  // low and high
    uint32_t thread;
    uint32_t scratch;
    uint32_t page[places];  // of the tile, or of the tokens this lane looks after
    uint32_t offset[places];

    __device__ __forceinline__ CachedKeys(const QueryTile<Config>& unit, uint32_t own_thread,
                                          uint32_t warp_scratch)
        : keys{ptx::uniform(unit.cached.begin), ptx::uniform(unit.cached.end)},
          head(ptx::uniform(unit.head)), table_start{ptx::uniform(uint32_t(unit.table_start)),
                                                     ptx::uniform(
                                                         uint32_t(unit.table_start >> 32))},
          thread(own_thread), scratch(warp_scratch) {}

    __device__ __forceinline__ uint32_t lane() const { return thread % warp_size; }
    __device__ __forceinline__ KeyRange range() const { return keys; }
    __device__ __forceinline__ uint32_t token(uint32_t tile) const {
        return (keys.begin / tokens + tile) * tokens;
    }

    __device__ __forceinline__ void find(const ftj_extend_params& p, uint32_t first) {
        const auto* table = pointer<const int32_t>(p.requests.table) +
                            int64_t(uint64_t(table_start[1]) << 32 | table_start[0]);
#pragma unroll
        for (int i = 0; i < places; i++) {
            const uint32_t mine = one_page ? first + thread / most_threads
                                           : first + thread % warp_size + i * warp_size;
            if (!one_page && (mine < keys.begin || mine >= keys.end)) {
                page[i] = offset[i] = 0;
            } else if constexpr (Config::slot_table) {
                const auto slot = static_cast<uint32_t>(table[mine]);
                page[i] = slot / page_size;
                offset[i] = slot % page_size;
            } else {
                page[i] = static_cast<uint32_t>(table[mine / page_size]);
                offset[i] = mine % page_size;
            }
        }
    }

    __device__ __forceinline__ void fetch_k(const ftj_extend_params& p, uint32_t shared,
                                            uint32_t first) const {
        if constexpr (!one_page)
            share_places();
        fetch<typename Tile::K, Config::k_code_chunk, Config::k_block_chunk>(
            p.cache.k, shared + Tile::k, Tile::seen(keys, first));
    }
    __device__ __forceinline__ void fetch_v(const ftj_extend_params& p, uint32_t shared,
                                            uint32_t first) const {
        fetch<typename Tile::V, Config::v_code_chunk, Config::v_block_chunk>(
            p.cache.v, shared + Tile::v, Tile::seen(keys, first));
    }

private:
    // What the lanes have looked up, for all of the warp: a row is copied by lanes that did not.
    __device__ __forceinline__ void share_places() const {
        const uint32_t lane = thread % warp_size;
        ptx::sync_warp();  // the tile before has been copied
#pragma unroll
        for (int i = 0; i < places; i++) {
            if (lane + i * warp_size < tokens)
                ptx::st_shared_v2(scratch + 8 * (lane + i * warp_size), {{page[i], offset[i]}});
        }
        ptx::sync_warp();
    }

    template <class Side, int code_chunk, int block_chunk>
    __device__ __forceinline__ void fetch(const ftj_side_params& side, uint32_t shared,
                                          SeenRows seen) const {
        fetch_rows<Side::code_row, Side::pitch, code_chunk>(side.codes, shared, seen);
        fetch_rows<Side::block_row, Side::block_row, block_chunk>(side.block_scales,
                                                                  shared + Side::blocks, seen);
        fetch_rows<Side::scale_row, 4, 4>(side.row_scales, shared + Side::scales, seen);
    }

    template <int row_bytes, int pitch, int chunk>
    __device__ __forceinline__ void fetch_rows(const ftj_array_params& array, uint32_t shared,
                                               SeenRows seen) const {
        if constexpr (row_bytes == 0) {
            return;
        } else if constexpr (one_page) {
            const uint64_t stride = Config::slots_contiguous ? row_bytes : array.slot_stride;
            Rows::template strided<row_bytes, pitch, chunk>(array.base + head * array.head_stride +
                                                                page[0] * array.page_stride +
                                                                offset[0] * stride,
                                                            stride, shared, seen, thread);
        } else {
            const uint64_t base = array.base + head * array.head_stride;
            Rows::template scattered<row_bytes, pitch, chunk>(shared, seen, [&](uint32_t row) {
                const ptx::Words2 place = ptx::ld_shared_v2(scratch + 8 * row);
                return base + place.w[0] * array.page_stride + place.w[1] * array.slot_stride;
            });
        }
    }
};

// Keys of this step, in 16 bits, beside the cache. Tiles are counted from the first of them.
template <class Config>
struct NewKeys {
    using Element = typename Config::Element;
    using Codec = Codec16Bit<Element>;
    using KeyCodec = select_type<Config::widens, CodecWidened<Element>, Codec>;
    using Tile = KeyTile<Config, KeyCodec, Codec, Config::new_tokens>;
    using Rows = RowCopy<Config::num_threads, Tile::tokens>;
    static constexpr uint32_t tokens = Tile::tokens;

    // As CachedKeys has them.
    KeyRange keys;
    uint32_t base;  // position of the first
    uint32_t head;
    uint32_t first_row;
    uint32_t first_position;
    uint32_t thread;

    __device__ __forceinline__ NewKeys(const QueryTile<Config>& unit, uint32_t own_thread, uint32_t)
        : keys{ptx::uniform(unit.fresh.begin), ptx::uniform(unit.fresh.end)},
          base(ptx::uniform(unit.fresh_base)), head(ptx::uniform(unit.head)),
          first_row(ptx::uniform(unit.run.first)),
          first_position(ptx::uniform(uint32_t(unit.run.position))), thread(own_thread) {}

    __device__ __forceinline__ uint32_t lane() const { return thread % warp_size; }
    __device__ __forceinline__ KeyRange range() const { return keys; }
    __device__ __forceinline__ uint32_t token(uint32_t tile) const {
        return base + ((keys.begin - base) / tokens + tile) * tokens;
    }
    __device__ __forceinline__ void find(const ftj_extend_params&, uint32_t) {}
    __device__ __forceinline__ void fetch_k(const ftj_extend_params& p, uint32_t shared,
                                            uint32_t first) const {
        fetch(p.k_new, p.k_new_token_stride, p.k_new_head_stride, shared + Tile::k, first);
        if constexpr (Tile::K::scale_row > 0) {  // as widened codes have one
            if (thread < tokens)
                ptx::st_shared_u32(shared + Tile::k + Tile::K::scales + 4 * thread,
                                   ptx::float_bits(1.0f));
        }
    }
    __device__ __forceinline__ void fetch_v(const ftj_extend_params& p, uint32_t shared,
                                            uint32_t first) const {
        fetch(p.v_new, p.v_new_token_stride, p.v_new_head_stride, shared + Tile::v, first);
    }

private:
    __device__ __forceinline__ void fetch(uint64_t rows, int64_t token_stride, int64_t head_stride,
                                          uint32_t shared, uint32_t first) const {
        using Side = typename Tile::K;
        const int64_t row = int64_t(first_row) - int32_t(first_position) + first;
        const int64_t at = row * token_stride + head * head_stride;
        Rows::template strided<Side::code_row, Side::pitch, 16>(
            rows + at * Element::bytes, token_stride * Element::bytes, shared,
            Tile::seen(keys, first), thread);
    }
};

// Keys of either kind, where both make the same tiles: what is done with them is compiled once.
template <class Config>
struct EitherKeys {
    using Cached = CachedKeys<Config>;
    using New = NewKeys<Config>;
    using Tile = typename Cached::Tile;
    static_assert(is_same<Tile, typename New::Tile>, "of one layout");

    Cached cached;
    New fresh;
    bool is_new;

    __device__ __forceinline__ EitherKeys(const QueryTile<Config>& of, uint32_t thread,
                                          uint32_t warp_scratch, bool of_new)
        : cached(of, thread, warp_scratch), fresh(of, thread, warp_scratch), is_new(of_new) {}

    __device__ __forceinline__ uint32_t lane() const { return cached.lane(); }
    __device__ __forceinline__ KeyRange range() const {
        return is_new ? fresh.range() : cached.range();
    }
    __device__ __forceinline__ uint32_t token(uint32_t tile) const {
        return is_new ? fresh.token(tile) : cached.token(tile);
    }
    __device__ __forceinline__ void find(const ftj_extend_params& p, uint32_t first) {
        if (!is_new)
            cached.find(p, first);
    }
    __device__ __forceinline__ void fetch_k(const ftj_extend_params& p, uint32_t shared,
                                            uint32_t first) const {
        if (is_new)
            fresh.fetch_k(p, shared, first);
        else
            cached.fetch_k(p, shared, first);
    }
    __device__ __forceinline__ void fetch_v(const ftj_extend_params& p, uint32_t shared,
                                            uint32_t first) const {
        if (is_new)
            fresh.fetch_v(p, shared, first);
        else
            cached.fetch_v(p, shared, first);
    }
};

}  // namespace ftj
