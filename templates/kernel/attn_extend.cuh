// SPDX-License-Identifier: MIT
// Extend: runs of queries, each seeing what stands before it, over a paged cache and, where they
// are given, 16-bit keys of the same step beside it.
//
//   s = score_scale * q . k     o = sum_t p_t v_t     p_t = 2^(s_t - reference)     l = sum_t p_t
//
// A block walks a contiguous range of tiles of keys (query_tile.cuh). A tile is brought into shared
// memory once for the block and read by every warp, each for its own 16 * m_tiles rows of the query
// tile; of heads wider than 256 two warps have the same rows, and each half of O's dims. A query
// tile of few rows (a short run, a decode's one query) occupies half of the warps; then the other
// half has the same rows too, the two take turns at the steps of a tile, and merge at the end.
//
//   two stages   wait(K, V of i) | steps but the last | wait(other stage is free) |
//                fetch(K, V of i + 1) | last step
//   one stage    wait(K of i) | barrier | fetch(V of i) | score |
//                wait(V of i) | barrier | fetch(K of i + 1) | weigh, accumulate
//
// Q is the A operand, K and V are the B operands, and scores become weights where they are. Codes
// are decoded into registers by every warp that reads them, so that shared memory, which binds a
// 16-bit cache, moves codes and not values; or, by a Config that widens, once into shared memory
// (wide_keys.cuh), where decoding is what binds.
//
// Rounding is decode's: K and V operands are exact; q is 16-bit (query_rows.cuh); products are
// accumulated in fp32; K's row scale is put on the score in fp32; p is rounded to V's 16-bit type
// after V's row scale, times a power of two, was put on it; l sums the unscaled fp32 p. Widened V
// has its row scale, and is rounded to bf16 with it. The reference is row_state.cuh's.
#pragma once
#include "block/codec_16bit.cuh"
#include "block/codec_fp8.cuh"
#include "block/codec_nvfp4.cuh"
#include "block/key_tile.cuh"
#include "block/query_rows.cuh"
#include "block/query_tile.cuh"
#include "block/row_products.cuh"
#include "block/row_softmax.cuh"
#include "block/row_state.cuh"
#include "block/row_warp.cuh"
#include "block/stage_pair.cuh"

namespace ftj {

template <class Config>
struct WideKeys;  // wide_keys.cuh, where a Config may ask for it

template <class Config>
struct AttnExtend {
    using VCodec = typename Config::VCodec;
    static constexpr int head_dim = Config::head_dim;
    static constexpr int num_warps = Config::num_warps;
    static constexpr int num_stages = Config::num_stages;
    using Work = ExtendWork<Config>;
    using Unit = QueryTile<Config>;
    using State = RowState<Config>;
    using Warp = RowWarp<Config>;
    using Stages = StagePair<Config>;
    static constexpr uint32_t warp_rows = Warp::rows;
    using Cached = CachedKeys<Config>;
    using New = NewKeys<Config>;
    template <class Tile>
    using Products = RowProducts<Config, Tile>;

    struct Smem {
        static constexpr int ring = 0;
        static constexpr int stage = !Config::widens && Cached::Tile::bytes > New::Tile::bytes
                                         ? Cached::Tile::bytes
                                         : New::Tile::bytes;
        static constexpr int query = num_stages * stage;
        static constexpr int scales = query + Config::block_rows * head_dim * 2;
        static constexpr int places = scales + Config::block_rows * 4;
        static constexpr int codes = places + num_warps * Cached::warp_bytes;  // to be widened
        static constexpr int work = codes + (Config::widens ? num_stages * Cached::Tile::bytes : 0);
        static constexpr int work_bytes = 128;
        static constexpr int barriers = work + work_bytes;
        static constexpr int bytes = barriers + Stages::bytes;
    };
    static_assert(sizeof(Work) <= Smem::work_bytes, "the block's share, and where it stands in it");
    static_assert(Smem::bytes == Config::smem_bytes, "tune_extend.c and Smem must agree");
    static_assert(Smem::query >= Work::shared_bytes, "deal() borrows the ring");
    static_assert(Config::num_threads == num_warps * int(warp_size), "every warp has rows");
    static_assert(Config::block_rows * Warp::dim_parts == num_warps * warp_rows,
                  "and no row is left");
    static_assert(num_stages == 2 || Config::step_tokens >= Config::tile_tokens,
                  "one stage gives K back between a tile's scores and its weights");

    // Half of the warps leave their states where the ring and the queries were.
    static constexpr bool may_share_rows = num_stages > 1 && Warp::groups % 2 == 0 &&
                                           Config::tile_tokens % (2 * Config::step_tokens) == 0 &&
                                           num_warps / 2 * State::slot_bytes <= Smem::scales;

    static __device__ void run(const ftj_extend_params& p) {
        unsigned char* smem = ptx::dynamic_shared();
        Work& work = *reinterpret_cast<Work*>(smem + Smem::work);
        Stages stages(ptx::shared_address(smem) + Smem::barriers);
        Work::deal(p, smem, work);
        if (ptx::thread_index() == 0)
            split(p).parts = 0;
        const Unit& unit = work.unit;
        State state;
        // By way of a neighbour: the compiler would ask for the number each time, and wait for it.
        const uint32_t thread = ptx::shfl(ptx::thread_index(), ptx::thread_index() % warp_size);
        const uint32_t count = ptx::uniform(work.count);
        uint32_t owed = ptx::uniform(work.owed);
        for (uint32_t done = 0; done + owed < count;) {
            const uint32_t end =
                ptx::uniform(min_of(unit.tile + (count - done - owed), unit.tiles));
            const Warp warp = Warp::template find<may_share_rows>(
                unit.first_row, unit.end_row, ptx::shared_address(smem) + Smem::query,
                ptx::shared_address(smem) + Smem::scales);
            state.clear(work.follows_maximum);
            if constexpr (Config::widens || is_same<typename Cached::Tile, typename New::Tile>) {
                using Keys = select_type<Config::widens, WideKeys<Config>, EitherKeys<Config>>;
#pragma unroll 1
                for (uint32_t part = 0; part < 2; part++)
                    attend_part(p, unit, warp, stages, state,
                                Keys(p, unit, thread, places(), part != 0), part != 0, end);
            } else {
                attend_part(p, unit, warp, stages, state, Cached(p, unit, thread, places()), false,
                            end);
                if constexpr (VCodec::has_row_scale)
                    state.multiply(VCodec::operand_fold * inverse_of_power(state.v_norm));
                attend_part(p, unit, warp, stages, state, New(p, unit, thread, places()), true,
                            end);
            }
            state.add_sums();
            if (may_share_rows && warp.turn != Warp::every_step)
                merge_turns(state, warp.turn);
            if constexpr (!State::always_follows) {
                if (state.is_out_of_range())
                    work.out_of_range = 1;
                state.settle();
            }
            const uint32_t tiles = end - unit.tile;
            if (tiles != unit.tiles)
                leave_part(p, work, unit, state, warp, done, owed);
            else if (warp.has_result())
                state.write_outputs(p, unit, warp.row, Warp::first_dim());
            ptx::sync_block();  // all have read where the block stands
            if (ptx::thread_index() == 0)
                work.go_on(p, done + owed + tiles + Work::unit_cost < count);
            ptx::sync_block();
            if (!ptx::uniform(work.follows_maximum)) {
                done += owed + ptx::uniform(tiles);
                owed = Work::unit_cost;
            }
        }
    }

    // The warps that took the odd steps hand over to those that took the even ones.
    static __device__ __forceinline__ void merge_turns(State& state, uint32_t turn) {
        auto* slot = reinterpret_cast<float*>(ptx::dynamic_shared() + Smem::ring +
                                              Warp::index() % (num_warps / 2) * State::slot_bytes);
        ptx::sync_block();  // the ring and the queries have been read
        if (turn == 1)
            state.put(slot);
        ptx::sync_block();
        if (turn == 0)
            state.take(slot);
    }

    // What this block tells the combine. Not kept: it would take registers of the main loop.
    static __device__ __forceinline__ Split& split(const ftj_extend_params& p) {
        return pointer<Split>(p.splits)[ptx::block_index()];
    }

    // The block that starts a unit says where its parts are.
    static __device__ __forceinline__ void leave_part(const ftj_extend_params& p, const Work& work,
                                                      const Unit& unit, const State& state,
                                                      const Warp& warp, uint32_t done,
                                                      uint32_t owed) {
        const uint32_t slot = 2 * ptx::block_index() + (done != 0);
        if (unit.tile == 0 && ptx::thread_index() == 0) {
            const uint64_t last = work.begin + done + owed + unit.tiles - 1;
            split(p) = Split::of(unit, slot, work.owner(last) - ptx::block_index() + 1);
        }
        if (warp.has_result())
            state.write_partial(p, unit, warp.row, Warp::first_dim(), slot);
    }

    // ---- one run of tiles ----------------------------------------------------------------------
    // Where a warp notes the places of a tile's rows.
    static __device__ __forceinline__ uint32_t places() {
        return ptx::shared_address(ptx::dynamic_shared()) + Smem::places +
               Warp::index() * Cached::warp_bytes;
    }

    // Of a unit's tiles, which go from unit.tile to `end`, those of cached or of new keys.
    template <class Keys>
    static __device__ __forceinline__ void attend_part(const ftj_extend_params& p, const Unit& unit,
                                                       const Warp& warp, Stages& stages,
                                                       State& state, Keys keys, bool is_new,
                                                       uint32_t end) {
        const uint32_t before = is_new ? unit.cached_tiles : 0;
        const uint32_t first = ptx::uniform(max_of(unit.tile, before));
        const uint32_t last = ptx::uniform(is_new ? end : min_of(end, unit.cached_tiles));
        const KeyRange range = keys.range();
        if (first < last && range.begin < range.end) {
            if constexpr (Config::widens)
                attend_wide(p, unit, warp, state, keys, first - before, last - before);
            else
                attend(p, unit, warp, stages, state, keys, first - before, last - before);
        }
    }

    // Codes are fetched two tiles ahead and widened one ahead, before or after the warp's products;
    // new keys are fetched one ahead.
    template <class Keys>
    static __device__ __forceinline__ void attend_wide(const ftj_extend_params& p, const Unit& unit,
                                                       const Warp& warp, State& state, Keys& keys,
                                                       uint32_t first, uint32_t last) {
        using Tile = typename Keys::Tile;
        static_assert(num_stages == 2, "of codes, and of what they become");
        constexpr uint32_t code_stage = Cached::Tile::bytes;
        const uint32_t ring = ptx::shared_address(ptx::dynamic_shared());
        const uint32_t codes = ring + Smem::codes;
        uint32_t token = keys.token(first);
        const uint32_t end = token + (last - first) * Tile::tokens;

        ptx::sync_block();  // the ring and the queries have been read
        uint32_t ahead = token;
        if (keys.is_new) {
            fetch(p, keys.fresh, ring, ahead, end);
        } else {
            fetch(p, keys.cached, codes, ahead, end);
            fetch(p, keys.cached, codes + code_stage, ahead, end);
        }
        const SeenKeys seen = SeenKeys::find(p, unit, keys.range(), warp.row, warp_rows).held();
        if (warp.loads_query())
            Products<Tile>::Query::load(p, unit, warp.row, warp.query, warp.scales);
        // Of the warps of a scheduler one half widens first and the other attends first: where all
        // did the same, the tensor cores had nothing to do while they widened.
        const uint32_t widens_at = ptx::uniform(Warp::index() / (num_warps / 2));
        uint32_t stage = 1;
        if (!keys.is_new) {
            Copy::wait<1>();
            ptx::sync_block();
            Keys::widen(p, codes, ring, keys.cached.thread);
        }
#pragma unroll 1
        for (; token < end; token += Tile::tokens) {
            Copy::wait<0>();
            ptx::sync_block();  // the tile is there for all, and the next one's codes
            const uint32_t next = ring + stage * Smem::stage;
            stage ^= 1;
            if (keys.is_new)
                fetch(p, keys.fresh, next, ahead, end);
            else
                fetch(p, keys.cached, codes + stage * code_stage, ahead, end);
#pragma unroll 1
            for (uint32_t turn = 0; turn < 2; turn++) {
                if (turn != widens_at)
                    attend_tile(p, unit, warp, seen, state, keys, ring + stage * Smem::stage, token,
                                [] {});
                else if (!keys.is_new && token + Tile::tokens < end)
                    Keys::widen(p, codes + (stage ^ 1) * code_stage, next, keys.cached.thread);
            }
        }
    }

    template <class Keys>
    static __device__ __forceinline__ void attend(const ftj_extend_params& p, const Unit& unit,
                                                  const Warp& warp, Stages& stages, State& state,
                                                  Keys& keys, uint32_t first, uint32_t last) {
        using Tile = typename Keys::Tile;
        const uint32_t ring = ptx::shared_address(ptx::dynamic_shared());
        uint32_t token = keys.token(first);
        const uint32_t end = token + (last - first) * Tile::tokens;

        ptx::sync_block();       // the ring and the queries have been read
        uint32_t ahead = token;  // the next tile to be fetched
        keys.find(p, ahead);
        if constexpr (num_stages > 1) {
            stages.read = ptx::uniform(stages.read);
            bring(p, keys, ring + stages.stage() * Smem::stage, ahead, end);
            stages.fill(stages.stage());
        } else {
            keys.fetch_k(p, ring, ahead);
            Copy::commit();
        }
        const SeenKeys seen = SeenKeys::find(p, unit, keys.range(), warp.row, warp_rows).held();
        if (warp.loads_query())
            Products<Tile>::Query::load(p, unit, warp.row, warp.query, warp.scales);
        if constexpr (num_stages > 1 && !Stages::meets)
            ptx::sync_block();  // the queries are there for all

#pragma unroll 1
        for (; token < end; token += Tile::tokens) {
            if constexpr (num_stages > 1) {
                stages.wait();
#pragma unroll 1
                for (uint32_t at = 0; at < Tile::tokens; at += step_of<Tile>()) {
                    if (at + step_of<Tile>() == Tile::tokens && ahead < end) {
                        const uint32_t other = stages.wait_for_other();
                        bring(p, keys, ring + other * Smem::stage, ahead, end);
                        stages.fill(other);
                    }
                    attend_step(p, unit, warp, seen, state, keys,
                                ring + stages.stage() * Smem::stage, token, at, [] {});
                }
                stages.leave();
            } else {
                Copy::wait<0>();
                ptx::sync_block();  // K is there for all; V is free
                keys.fetch_v(p, ring, token);
                Copy::commit();
                const uint32_t next = token + Tile::tokens;
                if (next < end)
                    keys.find(p, next);
                attend_tile(p, unit, warp, seen, state, keys, ring, token, [&] {
                    Copy::wait<0>();
                    ptx::sync_block();  // V is there for all; K is free
                    if (next < end)
                        keys.fetch_k(p, ring, next);
                    Copy::commit();
                });
            }
        }
    }

    // The tile at `ahead` into a stage.
    template <class Keys>
    static __device__ __forceinline__ void bring(const ftj_extend_params& p, Keys& keys,
                                                 uint32_t shared, uint32_t& ahead, uint32_t end) {
        // Codes to be widened are looked up only now, mostly in the L1: a page number kept over the
        // products is spilled, which waits for it at once.
        if constexpr (Config::widens)
            keys.find(p, ahead);
        keys.fetch_k(p, shared, ahead);
        keys.fetch_v(p, shared, ahead);
        ahead += Keys::Tile::tokens;
        if (!Config::widens && ahead < end)
            keys.find(p, ahead);
    }

    template <class Keys>
    static __device__ __forceinline__ void fetch(const ftj_extend_params& p, Keys& keys,
                                                 uint32_t shared, uint32_t& ahead, uint32_t end) {
        if (ahead < end)
            bring(p, keys, shared, ahead, end);
        Copy::commit();  // an empty group too: wait() counts groups
    }

    // ---- one tile ------------------------------------------------------------------------------
    // In steps of so many tokens as the registers hold scores of.
    template <class Tile>
    static constexpr uint32_t step_of() {
        return Tile::tokens < Config::step_tokens ? Tile::tokens : Config::step_tokens;
    }

    template <class Keys, class Between>
    static __device__ __forceinline__ void attend_tile(const ftj_extend_params& p, const Unit& unit,
                                                       const Warp& warp, const SeenKeys& seen,
                                                       State& state, const Keys& keys,
                                                       uint32_t shared, uint32_t token,
                                                       const Between& between) {
        using Tile = typename Keys::Tile;
#pragma unroll 1
        for (uint32_t at = 0; at < Tile::tokens; at += step_of<Tile>())
            attend_step(p, unit, warp, seen, state, keys, shared, token, at, between);
    }

    // `between` is called between the scores and the weights.
    template <class Keys, class Between>
    static __device__ __forceinline__ void attend_step(const ftj_extend_params& p, const Unit& unit,
                                                       const Warp& warp, const SeenKeys& seen,
                                                       State& state, const Keys& keys,
                                                       uint32_t shared, uint32_t token, uint32_t at,
                                                       const Between& between) {
        using Tile = typename Keys::Tile;
        constexpr int step = step_of<Tile>();
        using Softmax = RowSoftmax<Config, Tile, step, State>;
        const uint32_t begin = token + at;
        const bool is_seen = seen.is_seen(begin, begin + step) && warp.takes(at / step);
        typename Softmax::Scores scores;
        if (is_seen)
            Products<Tile>::template score<step>(keys.lane(), warp.query, shared + Tile::k, at,
                                                 scores);
        between();
        if (!is_seen)
            return;
        typename Softmax::Factors factors;
        Products<Tile>::Query::load_scales(p, warp.scales, factors.of_row);
        Softmax::scale(shared + Tile::k + Tile::K::scales + 4 * at, scores, factors);
        if constexpr (Config::has_softcap)
            Softmax::cap(p, scores, factors);
        if (!seen.is_whole(begin, begin + step))
            Softmax::mask(p, unit, keys.range().end, warp.row, begin, scores, factors);
        typename Softmax::Weights weights;
        Softmax::weigh(state, scores, factors, shared + Tile::v + Tile::V::scales + 4 * at,
                       weights);
        Products<Tile>::template accumulate<step>(state, keys.lane(), Warp::first_dim(),
                                                  shared + Tile::v, at, weights);
    }
};

}  // namespace ftj
