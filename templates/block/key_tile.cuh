// SPDX-License-Identifier: MIT
// A tile of keys and values in a block's shared memory, and the two places it comes from: the paged
// cache, and rows of 16-bit elements given beside it.
//
// Rows lie 32 or 96 bytes past a multiple of 128 apart. With that, and with row r of a fragment
// being token spread(r), neither the loads of K (8 rows of 4 neighbouring pieces) nor those of V (4
// rows of 8) meet a bank twice, whatever the codec and the width of its loads. Rows of V in 16 bits
// that ldmatrix reads, eight of 16 bytes at a time, lie an odd number of 16 bytes apart.
#pragma once
#include "block/codec_16bit.cuh"
#include "block/query_tile.cuh"
#include "block/row_copy.cuh"

namespace ftj {

// Row r of a fragment of 8 tokens.
constexpr uint32_t spread(uint32_t row) { return row % 2 ? 4 + ((row / 2) ^ 2) : row / 2; }

// K or V of a tile: bytes from its first.
template <class Codec_, int head_dim, int tokens, bool by_matrices_ = false>
struct SideLayout {
    using Codec = Codec_;
    static constexpr bool by_matrices = by_matrices_;
    static constexpr int code_row = Codec::code_bytes(head_dim);
    static constexpr int block_row = Codec::has_block_scale ? head_dim / 16 : 0;
    static constexpr int scale_row = Codec::has_row_scale ? 4 : 0;
    static constexpr int pitch = by_matrices ? code_row + 16 : (code_row + 31) / 64 * 64 + 32;
    static_assert(pitch >= code_row && (by_matrices ? pitch % 32 == 16 : pitch % 64 == 32),
                  "see above");
    static constexpr int blocks = tokens * pitch;
    static constexpr int scales = blocks + tokens * block_row;
    static constexpr int bytes = scales + tokens * scale_row;
    static_assert(bytes % 16 == 0, "what follows is aligned");
};

template <class Config, class KCodec, class VCodec, int tokens_>
struct KeyTile {
    static constexpr int tokens = tokens_;
    using K = SideLayout<KCodec, Config::head_dim, tokens>;
    using V =
        SideLayout<VCodec, Config::head_dim, tokens, Config::v_by_matrices && !VCodec::is_coded>;
    static constexpr int k = 0;  // bytes from the stage's first
    static constexpr int v = K::bytes;
    static constexpr int bytes = K::bytes + V::bytes;

    static __device__ __forceinline__ SeenRows seen(KeyRange keys, uint32_t token) {
        return {keys.begin - min_of(keys.begin, token), keys.end - token};
    }
};

// Two words that all lanes have, in registers of the warp's.
struct UniformWords {
    uint32_t low, high;

    static __device__ __forceinline__ UniformWords of(uint64_t v) {
        return {ptx::uniform(uint32_t(v)), ptx::uniform(uint32_t(v >> 32))};
    }
    __device__ __forceinline__ uint64_t value() const { return uint64_t(high) << 32 | low; }
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
    UniformWords table_start;
    UniformWords arrays[6];  // addresses of the kv head's first row: codes and scales of K, of V
    uint32_t thread;
    uint32_t scratch;
    uint32_t page[places];  // of the tile, or of the tokens this lane looks after
    uint32_t offset[places];

    __device__ __forceinline__ CachedKeys(const ftj_extend_params& p, const QueryTile<Config>& unit,
                                          uint32_t own_thread, uint32_t warp_scratch)
        : keys{ptx::uniform(unit.cached.begin), ptx::uniform(unit.cached.end)},
          table_start(UniformWords::of(unit.table_start)), thread(own_thread),
          scratch(warp_scratch) {
        find_arrays<typename Tile::K>(p.cache.k, unit.head, arrays);
        find_arrays<typename Tile::V>(p.cache.v, unit.head, arrays + 3);
    }

    __device__ __forceinline__ uint32_t lane() const { return thread % warp_size; }
    __device__ __forceinline__ KeyRange range() const { return keys; }
    __device__ __forceinline__ uint32_t token(uint32_t tile) const {
        return (keys.begin / tokens + tile) * tokens;
    }

    __device__ __forceinline__ void find(const ftj_extend_params& p, uint32_t first) {
        const auto* table = pointer<const int32_t>(p.requests.table) + int64_t(table_start.value());
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
                offset[i] = one_page && page_size == tokens ? 0 : mine % page_size;
            }
        }
    }

    __device__ __forceinline__ void fetch_k(const ftj_extend_params& p, uint32_t shared,
                                            uint32_t first) const {
        if constexpr (!one_page)
            share_places();
        fetch<typename Tile::K, Config::k_code_chunk, Config::k_block_chunk, 0>(
            p.cache.k, arrays, shared + Tile::k, Tile::seen(keys, first));
    }
    __device__ __forceinline__ void fetch_v(const ftj_extend_params& p, uint32_t shared,
                                            uint32_t first) const {
        fetch<typename Tile::V, Config::v_code_chunk, Config::v_block_chunk,
              scale_threads<typename Tile::K, Config::k_block_chunk>()>(
            p.cache.v, arrays + 3, shared + Tile::v, Tile::seen(keys, first));
    }

private:
    template <class Side>
    static __device__ __forceinline__ void find_arrays(const ftj_side_params& side, uint32_t head,
                                                       UniformWords* arrays) {
        arrays[0] = UniformWords::of(side.codes.base + head * side.codes.head_stride);
        if constexpr (Side::block_row > 0)
            arrays[1] =
                UniformWords::of(side.block_scales.base + head * side.block_scales.head_stride);
        if constexpr (Side::scale_row > 0)
            arrays[2] = UniformWords::of(side.row_scales.base + head * side.row_scales.head_stride);
    }

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

    // Whole warps that the scales of a whole tile take: each array has its own where there are so
    // many, so that no warp copies them all.
    template <int row_bytes, int chunk>
    static constexpr uint32_t whole_warps() {
        return row_bytes == 0
                   ? 0
                   : (tokens * (row_bytes / chunk) + warp_size - 1) / warp_size * warp_size;
    }
    template <class Side, int block_chunk>
    static constexpr uint32_t scale_threads() {
        return whole_warps<Side::block_row, block_chunk>() + whole_warps<Side::scale_row, 4>();
    }

    template <class Side, int code_chunk, int block_chunk, uint32_t first>
    __device__ __forceinline__ void fetch(const ftj_side_params& side, const UniformWords* starts,
                                          uint32_t shared, SeenRows seen) const {
        fetch_rows<Side::code_row, Side::pitch, code_chunk, 0>(side.codes, starts[0], shared, seen);
        fetch_rows<Side::block_row, Side::block_row, block_chunk, first>(
            side.block_scales, starts[1], shared + Side::blocks, seen);
        fetch_rows<Side::scale_row, 4, 4, first + whole_warps<Side::block_row, block_chunk>()>(
            side.row_scales, starts[2], shared + Side::scales, seen);
    }

    template <int row_bytes, int pitch, int chunk, uint32_t first>
    __device__ __forceinline__ void fetch_rows(const ftj_array_params& array,
                                               const UniformWords& start, uint32_t shared,
                                               SeenRows seen) const {
        if constexpr (row_bytes == 0) {
            return;
        } else if constexpr (one_page) {
            const uint64_t stride = Config::slots_contiguous ? row_bytes : array.slot_stride;
            Rows::template strided<row_bytes, pitch, chunk, !Config::slots_contiguous,
                                   first % Config::num_threads>(
                [&] { return start.value() + page[0] * array.page_stride + offset[0] * stride; },
                stride, shared, seen, thread);
        } else {
            const uint64_t base = start.value();
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

    __device__ __forceinline__ NewKeys(const ftj_extend_params&, const QueryTile<Config>& unit,
                                       uint32_t own_thread, uint32_t)
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
        fetch<typename Tile::K>(p.k_new, p.k_new_token_stride, p.k_new_head_stride,
                                shared + Tile::k, first);
        if constexpr (Tile::K::scale_row > 0) {  // as widened codes have one
            if (thread < tokens)
                ptx::st_shared_u32(shared + Tile::k + Tile::K::scales + 4 * thread,
                                   ptx::float_bits(ptx::abs_f32(p.score_scale)));
        }
    }
    __device__ __forceinline__ void fetch_v(const ftj_extend_params& p, uint32_t shared,
                                            uint32_t first) const {
        fetch<typename Tile::V>(p.v_new, p.v_new_token_stride, p.v_new_head_stride,
                                shared + Tile::v, first);
    }

private:
    template <class Side>
    __device__ __forceinline__ void fetch(uint64_t rows, int64_t token_stride, int64_t head_stride,
                                          uint32_t shared, uint32_t first) const {
        const int64_t row = int64_t(first_row) - int32_t(first_position) + first;
        const int64_t at = row * token_stride + head * head_stride;
        Rows::template strided<Side::code_row, Side::pitch, 16, true, 0>(
            [&] { return rows + at * Element::bytes; }, token_stride * Element::bytes, shared,
            Tile::seen(keys, first), thread);
    }
};

// Keys of either kind, for what is done with them to be compiled once.
template <class Config>
struct BothKeys {
    CachedKeys<Config> cached;
    NewKeys<Config> fresh;
    bool is_new;

    __device__ __forceinline__ BothKeys(const ftj_extend_params& p, const QueryTile<Config>& of,
                                        uint32_t thread, uint32_t warp_scratch, bool of_new)
        : cached(p, of, thread, warp_scratch), fresh(p, of, thread, warp_scratch), is_new(of_new) {}

    __device__ __forceinline__ uint32_t lane() const { return cached.lane(); }
    __device__ __forceinline__ KeyRange range() const {
        return is_new ? fresh.range() : cached.range();
    }
    __device__ __forceinline__ uint32_t token(uint32_t tile) const {
        return is_new ? fresh.token(tile) : cached.token(tile);
    }
};

// Those that make the same tiles.
template <class Config>
struct EitherKeys : BothKeys<Config> {
    using BothKeys<Config>::BothKeys;
    using BothKeys<Config>::cached, BothKeys<Config>::fresh, BothKeys<Config>::is_new;
    using Tile = typename CachedKeys<Config>::Tile;
    static_assert(is_same<Tile, typename NewKeys<Config>::Tile>, "of one layout");

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
