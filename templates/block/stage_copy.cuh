// SPDX-License-Identifier: MIT
// A warp's ring of tiles, filled by its own lanes (block/copy_async.cuh or copy_sync.cuh).
//
// Where the pages hold the rows of a head without gaps, a tile of an array is one span, copied 16
// bytes a lane; everywhere else, and at the ends of what is visible, it is copied row by row. Rows
// that are not visible are never read: they are zeros in the stage.
#pragma once
#include "block/copy_piece.cuh"
#include "block/segments.cuh"
#include "block/stage_layout.cuh"

namespace ftj {

template <class Config>
struct Stage {
    using Row = RowBytes<Config>;
    using Pitch = Row;
    static constexpr int tokens = Config::tile_tokens;
    static constexpr int page_size = Config::page_size;
    static constexpr int num_stages = Config::num_stages;
    static constexpr bool one_page = !Config::slot_table && page_size % tokens == 0;
    static constexpr bool spans = one_page && Config::slots_contiguous;
    static_assert(tokens == 16 || tokens == 32, "a lane looks after one token of a tile");

    using Layout = ArrayLayout<Config, tokens>;
    static constexpr int bytes = Layout::bytes;
    static constexpr int barrier_bytes = 0;
    static constexpr bool is_early = false;  // block/first_tiles.cuh
    static constexpr int ring_warps = 1;
    static constexpr int lag = 0;  // a warp waits for nobody
    static constexpr bool exchanges_places = true;
    static constexpr int warp_tokens = tokens;
    static_assert(Config::warps_per_tile == 1, "a warp fills its own ring");

    // Where 16 rows of an array start in a stage, the first of them row `at` of the tile.
    static constexpr int k_codes(int at) { return Layout::k_codes + at * Row::k_codes; }
    static constexpr int v_codes(int at) { return Layout::v_codes + at * Row::v_codes; }
    static constexpr int k_blocks(int at) { return Layout::k_blocks + at * Row::k_blocks; }
    static constexpr int v_blocks(int at) { return Layout::v_blocks + at * Row::v_blocks; }
    static constexpr int k_scales(int at) { return Layout::k_scales + at * Row::k_scales; }
    static constexpr int v_scales(int at) { return Layout::v_scales + at * Row::v_scales; }

    template <int row_bytes>
    static __device__ __forceinline__ uint32_t run_of(uint32_t) {
        return 0;
    }

    // Where this lane's token of a tile lies; looked up one tile ahead of its use. When a page
    // holds whole tiles, where the tile's first token lies, the same in every lane.
    struct Place {
        uint32_t page;
        uint32_t offset;
    };

    template <class Read>
    static __device__ __forceinline__ Place find(const ftj_requests_params& requests,
                                                 uint32_t request, Visible keys, uint32_t token,
                                                 const Read& read) {
        const auto* table = pointer<const int32_t>(requests.table);
        if constexpr (one_page) {
            const auto* row = table + request * requests.table_stride;
            return {read(row, token / page_size), token % page_size};
        } else {
            const uint32_t mine = token + ptx::thread_index() % warp_size % tokens;
            if (mine < keys.begin || mine >= keys.end)
                return {0, 0};
            if constexpr (Config::slot_table) {
                const auto first = pointer<const int32_t>(requests.indptr)[request];
                const uint32_t slot = read(table + first, mine);
                return {slot / page_size, slot % page_size};
            } else {
                const auto* row = table + request * requests.table_stride;
                return {read(row, mine / page_size), mine % page_size};
            }
        }
    }

    // The warp's stages, filled and read in turn. All lanes call everything.
    struct Ring {
        uint32_t base;    // shared address of stage 0
        uint32_t filled;  // stage to be filled next
        uint32_t read;    // stage to be read next

        __device__ __forceinline__ void init(uint32_t stages, uint32_t) {
            base = stages;
            filled = read = 0;
        }

        static __device__ __forceinline__ bool fills() { return true; }

        __device__ __forceinline__ void fill(const ftj_cache_params& cache, uint32_t head,
                                             Visible keys, uint32_t token, Place place) {
            fetch(cache, base + filled * bytes, head, keys, token, place);
            skip();
        }
        // Nothing is left to be fetched: an empty group, for wait() counts groups.
        __device__ __forceinline__ void skip() {
            Copy::commit();
            filled = filled == num_stages - 1 ? 0 : filled + 1;
        }

        // The address of the next tile, once it has arrived for all lanes. The stage read before it
        // is free then: every lane is past it.
        __device__ __forceinline__ uint32_t wait() {
            Copy::wait<(num_stages > 1 ? num_stages - 2 : 0)>();
            ptx::sync_warp();
            const uint32_t stage = base + read * bytes;
            read = read == num_stages - 1 ? 0 : read + 1;
            return stage;
        }

        // The stage read last. It is free until the next wait(), once all lanes have met.
        __device__ __forceinline__ uint32_t last_read() const {
            return base + (read == 0 ? num_stages - 1 : read - 1) * bytes;
        }
        static __device__ __forceinline__ void meet() { ptx::sync_warp(); }
        static __device__ __forceinline__ void written() {}
    };

    // Nothing to do: fill() left zeros there.
    static __device__ __forceinline__ void clear_invisible(uint32_t, Visible, uint32_t, uint32_t) {}

private:
    static __device__ __forceinline__ void fetch(const ftj_cache_params& cache, uint32_t shared,
                                                 uint32_t head, Visible keys, uint32_t token,
                                                 Place place) {
        const bool whole = token >= keys.begin && token + tokens <= keys.end;
        if (spans && whole) {
            const PageCorner<Config> corner(cache, head, place.page);
            fetch_span<Row::k_codes>(corner.of(cache.k.codes), shared + k_codes(0), place);
            fetch_span<Row::v_codes>(corner.of(cache.v.codes), shared + v_codes(0), place);
            fetch_span<Row::k_blocks>(corner.of(cache.k.block_scales), shared + k_blocks(0), place);
            fetch_span<Row::v_blocks>(corner.of(cache.v.block_scales), shared + v_blocks(0), place);
            fetch_span<Row::k_scales>(corner.of(cache.k.row_scales), shared + k_scales(0), place);
            fetch_span<Row::v_scales>(corner.of(cache.v.row_scales), shared + v_scales(0), place);
            return;
        }
        const Rows rows = {head, keys.begin - min_of(keys.begin, token), keys.end - token, place};
        fetch_rows<Row::k_codes, Config::k_code_chunk>(cache.k.codes, shared + k_codes(0), rows);
        fetch_rows<Row::v_codes, Config::v_code_chunk>(cache.v.codes, shared + v_codes(0), rows);
        fetch_rows<Row::k_blocks, Config::k_block_chunk>(cache.k.block_scales, shared + k_blocks(0),
                                                         rows);
        fetch_rows<Row::v_blocks, Config::v_block_chunk>(cache.v.block_scales, shared + v_blocks(0),
                                                         rows);
        fetch_rows<Row::k_scales, 4>(cache.k.row_scales, shared + k_scales(0), rows);
        fetch_rows<Row::v_scales, 4>(cache.v.row_scales, shared + v_scales(0), rows);
    }

    // What the row-by-row copy needs to know of a tile: visible are rows first <= row < last.
    struct Rows {
        uint32_t head;
        uint32_t first;
        uint32_t last;
        Place place;
    };

    template <int row_bytes>
    static __device__ __forceinline__ void fetch_span(uint64_t corner, uint32_t shared,
                                                      Place place) {
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

    // Rolled up where it serves the ends of requests alone. Elsewhere it is half of the main loop,
    // so what a piece's address has of its row is made as simple as it can be.
    template <int row_bytes, int chunk>
    static __device__ __forceinline__ void fetch_rows(const ftj_array_params& array,
                                                      uint32_t shared, const Rows& rows) {
        if constexpr (row_bytes > 0) {
            constexpr uint32_t chunks = row_bytes / chunk;
            constexpr uint32_t total = tokens * chunks;
            static_assert(row_bytes % chunk == 0, "a row is whole chunks");
            constexpr bool whole_rows = warp_size % chunks == 0;  // at a time
            constexpr bool own_row = chunks == 1 && tokens == warp_size;
            constexpr int unroll = spans ? 1 : 4;
            const uint32_t lane = ptx::thread_index() % warp_size;
            uint64_t base = array.base + rows.head * array.head_stride;
            if constexpr (one_page) {
                const uint32_t first = rows.place.offset + (whole_rows ? lane / chunks : 0);
                base += rows.place.page * array.page_stride + first * array.slot_stride;
            }
#pragma unroll unroll
            for (uint32_t at = 0; at < total; at += warp_size) {
                const uint32_t piece = whole_rows ? at + lane : min_of(at + lane, total - 1);
                const uint32_t row = whole_rows ? at / chunks + lane / chunks : piece / chunks;
                const uint32_t byte = (whole_rows ? lane : piece) % chunks * chunk;
                uint64_t from = base + byte;
                if constexpr (one_page) {
                    from += (whole_rows ? at / chunks : row) * array.slot_stride;
                } else {
                    const uint32_t page =
                        own_row ? rows.place.page : ptx::shfl(rows.place.page, row);
                    from += page * array.page_stride;
                    if constexpr (page_size > 1)
                        from += (own_row ? rows.place.offset : ptx::shfl(rows.place.offset, row)) *
                                array.slot_stride;
                }
                if (total % warp_size != 0 && at + lane >= total)
                    continue;
                fetch_piece<chunk>(shared + piece * chunk, pointer<const unsigned char>(from),
                                   row >= rows.first && row < rows.last);
            }
        }
    }
};

}  // namespace ftj
