// SPDX-License-Identifier: MIT
// Extend for Hopper: a producer warpgroup, and a consumer warpgroup for every 64 rows of a query
// tile. What is computed, and for whom, is attn_extend.cuh's; the work is dealt by query_tile.cuh.
//
//   producer   Q | K0 V0 K1 V1 K2 V2 ... | next Q | K0 V0 ...       as far ahead as the stages
//   reach consumer   QK0 softmax0 | QK1 PV0 softmax1 | QK2 PV1 softmax2 | ... | PVlast | result
//
// Within a consumer the softmax of a tile runs under the product of the weights before it with
// their values, and under both products of the other consumers. Codes are widened once, by the
// producer, into the tiles that all consumers read; or by two, for both blocks of a cluster
// (peer_tiles.cuh).
//
// Most units need no maximum (group_rows.cuh). One that does is ordered again by the producer when
// all consumers have given its order back, and its results are written over by those who wrote
// them.
//
// Rounding: q, K and V operands are the model's 16-bit values; products are accumulated in fp32.
// Codes of K and V are widened to fp16 with their row scales, and p is fp16 (half_rows.cuh). Where
// a producer warp has not all of a tile, codes of K are widened to fp16, exactly, and their row
// scale is put on the score in fp32; those of V to the model's type with their row scale, rounded
// once. The queries of keys that were codes are fp16 (group_queries.cuh). p is rounded to 16 bits;
// l sums the fp32 p.
#pragma once
#include "block/extend_producer.cuh"
#include "block/group_products.cuh"
#include "block/group_queries.cuh"
#include "block/group_rows.cuh"
#include "block/tile_rings.cuh"

namespace ftj {

template <class Config>
struct AttnExtendSm90 {
    using Rings = TileRings<Config>;
    using Order = typename Rings::Order;
    using Unit = typename Rings::Unit;
    using Work = typename Rings::Work;
    using TileCursor = typename Rings::TileCursor;
    using TileKeys = typename Rings::TileKeys;
    using Scales = typename Rings::Scales;
    using Products = GroupProducts<Config>;
    using Rows = GroupRows<Config>;
    using Queries = GroupQueries<Config>;
    static constexpr bool has_units = Rows::has_units;
    using Element = typename Config::Element;
    static constexpr int own_units = Rings::Smem::own_units;
    static constexpr int head_dim = Config::head_dim;
    static constexpr int num_consumers = Config::num_consumers;
    static constexpr int producer_registers = Config::producer_registers;
    static constexpr int consumer_registers = Config::consumer_registers;
    static_assert(Config::block_rows == 64 * num_consumers, "a consumer has 64 rows");
    static_assert(Config::num_threads == 128 * (1 + num_consumers), "and is a warpgroup");
    // setmaxnreg gives what others have given back: no more than the launch took.
    static constexpr int launch_registers = 65536 / Config::num_threads / 8 * 8;
    static_assert(producer_registers + num_consumers * consumer_registers <=
                      (1 + num_consumers) * launch_registers,
                  "a consumer would wait for its registers for ever");

    static __device__ void run(const ftj_extend_params& p) {
        Launch::let_next_start();  // its combine, in the places of blocks that have ended
        unsigned char* smem = ptx::dynamic_shared();
        Work& work = *reinterpret_cast<Work*>(smem + Rings::Smem::work);
        Work::deal(p, smem, work);
        if (ptx::thread_index() == 0) {
            pointer<Split>(p.splits)[ptx::block_index()].parts = 0;
            Rings::init();
        }
        if (work.in_order.pairs())
            ptx::sync_cluster();
        else
            ptx::sync_block();
        const uint32_t group = ptx::shfl(ptx::thread_index() / feed_threads, 0);
        if (group == 0) {
            ptx::setmaxnreg_dec<producer_registers>();
            ExtendProducer<Config>::run(p, work);
        } else {
            ptx::setmaxnreg_inc<consumer_registers>();
            consume(p, group - 1);
        }
    }

private:
    // Where a consumer stands: V of a tile is read a turn after its K.
    struct Cursors {
        typename Rings::QueryCursor queries;
        TileCursor keys = TileCursor(0);
        TileCursor values = TileCursor(1);
        uint32_t own_scales = kept(has_units ? TileUnits::own_offset() : Scales::own_offset());
        uint32_t factors;
        // Of the first stages; what could be computed from addresses would be, in every turn.
        uint32_t query_rows;
        uint32_t first_keys = ptx::uniform(TileCursor::over_dims());
        uint32_t first_values = ptx::uniform(TileCursor::over_rows());
        typename Rings::TurnCursor turns;

        __device__ __forceinline__ explicit Cursors(uint32_t group)
            : factors(Rings::factors(group)),
              query_rows(ptx::uniform(Rings::QueryCursor::over_dims(group))), turns(group) {}
        // As CodeFeed::lane is.
        static __device__ __forceinline__ uint32_t kept(uint32_t v) {
            return ptx::shfl(v, ptx::thread_index() % warp_size);
        }
    };

    static __device__ __forceinline__ void consume(const ftj_extend_params& p, uint32_t group) {
        const uint32_t warp = ptx::thread_index() / warp_size % 4;
        typename Rings::OrderCursor orders;
        Cursors at(group);
        for (;; orders.advance()) {
            orders.wait_filled();
            Order& order = orders.order();
            const Unit& unit = order.unit;
            if (order.end == unit.tile)
                return;
            const uint32_t first_row = unit.first_row + 64 * group;
            if (first_row < unit.end_row) {
                Rows rows;
                typename Rows::Outputs out;
                rows.begin(first_row + 16 * warp, order.follows_maximum);
                attend(p, order, group, rows, out, at);
                rows.add_sums();
                if (rows.is_out_of_range(out) && ptx::thread_index() % warp_size == 0)
                    ptx::atomic_add(&order.out_of_range, 1);
                rows.settle(out);
                if (Rows::swaps_values && order.end <= unit.cached_tiles)
                    Rows::swap(out);
                if (order.end - unit.tile == unit.tiles)
                    rows.write_outputs(p, unit, out);
                else
                    rows.write_partial(p, unit, out, order.slot);
            } else {
                pass_by(order, at);
            }
            orders.give_back();
        }
    }

    // A consumer without rows: the tiles are for others. Queries are given back when all keys have
    // been, as where there are rows (CodeFeed::after()).
    static __device__ __forceinline__ void pass_by(const Order& order, Cursors& at) {
        at.queries.wait_filled();
#pragma unroll 1
        for (uint32_t tile = order.first(); tile < order.end; tile++) {
            if (tile > order.first()) {
                at.turns.wait();
                at.turns.pass_on();
            }
            at.keys.wait_filled();
            give_back(at.keys);
            at.values.wait_filled();
            give_back(at.values);
        }
        give_back(at.queries);
    }
    static __device__ __forceinline__ void give_back(TileCursor& tiles) {
        tiles.give_back();
        tiles.advance(2);
    }
    static __device__ __forceinline__ void give_back(typename Rings::QueryCursor& queries) {
        queries.give_back();
        queries.advance();
    }

    static __device__ __forceinline__ void attend(const ftj_extend_params& p, const Order& order,
                                                  uint32_t group, Rows& rows,
                                                  typename Rows::Outputs& out, Cursors& at) {
        const uint32_t first = order.first(), end = order.end;
        const auto keys = TileKeys::of(order.unit);
        const uint32_t plain_end = ptx::uniform(min_of(end, keys.cached_tiles));
        typename Rows::Scores scores;
        typename Rows::Factors factors;
        typename Rows::Weights weights;
        TileUnits units;  // of the tile that is weighed
        bool is_half;     // so are its weights
#pragma unroll
        for (int i = 0; i < head_dim / 2; i++)
            out[i] = 0;

        at.queries.wait_filled();
        if (is_widened_k(keys.is_cached(first)))
            narrow_queries(group, rows, at);
        else
            keep_queries(p, group, at);
        const uint32_t query = at.queries.of_first(at.query_rows);
        start_scores<false>(p, query, keys.is_cached(first), is_seen_k(keys.is_cached(first)), at,
                            factors, units, scores);
        rows.find_seen(p, order.unit);
        take_scores<0>(at, scores);
        // A turn ends where the next tile's products start, so that there is one softmax to
        // compile. Nearly all weights over codes are fp16 and followed by keys that are: those go
        // by one branch, for all that happens between two softmaxes is waited for.
#pragma unroll 1
        for (uint32_t tile = first;;) {
            is_half = has_units && !ptx::any(units.is_wide());
            rows.weigh(p, order.unit, keys, tile, factors, units, scores);
            if (tile > first) {
                await_outputs(rows, Rows::swaps_values && tile == keys.cached_tiles, out);
                give_back(at.values);
            }
            round(scores, weights);
            if (has_units && is_half && tile + 1 < plain_end) {
                tile++;
                start_scores<true>(p, query, true, true, at, factors, units, scores);
                start_outputs(true, weights, at, out);
            } else {
                if (has_units && !is_half)
                    Rows::template round<Element>(scores, weights);
                if (++tile == end)
                    break;
                // Values that are to be seen have come before these keys: one fence for both.
                const bool is_cached = keys.is_cached(tile);
                const bool is_seen = is_seen_k(is_cached) && is_seen_v(is_cached);
                if (!is_seen)
                    at.values.wait_filled();
                if (Config::KWiden::is_coded && tile == keys.cached_tiles)
                    restore_queries(p, order.unit, group, at);
                start_scores<true>(p, query, is_cached, is_seen, at, factors, units, scores);
                start_outputs(is_half, weights, at, out);
            }
            at.turns.pass_on();
            take_scores<1>(at, scores);
        }
        give_back(at.queries);
        at.values.wait_filled();
        if (!is_seen_v(keys.is_cached(end - 1)))
            see();
        start_outputs(is_half, weights, at, out);
        ptx::wgmma_wait<0>();
        ptx::wgmma_keep(out);
        give_back(at.values);
    }

    // Queries for keys that were codes. A product reads the rows of all four warps; and another
    // warp may be reading factors of the unit before.
    static __device__ __forceinline__ void narrow_queries(uint32_t group, Rows& rows,
                                                          const Cursors& at) {
        const uint32_t of_warp = at.factors + ptx::thread_index() / warp_size % 4 * (16 * 4);
        ptx::sync_group(own_barrier(group), 128);
        const bool are_odd =
            Queries::narrow(at.queries.tile() + group * Queries::Tile::bytes, at.factors);
        rows.factors_at = ptx::uniform(are_odd ? of_warp : 0);
        see();
        ptx::sync_group(own_barrier(group), 128);
    }
    // For keys of 16 bits, queries as they came; and factors where row scales would be.
    static __device__ __forceinline__ void keep_queries(const ftj_extend_params& p, uint32_t group,
                                                        const Cursors& at) {
        see();
        if constexpr (Config::KWiden::is_coded) {
            ptx::sync_group(own_barrier(group), 128);
            const uint32_t thread = ptx::thread_index() % 128;
            if constexpr (has_units)
                TileUnits{p.score_scale, -0.0f, 1.0f}.store(at.factors + own_units, thread);
            else if (thread < Config::tile_tokens)
                ptx::st_shared_u32(at.factors + 4 * thread, ptx::float_bits(p.score_scale));
            ptx::sync_group(own_barrier(group), 128);
        }
    }
    // So after keys that were codes, when no product with those is under way.
    static __device__ __forceinline__ void restore_queries(const ftj_extend_params& p,
                                                           const Unit& unit, uint32_t group,
                                                           const Cursors& at) {
        ptx::sync_group(own_barrier(group), 128);
        Queries::restore(p, unit, group, at.queries.tile());
        keep_queries(p, group, at);
    }
    // After that of the block, and the producer's.
    static __device__ __forceinline__ uint32_t own_barrier(uint32_t group) { return 2 + group; }

    // 16-bit rows that come by cp.async, which is an ordinary write, and whose end no thread of the
    // producer waits for; the products read through another proxy. Codes are widened by threads
    // that see to it themselves, and tensor copies go through that proxy.
    static __device__ __forceinline__ void see() { ptx::fence_proxy_async_shared(); }
    static __device__ __forceinline__ bool is_widened_k(bool is_cached) {
        return Config::KWiden::is_coded && is_cached;
    }
    static __device__ __forceinline__ bool is_seen_k(bool is_cached) {
        return is_cached ? Rings::by_tensor || Config::KWiden::is_coded : Rings::new_by_tensor;
    }
    static __device__ __forceinline__ bool is_seen_v(bool is_cached) {
        return is_cached ? Rings::by_tensor || Config::VWiden::is_coded : Rings::new_by_tensor;
    }

    // Row scales of K, or a tile's units, are loaded before the products start: later loads would
    // queue up behind those. They have landed when the stage is given back, which is when its
    // products have ended.
    template <bool in_turn>
    static __device__ __forceinline__ void start_scores(const ftj_extend_params& p, uint32_t query,
                                                        bool is_cached, bool is_seen, Cursors& at,
                                                        typename Rows::Factors& factors,
                                                        TileUnits& units,
                                                        typename Rows::Scores& scores) {
        at.keys.wait_filled();
        const uint32_t own = at.factors + (has_units ? own_units : 0);
        const uint32_t scales = (is_cached ? at.keys.scales() : own) + at.own_scales;
        if constexpr (has_units) {
            units = TileUnits::load(scales);
            factors[0] = units.to_log2;
        } else if constexpr (Rows::has_columns) {
            Scales::load(scales, factors);
        } else {
            factors[0] = p.score_scale;
        }
        if (!is_seen)
            see();
        if constexpr (in_turn)
            at.turns.wait();
        ptx::wgmma_keep(scores);
        const uint32_t tile = at.keys.of_first(at.first_keys);
        if (is_widened_k(is_cached))
            Products::template start_scores<Fp16>(query, tile, scores);
        else
            Products::template start_scores<Element>(query, tile, scores);
    }
    // As nearly all weights are.
    static __device__ __forceinline__ void round(const typename Rows::Scores& scores,
                                                 typename Rows::Weights& weights) {
        if constexpr (has_units)
            Rows::template round<Fp16>(scores, weights);
        else
            Rows::template round<Element>(scores, weights);
    }
    static __device__ __forceinline__ void start_outputs(bool is_half,
                                                         const typename Rows::Weights& weights,
                                                         const Cursors& at,
                                                         typename Rows::Outputs& out) {
        at.values.wait_filled();
        ptx::wgmma_keep(out);
        const uint32_t tile = at.values.of_first(at.first_values);
        if (is_half)
            Products::template start_outputs<Fp16>(weights, tile, out);
        else
            Products::template start_outputs<Element>(weights, tile, out);
    }

    // Outputs up to date with the reference of the tile whose scores have just been weighed. Both
    // ways wait: ptxas keeps what comes before a branch before it, and would else let most of the
    // softmax wait for the product that it is to run under.
    static __device__ __forceinline__ void await_outputs(Rows& rows, bool swaps,
                                                         typename Rows::Outputs& out) {
        if (rows.is_rebased || swaps) {
            ptx::wgmma_wait<0>();
            ptx::wgmma_keep(out);
            rows.rescale(out, swaps);
        } else {
            ptx::wgmma_wait<0>();
            ptx::wgmma_keep(out);
        }
    }

    // The scores that were started, when at most `pending` products are still under way.
    template <int pending>
    static __device__ __forceinline__ void take_scores(Cursors& at, typename Rows::Scores& scores) {
        ptx::wgmma_wait<pending>();
        ptx::wgmma_keep(scores);
        give_back(at.keys);
    }
};

}  // namespace ftj
