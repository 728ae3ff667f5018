// SPDX-License-Identifier: MIT
// Quantise new rows of K and V and scatter them into the paged cache.
//
//   cache[slots[t], h] = encode(k[t, h]), encode(v[t, h])      t < num_tokens, h < num_kv_heads
//
// A row is a (token, head). A group of lanes_per_row lanes owns a row of K and the same row of V,
// 16 values a lane. A warp owns tokens_per_warp tokens in a row, of one head: where their slots are
// in a row too, as in a prefill, its writes of scales are whole sectors of memory and not pieces of
// many. Everything a warp needs is asked for at once, slots and values, so that its rows cost one
// trip to memory.
// A token with a negative slot is skipped; one with a slot past the last is skipped and counted.
// Numbers: head of the encoders; IEEE fp32 without contraction.
//
// Grid: ceil(ceil(num_tokens / tokens_per_warp) * num_kv_heads / warps_per_block), or fewer.
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
    static constexpr int tokens_per_warp = Config::tokens_per_warp;
    static constexpr int lanes_per_row = warp_size / tokens_per_warp;
    static constexpr int warps_per_block = Config::num_threads / warp_size;
    static constexpr uint64_t vector_bytes = sizeof(ptx::Words4);

    static_assert(Config::head_dim % lane_values == 0, "a lane holds one whole block");
    static_assert(warp_size % tokens_per_warp == 0, "lanes of a row are a power of two");
    static_assert(blocks_per_row <= lanes_per_row, "tune_store.c must give every block a lane");
    static_assert(Config::num_threads % warp_size == 0, "whole warps only");

    // A source tensor: [token][head][head_dim].
    struct Rows {
        uint64_t base;
        int64_t token_stride;  // elements
        int64_t head_stride;
    };

    // What a lane has of a row: a block of K, one of V, and where they go.
    struct Blocks {
        Values k;
        Values v;
        int64_t slot;  // negative: nowhere
    };

    static __device__ void run(const ftj_store_params& p) {
        Launch::wait_for_previous();
        Launch::let_next_start();
        const uint64_t num_groups = (p.num_tokens + tokens_per_warp - 1) / tokens_per_warp;
        const uint64_t num_units = num_groups * Config::num_kv_heads;
        const uint64_t first = ptx::block_index() * uint64_t(warps_per_block) +
                               ptx::shfl(ptx::thread_index() / warp_size, 0);
        const uint64_t step = ptx::num_blocks() * uint64_t(warps_per_block);

        for (uint64_t unit = first; unit < num_units; unit += step)
            store_tokens(p, unit / Config::num_kv_heads * tokens_per_warp,
                         static_cast<uint32_t>(unit % Config::num_kv_heads));
    }

    // The rows of one head of tokens_per_warp tokens; the whole warp comes here together.
    static __device__ __forceinline__ void store_tokens(const ftj_store_params& p,
                                                        uint64_t first_token, uint32_t head) {
        const uint32_t lane = ptx::thread_index() % warp_size;
        const uint32_t block = lane % lanes_per_row;
        const uint64_t token = first_token + lane / lanes_per_row;
        store_blocks(p, load_blocks(p, token, head, block), head, block);
    }

    static __device__ __forceinline__ Blocks load_blocks(const ftj_store_params& p, uint64_t token,
                                                         uint32_t head, uint32_t block) {
        if (token >= p.num_tokens || block >= blocks_per_row)
            return {Values::zeros(), Values::zeros(), -1};
        return {load({p.k, p.k_token_stride, p.k_head_stride}, token, head, block),
                load({p.v, p.v_token_stride, p.v_head_stride}, token, head, block),
                slot_of(p, token)};
    }

    static __device__ __forceinline__ void store_blocks(const ftj_store_params& p,
                                                        const Blocks& blocks, uint32_t head,
                                                        uint32_t block) {
        const bool is_past_end =
            blocks.slot >= 0 && static_cast<uint64_t>(blocks.slot) >= p.num_slots;
        if (is_past_end && head == 0 && block == 0 && p.num_rejected)
            ptx::atomic_add(pointer<uint32_t>(p.num_rejected), 1);

        const bool is_stored = blocks.slot >= 0 && !is_past_end;
        const Place place = place_of_slot<Config::page_size>(is_stored ? blocks.slot : 0);
        const Corner corner = {place, head, page_and_head(p.cache.k.codes, place, head)};
        Config::KEncoder::template encode<lanes_per_row>(blocks.k, row_at(p.cache.k, corner), block,
                                                         is_stored);
        Config::VEncoder::template encode<lanes_per_row>(blocks.v, row_at(p.cache.v, corner), block,
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
                                                  uint32_t block) {
        const int64_t element = static_cast<int64_t>(token) * rows.token_stride +
                                static_cast<int64_t>(head) * rows.head_stride;
        const uint64_t address = rows.base + element * Source::bytes + block * sizeof(Values);
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
