// SPDX-License-Identifier: MIT
// One tile of keys, or a warp's share of it: scores, softmax, and their product with V.
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
#include "block/final_row.cuh"
#include "block/query.cuh"
#include "block/segments.cuh"

namespace ftj {

template <class Config, class Tile>
struct AttendTile {
    using KCodec = typename Config::KCodec;
    using VCodec = typename Config::VCodec;
    using Row = RowBytes<Config>;
    static constexpr int head_dim = Config::head_dim;
    static constexpr int n_tiles = Config::n_tiles;
    static constexpr int warp_tokens = Tile::warp_tokens;
    static constexpr float max_slack = 8.0f;      // log2: how far a score may exceed the maximum
    static constexpr float v_scale_top = 128.0f;  // of a normalised V row scale: p * it < 2^15
    static constexpr int v_scale_exponent = 4;    // what it is brought to when it is more

    // What a lane holds of a segment: columns (heads) 2c and 2c + 1 of every tile of 8 heads.
    struct State {
        float out[n_tiles][head_dim / 16][4];  // [dim 16][head 8] accumulators
        float max[n_tiles][2];                 // log2
        float sum[n_tiles][2];
        float v_norm;  // power of two on V's row scales; out is of values times it

        __device__ __forceinline__ State() {
            #pragma unroll
            for (int n = 0; n < n_tiles; n++) {
                #pragma unroll
                for (int i = 0; i < head_dim / 16; i++)
                    out[n][i][0] = out[n][i][1] = out[n][i][2] = out[n][i][3] = 0;
                max[n][0] = max[n][1] = lowest_score;
                sum[n][0] = sum[n][1] = 0;
            }
            v_norm = ptx::bits_float(0x7e800000u);  // 2^126: the first real scale replaces it
        }
        // What out must be multiplied by to be of V's values.
        __device__ __forceinline__ float v_factor() const {
            return VCodec::has_row_scale ? VCodec::operand_fold / v_norm : 1.0f;
        }
    };

    // Subtiles of 16 tokens, as the products want them, in pairs: the scores of a pair are made first
    // and share one look at the maximum, so that two chains of products are under way at a time.
    static constexpr int subtiles = warp_tokens < 32 ? 1 : 2;
    using Scores = float[subtiles][n_tiles][4];  // log2 units; tokens tau(g), tau(g) + 8
    using Weights = uint32_t[subtiles][n_tiles][2];
    using VScales = float[subtiles][2];

    // `part`: which run of the tile's tokens is this warp's.
    static __device__ __forceinline__ void attend(const ftj_decode_params& p,
                                                  const Query<Config>& query, State& state,
                                                  uint32_t stage, Visible keys, uint32_t token,
                                                  uint32_t part) {
        const Where where = {stage, part, token + part * warp_tokens};
        const bool whole = where.token >= keys.begin && where.token + warp_tokens <= keys.end;
        if (!whole)
            Tile::clear_invisible(stage, keys, token, part);
        attend_from<0>(p, query, state, where, keys, whole);
    }

private:
    // The warp's rows.
    struct Where {
        uint32_t stage;
        uint32_t part;
        uint32_t token;  // of its first row

        // Row tau(g) of the 16 at `at` of an array.
        template <int row_bytes>
        __device__ __forceinline__ uint32_t row(uint32_t at, uint32_t in_16) const {
            return stage + at + Tile::template run_of<row_bytes>(part) + in_16 * row_bytes;
        }
    };

    template <int from>
    static __device__ __forceinline__ void attend_from(const ftj_decode_params& p,
                                                       const Query<Config>& query, State& state,
                                                       const Where& where, Visible keys,
                                                       bool whole) {
        if constexpr (from < warp_tokens) {
            Scores scores;
            VScales v_scales;
            score_subtile<from, 0>(p, query, where, keys, whole, scores, v_scales);
            Weights weights;
            softmax(state, scores, v_scales, weights);
            accumulate<from>(state, where, weights[0]);
            if constexpr (subtiles == 2)
                accumulate<from + 16>(state, where, weights[1]);
            attend_from<from + 16 * subtiles>(p, query, state, where, keys, whole);
        }
    }

    template <int from, int i>
    static __device__ __forceinline__ void score_subtile(const ftj_decode_params& p,
                                                         const Query<Config>& query,
                                                         const Where& where, Visible keys,
                                                         bool whole, Scores& scores,
                                                         VScales& v_scales) {
        if constexpr (i < subtiles) {
            constexpr int at = from + 16 * i;
            const uint32_t row = tau(ptx::thread_index() % warp_size / 4);
            score<at>(query, where, scores[i]);
            scale(p, query, where.template row<Row::k_scales>(Tile::k_scales(at), row), scores[i]);
            if (!whole)
                mask(keys, where.token + at + row, scores[i]);
            v_scales[i][0] = v_scales[i][1] = 1.0f;
            if constexpr (VCodec::has_row_scale) {
                const uint32_t scales = where.template row<Row::v_scales>(Tile::v_scales(at), row);
                v_scales[i][0] = ptx::ld_shared_f32(scales);
                v_scales[i][1] = ptx::ld_shared_f32(scales + 4 * 8);
            }
            score_subtile<from, i + 1>(p, query, where, keys, whole, scores, v_scales);
        }
    }

    // K q for 16 tokens, in two sums that do not wait for each other.
    template <int at>
    static __device__ __forceinline__ void score(const Query<Config>& query, const Where& where,
                                                 float (&scores)[n_tiles][4]) {
        const uint32_t lane = ptx::thread_index() % warp_size;
        const uint32_t row = tau(lane / 4);
        const uint32_t codes = where.template row<Row::k_codes>(Tile::k_codes(at), row);
        const uint32_t blocks = where.template row<Row::k_blocks>(Tile::k_blocks(at), row);
        float sums[2][n_tiles][4] = {};
        for_each_piece<head_dim, KCodec::widest_key(head_dim)>([&](auto piece) {
            uint32_t upper[piece.dims / 16][2], lower[piece.dims / 16][2];  // rows g and g + 8
            const uint32_t piece_codes = codes + KCodec::code_bytes(piece.at);
            const uint32_t piece_blocks = blocks + piece.at / 16;
            KCodec::template load_key<piece.dims>(piece_codes, piece_blocks, lane % 4, upper);
            KCodec::template load_key<piece.dims>(piece_codes + 8 * Row::k_codes,
                                                  piece_blocks + 8 * Row::k_blocks, lane % 4,
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
    template <int at>
    static __device__ __forceinline__ void accumulate(State& state, const Where& where,
                                                      const uint32_t (&weights)[n_tiles][2]) {
        const uint32_t lane = ptx::thread_index() % warp_size;
        const uint32_t g = lane / 4, c = lane % 4;
        // Tokens tau(2c) and tau(2c + 1), and 8 rows below each.
        const uint32_t first = where.template row<Row::v_codes>(Tile::v_codes(at), c);
        const uint32_t second = where.template row<Row::v_codes>(Tile::v_codes(at), 4 + (c ^ 1));
        const uint32_t codes[4] = {first, second, first + 8 * Row::v_codes,
                                   second + 8 * Row::v_codes};
        const uint32_t blocks = where.template row<Row::v_blocks>(Tile::v_blocks(at), tau(g));
        for_each_piece<head_dim, VCodec::widest_value(head_dim)>([&](auto piece) {
            constexpr int skip = VCodec::code_bytes(piece.at);
            const uint32_t piece_codes[4] = {codes[0] + skip, codes[1] + skip, codes[2] + skip,
                                             codes[3] + skip};
            const uint32_t piece_blocks[2] = {blocks + piece.at / 16,
                                              blocks + piece.at / 16 + 8 * Row::v_blocks};
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
