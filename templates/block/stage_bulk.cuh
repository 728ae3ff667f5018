// SPDX-License-Identifier: MIT
// A ring of tiles for one or several warps, filled by bulk copies (sm_90): a few instructions of
// one lane a tile. Warps that share a ring share each tile, a run of its tokens to each.
//
// In the packed order a (page, head) is one record, and a tile of whole pages comes by one copy a
// page and lies in the stage as it does in the cache. Otherwise (HND, or pages larger than a tile)
// a tile is one span, and one copy, of each array. Copies are of whole tiles: rows that are not
// visible may hold anything, so clear_invisible() zeroes what would reach the output.
#pragma once
#include "block/bulk_ring.cuh"
#include "block/segments.cuh"
#include "block/stage_layout.cuh"

namespace ftj {

constexpr int shift_bytes = 128;  // of a stage: room to shift rows of V

template <class Config>
struct Stage {
    using Row = RowBytes<Config>;
    using Pitch = Row;
    static constexpr int tokens = Config::tile_tokens;
    static constexpr int page_size = Config::page_size;
    static constexpr int num_stages = Config::num_stages;
    static constexpr int warps = Config::warps_per_tile;
    static constexpr int warp_tokens = tokens / warps;
    static constexpr bool records = Config::record_bytes > 0 && tokens % page_size == 0;
    static constexpr int num_pages = records ? tokens / page_size : 1;
    static_assert(Config::slots_contiguous && !Config::slot_table, "a tile is spans");
    static_assert(records || page_size % tokens == 0, "a page holds whole tiles, or the reverse");
    static_assert(page_size % 16 == 0, "16 rows that are read together lie in one page");
    static_assert(tokens % warps == 0 && warp_tokens % 16 == 0, "a warp takes rows by 16");
    static_assert(num_pages == 1 || page_size % warp_tokens == 0 || warp_tokens % page_size == 0,
                  "a warp's rows are whole pages or lie in one");

    // Every 16 rows of V lie so many bytes further from those before, that who reads rows 16 apart
    // finds them in other banks: whole records do where a page is less than a tile, and else V's
    // rows, and with the last of them what follows.
    static constexpr int value_shift = Config::value_shift;
    static constexpr int row_shift = num_pages == 1 ? value_shift : 0;
    static constexpr int record_pitch =
        Config::record_bytes + (num_pages > 1 ? page_size / 16 * value_shift : 0);
    static constexpr int last_shift = (tokens / 16 - 1) * row_shift;
    static_assert(value_shift % 16 == 0 && tokens / 16 * value_shift <= shift_bytes, "its room");

    using Layout = ArrayLayout<Config, tokens>;
    static constexpr int copied_bytes = records ? num_pages * Config::record_bytes : Layout::bytes;
    static constexpr int bytes = copied_bytes + (value_shift > 0 ? shift_bytes : 0);
    static constexpr int ring_warps = warps * Config::group_parts;
    static constexpr int lag = warps == 2 && num_stages > 2;  // four would rather have the stage
    static constexpr bool is_fed = Config::num_threads > int(warp_size) * Config::num_warps;
    using Stages = BulkRing<num_stages, bytes, ring_warps, 1, lag, !keeps_little<Config>, is_fed>;
    static constexpr int barrier_bytes = Stages::barrier_bytes;
    static constexpr bool exchanges_places = false;
    // Whether a block looks its first tiles up early (first_tiles.cuh), where there is room for
    // what is known then.
    static constexpr bool is_early = ring_warps > 1 && !Config::has_runs && Config::num_warps >= 4;

    // For how many of a ring's first tiles the L2 is asked while the kernel before still runs.
    static constexpr int near_tiles = !is_early ? 0 : bytes < 16 * 1024 ? 1 : 2;

    // Where 16 rows of an array start in a stage, the first of them row `at` of the tile.
    static constexpr int k_codes(int at) {
        return place(at, Config::k_codes_at, Layout::k_codes, Row::k_codes);
    }
    static constexpr int v_codes(int at) {
        return place(at, Config::v_codes_at, Layout::v_codes, Row::v_codes) + at / 16 * row_shift;
    }
    static constexpr int k_blocks(int at) {
        return behind_values(place(at, Config::k_blocks_at, Layout::k_blocks, Row::k_blocks));
    }
    static constexpr int v_blocks(int at) {
        return behind_values(place(at, Config::v_blocks_at, Layout::v_blocks, Row::v_blocks));
    }
    static constexpr int k_scales(int at) {
        return behind_values(place(at, Config::k_scales_at, Layout::k_scales, Row::k_scales));
    }
    static constexpr int v_scales(int at) {
        return behind_values(place(at, Config::v_scales_at, Layout::v_scales, Row::v_scales));
    }

    // What is to be added for the rows of the warp's own run.
    template <int row_bytes>
    static __device__ __forceinline__ uint32_t run_of(uint32_t part) {
        return warps == 1 ? 0 : rows_from<row_bytes>(part * warp_tokens);
    }
    // Of 16 rows from row `row` of the tile on.
    template <int row_bytes>
    static __device__ __forceinline__ uint32_t rows_from(uint32_t row) {
        if constexpr (!records || num_pages == 1)
            return row * row_bytes;
        return row / page_size * record_pitch + row % page_size * row_bytes;
    }

    // The page of record `lane` of a tile, or of the tile in every lane; looked up one tile ahead.
    struct Place {
        uint32_t page;
        uint32_t offset;  // of the tile in a larger page, tokens
    };

    template <class Read>
    static __device__ __forceinline__ Place find(const ftj_requests_params& requests,
                                                 uint32_t request, Visible keys, uint32_t token,
                                                 const Read& read) {
        const auto* row = pointer<const int32_t>(requests.table) + request * requests.table_stride;
        if constexpr (num_pages == 1)
            return {read(row, token / page_size), records ? 0 : token % page_size};
        const uint32_t mine = token + ptx::thread_index() % warp_size % num_pages * page_size;
        if (mine >= keys.end || mine + page_size <= keys.begin)
            return {0, 0};
        return {read(row, mine / page_size), 0};
    }

    // The first of its warps fills it.
    struct Ring : Stages {
        __device__ __forceinline__ void fill(const ftj_cache_params& cache, uint32_t head,
                                             Visible keys, uint32_t token, Place place) {
            const ToStage to(this->base + this->filled * bytes, this->filled_of(this->filled));
            if constexpr (num_pages > 1) {
                const Pages shown(keys, token);
                if (ptx::thread_index() % warp_size == 0)
                    to.expect((shown.end - shown.first) * Config::record_bytes);
                ptx::sync_warp();
                copy_records(cache, to, head, shown, place);
            } else if (ptx::elect_lane()) {
                to.expect(copied_bytes);
                copy_tile(cache, to, head, place);
            }
            this->skip();
        }
        // Only as far as the L2.
        __device__ __forceinline__ void bring_near(const ftj_cache_params& cache, uint32_t head,
                                                   Visible keys, uint32_t token,
                                                   Place place) const {
            if constexpr (num_pages > 1)
                copy_records(cache, ToL2{}, head, Pages(keys, token), place);
            else if (ptx::elect_lane())
                copy_tile(cache, ToL2{}, head, place);
        }

    private:
        // Of a tile, those that show a key.
        struct Pages {
            uint32_t first;
            uint32_t end;

            __device__ __forceinline__ Pages(Visible keys, uint32_t token) {
                first = keys.begin > token ? (keys.begin - token) / page_size : 0;
                end = min_of(uint32_t(num_pages), (keys.end - token + page_size - 1) / page_size);
            }
        };

        // One copy for each; lane i has page i.
        template <class To>
        __device__ __forceinline__ void copy_records(const ftj_cache_params& cache, const To& to,
                                                     uint32_t head, Pages shown,
                                                     Place place) const {
            const uint32_t lane = ptx::thread_index() % warp_size;
            if (lane >= shown.first && lane < shown.end) {
                const PageCorner<Config> corner(cache, head, place.page);
                to.copy(lane * record_pitch, corner.of(cache.k.codes), Config::record_bytes);
            }
        }

        // By one lane.
        template <class To>
        __device__ __forceinline__ void copy_tile(const ftj_cache_params& cache, const To& to,
                                                  uint32_t head, Place place) const {
            if constexpr (!records && Config::strides_in_rows) {
                const auto page_rows =
                    static_cast<uint32_t>(cache.k.codes.page_stride) / Row::k_codes;
                const auto head_rows =
                    static_cast<uint32_t>(cache.k.codes.head_stride) / Row::k_codes;
                const uint64_t row =
                    uint64_t(place.page) * page_rows + (head * head_rows + place.offset);
                copy_arrays(cache, to, row,
                            [](const ftj_array_params& array) { return array.base; });
                return;
            }
            const PageCorner<Config> corner(cache, head, place.page);
            if constexpr (records)
                copy_record(to, corner.of(cache.k.codes));
            else
                copy_arrays(cache, to, place.offset,
                            [&](const ftj_array_params& array) { return corner.of(array); });
        }

        template <class To, class Base>
        __device__ __forceinline__ void copy_arrays(const ftj_cache_params& cache, const To& to,
                                                    uint64_t row, const Base& base) const {
            copy_span<Row::k_codes>(to, k_codes(0), base(cache.k.codes), row);
            if constexpr (row_shift > 0) {
                for (int i = 0; i < tokens; i += 16)
                    to.copy(v_codes(i), base(cache.v.codes) + (row + i) * Row::v_codes,
                            16 * Row::v_codes);
            } else {
                copy_span<Row::v_codes>(to, v_codes(0), base(cache.v.codes), row);
            }
            copy_span<Row::k_blocks>(to, k_blocks(0), base(cache.k.block_scales), row);
            copy_span<Row::v_blocks>(to, v_blocks(0), base(cache.v.block_scales), row);
            copy_span<Row::k_scales>(to, k_scales(0), base(cache.k.row_scales), row);
            copy_span<Row::v_scales>(to, v_scales(0), base(cache.v.row_scales), row);
        }

        // The record of a whole tile, in pieces that end with the 16 rows of V that lie alike.
        template <class To>
        __device__ __forceinline__ void copy_record(const To& to, uint64_t record) const {
            constexpr int pieces = row_shift > 0 ? tokens / 16 : 1;
#pragma unroll
            for (int i = 0; i < pieces; i++) {
                const int rows = Config::v_codes_at + i * 16 * Row::v_codes;
                const int at = i == 0 ? 0 : rows;
                const int end = i == pieces - 1 ? copied_bytes : rows + 16 * Row::v_codes;
                to.copy(at + i * row_shift, record + at, end - at);
            }
        }

        template <int row_bytes, class To>
        __device__ __forceinline__ void copy_span(const To& to, uint32_t at, uint64_t base,
                                                  uint64_t row) const {
            if constexpr (row_bytes > 0)
                to.copy(at, base + row * row_bytes, tokens * row_bytes);
        }
    };

    // Zeros for V where no key is visible: whatever lies there, times a weight of 0, must be 0.
    // Each warp clears what it is going to read.
    static __device__ __forceinline__ void clear_invisible(uint32_t stage, Visible keys,
                                                           uint32_t token, uint32_t part) {
        const uint32_t lane = ptx::thread_index() % warp_size;
        for (uint32_t in_run = lane; in_run < warp_tokens; in_run += warp_size) {
            const uint32_t row = part * warp_tokens + in_run;
            if (token + row >= keys.begin && token + row < keys.end)
                continue;
            const uint32_t at = row / 16 * 16, in_16 = row % 16;
            clear_row<Row::v_codes>(stage + at_run_time<Row::v_codes>(at, v_codes(0)) +
                                    at / 16 * row_shift + in_16 * Row::v_codes);
            clear_row<Row::v_blocks>(stage + at_run_time<Row::v_blocks>(at, v_blocks(0)) +
                                     in_16 * Row::v_blocks);
            clear_row<Row::v_scales>(stage + at_run_time<Row::v_scales>(at, v_scales(0)) +
                                     in_16 * Row::v_scales);
        }
        ptx::fence_proxy_async_shared();
        ptx::sync_warp();
    }

private:
    static constexpr int place(int at, int in_record, int in_arrays, int row_bytes) {
        return records ? at / page_size * record_pitch + in_record + at % page_size * row_bytes
                       : in_arrays + at * row_bytes;
    }
    static constexpr int behind_values(int at) { return at > v_codes(0) ? at + last_shift : at; }
    // place() of a row known at run time, from that of row 0.
    template <int row_bytes>
    static __device__ __forceinline__ uint32_t at_run_time(uint32_t at, uint32_t of_row_0) {
        return records ? of_row_0 + at / page_size * record_pitch + at % page_size * row_bytes
                       : of_row_0 + at * row_bytes;
    }

    template <int row_bytes>
    static __device__ __forceinline__ void clear_row(uint32_t shared) {
        constexpr int step = row_bytes % 8 == 0 ? 8 : row_bytes % 4 == 0 ? 4 : 1;
        for (int at = 0; at < row_bytes; at += step) {
            if constexpr (step == 8)
                ptx::st_shared_v2(shared + at, {});
            else if constexpr (step == 4)
                ptx::st_shared_u32(shared + at, 0);
            else
                ptx::st_shared_u8(shared + at, 0);
        }
    }
};

}  // namespace ftj
