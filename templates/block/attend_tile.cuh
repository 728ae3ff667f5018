// SPDX-License-Identifier: MIT
// One tile of keys, or a warp's share of it: scores, softmax, and their product with V.
//
// K and V are the A operands: a tile of scores is [16 tokens][8 columns], O is kept transposed,
// [16 dims][8 columns] per tile. Lane (g, c) = (lane / 4, lane % 4) has columns 2c and 2c + 1 in
// both then, and its maximum and sum need no exchange in the loop.
//
// Rounding: K and V operands are exact; q is 16-bit (query.cuh); products are accumulated in fp32;
// K's row scale is put on the score in fp32; p is rounded to V's 16-bit type after V's row scale,
// times a power of two, was put on it; l sums the unscaled fp32 p. The maximum is lazy: it moves
// when a score exceeds it by more than 8 (in log2), so p <= 2^8.
#pragma once
#include "block/final_row.cuh"
#include "block/query.cuh"
#include "block/segments.cuh"
#include "block/tanh.cuh"

namespace ftj {

template <class Config, class Tile>
struct AttendTile {
    using KCodec = typename Config::KCodec;
    using VCodec = typename Config::VCodec;
    using Pitch = typename Tile::Pitch;
    static constexpr int head_dim = Config::head_dim;
    static constexpr int n_tiles = Config::n_tiles;
    static constexpr int warp_tokens = Tile::warp_tokens;
    static constexpr float max_slack = 8.0f;      // log2: how far a score may exceed the maximum
    static constexpr float v_scale_top = 128.0f;  // of a normalised V row scale: p * it < 2^15
    static constexpr int v_scale_exponent = 4;    // what it is brought to when it is more

    // What a lane holds of a segment: columns 2c and 2c + 1 of every tile of 8.
    struct State {
        float out[n_tiles][head_dim / 16][4];  // [dim 16][column 8] accumulators
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
            return VCodec::has_row_scale ? VCodec::operand_fold * inverse_of_power(v_norm) : 1.0f;
        }
    };

    // What a lane adds to the address of 16 rows of an array: its row, and its run of dims in the
    // first piece of a row. Made once, and opaque, or the compiler makes them again for every tile.
    struct Lanes {
        uint32_t part;  // which run of the tile's tokens is this warp's
        uint32_t row;   // tau(g)
        uint32_t k_codes, k_blocks, k_scales;
        uint32_t v_codes[2];  // of tokens tau(2c) and tau(2c + 1)
        uint32_t v_blocks, v_scales;

        explicit __device__ __forceinline__ Lanes(uint32_t warp)
            : part(warp % Config::warps_per_tile) {
            const uint32_t lane = ptx::thread_index() % warp_size;
            const uint32_t g = lane / 4, c = lane % 4;
            row = tau(g);
            k_codes = at<Pitch::k_codes>(row) + KCodec::key_run(first_key, c);
            k_blocks = at<Pitch::k_blocks>(row) + KCodec::block_run(first_key, c);
            k_scales = at<Pitch::k_scales>(row);
            v_codes[0] = at<Pitch::v_codes>(c) + VCodec::value_run(first_value, g);
            v_codes[1] = at<Pitch::v_codes>(4 + (c ^ 1)) + VCodec::value_run(first_value, g);
            v_blocks = at<Pitch::v_blocks>(row) + VCodec::block_run(first_value, c);
            v_scales = at<Pitch::v_scales>(row);
            ptx::keep(row), ptx::keep(k_codes), ptx::keep(k_blocks), ptx::keep(k_scales);
            ptx::keep(v_codes[0]), ptx::keep(v_codes[1]), ptx::keep(v_blocks), ptx::keep(v_scales);
        }

    private:
        template <int row_bytes>
        __device__ __forceinline__ uint32_t at(uint32_t of_row) const {
            return Tile::template run_of<row_bytes>(part) + of_row * row_bytes;
        }
    };

    // A tile of keys as the warp sees it.
    using Shown = typename RequestTable<Config>::Keys;
    struct Keys {
        uint32_t stage;
        uint32_t token;  // of the warp's first row
        Shown visible;
        uint32_t first_column;
        bool whole;
    };

    // `whole`: every row of the tile, which starts at `token`, is visible to every column.
    static __device__ __forceinline__ void attend(const ftj_decode_params& p,
                                                  const Query<Config>& query, const Lanes& lanes,
                                                  State& state, uint32_t stage,
                                                  const Shown& visible, uint32_t first_column,
                                                  uint32_t token, bool whole) {
        const Keys keys = {stage, token + lanes.part * warp_tokens, visible, first_column, whole};
        if (!whole)
            Tile::clear_invisible(stage, visible, token, lanes.part);
        attend_from<0>(p, query, lanes, state, keys);
    }

private:
    static constexpr int first_key = piece_dims(head_dim, KCodec::widest_key(head_dim));
    static constexpr int first_value = piece_dims(head_dim, VCodec::widest_value(head_dim));

    // Subtiles of 16 tokens, as the products want them, in pairs: the scores of a pair are made
    // first and share one look at the maximum. Many columns have registers for one at a time.
    static constexpr int subtiles = warp_tokens < 32 || has_many_columns<Config> ? 1 : 2;
    struct Pair {
        float scores[subtiles][n_tiles][4];  // products; tokens tau(g), tau(g) + 8
        float scales[subtiles][2];           // what makes them log2 units, by token
        float v_scales[subtiles][2];
        float exponents[subtiles][n_tiles][4];  // scores in log2 units, less the maximum
        uint32_t weights[subtiles][n_tiles][2];
    };

    template <int from>
    static __device__ __forceinline__ void attend_from(const ftj_decode_params& p,
                                                       const Query<Config>& query,
                                                       const Lanes& lanes, State& state,
                                                       const Keys& keys) {
        if constexpr (from < warp_tokens) {
            Pair pair;
            score<from>(query, lanes, keys, pair, 0);
            if constexpr (subtiles == 2)
                score<from + 16>(query, lanes, keys, pair, 1);
            if constexpr (Config::has_softcap)
                cap(p, pair);
            if (!keys.whole) {
                if constexpr (Shown::is_run)
                    mask_columns(p, keys, from + lanes.row, pair);
                mask(keys, from + lanes.row, pair);
            }
            softmax(state, pair);
            accumulate<from>(lanes, state, keys, pair.weights[0]);
            if constexpr (subtiles == 2)
                accumulate<from + 16>(lanes, state, keys, pair.weights[1]);
            attend_from<from + 16 * subtiles>(p, query, lanes, state, keys);
        }
    }

    // K q for 16 tokens, and their scales. `i` is a constant wherever this is inlined.
    template <int at>
    static __device__ __forceinline__ void score(const Query<Config>& query, const Lanes& lanes,
                                                 const Keys& keys, Pair& pair, int i) {
        const uint32_t codes = keys.stage + Tile::k_codes(at) + lanes.k_codes;
        const uint32_t blocks = keys.stage + Tile::k_blocks(at) + lanes.k_blocks;
        const uint32_t c = ptx::thread_index() % 4;
        auto& scores = pair.scores[i];
#pragma unroll
        for (int n = 0; n < n_tiles; n++)
            scores[n][0] = scores[n][1] = scores[n][2] = scores[n][3] = 0;
        for_each_piece<head_dim, KCodec::widest_key(head_dim)>([&](auto piece) {
            uint32_t upper[piece.dims / 16][2], lower[piece.dims / 16][2];  // rows g and g + 8
            uint32_t piece_codes = codes + KCodec::code_bytes(piece.at);
            uint32_t piece_blocks = blocks + piece.at / 16;
            if constexpr (piece.dims != first_key) {
                piece_codes += KCodec::key_run(piece.dims, c) - KCodec::key_run(first_key, c);
                piece_blocks += KCodec::block_run(piece.dims, c) - KCodec::block_run(first_key, c);
            }
            KCodec::template load_keys<piece.dims>(piece_codes, piece_blocks, 8 * Pitch::k_codes,
                                                   8 * Pitch::k_blocks, upper, lower);
#pragma unroll
            for (int j = 0; j < piece.dims / 16; j++)
                query.template multiply<typename KCodec::Mma>(piece.at / 16 + j, upper[j], lower[j],
                                                              scores);
        });
        pair.scales[i][0] = pair.scales[i][1] = query.score_scale;
        if constexpr (KCodec::has_row_scale) {
            const uint32_t scales = keys.stage + Tile::k_scales(at) + lanes.k_scales;
            pair.scales[i][0] *= ptx::ld_shared_f32(scales);
            pair.scales[i][1] *= ptx::ld_shared_f32(scales + 8 * Pitch::k_scales);
        }
        pair.v_scales[i][0] = pair.v_scales[i][1] = 1.0f;
        if constexpr (VCodec::has_row_scale) {
            const uint32_t scales = keys.stage + Tile::v_scales(at) + lanes.v_scales;
            pair.v_scales[i][0] = ptx::ld_shared_f32(scales);
            pair.v_scales[i][1] = ptx::ld_shared_f32(scales + 8 * Pitch::v_scales);
        }
    }

    static __device__ __forceinline__ void cap(const ftj_decode_params& p, Pair& pair) {
#pragma unroll
        for (int i = 0; i < subtiles; i++) {
#pragma unroll
            for (int n = 0; n < n_tiles; n++) {
#pragma unroll
                for (int e = 0; e < 4; e++)
                    pair.scores[i][n][e] =
                        p.softcap * log2e *
                        tanh_of(pair.scores[i][n][e] * pair.scales[i][e / 2] / p.softcap);
            }
            pair.scales[i][0] = pair.scales[i][1] = 1.0f;
        }
    }

    // Each query of a run sees other keys. A score of minus infinity must meet no scale of 0 or
    // less: they are put on all scores here.
    static __device__ __forceinline__ void mask_columns(const ftj_decode_params& p,
                                                        const Keys& keys, uint32_t row,
                                                        Pair& pair) {
        const float minus_infinity = ptx::bits_float(0xff800000u);
        const uint32_t c = ptx::thread_index() % 4;
#pragma unroll
        for (int n = 0; n < n_tiles; n++) {
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const uint32_t query = (keys.first_column + 8 * n + 2 * c + e) / p.group;
                const KeyRange seen = keys.visible.seen_by(query, p.requests.window);
#pragma unroll
                for (int i = 0; i < 2 * subtiles; i++) {
                    const uint32_t token = keys.token + row + 8 * i;
                    float& score = pair.scores[i / 2][n][2 * (i % 2) + e];
                    score *= pair.scales[i / 2][i % 2];
                    if (token < seen.begin || token >= seen.end)
                        score = minus_infinity;
                }
            }
        }
        for (auto& of_subtile : pair.scales)
            of_subtile[0] = of_subtile[1] = 1.0f;
    }

    // Rows of no key: whatever was read, their score is minus infinity and V's scale 0.
    static __device__ __forceinline__ void mask(const Keys& keys, uint32_t row, Pair& pair) {
        const float minus_infinity = ptx::bits_float(0xff800000u);
#pragma unroll
        for (int i = 0; i < 2 * subtiles; i++) {
            const uint32_t token = keys.token + row + 8 * i;
            if (token >= keys.visible.begin && token < keys.visible.end)
                continue;
            pair.scales[i / 2][i % 2] = 1.0f;
            pair.v_scales[i / 2][i % 2] = 0.0f;
#pragma unroll
            for (int n = 0; n < n_tiles; n++)
                pair.scores[i / 2][n][2 * (i % 2)] = pair.scores[i / 2][n][2 * (i % 2) + 1] =
                    minus_infinity;
        }
    }

    // Scores to weights: B operands of the product with V^T, [16 tokens][8 columns] each.
    static __device__ __forceinline__ void softmax(State& state, Pair& pair) {
        subtract_maximum(state, pair);
        // Their bits compare as they do above 0; a NaN is more than all, and hides nothing.
        int32_t excess = 0, v_bits = 0;
#pragma unroll
        for (int i = 0; i < subtiles; i++) {
            v_bits = ptx::max_bits(v_bits, pair.v_scales[i][0], pair.v_scales[i][1]);
#pragma unroll
            for (int n = 0; n < n_tiles; n++) {
                const float(&of_tile)[4] = pair.exponents[i][n];
                excess = ptx::max_bits(excess, of_tile[0], of_tile[1]);
                excess = ptx::max_bits(excess, of_tile[2], of_tile[3]);
            }
        }
        const float v_most = ptx::bits_float(uint32_t(v_bits));
        bool rebase = excess > int32_t(ptx::float_bits(max_slack));
        if constexpr (VCodec::has_row_scale)
            rebase |= v_most * state.v_norm > v_scale_top;
        if (ptx::any(rebase)) {
            rebase_state(state, pair, v_most);
            subtract_maximum(state, pair);
        }

#pragma unroll
        for (int i = 0; i < subtiles; i++) {
#pragma unroll
            for (int n = 0; n < n_tiles; n++) {
                float p[4];
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    p[e] = ptx::ex2_approx(pair.exponents[i][n][e]);
                    state.sum[n][e % 2] += p[e];
                }
// A score tile has its tokens in lanes g; the product wants its columns there.
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    float v_factor = 1.0f;
                    if constexpr (VCodec::has_row_scale)
                        v_factor = pair.v_scales[i][half] * state.v_norm;
                    pair.weights[i][n][half] = ptx::movmatrix_trans(
                        VCodec::Mma::pack(p[2 * half] * v_factor, p[2 * half + 1] * v_factor));
                }
            }
        }
    }

    static __device__ __forceinline__ void subtract_maximum(const State& state, Pair& pair) {
#pragma unroll
        for (int i = 0; i < subtiles; i++) {
#pragma unroll
            for (int n = 0; n < n_tiles; n++) {
#pragma unroll
                for (int e = 0; e < 4; e++)
                    pair.exponents[i][n][e] = ptx::fma_rn(
                        pair.scores[i][n][e], pair.scales[i][e / 2], -state.max[n][e % 2]);
            }
        }
    }

    // Raise the maxima to these scores' and bring V's row scales back under their bound.
    static __device__ __forceinline__ void rebase_state(State& state, const Pair& pair,
                                                        float v_most) {
        float v_ratio = 1.0f;
        if constexpr (VCodec::has_row_scale) {
            const float most = over_tokens(v_most);
            if (most * state.v_norm > v_scale_top) {
                constexpr uint32_t bias = 127;
                const uint32_t exponent = ptx::float_bits(most) >> 23;
                const float v_norm =
                    ptx::bits_float((2 * bias + v_scale_exponent - exponent) << 23);
                // Of many columns ptxas spills some unless this is a division.
                v_ratio =
                    n_tiles > 2 ? v_norm / state.v_norm : v_norm * inverse_of_power(state.v_norm);
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
                for (int i = 0; i < 2 * subtiles; i++)
                    most = ptx::max_f32(most, pair.scores[i / 2][n][2 * (i % 2) + e] *
                                                  pair.scales[i / 2][i % 2]);
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
    static __device__ __forceinline__ void accumulate(const Lanes& lanes, State& state,
                                                      const Keys& keys,
                                                      const uint32_t (&weights)[n_tiles][2]) {
        const uint32_t first = keys.stage + Tile::v_codes(at) + lanes.v_codes[0];
        const uint32_t second = keys.stage + Tile::v_codes(at) + lanes.v_codes[1];
        const uint32_t blocks = keys.stage + Tile::v_blocks(at) + lanes.v_blocks;
        const uint32_t lane = ptx::thread_index() % warp_size;
        const uint32_t g = lane / 4, c = lane % 4;
        for_each_piece<head_dim, VCodec::widest_value(head_dim)>([&](auto piece) {
            uint32_t skip = VCodec::code_bytes(piece.at);
            uint32_t block_skip = piece.at / 16;
            if constexpr (piece.dims != first_value) {
                skip += VCodec::value_run(piece.dims, g) - VCodec::value_run(first_value, g);
                block_skip += VCodec::block_run(piece.dims, c) - VCodec::block_run(first_value, c);
            }
            const uint32_t piece_codes[4] = {first + skip, second + skip,
                                             first + skip + 8 * Pitch::v_codes,
                                             second + skip + 8 * Pitch::v_codes};
            const uint32_t piece_blocks[2] = {blocks + block_skip,
                                              blocks + block_skip + 8 * Pitch::v_blocks};
            uint32_t operands[piece.dims / 16][4];
            VCodec::template load_value<piece.dims>(piece_codes, piece_blocks, operands);
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
