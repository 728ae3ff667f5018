// SPDX-License-Identifier: MIT
// One tile of a cache in shared memory, and the copy that brings it there.
//
// A stage holds the tile's rows of one kv head, each array without gaps. Where the pages hold such
// rows without gaps too, a tile of an array is one span, copied 16 bytes a lane; everywhere else,
// and at the ends of what is visible, row by row. Rows that are not visible are never read: they are
// zeros in the stage.
#pragma once
#include "block/pieces.cuh"
#include "block/types.cuh"

namespace ftj {

template <class Config>
struct Stage {
    using KCodec = typename Config::KCodec;
    using VCodec = typename Config::VCodec;
    static constexpr int tokens = Config::tile_tokens;
    static constexpr int page_size = Config::page_size;
    static constexpr bool one_page = !Config::slot_table && page_size % tokens == 0;
    static constexpr bool spans = one_page && Config::slots_contiguous;

    static constexpr int k_code_row = KCodec::code_bytes(Config::head_dim);
    static constexpr int v_code_row = VCodec::code_bytes(Config::head_dim);
    static constexpr int k_block_row = KCodec::has_block_scale ? Config::head_dim / 16 : 0;
    static constexpr int v_block_row = VCodec::has_block_scale ? Config::head_dim / 16 : 0;
    static constexpr int k_scale_row = KCodec::has_row_scale ? 4 : 0;
    static constexpr int v_scale_row = VCodec::has_row_scale ? 4 : 0;

    static constexpr int k_codes = 0;
    static constexpr int v_codes = k_codes + tokens * k_code_row;
    static constexpr int k_blocks = v_codes + tokens * v_code_row;
    static constexpr int v_blocks = k_blocks + tokens * k_block_row;
    static constexpr int k_scales = v_blocks + tokens * v_block_row;
    static constexpr int v_scales = k_scales + tokens * k_scale_row;
    static constexpr int bytes = v_scales + tokens * v_scale_row;
    static_assert(tokens == 16 || tokens == 32, "a lane looks after one token of a tile");
    static_assert(bytes % 16 == 0, "stages follow each other on 16-byte boundaries");

    // Where this lane's token of a tile lies; looked up one tile ahead of its use. When a page holds
    // whole tiles, where the tile's first token lies, the same in every lane.
    struct Place {
        uint32_t page;
        uint32_t offset;
    };

    static __device__ __forceinline__ Place find(const ftj_requests_params& requests,
                                                 uint32_t request, Visible keys, uint32_t token) {
        const auto* table = pointer<const int32_t>(requests.table);
        if constexpr (one_page) {
            const auto* row = table + request * requests.table_stride;
            return {static_cast<uint32_t>(row[token / page_size]), token % page_size};
        } else {
            const uint32_t mine = token + ptx::thread_index() % warp_size % tokens;
            if (mine < keys.begin || mine >= keys.end)
                return {0, 0};
            if constexpr (Config::slot_table) {
                const auto first = pointer<const int32_t>(requests.indptr)[request];
                const auto slot = static_cast<uint32_t>(table[first + int64_t(mine)]);
                return {slot / page_size, slot % page_size};
            } else {
                const auto* row = table + request * requests.table_stride;
                return {static_cast<uint32_t>(row[mine / page_size]), mine % page_size};
            }
        }
    }

    // Start the copies of one tile into the stage at `shared`.
    static __device__ __forceinline__ void fetch(const ftj_cache_params& cache, uint32_t shared,
                                                 uint32_t head, Visible keys, uint32_t token,
                                                 Place place) {
        const bool whole = token >= keys.begin && token + tokens <= keys.end;
        if (spans && whole) {
            const Corner corner(cache, head, place.page);
            fetch_span<k_code_row>(corner.of(cache.k.codes), shared + k_codes, place);
            fetch_span<v_code_row>(corner.of(cache.v.codes), shared + v_codes, place);
            fetch_span<k_block_row>(corner.of(cache.k.block_scales), shared + k_blocks, place);
            fetch_span<v_block_row>(corner.of(cache.v.block_scales), shared + v_blocks, place);
            fetch_span<k_scale_row>(corner.of(cache.k.row_scales), shared + k_scales, place);
            fetch_span<v_scale_row>(corner.of(cache.v.row_scales), shared + v_scales, place);
            return;
        }
        const Rows rows = {head, keys.begin - min_of(keys.begin, token), keys.end - token, place};
        fetch_rows<k_code_row, Config::k_code_chunk>(cache.k.codes, shared + k_codes, rows);
        fetch_rows<v_code_row, Config::v_code_chunk>(cache.v.codes, shared + v_codes, rows);
        fetch_rows<k_block_row, Config::k_block_chunk>(cache.k.block_scales, shared + k_blocks, rows);
        fetch_rows<v_block_row, Config::v_block_chunk>(cache.v.block_scales, shared + v_blocks, rows);
        fetch_rows<k_scale_row, 4>(cache.k.row_scales, shared + k_scales, rows);
        fetch_rows<v_scale_row, 4>(cache.v.row_scales, shared + v_scales, rows);
    }

private:
    // Where an array holds slot 0 of one (page, head). In one allocation the arrays lie at fixed
    // distances from each other, and the products with the strides are made once.
    struct Corner {
        uint64_t first_base;
        uint64_t first;
        uint32_t head;
        uint32_t page;

        __device__ __forceinline__ Corner(const ftj_cache_params& cache, uint32_t of_head,
                                          uint32_t of_page)
            : first_base(cache.k.codes.base), head(of_head), page(of_page) {
            first = strided(cache.k.codes);
        }
        __device__ __forceinline__ uint64_t strided(const ftj_array_params& array) const {
            return array.base + page * array.page_stride + head * array.head_stride;
        }
        __device__ __forceinline__ uint64_t of(const ftj_array_params& array) const {
            return Config::one_allocation ? first + (array.base - first_base) : strided(array);
        }
    };

    // What the row-by-row copy needs to know of a tile: visible are rows first <= row < last.
    struct Rows {
        uint32_t head;
        uint32_t first;
        uint32_t last;
        Place place;
    };

    template <int row_bytes>
    static __device__ __forceinline__ void fetch_span(uint64_t corner, uint32_t shared, Place place) {
        constexpr int span = tokens * row_bytes;
        static_assert(span % 16 == 0, "16 tokens or more of any array are whole vectors");
        if constexpr (row_bytes > 0) {
            const uint32_t lane_bytes = ptx::thread_index() % warp_size * 16;
            const unsigned char* global = pointer<const unsigned char>(
                corner + (place.offset * uint32_t(row_bytes) + lane_bytes));
            #pragma unroll
            for (int at = 0; at < span; at += warp_size * 16) {
                if (at + int(warp_size) * 16 <= span || lane_bytes < uint32_t(span - at))
                    Copy::copy<16>(shared + at + lane_bytes, global + at);
            }
        }
    }

    // Rolled up: it serves the ends of requests, and caches whose rows lie apart.
    template <int row_bytes, int chunk>
    static __device__ __forceinline__ void fetch_rows(const ftj_array_params& array, uint32_t shared,
                                                      const Rows& rows) {
        if constexpr (row_bytes > 0) {
            constexpr uint32_t chunks = row_bytes / chunk;
            constexpr uint32_t total = tokens * chunks;
            static_assert(row_bytes % chunk == 0, "a row is whole chunks");
            constexpr int unroll = spans ? 1 : 4;
            const uint32_t lane = ptx::thread_index() % warp_size;
            const uint64_t head = array.base + rows.head * array.head_stride;
            #pragma unroll unroll
            for (uint32_t at = 0; at < total; at += warp_size) {
                const uint32_t piece = min_of(at + lane, total - 1);
                const uint32_t row = piece / chunks;
                uint32_t page = rows.place.page;
                uint32_t offset = rows.place.offset + row;
                if constexpr (!one_page) {
                    page = ptx::shfl(rows.place.page, row);
                    offset = ptx::shfl(rows.place.offset, row);
                }
                const uint32_t to = shared + piece * chunk;
                if (row < rows.first || row >= rows.last)
                    clear<chunk>(to);
                else
                    move<chunk>(to, pointer<const unsigned char>(
                                        head + page * array.page_stride +
                                        offset * array.slot_stride + piece % chunks * chunk));
            }
        }
    }

    // cp.async moves no less than 4 bytes: block scales of an odd number of blocks go by hand.
    template <int chunk>
    static __device__ __forceinline__ void move(uint32_t shared, const unsigned char* global) {
        if constexpr (chunk >= 4)
            Copy::copy<chunk>(shared, global);
        else if constexpr (chunk == 2)
            ptx::st_shared_u16(shared, *reinterpret_cast<const uint16_t*>(global));
        else
            ptx::st_shared_u8(shared, *global);
    }

    template <int chunk>
    static __device__ __forceinline__ void clear(uint32_t shared) {
        if constexpr (chunk == 16)
            ptx::st_shared_v4(shared, {});
        else if constexpr (chunk == 8)
            ptx::st_shared_v2(shared, {});
        else if constexpr (chunk == 4)
            ptx::st_shared_u32(shared, 0);
        else if constexpr (chunk == 2)
            ptx::st_shared_u16(shared, 0);
        else
            ptx::st_shared_u8(shared, 0);
    }
};

}  // namespace ftj
