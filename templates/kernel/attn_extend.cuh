// SPDX-License-Identifier: MIT
// Extend: runs of queries, each seeing what stands before it, over a paged cache and, where they are
// given, 16-bit keys of the same step beside it.
//
//   s = score_scale * q . k     o = sum_t p_t v_t     p_t = 2^(s_t - reference)     l = sum_t p_t
//
// A block walks a contiguous range of tiles of keys (query_tile.cuh). A tile is brought into shared
// memory once for the block and read by every warp, each for its own 16 * m_tiles rows of the query
// tile; of heads wider than 256 two warps have the same rows, and each half of O's dims.
//
//   stages > 1   wait(K, V of i) | barrier | fetch(K, V of i + stages - 1) | score, weigh, accumulate
//   one stage    wait(K of i) | barrier | fetch(V of i) | score |
//                wait(V of i) | barrier | fetch(K of i + 1) | weigh, accumulate
//
// Q is the A operand, K and V are the B operands, and scores become weights where they are. Every
// warp decodes the codes it reads into registers: the block pays the decoding num_warps times, but
// shared memory, which binds a 16-bit cache, moves codes and not values, and nothing is stored to it.
//
// Rounding is decode's: K and V operands are exact; q is 16-bit (query_rows.cuh); products are
// accumulated in fp32; K's row scale is put on the score in fp32; p is rounded to V's 16-bit type
// after V's row scale, times a power of two, was put on it; l sums the unscaled fp32 p. The reference
// is lazy: it moves when a score exceeds it by more than 8 (in log2), so p <= 2^8.
#pragma once
#include "block/codec_16bit.cuh"
#include "block/codec_fp8.cuh"
#include "block/codec_nvfp4.cuh"
#include "block/key_tile.cuh"
#include "block/query_rows.cuh"
#include "block/query_tile.cuh"
#include "block/row_softmax.cuh"
#include "block/row_state.cuh"

namespace ftj {

template <class Config>
struct AttnExtend {
    using VCodec = typename Config::VCodec;
    static constexpr int head_dim = Config::head_dim;
    static constexpr int m_tiles = Config::m_tiles;
    static constexpr int num_warps = Config::num_warps;
    static constexpr int num_stages = Config::num_stages;
    static constexpr int dim_parts = (head_dim + Config::part_dims - 1) / Config::part_dims;
    static constexpr uint32_t warp_rows = 16 * m_tiles;
    static constexpr int widest_value = 64;  // dims of the widest piece of V: the same of every codec
    using Work = ExtendWork<Config>;
    using Unit = QueryTile<Config>;
    using State = RowState<Config, widest_value>;
    using Cached = CachedKeys<Config>;
    using New = NewKeys<Config>;

    struct Smem {
        static constexpr int ring = 0;
        static constexpr int stage =
            Cached::Tile::bytes > New::Tile::bytes ? Cached::Tile::bytes : New::Tile::bytes;
        static constexpr int query = num_stages * stage;
        static constexpr int scales = query + Config::block_rows * head_dim * 2;
        static constexpr int seen = scales + Config::block_rows * 4;
        static constexpr int work = seen + num_warps * 16;
        static constexpr int work_bytes = 128;
        static constexpr int bytes = work + work_bytes;
    };
    static_assert(sizeof(Work) <= Smem::work_bytes, "the block's share, and where it stands in it");
    static_assert(Smem::bytes == Config::smem_bytes, "tune_extend.c and Smem must agree");
    static_assert(Smem::query >= Work::shared_bytes, "deal() borrows the ring");
    static_assert(Config::num_threads == num_warps * int(warp_size), "every warp has rows");
    static_assert(Config::block_rows * dim_parts == num_warps * warp_rows, "and no row is left");
    static_assert(num_stages > 1 || Config::step_tokens >= Config::tile_tokens,
                  "one stage gives K back between a tile's scores and its weights");

    // Where this warp stands in the query tile, and what it has in shared memory.
    struct Warp {
        uint32_t row;        // its first, counted within the block's
        uint32_t first_dim;  // of O
        uint32_t query;      // Q operands
        uint32_t scales;     // float per row
        uint32_t seen;       // SeenKeys
    };

    static __device__ void run(const ftj_extend_params& p) {
        unsigned char* smem = ptx::dynamic_shared();
        auto* split = pointer<Split>(p.splits) + ptx::block_index();
        Work& work = *reinterpret_cast<Work*>(smem + Smem::work);
        Work::deal(p, smem, work);
        if (ptx::thread_index() == 0)
            split->parts = 0;
        const Warp warp = find_warp(ptx::shared_address(smem));
        const Unit& unit = work.unit;
        State state;
        for (uint32_t done = 0; done < work.count;) {
            const uint32_t end = min_of(unit.tile + (work.count - done), unit.tiles);
            const uint32_t row = unit.first_row + warp.row;
            state.clear();
            if (unit.tile < unit.cached_tiles)
                attend<Cached>(p, unit, state, warp, unit.tile, min_of(end, unit.cached_tiles));
            if constexpr (VCodec::has_row_scale)
                state.multiply(VCodec::operand_fold / state.v_norm);
            if (unit.fresh.begin < unit.fresh.end && end > unit.cached_tiles)
                attend<New>(p, unit, state, warp,
                            max_of(unit.tile, unit.cached_tiles) - unit.cached_tiles,
                            end - unit.cached_tiles);
            state.add_sums();
            const uint32_t tiles = end - unit.tile;
            if (tiles == unit.tiles)
                state.write_outputs(p, unit, row, warp.first_dim);
            else
                leave_part(p, work, unit, state, row, warp.first_dim, done, split);
            done += tiles;
            ptx::sync_block();  // all have read where the block stands
            if (done < work.count && ptx::thread_index() == 0)
                work.unit.next(p);
            ptx::sync_block();
        }
    }

    static __device__ __forceinline__ Warp find_warp(uint32_t smem) {
        const uint32_t index = ptx::thread_index() / warp_size;
        const uint32_t group = index / dim_parts;
        return {group * warp_rows, index % dim_parts * uint32_t(head_dim - Config::part_dims),
                smem + Smem::query + group * (warp_rows * head_dim * 2),
                smem + Smem::scales + group * (warp_rows * 4), smem + Smem::seen + index * 16};
    }

    // The block that starts a unit says where its parts are.
    static __device__ __forceinline__ void leave_part(const ftj_extend_params& p, const Work& work,
                                                      const Unit& unit, const State& state,
                                                      uint32_t row, uint32_t first_dim,
                                                      uint32_t done, Split* split) {
        const uint32_t slot = 2 * ptx::block_index() + (done != 0);
        if (unit.tile == 0 && ptx::thread_index() == 0) {
            const uint64_t last = work.begin + done + unit.tiles - 1;
            *split = {unit.request, unit.index, unit.head, slot,
                      work.owner(last) - ptx::block_index() + 1, {}};
        }
        state.write_partial(p, unit, row, first_dim, slot);
    }

    // Of the widest piece of K: a product's Q operands are loaded once per piece.
    template <class KCodec>
    static constexpr int widest_key() {
        return KCodec::widest_key(head_dim) < 64 ? KCodec::widest_key(head_dim) : 64;
    }
    template <class Tile>
    using Query =
        QueryRows<Config, typename Tile::K::Codec, widest_key<typename Tile::K::Codec>()>;

    // ---- one run of tiles ----------------------------------------------------------------------
    template <class Keys>
    static __device__ __forceinline__ void attend(const ftj_extend_params& p, const Unit& unit,
                                                  State& state, const Warp& warp, uint32_t first,
                                                  uint32_t last) {
        using Tile = typename Keys::Tile;
        const uint32_t ring = ptx::shared_address(ptx::dynamic_shared());
        const uint32_t row = unit.first_row + warp.row;
        Keys keys(unit);
        uint32_t token = keys.token(first);
        const uint32_t end = token + (last - first) * Tile::tokens;

        ptx::sync_block();  // the ring and the queries have been read
        uint32_t ahead = token;  // the next tile to be fetched
        keys.find(p, ahead);
        if constexpr (num_stages > 1) {
            #pragma unroll 1
            for (int stage = 0; stage < num_stages - 1; stage++)
                fetch(p, keys, ring + stage * Smem::stage, ahead, end);
        } else {
            keys.fetch_k(p, ring, ahead);
            Copy::commit();
        }
        SeenKeys::find(p, unit, keys.keys(), row, warp_rows).put(warp.seen);
        Query<Tile>::load(p, unit, row, warp.query, warp.scales);

        uint32_t stage = 0;
        #pragma unroll 1
        for (; token < end; token += Tile::tokens) {
            const uint32_t shared = ring + stage * Smem::stage;
            if constexpr (num_stages > 1) {
                Copy::wait<num_stages - 2>();
                ptx::sync_block();  // the tile is there for all; the stage before is free
                const uint32_t before = stage == 0 ? num_stages - 1 : stage - 1;
                fetch(p, keys, ring + before * Smem::stage, ahead, end);
                attend_tile<Keys>(p, unit, state, warp, shared, token,
                                  [] {});
                stage = stage == num_stages - 1 ? 0 : stage + 1;
            } else {
                Copy::wait<0>();
                ptx::sync_block();  // K is there for all; V is free
                keys.fetch_v(p, ring, token);
                Copy::commit();
                const uint32_t next = token + Tile::tokens;
                if (next < end)
                    keys.find(p, next);
                attend_tile<Keys>(p, unit, state, warp, shared, token,
                                  [&] {
                                      Copy::wait<0>();
                                      ptx::sync_block();  // V is there for all; K is free
                                      if (next < end)
                                          keys.fetch_k(p, ring, next);
                                      Copy::commit();
                                  });
            }
        }
    }

    template <class Keys>
    static __device__ __forceinline__ void fetch(const ftj_extend_params& p, Keys& keys,
                                                 uint32_t shared, uint32_t& ahead, uint32_t end) {
        if (ahead < end) {
            keys.fetch_k(p, shared, ahead);
            keys.fetch_v(p, shared, ahead);
            ahead += Keys::Tile::tokens;
            if (ahead < end)
                keys.find(p, ahead);
        }
        Copy::commit();  // an empty group too: wait() counts groups
    }

    // ---- one tile ------------------------------------------------------------------------------
    // In steps of so many tokens as the registers hold scores of. `between` is called between the
    // scores and the weights of each.
    template <class Keys, class Between>
    static __device__ __forceinline__ void attend_tile(const ftj_extend_params& p, const Unit& unit,
                                                       State& state, const Warp& warp,
                                                       uint32_t shared, uint32_t token,
                                                       const Between& between) {
        using Tile = typename Keys::Tile;
        constexpr int step = Tile::tokens < Config::step_tokens ? Tile::tokens : Config::step_tokens;
        using Softmax = RowSoftmax<Config, Tile, step, State>;
        #pragma unroll 1
        for (uint32_t at = 0; at < Tile::tokens; at += step) {
            const uint32_t begin = token + at;
            const SeenKeys seen = SeenKeys::get(warp.seen);
            const bool is_seen = seen.is_seen(begin, begin + step);
            typename Softmax::Scores scores;
            if (is_seen)
                score<Tile, step>(warp.query, shared + Tile::k, at, scores);
            between();
            if (!is_seen)
                continue;
            typename Softmax::RowScales scales;
            Query<Tile>::load_scales(p, warp.scales, scales);
            Softmax::scale(shared + Tile::k + Tile::K::scales + 4 * at, scores);
            if constexpr (Config::has_softcap)
                Softmax::cap(p, scores, scales);
            if (!seen.is_whole(begin, begin + step))
                Softmax::mask(p, unit, Keys(unit).keys().end, unit.first_row + warp.row, begin, scores);
            typename Softmax::Weights weights;
            Softmax::weigh(state, scores, scales, shared + Tile::v + Tile::V::scales + 4 * at, weights);
            accumulate<Tile, step>(state, warp.first_dim, shared + Tile::v, at, weights);
        }
    }

    // Q K^T for `step` tokens.
    template <class Tile, int step>
    static __device__ __forceinline__ void score(uint32_t query, uint32_t shared, uint32_t at,
                                                 float (&scores)[m_tiles][step / 8][4]) {
        using Side = typename Tile::K;
        using KCodec = typename Side::Codec;
        const uint32_t lane = ptx::thread_index() % warp_size;
        const uint32_t token = at + spread(lane / 4), c = lane % 4;
        constexpr int usual = piece_dims(head_dim, widest_key<KCodec>());  // dims of most pieces
        const uint32_t codes = shared + token * Side::pitch + KCodec::key_run(usual, c);
        const uint32_t blocks =
            shared + Side::blocks + token * Side::block_row + KCodec::block_run(usual, c);
        const uint32_t operands = query + lane * 16;
        #pragma unroll
        for (int m = 0; m < m_tiles; m++) {
            #pragma unroll
            for (int n = 0; n < step / 8; n++)
                scores[m][n][0] = scores[m][n][1] = scores[m][n][2] = scores[m][n][3] = 0;
        }
        for_each_piece<head_dim, widest_key<KCodec>()>([&](auto piece) {
            constexpr int products = piece.dims / 16;
            uint32_t piece_codes = codes + KCodec::code_bytes(piece.at);
            uint32_t piece_blocks = blocks + piece.at / 16;
            if constexpr (piece.dims != usual) {
                piece_codes += KCodec::key_run(piece.dims, c) - KCodec::key_run(usual, c);
                piece_blocks += KCodec::block_run(piece.dims, c) - KCodec::block_run(usual, c);
            }
            ptx::Words4 q[products][m_tiles];
            #pragma unroll
            for (int j = 0; j < products; j++) {
                #pragma unroll
                for (int m = 0; m < m_tiles; m++)
                    q[j][m] = ptx::ld_shared_v4(
                        operands + (m * (head_dim / 16) + piece.at / 16 + j) * (warp_size * 16));
            }
            #pragma unroll
            for (int n = 0; n < step / 8; n++) {
                uint32_t k[products][2];
                KCodec::template load_key<piece.dims>(piece_codes + 8 * n * Side::pitch,
                                                      piece_blocks + 8 * n * Side::block_row, k);
                #pragma unroll
                for (int j = 0; j < products; j++) {
                    #pragma unroll
                    for (int m = 0; m < m_tiles; m++)
                        KCodec::Mma::product(scores[m][n], q[j][m].w[0], q[j][m].w[1], q[j][m].w[2],
                                             q[j][m].w[3], k[j][0], k[j][1]);
                }
            }
        });
    }

    // O += P V for `step` tokens and this warp's dims.
    template <class Tile, int step>
    static __device__ __forceinline__ void accumulate(State& state, uint32_t first_dim,
                                                      uint32_t shared, uint32_t at,
                                                      const uint32_t (&weights)[m_tiles][step / 16][4]) {
        using Side = typename Tile::V;
        using Codec = typename Side::Codec;
        const uint32_t lane = ptx::thread_index() % warp_size;
        const uint32_t g = lane / 4, c = lane % 4;
        constexpr int usual = piece_dims(Config::part_dims, widest_value);  // dims of most pieces
        const uint32_t skip = (dim_parts > 1 ? Codec::code_bytes(first_dim) : 0) +
                              Codec::value_run(usual, g);
        const uint32_t even = shared + (at + c) * Side::pitch + skip;            // spread(2c)
        const uint32_t odd = shared + (at + 4 + (c ^ 2)) * Side::pitch + skip;  // spread(2c + 1)
        const uint32_t blocks = shared + Side::blocks + (at + spread(g)) * Side::block_row +
                                (dim_parts > 1 ? first_dim / 16 : 0) + Codec::block_run(usual, c);
        #pragma unroll
        for (int k = 0; k < step / 16; k++) {
            for_each_piece<Config::part_dims, widest_value>([&](auto piece) {
                uint32_t first = 16 * k * Side::pitch + Codec::code_bytes(piece.at);
                uint32_t of_blocks = blocks + 16 * k * Side::block_row + piece.at / 16;
                if constexpr (piece.dims != usual) {
                    first += Codec::value_run(piece.dims, g) - Codec::value_run(usual, g);
                    of_blocks += Codec::block_run(piece.dims, c) - Codec::block_run(usual, c);
                }
                const uint32_t second = first + 8 * Side::pitch;
                const uint32_t codes[4] = {even + first, odd + first, even + second, odd + second};
                const uint32_t scales[2] = {of_blocks, of_blocks + 8 * Side::block_row};
                uint32_t v[piece.dims / 16][4];
                Codec::template load_value<piece.dims>(codes, scales, v);
                #pragma unroll
                for (int tile = 0; tile < piece.dims / 16; tile++) {
                    #pragma unroll
                    for (int half = 0; half < 2; half++) {
                        #pragma unroll
                        for (int m = 0; m < m_tiles; m++)
                            Codec::Mma::product(state.out[m][2 * (piece.at / 16 + tile) + half],
                                                weights[m][k][0], weights[m][k][1],
                                                weights[m][k][2], weights[m][k][3], v[tile][half],
                                                v[tile][2 + half]);
                    }
                }
            });
        }
    }
};

}  // namespace ftj
