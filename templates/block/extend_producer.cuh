// SPDX-License-Identifier: MIT
// The producer warpgroup of an extend: it walks the block's share of the work, and brings the
// queries and the tiles of each unit, as far ahead as the rings have stages. A step is a tile of K
// or of V, in turn.
//
// Its warps do not wait for one another: each takes an order, does its part of it and gives it
// back, as consumers do. One thread gives the orders, and has the next one ready before there is
// room for it: units of a tile or two leave no time to look for it then. Where tensor copies bring
// the tiles, a warp starts those, another one clears what nobody may see of what has come, which
// the first must not wait for, and two bring the queries. Else all warps do all of it.
#pragma once
#include "block/code_feed.cuh"
#include "block/group_queries.cuh"
#include "block/tensor_feed.cuh"
#include "block/tile_feed.cuh"
#include "block/tile_rings.cuh"

namespace ftj {

template <class Config>
struct ExtendProducer {
    using Rings = TileRings<Config>;
    using Order = typename Rings::Order;
    using Unit = typename Rings::Unit;
    using Work = typename Rings::Work;
    using TileKeys = typename Rings::TileKeys;
    using Codes = CodeFeed<Config>;
    using Values = TileFeed<Config>;
    using Tensors = TensorFeed<Config>;
    using Peer = typename Rings::Peer;
    // From products of what keys and queries are made.
    static constexpr float key_unit =
        (Rings::has_halves ? 1.0f : Config::KWiden::key_unit) * GroupQueries<Config>::unit;
    static constexpr bool has_codes = Rings::is_coded;
    static constexpr bool has_values = !Config::KWiden::is_coded || !Config::VWiden::is_coded;

    static __device__ __forceinline__ void run(const ftj_extend_params& p, Work& work) {
        const uint32_t warp = ptx::uniform(ptx::thread_index() / warp_size);
        Tensors tensors;
        uint32_t clear_rounds = 0;
        typename Rings::OrderCursor orders;
        typename Rings::QueryCursor queries;
        typename Rings::TileCursor tiles;
        Codes codes;
        Peer peer;
        peer.init(ptx::shared_address(ptx::dynamic_shared()) + Rings::Smem::peer, warp);
        if constexpr (has_codes)
            codes.init(ptx::shared_address(ptx::dynamic_shared()) + Rings::Smem::codes,
                       ptx::shared_address(ptx::dynamic_shared()) + Rings::Smem::code_barriers);
        for (;; orders.advance()) {
            Order& order = orders.order();
            if (warp == giver / warp_size) {
                if (ptx::thread_index() == giver && work.is_taken)
                    work.advance(p);
                orders.wait_free();
                if (ptx::thread_index() == giver) {
                    work.is_taken = give(p, work, orders);
                    ptx::mbarrier_arrive(orders.filled());
                }
            }
            orders.wait_filled();
            // Of this warp alone. Without, ptxas takes its lanes for parted from here on, and so
            // they may be; a sync_warp() does not tell it otherwise.
            ptx::sync_group(own_barrier + warp, warp_size);
            if (kept(order.end == order.unit.tile))
                return;
            if constexpr (Rings::by_tensor) {
                const auto keys = TileKeys::of(order.unit);
                if (warp == 0)
                    feed_tensors(p, order, keys, tensors, tiles);
                else if (warp == 1)
                    clear_tensors(order, keys, tensors, tiles, clear_rounds);
                else
                    bring_queries(p, order, queries);
            } else {
                bring_queries(p, order, queries);
                const auto keys = TileKeys::of(order.unit);
                uint32_t first = 2 * order.first();
                if constexpr (has_codes) {
                    const uint32_t end = kept(2 * min_of(order.end, keys.cached_tiles));
                    feed_codes(p, order, keys, end, codes, peer, tiles);
                    first = max_of(first, end);
                    if (first < 2 * order.end)
                        peer.leave();
                }
                if constexpr (Rings::new_by_tensor)
                    feed_new(p, order, keys, first / 2, warp, tiles, clear_rounds);
                else
                    feed_values(p, order, keys, first, tiles);
            }
            orders.give_back();
        }
    }

private:
    static constexpr uint32_t own_barrier = 8;  // that of warp 0, past the consumers'
    static constexpr uint32_t giver = 96;  // the thread that gives orders: one that brings queries

    // Known to be uniform, and so is what follows from it: over nvfp4, whose two ways through the
    // loop would else spill. Where nothing is, it is no faster.
    static constexpr bool is_tight = Rings::has_peer && Codes::is_alike;
    static __device__ __forceinline__ uint32_t kept(uint32_t v) {
        return is_tight ? ptx::uniform(v) : v;
    }

    static __device__ __forceinline__ void bring_queries(const ftj_extend_params& p,
                                                         const Order& order,
                                                         typename Rings::QueryCursor& queries) {
        queries.wait_free();
        feed_queries<Config, Rings::query_threads>(p, order.unit, queries.tile(), 0,
                                                   Config::block_rows);
        ptx::cp_async_mbarrier_arrive(queries.filled());
        queries.advance();
    }

    // What the block does next, by one thread: what the order before the last has left out of
    // range, once more; else the next part of its work. When there is none, the last order is
    // looked at too.
    static __device__ __forceinline__ bool give(const ftj_extend_params& p, Work& work,
                                                const typename Rings::OrderCursor& orders) {
        Order& order = orders.order();
        if (take_anew(order, order))
            return false;
        order.unit = work.unit;
        order.end = work.end;
        order.slot = work.slot;
        const bool is_short = is_range_short(work.unit);
        order.looks = is_short && p.requests.window == 0;
        order.follows_maximum = is_short && !order.looks;
        if constexpr (Rings::has_peer)
            order.is_paired = work.is_paired;
        if (work.parts)
            pointer<Split>(p.splits)[ptx::block_index()] =
                Split::of(work.unit, work.slot, work.parts);
        if (order.end == order.unit.tile) {
            auto last = orders;
            last.advance();  // of two
            last.wait_free();
            take_anew(last.order(), order);
            return false;
        }
        return true;
    }
    // Whether fp16 weights, relative to the first tile of the unit's own, would rather often have
    // to be made anew. The first keys of a request are those that a model gives its unneeded weight
    // to: what is above their largest score is within 2^16 times it. Above that of later ones most
    // heads of a model have more. So a part that begins later looks at the first ones, and where a
    // window hides them the reference follows the maximum.
    static __device__ __forceinline__ bool is_range_short(const Unit& unit) {
        const auto keys = TileKeys::of(unit);
        return Rings::has_halves && keys.is_cached(unit.tile) && keys.first(unit.tile) > 0;
    }
    static __device__ __forceinline__ bool take_anew(Order& from, Order& order) {
        if (from.out_of_range == 0)
            return false;
        order = from;
        order.follows_maximum = 1;
        order.looks = 0;
        if constexpr (Rings::has_peer)
            order.is_paired = 0;
        from.out_of_range = order.out_of_range = 0;
        return true;
    }

    // K and V of every tile, in turn, by one warp.
    static __device__ __forceinline__ void feed_tensors(const ftj_extend_params& p,
                                                        const Order& order, const TileKeys& keys,
                                                        Tensors& tensors,
                                                        typename Rings::TileCursor& tiles) {
        const Unit& unit = order.unit;
        const uint32_t head = unit.head, end = order.end;
        tensors.find(p, unit, keys.is_cached(unit.tile), keys.first(unit.tile));
#pragma unroll 1
        for (uint32_t tile = unit.tile; tile < end;) {
            tiles.wait_free();
            tensors.copy_keys(p, head, tiles.tile(), tiles.filled());
            tiles.advance();
            tiles.wait_free();
            tensors.copy_values(p, head, tiles.tile(),
                                tensors.is_whole() ? tiles.filled() : tiles.unclear());
            tiles.advance();
            if (++tile < end)
                tensors.find(p, unit, keys.is_cached(tile), keys.first(tile));
        }
    }

    // Values with rows that nobody may see, by another warp, for they have to come first.
    static __device__ __forceinline__ void clear_tensors(const Order& order, const TileKeys& keys,
                                                         Tensors& tensors,
                                                         typename Rings::TileCursor& tiles,
                                                         uint32_t& rounds) {
        const uint32_t end = order.end;
#pragma unroll 1
        for (uint32_t tile = order.unit.tile; tile < end; tile++) {
            tiles.advance();
            tensors.look_at(order.unit, keys.is_cached(tile), keys.first(tile));
            clear(tensors, tiles, rounds);
            tiles.advance();
        }
    }
    static __device__ __forceinline__ void clear(const Tensors& tensors,
                                                 const typename Rings::TileCursor& tiles,
                                                 uint32_t& rounds) {
        if (tensors.is_whole())
            return;
        ptx::mbarrier_wait(tiles.unclear(), rounds >> tiles.stage & 1);
        rounds ^= 1u << tiles.stage;
        tensors.clear_unseen(tiles.tile(), tiles.filled());
    }

    // K and V beside a cache of codes, from `tile` on, likewise. All lanes of all warps arrive at a
    // stage when it is free: so none falls behind the phases that the others are in.
    static __device__ __forceinline__ void feed_new(const ftj_extend_params& p, const Order& order,
                                                    const TileKeys& keys, uint32_t tile,
                                                    uint32_t warp,
                                                    typename Rings::TileCursor& tiles,
                                                    uint32_t& clear_rounds) {
        const Unit& unit = order.unit;
        const uint32_t head = unit.head, end = order.end;
        Tensors tensors;
        const bool is_copier = warp == 0 && tensors.lane == 0;  // arrives with its bytes
#pragma unroll 1
        for (; tile < end; tile++) {
            tensors.find(p, unit, false, keys.first(tile));
            tiles.wait_free();
            if (warp == 0)
                tensors.copy_keys(p, head, tiles.tile(), tiles.filled());
            if (!is_copier)
                ptx::mbarrier_arrive(tiles.filled());
            tiles.advance();
            tiles.wait_free();
            const bool is_whole = tensors.is_whole();
            if (warp == 0)
                tensors.copy_values(p, head, tiles.tile(),
                                    is_whole ? tiles.filled() : tiles.unclear());
            if (warp == 1 && !is_whole)
                clear(tensors, tiles, clear_rounds);
            else if (!is_copier || !is_whole)
                ptx::mbarrier_arrive(tiles.filled());
            tiles.advance();
        }
    }

    // K and V of every tile, in turn, from step `first` on: all of them 16-bit values.
    static __device__ __forceinline__ void feed_values(const ftj_extend_params& p,
                                                       const Order& order, const TileKeys& keys,
                                                       uint32_t first,
                                                       typename Rings::TileCursor& tiles) {
        const Unit& unit = order.unit;
        Values values;
        if (first < 2 * order.end)
            find(p, unit, keys, first / 2, values);
#pragma unroll 1
        for (uint32_t step = first; step < 2 * order.end; step++) {
            tiles.wait_free();
            values.copy(side(p, unit, step % 2, values), tiles.tile());
            ptx::cp_async_mbarrier_arrive(tiles.filled());
            tiles.advance();
            if (step % 2 && step + 1 < 2 * order.end)
                find(p, unit, keys, step / 2 + 1, values);
        }
    }

    // The same of the cache, whose K or V or both are codes, up to step `end`: those whose turn is
    // this warp's.
    static __device__ __forceinline__ void feed_codes(const ftj_extend_params& p,
                                                      const Order& order, const TileKeys& keys,
                                                      uint32_t end, Codes& codes, Peer& peer,
                                                      typename Rings::TileCursor& tiles) {
        static_assert(Codes::stride == 1 || !has_values, "all warps copy 16-bit rows of a tile");
        const Unit& unit = order.unit;
        const uint32_t first = kept(2 * order.first());
        if (first >= end)
            return;
        bool is_paired = Rings::has_peer && order.is_paired;
        if constexpr (Rings::has_peer && !is_tight)
            is_paired = ptx::uniform(is_paired);
        if (is_paired)
            peer.begin(tiles.stage);
        else
            peer.leave();
        codes.begin(p, unit);
        uint32_t ahead = first + codes.turn;  // the next step to be fetched
        if (ahead < end)
            codes.find(keys.first(ahead / 2));  // which may be a look; later ones are none
#pragma unroll 1
        for (int i = 0; i < Codes::slots; i++)
            fetch(p, unit, keys, codes, ahead, end);
        Values values;
        if constexpr (has_values)
            find(p, unit, keys, order.first(), values);
        auto own = tiles;
        own.advance(codes.turn);
#pragma unroll 1
        for (uint32_t step = first + codes.turn; step < end;) {
            const bool is_value = step % 2;
            const bool is_last = step + 8 >= end;  // of the warp's, or before that
            const KeyRange seen = codes.seen_rows(keys.first_cached(step / 2));
            if (is_value)
                feed<typename Codes::V>(p, unit, seen, true, is_paired, is_last, codes, values,
                                        peer, own);
            else
                feed<typename Codes::K>(p, unit, seen, is_value, is_paired, is_last, codes, values,
                                        peer, own);
            own.advance(Codes::after(step) - step);
            // After the fence, which waits for copies too: these have until the next one.
            fetch(p, unit, keys, codes, ahead, end);
            if (has_values && is_value && step + 1 < end)
                find(p, unit, keys, step / 2 + 1, values);
            step = Codes::after(step);
        }
        if constexpr (Codes::stride == 1)
            tiles = own;
        else
            tiles.skip(end - first);
        if (is_paired)
            peer.end();
    }

    template <class Side>
    static __device__ __forceinline__ void feed(const ftj_extend_params& p, const Unit& unit,
                                                KeyRange seen, bool is_value, bool is_paired,
                                                bool is_last, Codes& codes, const Values& values,
                                                Peer& peer,
                                                const typename Rings::TileCursor& tiles) {
        if constexpr (Side::Widen::is_coded) {
            codes.template wait<Side>(seen);
            codes.template widen<Side>(tiles, p.score_scale * key_unit, is_paired, peer);
            ptx::fence_proxy_async_shared();  // the products read through another proxy
            if (is_paired)
                peer.hand_over(tiles, is_last);
            else
                ptx::mbarrier_arrive(tiles.filled(), Codes::stride);
        } else {
            tiles.wait_free();
            values.copy(side(p, unit, is_value, values), tiles.tile());
            ptx::cp_async_mbarrier_arrive(tiles.filled());
        }
    }

    // One more step of codes on its way, or none; a group of copies in any case.
    static __device__ __forceinline__ void fetch(const ftj_extend_params& p, const Unit& unit,
                                                 const TileKeys& keys, Codes& codes,
                                                 uint32_t& ahead, uint32_t end) {
        if (ahead < end) {
            const KeyRange seen = codes.seen_rows(keys.first_cached(ahead / 2));
            if constexpr (Codes::fetches_alike) {
                codes.template fetch<typename Codes::K>(ahead % 2 ? p.cache.v : p.cache.k,
                                                        p.cache.v.row_scales, seen);
            } else if (ahead % 2) {
                if constexpr (Config::VWiden::is_coded)
                    codes.template fetch<typename Codes::V>(p.cache.v, p.cache.k.row_scales, seen);
            } else {
                if constexpr (Config::KWiden::is_coded)
                    codes.template fetch<typename Codes::K>(p.cache.k, p.cache.v.row_scales, seen);
            }
            const uint32_t tile = ahead / 2;
            ahead = Codes::after(ahead);
            if (ahead < end && ahead / 2 != tile)
                codes.find(keys.first_cached(ahead / 2));
        }
        if constexpr (!Codes::is_bulk)
            ptx::cp_async_commit();
    }

    static __device__ __forceinline__ void find(const ftj_extend_params& p, const Unit& unit,
                                                const TileKeys& keys, uint32_t tile,
                                                Values& values) {
        if (keys.is_cached(tile))
            values.find_cached(p, unit, keys.first(tile));
        else
            values.find_new(unit, keys.first(tile));
    }

    static __device__ __forceinline__ typename Values::Source side(const ftj_extend_params& p,
                                                                   const Unit& unit, bool is_value,
                                                                   const Values& values) {
        if (values.is_cached)
            return values.cached_side(unit, is_value ? p.cache.v.codes : p.cache.k.codes);
        return values.new_side(unit, is_value ? p.v_new : p.k_new,
                               is_value ? p.v_new_token_stride : p.k_new_token_stride,
                               is_value ? p.v_new_head_stride : p.k_new_head_stride);
    }
};

}  // namespace ftj
