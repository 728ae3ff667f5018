// SPDX-License-Identifier: MIT
// A ring of tiles for warps that have a kv head each, filled by bulk copies (sm_90), where rows of
// these heads lie side by side in memory: in NHD, and in the packed order where a page is one
// token, whose records follow each other then.
//
// A copy brings a run of all the ring's heads: of each array the rows of a whole tile or, where
// pages are single tokens, of a token; in the packed order a token's records. So memory is asked
// for runs of hundreds of bytes, where lanes that copy pieces of rows ask for much of it twice.
// Tokens are shared out among the ring's warps, and a copy does not depend on which are visible:
// for one that is not the nearest that is comes once more.
#pragma once
#include "block/bulk_ring.cuh"
#include "block/segments.cuh"
#include "block/stage_layout.cuh"

namespace ftj {

template <class Config>
struct Stage {
    using Row = RowBytes<Config>;
    static constexpr int tokens = Config::tile_tokens;
    static constexpr int warp_tokens = tokens;
    static constexpr int heads = Config::unit_heads;
    static constexpr int ring_warps = heads;
    static constexpr bool records = Config::record_bytes > 0;
    static constexpr bool by_token = Config::page_size == 1;
    static constexpr int fillers = by_token ? ring_warps : 1;
    static constexpr int own_tokens = tokens / fillers;  // that a warp fetches
    static_assert(heads > 1 && tokens % fillers == 0, "warps fetch as many tokens each");
    static_assert(by_token || (!records && Config::page_size % tokens == 0), "a tile is spans");
    static_assert(Config::warps_per_tile == 1, "a warp has a kv head to itself");

    // From one token's row to the next's in each array; of none, 0.
    struct Pitch {
        static constexpr int of(int row_bytes) {
            return !row_bytes ? 0 : records ? Config::token_pitch : heads * row_bytes;
        }
        static constexpr int k_codes = of(Row::k_codes), v_codes = of(Row::v_codes);
        static constexpr int k_blocks = of(Row::k_blocks), v_blocks = of(Row::v_blocks);
        static constexpr int k_scales = of(Row::k_scales), v_scales = of(Row::v_scales);
    };
    static constexpr int bytes = tokens * (records ? Config::token_pitch : heads * Row::all);
    static_assert(bytes % 16 == 0, "stages follow each other on 16-byte boundaries");

    // Where 16 rows of an array start in a stage, the first of them row `at` of the tile.
    using Layout = ArrayLayout<Config, tokens * heads>;
    static constexpr int k_codes(int at) {
        return (records ? Config::k_codes_at : Layout::k_codes) + at * Pitch::k_codes;
    }
    static constexpr int v_codes(int at) {
        return (records ? Config::v_codes_at : Layout::v_codes) + at * Pitch::v_codes;
    }
    static constexpr int k_blocks(int at) {
        return (records ? Config::k_blocks_at : Layout::k_blocks) + at * Pitch::k_blocks;
    }
    static constexpr int v_blocks(int at) {
        return (records ? Config::v_blocks_at : Layout::v_blocks) + at * Pitch::v_blocks;
    }
    static constexpr int k_scales(int at) {
        return (records ? Config::k_scales_at : Layout::k_scales) + at * Pitch::k_scales;
    }
    static constexpr int v_scales(int at) {
        return (records ? Config::v_scales_at : Layout::v_scales) + at * Pitch::v_scales;
    }

    // What is to be added for the warp's kv head.
    template <int pitch>
    static __device__ __forceinline__ uint32_t run_of(uint32_t) {
        return head() * (records && pitch ? Config::record_bytes : pitch / heads);
    }

    // Lane i has the page of token i of those that its warp fetches, or all have the tile's. Looked
    // up one tile ahead.
    struct Place {
        uint32_t page;
        uint32_t offset;  // of the tile in a larger page, tokens
    };

    template <class Read>
    static __device__ __forceinline__ Place find(const ftj_requests_params& requests,
                                                 uint32_t request, Visible keys, uint32_t token,
                                                 const Read& read) {
        const auto* table = pointer<const int32_t>(requests.table);
        uint32_t mine = token;
        if constexpr (by_token) {
            mine += Ring::place() * own_tokens + ptx::thread_index() % warp_size % own_tokens;
            mine = min_of(max_of(mine, keys.begin), keys.end - 1);
        }
        if constexpr (Config::slot_table) {
            const auto first = pointer<const int32_t>(requests.indptr)[request];
            return {read(table + first, mine), 0};
        } else {
            const auto* row = table + request * requests.table_stride;
            return {read(row, mine / Config::page_size), mine % Config::page_size};
        }
    }

    static constexpr int lag = Config::num_stages > 2;
    // For whole records only, though lanes always do by token: copies of nvfp4's six arrays were 3
    // % slower.
    static constexpr bool exchanges_places = by_token && records;
    using Stages =
        BulkRing<Config::num_stages, bytes, ring_warps, fillers, lag, !keeps_little<Config>>;
    struct Ring : Stages {
        using Base = Stages;

        __device__ __forceinline__ void init(uint32_t stages, uint32_t barriers) {
            Base::init(stages, barriers);
            if constexpr (exchanges_places)  // the warp's, as AttnDecode::ring_index() is
                this->own_place = ptx::shfl(this->own_place, 0);
        }

        // `first` is the ring's first kv head.
        __device__ __forceinline__ void fill(const ftj_cache_params& cache, uint32_t first, Visible,
                                             uint32_t, Place at) {
            const ToStage to(this->base + this->filled * bytes, this->filled_of(this->filled));
            copy_own(cache, to, first, at);
            this->skip();
        }
        // Only as far as the L2.
        __device__ __forceinline__ void bring_near(const ftj_cache_params& cache, uint32_t first,
                                                   Visible, uint32_t, Place at) const {
            copy_own(cache, ToL2{}, first, at);
        }

    private:
        template <class To>
        __device__ __forceinline__ void copy_own(const ftj_cache_params& cache, const To& to,
                                                 uint32_t first, Place at) const {
            const uint32_t own =
                fillers > 1 ? (exchanges_places ? this->own_place : Base::place()) * own_tokens : 0;
            uint32_t pages[by_token ? own_tokens : 1] = {at.page};
            if constexpr (by_token) {
#pragma unroll
                for (int i = 0; i < own_tokens; i++)
                    pages[i] = ptx::shfl(at.page, i);
            }
            if (ptx::elect_lane()) {
                to.expect(own_tokens * heads * (records ? Config::record_bytes : Row::all));
                if constexpr (records)
                    copy_records(cache, to, own, first, pages);
                else
                    copy_rows(cache, to, own, first, pages, at.offset);
            }
        }

        // `own` is the warp's first row of the tile.
        template <class To, int count>
        static __device__ __forceinline__ void copy_records(const ftj_cache_params& cache,
                                                            const To& to, uint32_t own,
                                                            uint32_t first,
                                                            const uint32_t (&pages)[count]) {
            const uint64_t corner = cache.k.codes.base + first * cache.k.codes.head_stride;
            const auto stride = static_cast<uint32_t>(cache.k.codes.page_stride);
#pragma unroll
            for (int i = 0; i < count; i++)
                to.copy((own + i) * Config::token_pitch, corner + uint64_t(pages[i]) * stride,
                        heads * Config::record_bytes);
        }

        // Strides are as many rows in every array.
        template <class To, int count>
        static __device__ __forceinline__ void copy_rows(const ftj_cache_params& cache,
                                                         const To& to, uint32_t own, uint32_t first,
                                                         const uint32_t (&pages)[count],
                                                         uint32_t offset) {
            const auto page_rows = static_cast<uint32_t>(cache.k.codes.page_stride) / Row::k_codes;
            const auto slot_rows = static_cast<uint32_t>(cache.k.codes.slot_stride) / Row::k_codes;
#pragma unroll
            for (int i = 0; i < count; i++) {
                const uint64_t row =
                    uint64_t(pages[i]) * page_rows + (first + uint64_t(offset) * slot_rows);
                const uint32_t at = own + i;
                copy_array<Row::k_codes>(cache.k.codes, to, k_codes(0), row, at);
                copy_array<Row::v_codes>(cache.v.codes, to, v_codes(0), row, at);
                copy_array<Row::k_blocks>(cache.k.block_scales, to, k_blocks(0), row, at);
                copy_array<Row::v_blocks>(cache.v.block_scales, to, v_blocks(0), row, at);
                copy_array<Row::k_scales>(cache.k.row_scales, to, k_scales(0), row, at);
                copy_array<Row::v_scales>(cache.v.row_scales, to, v_scales(0), row, at);
            }
        }

        template <int row_bytes, class To>
        static __device__ __forceinline__ void copy_array(const ftj_array_params& array,
                                                          const To& to, uint32_t shared,
                                                          uint64_t row, uint32_t at) {
            if constexpr (row_bytes > 0)
                to.copy(shared + at * (heads * row_bytes), array.base + row * row_bytes,
                        heads * row_bytes * (by_token ? 1 : tokens));
        }
    };
    static constexpr int barrier_bytes = Ring::Base::barrier_bytes;
    static constexpr bool is_early =  // block/first_tiles.cuh
        !Config::slot_table && !Config::has_runs && ring_warps > 1 && Config::num_warps >= 4;
    // As in stage_bulk.cuh. Of short rows an SM has more to do than memory: heads of 64 dims in fp8
    // took 51 us for 50 with it.
    static constexpr int near_tiles = !is_early || Row::all < 144 ? 0 : tokens < 32 ? 2 : 1;

    // Zeros for V where no key is visible, of the warp's head: whatever lies there, times a weight
    // of 0, must be 0. Tokens that came one by one are all visible ones.
    static __device__ __forceinline__ void clear_invisible(uint32_t stage, Visible keys,
                                                           uint32_t token, uint32_t) {
        if constexpr (by_token)
            return;
        const uint32_t row = ptx::thread_index() % warp_size;
        if (row < tokens && (token + row < keys.begin || token + row >= keys.end)) {
            clear_row<Row::v_codes>(stage + v_codes(0), row);
            clear_row<Row::v_blocks>(stage + v_blocks(0), row);
            clear_row<Row::v_scales>(stage + v_scales(0), row);
        }
        ptx::fence_proxy_async_shared();
        ptx::sync_warp();
    }

private:
    static_assert(tokens <= int(warp_size), "a lane clears a row");

    static __device__ __forceinline__ uint32_t head() {
        return ptx::thread_index() / warp_size % ring_warps;
    }

    template <int row_bytes>
    static __device__ __forceinline__ void clear_row(uint32_t array, uint32_t row) {
        constexpr int step = row_bytes % 4 == 0 ? 4 : 1;
        const uint32_t shared = array + (row * heads + head()) * row_bytes;
#pragma unroll 1
        for (int at = 0; at < row_bytes; at += step) {
            if constexpr (step == 4)
                ptx::st_shared_u32(shared + at, 0);
            else
                ptx::st_shared_u8(shared + at, 0);
        }
    }
};

}  // namespace ftj
