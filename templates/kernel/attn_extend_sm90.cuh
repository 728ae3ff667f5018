// SPDX-License-Identifier: MIT
// Extend for Hopper: a producer warpgroup, and a consumer warpgroup for every 64 rows of a query
// tile. What is computed, and for whom, is attn_extend.cuh's; the work is dealt by query_tile.cuh.
//
//   producer   Q | K0 V0 K1 V1 K2 V2 ... | next Q | K0 V0 ...       as far ahead as the stages
//   reach consumer   QK0 softmax0 | QK1 PV0 softmax1 | QK2 PV1 softmax2 | ... | PVlast | result
//
// Within a consumer the softmax of a tile runs under the product of the weights before it with
// their values, and under both products of the other consumers. Codes are widened once, by the
// producer, into the tiles that all consumers read.
//
// Most units need no maximum (group_rows.cuh). One that does is ordered again by the producer when
// all consumers have given its order back, and its results are written over by those who wrote
// them.
//
// Rounding: q, K and V operands are the model's 16-bit values; products are accumulated in fp32.
// Codes of K are widened exactly, and their row scale is put on the score in fp32; those of V are
// widened with their row scale, and rounded once. p is rounded to 16 bits; l sums the fp32 p.
#pragma once
#include "block/extend_producer.cuh"
#include "block/group_products.cuh"
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
        unsigned char* smem = ptx::dynamic_shared();
        Work& work = *reinterpret_cast<Work*>(smem + Rings::Smem::work);
        Work::deal(p, smem, work);
        if (ptx::thread_index() == 0) {
            pointer<Split>(p.splits)[ptx::block_index()].parts = 0;
            Rings::init();
        }
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
        uint32_t own_scales = kept(Scales::own_offset());
        typename Rings::TurnCursor turns;

        __device__ __forceinline__ explicit Cursors(uint32_t group) : turns(group) {}
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
                rows.begin(p, unit, first_row + 16 * warp, order.follows_maximum);
                attend(p, order, group, rows, out, at);
                rows.add_sums();
                if (rows.is_out_of_range(out) && ptx::thread_index() % warp_size == 0)
                    ptx::atomic_add(&order.out_of_range, 1);
                rows.settle(out);
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

    // A consumer without rows: the tiles are for others.
    static __device__ __forceinline__ void pass_by(const Order& order, Cursors& at) {
        at.queries.wait_filled();
        give_back(at.queries);
#pragma unroll 1
        for (uint32_t tile = order.unit.tile; tile < order.end; tile++) {
            if (tile > order.unit.tile) {
                at.turns.wait();
                at.turns.pass_on();
            }
            at.keys.wait_filled();
            give_back(at.keys);
            at.values.wait_filled();
            give_back(at.values);
        }
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
        const uint32_t first = order.unit.tile, end = order.end;
        const auto keys = TileKeys::of(order.unit);
        typename Rows::Scores scores;
        typename Rows::Weights weights;
#pragma unroll
        for (int i = 0; i < head_dim / 2; i++)
            out[i] = 0;

        at.queries.wait_filled();
        see();
        const uint32_t query = at.queries.tile() + group * Products::Query::bytes;
        typename Scales::Columns scales;
        start_scores<false>(query, keys.is_cached(first), true, at, scales, scores);
        take_scores<0>(keys.is_cached(first), scales, at, scores);
        // A turn ends where the next tile's products start, so that there is one softmax to
        // compile.
#pragma unroll 1
        for (uint32_t tile = first;;) {
            rows.weigh(p, order.unit, keys.first(tile), keys.end(tile), scores);
            await_outputs(rows, out);
            if (tile > first)
                give_back(at.values);
            Rows::round(scores, weights);
            if (++tile == end)
                break;
            // Values that are to be seen have come before these keys: one fence for both.
            const bool see_no_values = is_seen_v(keys.is_cached(tile - 1));
            if (!see_no_values)
                at.values.wait_filled();
            start_scores<true>(query, keys.is_cached(tile), see_no_values, at, scales, scores);
            start_outputs(weights, at.values, out);
            at.turns.pass_on();
            take_scores<1>(keys.is_cached(tile), scales, at, scores);
        }
        give_back(at.queries);
        at.values.wait_filled();
        if (!is_seen_v(keys.is_cached(end - 1)))
            see();
        start_outputs(weights, at.values, out);
        ptx::wgmma_wait<0>();
        ptx::wgmma_keep(out);
        give_back(at.values);
    }

    // 16-bit rows that come by cp.async, which is an ordinary write, and whose end no thread of the
    // producer waits for; the products read through another proxy. Codes are widened by threads
    // that see to it themselves, and tensor copies go through that proxy.
    static __device__ __forceinline__ void see() { ptx::fence_proxy_async_shared(); }
    static __device__ __forceinline__ bool is_widened_k(bool is_cached) {
        return Config::KWiden::is_coded && is_cached;
    }
    static __device__ __forceinline__ bool is_seen_k(bool is_cached) {
        return Rings::by_tensor || is_widened_k(is_cached);
    }
    static __device__ __forceinline__ bool is_seen_v(bool is_cached) {
        return Rings::by_tensor || (Config::VWiden::is_coded && is_cached);
    }

    // Row scales of K are loaded before the products start: later loads would queue up behind
    // those. They have landed when the stage is given back, which is when its products have ended.
    template <bool in_turn>
    static __device__ __forceinline__ void start_scores(uint32_t query, bool is_cached,
                                                        bool see_no_values, Cursors& at,
                                                        typename Scales::Columns& scales,
                                                        typename Rows::Scores& scores) {
        at.keys.wait_filled();
        if (is_widened_k(is_cached))
            Scales::load(at.keys.scales() + at.own_scales, scales);
        if (!is_seen_k(is_cached) || !see_no_values)
            see();
        if constexpr (in_turn)
            at.turns.wait();
        ptx::wgmma_keep(scores);
        ptx::wgmma_fence();
        Products::start_scores(query, at.keys.tile(), scores);
    }
    static __device__ __forceinline__ void start_outputs(const typename Rows::Weights& weights,
                                                         const TileCursor& values,
                                                         typename Rows::Outputs& out) {
        values.wait_filled();
        ptx::wgmma_keep(out);
        ptx::wgmma_fence();
        Products::start_outputs(weights, values.tile(), out);
    }

    // Outputs up to date with the reference of the tile whose scores have just been weighed. Both
    // ways wait: ptxas keeps what comes before a branch before it, and would else let most of the
    // softmax wait for the product that it is to run under.
    static __device__ __forceinline__ void await_outputs(const Rows& rows,
                                                         typename Rows::Outputs& out) {
        if (rows.is_rebased) {
            ptx::wgmma_wait<0>();
            ptx::wgmma_keep(out);
            rows.rescale(out);
        } else {
            ptx::wgmma_wait<0>();
            ptx::wgmma_keep(out);
        }
    }

    // The scores that were started, when at most `pending` products are still under way, times the
    // row scales of K.
    template <int pending>
    static __device__ __forceinline__ void take_scores(bool is_cached,
                                                       const typename Scales::Columns& scales,
                                                       Cursors& at, typename Rows::Scores& scores) {
        ptx::wgmma_wait<pending>();
        ptx::wgmma_keep(scores);
        give_back(at.keys);
        if (is_widened_k(is_cached))
            Scales::apply(scales, scores);
    }
};

}  // namespace ftj
