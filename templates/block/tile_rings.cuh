// SPDX-License-Identifier: MIT
// What the producer of an extend hands its consumers, and where: rings of stages in shared memory.
// Each stage has two barriers: filled (all of it has come) and free (every consumer lane has read
// it). Tiles of K and of V take turns in one ring; query tiles have one of their own, and so have
// the orders that say what is to be done with them.
#pragma once
#include "block/code_feed.cuh"
#include "block/group_products.cuh"
#include "block/peer_tiles.cuh"
#include "block/scale_columns.cuh"
#include "block/unit_deal.cuh"

namespace ftj {

template <class Config>
struct TileRings {
    using Unit = QueryTile<Config>;
    using Work = UnitDeal<Config>;
    using Products = GroupProducts<Config>;
    static constexpr int tokens = Config::tile_tokens;
    static constexpr int num_stages = Config::num_stages;  // a stage is a tile of K, or of V
    static constexpr int query_stages = Config::query_stages;
    static constexpr int order_stages = 2;
    static constexpr uint32_t consumer_lanes = 128 * Config::num_consumers;
    static constexpr bool is_coded = Config::KWiden::is_coded || Config::VWiden::is_coded;
    static constexpr bool new_by_tensor = Config::tensor_run > 0;  // rows beside the cache come by
                                                                   // tensor copies,
    static constexpr bool by_tensor = new_by_tensor && !is_coded;  // and so do those of the cache
    static constexpr uint32_t query_threads = by_tensor ? feed_threads / 2 : feed_threads;
    using Scales = ScaleColumns<tokens>;
    static constexpr bool has_halves = has_half_rows<Config>;
    static constexpr bool has_peer = Config::has_peer;
    using Peer = PeerTiles<Config, typename Products::Keys>;
    static constexpr int scale_bytes =
        has_halves ? TileUnits::bytes : Scales::bytes;  // of a tile of keys

    // A unit, or the block's part of one.
    struct Order {
        Unit unit;
        uint32_t end;              // tile after the last; unit.tile: there is nothing more to do
        uint32_t slot;             // of the partial result
        uint32_t follows_maximum;  // the softmax' reference
        uint32_t out_of_range;     // how many warps found that it should have
        uint32_t is_paired;        // the other block of the cluster has one of the same keys
        uint32_t looks;  // 1: before its own tiles, at the request's first one for a reference

        // Tile that the rings begin with.
        __device__ __forceinline__ uint32_t first() const {
            return unit.tile - (has_halves ? looks : 0);
        }
    };

    // Bytes from the block's first.
    struct Smem {
        static constexpr int tile_bytes = Products::Keys::bytes;
        static constexpr int query_bytes = Config::num_consumers * Products::Query::bytes;
        static constexpr int query = 0;
        static constexpr int tiles = query + query_stages * query_bytes;
        static constexpr int codes = tiles + num_stages * tile_bytes;
        static constexpr int scales = codes + (is_coded ? CodeFeed<Config>::shared_bytes : 0);
        static constexpr int work = scales + (is_coded ? num_stages / 2 * scale_bytes : 0);
        static constexpr int work_bytes = 1024;
        static constexpr int orders = work + work_bytes;
        static constexpr int order_bytes = 128;
        static constexpr int barriers = orders + order_stages * order_bytes;
        static constexpr int code_barriers =
            barriers + 16 * (order_stages + query_stages + num_stages);
        static constexpr int tensor_barrier =
            code_barriers + (is_coded ? CodeFeed<Config>::barrier_bytes : 0);
        static constexpr int turns = tensor_barrier + (new_by_tensor ? 8 * num_stages : 0);
        static constexpr int own_units = 4 * 64;  // past the factors of rows
        static constexpr int own_factors =
            has_halves ? own_units + TileUnits::bytes : 4 * (tokens > 64 ? tokens : 64);
        static constexpr int factors = turns + (8 * Config::num_consumers + 15) / 16 * 16;
        static constexpr int peer =
            factors + (Config::KWiden::is_coded ? Config::num_consumers * own_factors : 0);
        static constexpr int bytes = peer + (has_peer ? Peer::shared_bytes : 0);
    };
    static_assert(sizeof(Work) <= Smem::work_bytes && sizeof(Order) <= Smem::order_bytes,
                  "room for both");
    static_assert(Smem::bytes == Config::smem_bytes, "tune_extend_sm90.c and Smem must agree");
    static_assert(Smem::work >= Work::shared_bytes, "deal() borrows the tiles");

    // Where a role stands in a ring.
    template <int stages, int first_barrier>
    struct Cursor {
        uint32_t stage;
        uint32_t round;  // parity

        __device__ __forceinline__ explicit Cursor(uint32_t first = 0) : stage(first), round(0) {}
        // How many arrivals fill a stage.
        static __device__ __forceinline__ void init(uint32_t arrivals,
                                                    uint32_t free_arrivals = consumer_lanes) {
            for (uint32_t i = 0; i < stages; i++) {
                ptx::mbarrier_init(barrier(i), arrivals);
                ptx::mbarrier_init(barrier(i) + 8, free_arrivals);
            }
        }
        __device__ __forceinline__ uint32_t filled() const { return barrier(stage); }
        __device__ __forceinline__ void wait_filled() const { ptx::mbarrier_wait(filled(), round); }
        __device__ __forceinline__ void wait_free() const {
            ptx::mbarrier_wait(filled() + 8, round ^ 1);
        }
        // This lane has read the stage. One arrival a warp, after a sync_warp(), is no faster, and
        // racecheck does not follow it.
        __device__ __forceinline__ void give_back() const { ptx::mbarrier_arrive(filled() + 8); }
        // By no more than there are.
        __device__ __forceinline__ void advance(uint32_t by = 1) {
            const bool wraps = stage + by >= stages;
            stage += wraps ? by - stages : by;
            round ^= wraps;
        }
        __device__ __forceinline__ void skip(uint32_t count) {
            stage += count;
            round ^= stage / stages & 1;
            stage %= stages;
        }

    protected:
        static __device__ __forceinline__ uint32_t shared() {
            return ptx::shared_address(ptx::dynamic_shared());
        }
        // As descriptors have it: without what tells blocks of a cluster apart.
        static __device__ __forceinline__ uint32_t in_block() {
            return has_peer ? shared() & 0xffffffu : shared();
        }

    private:
        static __device__ __forceinline__ uint32_t barrier(uint32_t i) {
            return shared() + Smem::barriers + 16 * (first_barrier + i);
        }
    };

    struct OrderCursor : Cursor<order_stages, 0> {
        __device__ __forceinline__ Order& order() const {
            return *reinterpret_cast<Order*>(ptx::dynamic_shared() + Smem::orders +
                                             this->stage * Smem::order_bytes);
        }
    };
    struct QueryCursor : Cursor<query_stages, order_stages> {
        __device__ __forceinline__ uint32_t tile() const {
            return this->shared() + Smem::query + this->stage * Smem::query_bytes;
        }
        // Descriptors: of a consumer's rows in the first stage, and of what is there in this one.
        static __device__ __forceinline__ uint32_t over_dims(uint32_t group) {
            using Query = typename Products::Query;
            return Query::over_dims(QueryCursor::in_block() + Smem::query + group * Query::bytes);
        }
        __device__ __forceinline__ uint32_t of_first(uint32_t descriptor) const {
            return descriptor + this->stage * (Smem::query_bytes / 16);
        }
    };
    struct TileCursor : Cursor<num_stages, order_stages + query_stages> {
        using Cursor<num_stages, order_stages + query_stages>::Cursor;
        __device__ __forceinline__ uint32_t tile() const {
            return this->shared() + Smem::tiles + this->stage * Smem::tile_bytes;
        }
        // Where values are awaited that are to be cleared before they are handed on.
        __device__ __forceinline__ uint32_t unclear() const {
            return this->shared() + Smem::tensor_barrier + this->stage * 8;
        }
        // Descriptors: of the first stage, and of what is there in this one.
        static __device__ __forceinline__ uint32_t over_dims() {
            return Products::Keys::over_dims(TileCursor::in_block() + Smem::tiles);
        }
        static __device__ __forceinline__ uint32_t over_rows() {
            return Products::Keys::over_rows(TileCursor::in_block() + Smem::tiles);
        }
        __device__ __forceinline__ uint32_t of_first(uint32_t descriptor) const {
            return descriptor + this->stage * (Smem::tile_bytes / 16);
        }
        // Of the rows of a tile of keys, when it was codes. Those are in every other stage.
        __device__ __forceinline__ uint32_t scales() const {
            static_assert(!is_coded || num_stages % 2 == 0, "the same ones in every round");
            return this->shared() + Smem::scales + this->stage * (scale_bytes / 2);
        }
    };
    // A consumer's own factors: of its rows, over keys that were codes, and over others of the
    // keys.
    static __device__ __forceinline__ uint32_t factors(uint32_t group) {
        return ptx::shared_address(ptx::dynamic_shared()) + Smem::factors +
               group * Smem::own_factors;
    }

    // Consumers start their products in turn: of some that start them at once, all would take their
    // softmax at once, and the tensor cores nothing.
    struct TurnCursor {
        uint32_t own;
        uint32_t next;
        uint32_t round;  // parity

        __device__ __forceinline__ explicit TurnCursor(uint32_t group)
            : own(barrier(group)),
              next(barrier(group + 1 == Config::num_consumers ? 0 : group + 1)), round(group == 0) {
        }
        static __device__ __forceinline__ uint32_t barrier(uint32_t group) {
            return ptx::shared_address(ptx::dynamic_shared()) + Smem::turns + 8 * group;
        }
        __device__ __forceinline__ void wait() {
            if constexpr (Config::takes_turns)
                ptx::mbarrier_wait(own, round);
            round ^= 1;
        }
        __device__ __forceinline__ void pass_on() const {
            if constexpr (Config::takes_turns)
                ptx::mbarrier_arrive(next);
        }
    };

    // By one thread.
    static __device__ __forceinline__ void init() {
        OrderCursor::init(1, consumer_lanes + feed_threads);
        for (OrderCursor orders; orders.round == 0; orders.advance())
            orders.order().out_of_range = 0;
        QueryCursor::init(query_threads);
        TileCursor::init(by_tensor ? 1 : feed_threads);
        for (TileCursor tiles; new_by_tensor && tiles.round == 0; tiles.advance())
            ptx::mbarrier_init(tiles.unclear(), 1);
        for (uint32_t group = 0; group < Config::num_consumers; group++)
            ptx::mbarrier_init(TurnCursor::barrier(group), 128);
        if constexpr (is_coded)
            CodeFeed<Config>::init_barriers(ptx::shared_address(ptx::dynamic_shared()) +
                                            Smem::code_barriers);
        if constexpr (has_peer)
            Peer::init_barriers(ptx::shared_address(ptx::dynamic_shared()) + Smem::peer);
        ptx::fence_mbarrier_init();
    }

    // Which keys the tiles of a unit hold. Those of the cache are aligned to positions of the
    // request; new ones are counted from the first new key. In registers: a loop with barriers
    // would read a unit anew at each turn.
    struct TileKeys {
        uint32_t cached_tiles;
        uint32_t cached_first;
        uint32_t cached_end;
        uint32_t fresh_first;  // of a tile 0, had the new ones as many before them as the cached
        uint32_t fresh_end;
        uint32_t own_first;  // those before it are looked at only

        static __device__ __forceinline__ TileKeys of(const Unit& unit) {
            const uint32_t skipped = (unit.fresh.begin - unit.fresh_base) / tokens;
            return {unit.cached_tiles, unit.cached.begin / tokens * tokens,
                    unit.cached.end,   unit.fresh_base + (skipped - unit.cached_tiles) * tokens,
                    unit.fresh.end,    unit.tile};
        }
        // A tile before the unit's own, which is the first of the request.
        __device__ __forceinline__ bool is_look(uint32_t tile) const {
            return has_halves && tile < own_first;
        }
        __device__ __forceinline__ bool is_cached(uint32_t tile) const {
            return tile < cached_tiles;
        }
        __device__ __forceinline__ uint32_t first(uint32_t tile) const {
            if (is_look(tile))
                return 0;
            return (is_cached(tile) ? cached_first : fresh_first) + tile * tokens;
        }
        // The same of one that is known to be in the cache, and no look, or of which all is seen
        // like it.
        __device__ __forceinline__ uint32_t first_cached(uint32_t tile) const {
            return cached_first + tile * tokens;
        }
        __device__ __forceinline__ uint32_t end(uint32_t tile) const {
            return is_cached(tile) ? cached_end : fresh_end;
        }
    };
};

}  // namespace ftj
