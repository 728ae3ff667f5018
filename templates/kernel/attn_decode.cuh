// SPDX-License-Identifier: MIT
// Split-KV decode: one query per request, every query head of a kv head at once.
//
//   s = score_scale * q . k     o = sum_t p_t v_t     p_t = 2^(s_t - max)     l = sum_t p_t
//
// A block walks a contiguous range of tiles (segments.cuh); its warps take the tiles in turn, each
// with a ring of stages of its own, so that the main loop has no barrier but the warp's:
//
//   warp w   wait(tile i) | fetch(tile i + stages - 1) | score, softmax, accumulate (tile i)
//
// At the end of a segment the warps merge, and the block writes O, or a partial result if it does
// not hold the whole segment; attn_combine.cuh does the rest.
//
// K and V are the A operands: a tile of scores is [16 tokens][8 query heads], O is kept transposed,
// [16 dims][8 heads] per tile. Lane (g, c) = (lane / 4, lane % 4) then holds heads 2c and 2c + 1 in
// both, and its maximum and sum need no exchange in the loop.
//
// Rounding: K and V operands are exact; q is 16-bit (query.cuh); products are accumulated in fp32; K's
// row scale is put on the score in fp32; p is rounded to V's 16-bit type after V's row scale, times a
// power of two, was put on it; l sums the unscaled fp32 p. The maximum is lazy: it moves when a score
// exceeds it by more than 8 (in log2), so p <= 2^8.
#pragma once
#include "block/codec_16bit.cuh"
#include "block/codec_fp8.cuh"
#include "block/codec_nvfp4.cuh"
#include "block/final_row.cuh"
#include "block/merge_warps.cuh"
#include "block/query.cuh"
#include "block/segments.cuh"
#include "block/stage.cuh"

namespace ftj {

template <class Config>
struct AttnDecode {
    using KCodec = typename Config::KCodec;
    using VCodec = typename Config::VCodec;
    using Tile = Stage<Config>;
    static constexpr int head_dim = Config::head_dim;
    static constexpr int n_tiles = Config::n_tiles;
    static constexpr int num_warps = Config::num_warps;
    static constexpr int num_stages = Config::num_stages;
    static constexpr uint32_t tile_tokens = Config::tile_tokens;
    static constexpr float max_slack = 8.0f;     // log2: how far a score may exceed the maximum
    static constexpr float v_scale_top = 128.0f;  // most a normalised V row scale may be: p * it < 2^15
    static constexpr int v_scale_exponent = 4;   // what it is brought to when it is not
    using Work = WorkRange<tile_tokens>;
    using Rows = OutputRows<Config>;
    using Place = typename Tile::Place;

    struct Smem {
        static constexpr int ring = num_warps * num_stages * Tile::bytes;
        static constexpr int query = ring;
        static constexpr int rows = query + Query<Config>::shared_bytes;
        static constexpr int bytes = rows + Rows::shared_bytes;
    };
    static_assert(Smem::bytes == Config::smem_bytes, "tune_decode.c and Smem must agree");
    static_assert(Config::num_threads == num_warps * int(warp_size), "every warp takes tiles");
    static_assert(Rows::shared_bytes >= 8 * Config::num_threads + 16, "deal_work borrows it");

    // What a lane holds of a segment: columns (heads) 2c and 2c + 1 of every tile of 8 heads.
    struct State {
        float out[n_tiles][head_dim / 16][4];  // [dim 16][head 8] accumulators
        float max[n_tiles][2];                 // log2
        float sum[n_tiles][2];
        float v_norm;  // power of two on V's row scales; out is of values times it
    };

    // The next tile to be fetched: this warp's own place in the block's range, stages ahead.
    struct Cursor {
        Segment<tile_tokens> segment;
        uint32_t index;   // of the tile within the block's range
        uint32_t run_end;  // of the segment's run within the range
        Place place;
    };

    static __device__ void run(const ftj_decode_params& p) {
        unsigned char* smem = ptx::dynamic_shared();
        const Work work = deal_work<tile_tokens, Config::num_threads>(
            p.requests, p.num_kv_heads, p.head_blocks, num_warps,
            reinterpret_cast<uint64_t*>(smem + Smem::rows));
        if (!work.count)
            return;

        const uint32_t warp = ptx::thread_index() / warp_size;
        const uint32_t ring = ptx::shared_address(smem) + warp * (num_stages * Tile::bytes);
        Cursor cursor = start_cursor(p, work, warp);
        #pragma unroll 1
        for (int stage = 0; stage < num_stages - 1; stage++)
            fetch_next(p, work, cursor, ring + stage * Tile::bytes);

        Query<Config> query;
        query.shared = ptx::shared_address(smem + Smem::query);
        Segment<tile_tokens> segment = work.first;
        uint32_t stage = 0;
        uint32_t index = warp;
        for (uint32_t begin = 0; begin < work.count;) {
            const uint32_t end = min_of(work.count, begin + segment.tiles - segment.tile);
            State state = empty_state();
            load_query(p, segment, query);
            for (; index < end; index += num_warps) {
                bring_next(p, work, cursor, ring, stage);
                const uint32_t token = segment.token(segment.tile + index - begin);
                attend(p, query, state, ring + stage * Tile::bytes, segment.keys, token);
                stage = stage == num_stages - 1 ? 0 : stage + 1;
            }
            finish_segment(p, work, segment, begin, end, state, smem + Smem::rows);
            begin = end;
            if (begin < work.count)
                segment.next(p.requests, p.num_kv_heads, p.head_blocks);
        }
    }

    // ---- fetching ------------------------------------------------------------------------------
    static __device__ __forceinline__ Cursor start_cursor(const ftj_decode_params& p,
                                                          const Work& work, uint32_t warp) {
        Cursor cursor;
        cursor.segment = work.first;
        cursor.index = 0;
        cursor.run_end = work.first.tiles - work.first.tile;
        advance(p, work, cursor, warp);
        return cursor;
    }

    // Move by some tiles and look up where the new one lies; its copy comes a tile later, when the
    // table's answer has arrived.
    static __device__ __forceinline__ void advance(const ftj_decode_params& p, const Work& work,
                                                   Cursor& cursor, uint32_t by) {
        cursor.index += by;
        cursor.segment.tile += by;
        if (cursor.index >= work.count)
            return;
        while (cursor.index >= cursor.run_end) {
            cursor.segment.next(p.requests, p.num_kv_heads, p.head_blocks);
            cursor.segment.tile = cursor.index - cursor.run_end;
            cursor.run_end += cursor.segment.tiles;
        }
        const auto& segment = cursor.segment;
        cursor.place = Tile::find(p.requests, segment.request, segment.keys,
                                  segment.token(segment.tile));
    }

    static __device__ __forceinline__ void fetch_next(const ftj_decode_params& p, const Work& work,
                                                      Cursor& cursor, uint32_t shared) {
        if (cursor.index < work.count) {
            const auto& segment = cursor.segment;
            Tile::fetch(p.cache, shared, segment.head, segment.keys, segment.token(segment.tile),
                        cursor.place);
            advance(p, work, cursor, num_warps);
        }
        Copy::commit();  // an empty group too: wait() counts groups
    }

    // Wait for the tile of `stage`, then start the copy into the stage read before it. A single stage
    // (what a small memory leaves wide heads) is filled when it is needed.
    static __device__ __forceinline__ void bring_next(const ftj_decode_params& p, const Work& work,
                                                      Cursor& cursor, uint32_t ring,
                                                      uint32_t stage) {
        if constexpr (num_stages > 1) {
            Copy::wait<num_stages - 2>();
            ptx::sync_warp();  // the tile is there for all lanes; the stage before is free
            const uint32_t before = stage == 0 ? num_stages - 1 : stage - 1;
            fetch_next(p, work, cursor, ring + before * Tile::bytes);
        } else {
            ptx::sync_warp();
            fetch_next(p, work, cursor, ring);
            Copy::wait<0>();
            ptx::sync_warp();
        }
    }

    // ---- one segment ---------------------------------------------------------------------------
    static __device__ __forceinline__ State empty_state() {
        State state;
        #pragma unroll
        for (int n = 0; n < n_tiles; n++) {
            #pragma unroll
            for (int i = 0; i < head_dim / 16; i++)
                state.out[n][i][0] = state.out[n][i][1] = state.out[n][i][2] = state.out[n][i][3] = 0;
            state.max[n][0] = state.max[n][1] = lowest_score;
            state.sum[n][0] = state.sum[n][1] = 0;
        }
        state.v_norm = ptx::bits_float(0x7e800000u);  // 2^126: the first real scale replaces it
        return state;
    }

    static __device__ __forceinline__ void load_query(const ftj_decode_params& p,
                                                      const Segment<tile_tokens>& segment,
                                                      Query<Config>& query) {
        const uint32_t first = segment.head_block * (8 * n_tiles);
        query.load(p, segment.request, segment.head, first,
                   min_of(p.group - first, uint32_t(8 * n_tiles)));
    }

    static __device__ __forceinline__ void finish_segment(const ftj_decode_params& p,
                                                          const Work& work,
                                                          const Segment<tile_tokens>& segment,
                                                          uint32_t begin, uint32_t end, State& state,
                                                          unsigned char* shared) {
        const float v_factor = VCodec::has_row_scale ? VCodec::operand_fold / state.v_norm : 1.0f;
        Rows::merge(state.out, state.max, state.sum, v_factor, shared);
        Rows::write(p, work, segment, begin, end, shared);
    }

    // ---- one tile ------------------------------------------------------------------------------
    // In subtiles of 16 tokens, as the products want them; their scores are made first and share one
    // look at the maximum, so that two chains of products are under way at a time.
    static constexpr int subtiles = tile_tokens / 16;
    using Scores = float[subtiles][n_tiles][4];     // log2 units; tokens tau(g), tau(g) + 8
    using Weights = uint32_t[subtiles][n_tiles][2];
    using VScales = float[subtiles][2];

    static __device__ __forceinline__ void attend(const ftj_decode_params& p,
                                                  const Query<Config>& query, State& state,
                                                  uint32_t shared, Visible keys, uint32_t token) {
        const bool whole = token >= keys.begin && token + tile_tokens <= keys.end;
        const uint32_t row = tau(ptx::thread_index() % warp_size / 4);
        Scores scores;
        VScales v_scales;
        #pragma unroll
        for (int i = 0; i < subtiles; i++) {
            score(query, shared, 16 * i, scores[i]);
            scale(p, query, shared + Tile::k_scales + 4 * (16 * i + row), scores[i]);
            if (!whole)
                mask(keys, token + 16 * i + row, scores[i]);
            v_scales[i][0] = v_scales[i][1] = 1.0f;
            if constexpr (VCodec::has_row_scale) {
                const uint32_t at = shared + Tile::v_scales + 4 * (16 * i + row);
                v_scales[i][0] = ptx::ld_shared_f32(at);
                v_scales[i][1] = ptx::ld_shared_f32(at + 4 * 8);
            }
        }
        Weights weights;
        softmax(state, scores, v_scales, weights);
        #pragma unroll
        for (int i = 0; i < subtiles; i++)
            accumulate(state, shared, 16 * i, weights[i]);
    }

    // K q for 16 tokens, in two sums that do not wait for each other.
    static __device__ __forceinline__ void score(const Query<Config>& query, uint32_t shared,
                                                 uint32_t at, float (&scores)[n_tiles][4]) {
        const uint32_t lane = ptx::thread_index() % warp_size;
        const uint32_t row = at + tau(lane / 4);
        const uint32_t codes = shared + Tile::k_codes + row * Tile::k_code_row;
        const uint32_t blocks = shared + Tile::k_blocks + row * Tile::k_block_row;
        float sums[2][n_tiles][4] = {};
        for_each_piece<head_dim, KCodec::widest_key(head_dim)>([&](auto piece) {
            uint32_t upper[piece.dims / 16][2], lower[piece.dims / 16][2];  // rows g and g + 8
            const uint32_t piece_codes = codes + KCodec::code_bytes(piece.at);
            const uint32_t piece_blocks = blocks + piece.at / 16;
            KCodec::template load_key<piece.dims>(piece_codes, piece_blocks, lane % 4, upper);
            KCodec::template load_key<piece.dims>(piece_codes + 8 * Tile::k_code_row,
                                                  piece_blocks + 8 * Tile::k_block_row, lane % 4,
                                                  lower);
            #pragma unroll
            for (int j = 0; j < piece.dims / 16; j++) {
                #pragma unroll
                for (int n = 0; n < n_tiles; n++) {
                    uint32_t b[2];
                    query.operand(n, piece.at / 16 + j, b);
                    KCodec::Mma::product(sums[j % 2][n], upper[j][0], lower[j][0], upper[j][1],
                                         lower[j][1], b[0], b[1]);
                }
            }
        });
        #pragma unroll
        for (int n = 0; n < n_tiles; n++) {
            #pragma unroll
            for (int i = 0; i < 4; i++)
                scores[n][i] = sums[0][n][i] + sums[1][n][i];
        }
    }

    // Products to scores in log2 units.
    static __device__ __forceinline__ void scale(const ftj_decode_params& p,
                                                 const Query<Config>& query, uint32_t k_scales,
                                                 float (&scores)[n_tiles][4]) {
        float k_scale[2] = {1.0f, 1.0f};
        if constexpr (KCodec::has_row_scale) {
            k_scale[0] = ptx::ld_shared_f32(k_scales);
            k_scale[1] = ptx::ld_shared_f32(k_scales + 4 * 8);
        }
        #pragma unroll
        for (int n = 0; n < n_tiles; n++) {
            #pragma unroll
            for (int i = 0; i < 4; i++) {
                scores[n][i] *= k_scale[i / 2] * query.score_scale[n][i % 2];
                if constexpr (Config::has_softcap)
                    scores[n][i] = p.softcap * log2e * tanh_of(scores[n][i] / p.softcap);
            }
        }
    }

    // 1 - 2 / (e^2x + 1), to fp32's accuracy near 1 and to 1e-7 near 0.
    static __device__ __forceinline__ float tanh_of(float x) {
        return 1.0f - 2.0f / (ptx::ex2_approx(2.0f * log2e * x) + 1.0f);
    }

    static __device__ __forceinline__ void mask(Visible keys, uint32_t token,
                                                float (&scores)[n_tiles][4]) {
        const float minus_infinity = ptx::bits_float(0xff800000u);
        #pragma unroll
        for (int i = 0; i < 4; i++) {
            const uint32_t mine = token + i / 2 * 8;
            if (mine >= keys.begin && mine < keys.end)
                continue;
            #pragma unroll
            for (int n = 0; n < n_tiles; n++)
                scores[n][i] = minus_infinity;
        }
    }

    // Scores to weights: B operands of the product with V^T, [16 tokens][8 heads] each.
    static __device__ __forceinline__ void softmax(State& state, const Scores& scores,
                                                   const VScales& v_scales, Weights& weights) {
        float excess = scores[0][0][0] - state.max[0][0];
        float v_most = 0.0f;
        #pragma unroll
        for (int i = 0; i < subtiles; i++) {
            v_most = ptx::max_f32(v_most, ptx::max_f32(v_scales[i][0], v_scales[i][1]));
            #pragma unroll
            for (int n = 0; n < n_tiles; n++) {
                #pragma unroll
                for (int e = 0; e < 4; e++)
                    excess = ptx::max_f32(excess, scores[i][n][e] - state.max[n][e % 2]);
            }
        }
        bool rebase = excess > max_slack;
        if constexpr (VCodec::has_row_scale)
            rebase |= v_most * state.v_norm > v_scale_top;
        if (ptx::any(rebase))
            rebase_state(state, scores, v_most);

        #pragma unroll
        for (int i = 0; i < subtiles; i++) {
            const float v_norm = VCodec::has_row_scale ? state.v_norm : 1.0f;
            const float v_factor[2] = {v_scales[i][0] * v_norm, v_scales[i][1] * v_norm};
            #pragma unroll
            for (int n = 0; n < n_tiles; n++) {
                float p[4];
                #pragma unroll
                for (int e = 0; e < 4; e++) {
                    p[e] = ptx::ex2_approx(scores[i][n][e] - state.max[n][e % 2]);
                    state.sum[n][e % 2] += p[e];
                }
                // A score tile has its tokens in lanes g; the product wants its heads there.
                weights[i][n][0] = ptx::movmatrix_trans(
                    VCodec::Mma::pack(p[0] * v_factor[0], p[1] * v_factor[0]));
                weights[i][n][1] = ptx::movmatrix_trans(
                    VCodec::Mma::pack(p[2] * v_factor[1], p[3] * v_factor[1]));
            }
        }
    }

    // Raise the maxima to these scores' and bring V's row scales back under their bound.
    static __device__ __forceinline__ void rebase_state(State& state, const Scores& scores,
                                                        float v_most) {
        float v_ratio = 1.0f;
        if constexpr (VCodec::has_row_scale) {
            const float most = over_tokens(v_most);
            if (most * state.v_norm > v_scale_top) {
                constexpr uint32_t bias = 127;
                const uint32_t exponent = ptx::float_bits(most) >> 23;
                const float v_norm =
                    ptx::bits_float((2 * bias + v_scale_exponent - exponent) << 23);
                v_ratio = v_norm / state.v_norm;
                state.v_norm = v_norm;
            }
        }
        #pragma unroll
        for (int n = 0; n < n_tiles; n++) {
            float ratio[2];
            #pragma unroll
            for (int e = 0; e < 2; e++) {
                float most = state.max[n][e];
                #pragma unroll
                for (int i = 0; i < subtiles; i++)
                    most = ptx::max_f32(most, ptx::max_f32(scores[i][n][e], scores[i][n][2 + e]));
                most = over_tokens(most);
                ratio[e] = ptx::ex2_approx(state.max[n][e] - most);
                state.max[n][e] = most;
                state.sum[n][e] *= ratio[e];
                ratio[e] *= v_ratio;
            }
            #pragma unroll
            for (int i = 0; i < head_dim / 16; i++) {
                #pragma unroll
                for (int e = 0; e < 4; e++)
                    state.out[n][i][e] *= ratio[e % 2];
            }
        }
    }

    // The largest over the 8 lanes g that hold this lane's columns.
    static __device__ __forceinline__ float over_tokens(float v) {
        #pragma unroll
        for (uint32_t mask = 4; mask < warp_size; mask *= 2)
            v = ptx::max_f32(v, ptx::shfl_xor(v, mask));
        return v;
    }

    // O^T += V^T p for 16 tokens.
    static __device__ __forceinline__ void accumulate(State& state, uint32_t shared, uint32_t at,
                                                      const uint32_t (&weights)[n_tiles][2]) {
        const uint32_t lane = ptx::thread_index() % warp_size;
        const uint32_t g = lane / 4, c = lane % 4;
        const uint32_t tokens[2] = {at + c, at + 4 + (c ^ 1)};  // tau(2c), tau(2c + 1)
        const uint32_t base = shared + Tile::v_codes;
        const uint32_t codes[4] = {base + tokens[0] * Tile::v_code_row,
                                   base + tokens[1] * Tile::v_code_row,
                                   base + (tokens[0] + 8) * Tile::v_code_row,
                                   base + (tokens[1] + 8) * Tile::v_code_row};
        const uint32_t blocks = shared + Tile::v_blocks + (at + tau(g)) * Tile::v_block_row;
        for_each_piece<head_dim, VCodec::widest_value(head_dim)>([&](auto piece) {
            constexpr int skip = VCodec::code_bytes(piece.at);
            const uint32_t piece_codes[4] = {codes[0] + skip, codes[1] + skip, codes[2] + skip,
                                             codes[3] + skip};
            const uint32_t piece_blocks[2] = {blocks + piece.at / 16,
                                              blocks + piece.at / 16 + 8 * Tile::v_block_row};
            uint32_t operands[piece.dims / 16][4];
            VCodec::template load_value<piece.dims>(piece_codes, piece_blocks, g, c, operands);
            #pragma unroll
            for (int tile = 0; tile < piece.dims / 16; tile++) {
                #pragma unroll
                for (int n = 0; n < n_tiles; n++)
                    VCodec::Mma::product(state.out[n][piece.at / 16 + tile], operands[tile][0],
                                         operands[tile][1], operands[tile][2], operands[tile][3],
                                         weights[n][0], weights[n][1]);
            }
        });
    }
};

}  // namespace ftj
