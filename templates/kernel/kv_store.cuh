// SPDX-License-Identifier: MIT
// Quantise new rows of K and V and scatter them into the paged cache.
//
//   cache[slots[t], h] = encode(k[t, h]), encode(v[t, h])      t < num_tokens, h < num_kv_heads
//
// A row is a (token, head). A group of lanes_per_row lanes owns a row of K and the same row of V,
// 16 values a lane; a warp owns rows_per_warp rows at a time. Everything a warp needs is asked for
// at once, slots and values, so that a row costs one trip to memory.
// A token with a negative slot is skipped; one with a slot past the last is skipped and counted.
// Numbers: head of the encoders; IEEE fp32 without contraction.
//
// Grid: ceil(num_tokens * num_kv_heads / (warps_per_block * rows_per_warp)), or fewer.
#pragma once
#include "block/encode_16bit.cuh"
#include "block/encode_fp8.cuh"
#include "block/encode_nvfp4.cuh"

namespace ftj {

template <class Config>
struct KvStore {
    using Source = typename Config::Source;
    using Values = SourceValues<Source>;

    static constexpr int blocks_per_row = Config::head_dim / lane_values;
    static constexpr int lanes_per_row = warp_size / Config::rows_per_warp;
    static constexpr int warps_per_block = Config::num_threads / warp_size;
    static constexpr uint64_t vector_bytes = sizeof(ptx::Words4);

    static_assert(Config::head_dim % lane_values == 0, "a lane holds one whole block");
    static_assert(warp_size % Config::rows_per_warp == 0, "lanes of a row are a power of two");
    static_assert(blocks_per_row <= lanes_per_row, "tune_store.c must give every block a lane");
    static_assert(Config::num_threads % warp_size == 0, "whole warps only");

    // A source tensor: [token][head][head_dim].
    struct Rows {
        uint64_t base;
        int64_t token_stride;  // elements
        int64_t head_stride;
    };

    static __device__ void run(const ftj_store_params& p) {
        const uint64_t num_rows = p.num_tokens * Config::num_kv_heads;
        const uint32_t warp = ptx::thread_index() / warp_size;
        const uint32_t lane = ptx::thread_index() % warp_size;
        const uint64_t first = ptx::block_index() * uint64_t(warps_per_block) + warp;
        const uint64_t num_warps = ptx::num_blocks() * uint64_t(warps_per_block);
        const uint64_t step = num_warps * Config::rows_per_warp;

        for (uint64_t base = first * Config::rows_per_warp; base < num_rows; base += step)
            store_row(p, base + lane / lanes_per_row, num_rows, lane % lanes_per_row);
    }

    // One row of this lane's group; the whole warp comes here together.
    static __device__ __forceinline__ void store_row(const ftj_store_params& p, uint64_t row,
                                                     uint64_t num_rows, uint32_t lane) {
        const bool owns_block = row < num_rows && lane < blocks_per_row;
        const uint64_t token = row / Config::num_kv_heads;
        const uint32_t head = static_cast<uint32_t>(row % Config::num_kv_heads);

        Values k = Values::zeros();
        Values v = Values::zeros();
        int64_t slot = -1;
        if (owns_block) {
            slot = slot_of(p, token);
            k = load({p.k, p.k_token_stride, p.k_head_stride}, token, head, lane);
            v = load({p.v, p.v_token_stride, p.v_head_stride}, token, head, lane);
        }

        const bool is_past_end = slot >= 0 && static_cast<uint64_t>(slot) >= p.num_slots;
        if (is_past_end && head == 0 && lane == 0 && p.num_rejected)
            ptx::atomic_add(pointer<uint32_t>(p.num_rejected), 1);

        const bool is_stored = slot >= 0 && !is_past_end;
        const Place place = place_of_slot<Config::page_size>(is_stored ? slot : 0);
        const Corner corner = {place, head, page_and_head(p.cache.k.codes, place, head)};
        Config::KEncoder::template encode<lanes_per_row>(k, row_at(p.cache.k, corner), lane,
                                                         is_stored);
        Config::VEncoder::template encode<lanes_per_row>(v, row_at(p.cache.v, corner), lane,
                                                         is_stored);
    }

    // Slot 0 of the page, head: bytes from an array's first. In one allocation all arrays step
    // alike from page to page and from head to head, and those products are made once.
    struct Corner {
        Place place;
        uint32_t head;
        uint64_t of_k_codes;
    };
    static __device__ __forceinline__ uint64_t page_and_head(const ftj_array_params& array,
                                                             Place place, uint32_t head) {
        return place.page * array.page_stride + head * array.head_stride;
    }
    static __device__ __forceinline__ uint64_t address_at(const ftj_array_params& array,
                                                          const Corner& corner) {
        const uint64_t steps = Config::one_allocation
                                   ? corner.of_k_codes
                                   : page_and_head(array, corner.place, corner.head);
        return array.base + steps + corner.place.offset * array.slot_stride;
    }
    static __device__ __forceinline__ CacheRow row_at(const ftj_side_params& side,
                                                      const Corner& corner) {
        return {address_at(side.codes, corner), address_at(side.row_scales, corner),
                address_at(side.block_scales, corner)};
    }

    static __device__ __forceinline__ int64_t slot_of(const ftj_store_params& p, uint64_t token) {
        return p.slots_are_int64 ? pointer<const int64_t>(p.slots)[token]
                                 : pointer<const int32_t>(p.slots)[token];
    }

    static __device__ __forceinline__ Values load(const Rows& rows, uint64_t token, uint32_t head,
                                                  uint32_t lane) {
        const int64_t element = static_cast<int64_t>(token) * rows.token_stride +
                                static_cast<int64_t>(head) * rows.head_stride;
        const uint64_t address = rows.base + element * Source::bytes + lane * sizeof(Values);
        return Values::load(address, is_aligned(rows));
    }

    // The same for every row of a launch, so that warps do not diverge over it.
    static __device__ __forceinline__ bool is_aligned(const Rows& rows) {
        const uint64_t all =
            rows.base | (rows.token_stride | rows.head_stride) * uint64_t(Source::bytes);
        return all % vector_bytes == 0;
    }
};

}  // namespace ftj
