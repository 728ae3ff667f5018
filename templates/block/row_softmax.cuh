// SPDX-License-Identifier: MIT
// From a warp's scores to its weights: the row scales of K, the mask, the lazy softmax, the row
// scales of V. Scores are [16 rows][8 tokens] fragments; lane (g, c) has tokens spread(2c) and
// spread(2c + 1) of rows g and g + 8.
#pragma once
#include "block/key_tile.cuh"
#include "block/row_state.cuh"
#include "block/seen_keys.cuh"
#include "block/tanh.cuh"

namespace ftj {

template <class Config, class Tile, int tokens, class State>
struct RowSoftmax {
    using KCodec = typename Tile::K::Codec;
    using VCodec = typename Tile::V::Codec;
    static constexpr int m_tiles = Config::m_tiles;
    static constexpr int n_tiles = tokens / 8;
    static constexpr float max_slack = 8.0f;  // log2: how far a score may exceed the reference
    static constexpr float v_scale_top =
        128.0f;  // most a normalised V row scale may be: p * it < 2^15
    static constexpr int v_scale_exponent = 4;  // what it is brought to when it is not
    using Scores = float[m_tiles][n_tiles][4];
    // Of widened keys a token has a factor; else a row has, and K's row scales go on the scores.
    static constexpr bool by_token = KCodec::has_row_scale && !KCodec::is_coded;
    struct Factors {
        float of_row[m_tiles][2];
        float of_token[n_tiles][2];

        __device__ __forceinline__ float at(int m, int n, int e) const {
            return by_token ? of_token[n][e % 2] : of_row[m][e / 2];
        }
        // All are on the scores.
        __device__ __forceinline__ void end() {
            for (auto& factors : of_row)
                factors[0] = factors[1] = 1.0f;
            for (auto& factors : of_token)
                factors[0] = factors[1] = 1.0f;
        }
    };
    using Weights = uint32_t[m_tiles][tokens / 16][4];  // A operands of the product with V

    // K's row scales, at `k_scales`, token by token: to the factors or on the scores.
    static __device__ __forceinline__ void scale(uint32_t k_scales, Scores& scores,
                                                 Factors& factors) {
        if constexpr (by_token) {
#pragma unroll
            for (int n = 0; n < n_tiles; n++) {
                const ptx::Words2 pair =
                    ptx::ld_shared_v2(k_scales + ptx::thread_index() % 4 * 8 + 4 * 8 * n);
                factors.of_token[n][0] = ptx::bits_float(pair.w[0]);
                factors.of_token[n][1] = ptx::bits_float(pair.w[1]);
            }
        } else if constexpr (KCodec::has_row_scale) {
#pragma unroll
            for (int n = 0; n < n_tiles; n++) {
                const float scale[2] = {load_scale(k_scales, n, 0), load_scale(k_scales, n, 1)};
#pragma unroll
                for (int m = 0; m < m_tiles; m++) {
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        scores[m][n][e] *= scale[e % 2];
                }
            }
        }
    }

    // Scores in log2 units, which the factors are done with.
    static __device__ __forceinline__ void cap(const ftj_extend_params& p, Scores& scores,
                                               Factors& factors) {
#pragma unroll
        for (int m = 0; m < m_tiles; m++) {
#pragma unroll
            for (int n = 0; n < n_tiles; n++) {
#pragma unroll
                for (int e = 0; e < 4; e++)
                    scores[m][n][e] = p.softcap * log2e *
                                      tanh_of(scores[m][n][e] * factors.at(m, n, e) / p.softcap);
            }
        }
        factors.end();
    }

    // A score of minus infinity must meet no factor of 0 or less: those of tokens go on the scores.
    static __device__ __forceinline__ void mask(const ftj_extend_params& p,
                                                const QueryTile<Config>& unit, uint32_t keys_end,
                                                uint32_t row, uint32_t token, Scores& scores,
                                                Factors& factors) {
        const float minus_infinity = ptx::bits_float(0xff800000u);
#pragma unroll
        for (int m = 0; m < m_tiles; m++) {
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const uint32_t mine = row + 16 * m + 8 * h + ptx::thread_index() % warp_size / 4;
                KeyRange seen = unit.run.seen_by(by_group(p).divide(mine), p.requests.window);
                seen.end = min_of(seen.end, keys_end);
#pragma unroll
                for (int n = 0; n < n_tiles; n++) {
#pragma unroll
                    for (int e = 0; e < 2; e++) {
                        const uint32_t key = token + 8 * n + own_token(e);
                        if constexpr (by_token)
                            scores[m][n][2 * h + e] *= factors.of_token[n][e];
                        if (key < seen.begin || key >= seen.end)
                            scores[m][n][2 * h + e] = minus_infinity;
                    }
                }
            }
        }
        if constexpr (by_token)
            factors.end();
    }

    // Scores, to be multiplied by their factors, to weights.
    static __device__ __forceinline__ void weigh(State& state, const Scores& scores,
                                                 const Factors& factors, uint32_t v_scales,
                                                 Weights& weights) {
        if (State::always_follows || state.seeks)
            seek(state, scores, factors, v_scales);

        const float v_norm = VCodec::has_row_scale ? state.v_norm : 1.0f;
#pragma unroll
        for (int n = 0; n < n_tiles; n++) {
            float v_factor[2] = {1.0f, 1.0f};
            if constexpr (VCodec::has_row_scale) {
                v_factor[0] = load_scale(v_scales, n, 0) * v_norm;
                v_factor[1] = load_scale(v_scales, n, 1) * v_norm;
            }
#pragma unroll
            for (int m = 0; m < m_tiles; m++) {
                float w[4];
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    w[e] = ptx::ex2_approx(ptx::fma_rn(scores[m][n][e], factors.at(m, n, e),
                                                       -state.reference[m][e / 2]));
                    state.sum[m][e / 2] += w[e];
                    w[e] *= v_factor[e % 2];
                }
                weights[m][n / 2][n % 2 * 2] = VCodec::Mma::pack(w[0], w[1]);
                weights[m][n / 2][n % 2 * 2 + 1] = VCodec::Mma::pack(w[2], w[3]);
            }
        }
    }

private:
    // Token of column 2c + e of a fragment.
    static __device__ __forceinline__ uint32_t own_token(int e) {
        const uint32_t c = ptx::thread_index() % 4;
        return e ? 4 + (c ^ 2) : c;  // spread(2c + 1), spread(2c)
    }

    static __device__ __forceinline__ float load_scale(uint32_t scales, int n, int e) {
        return ptx::ld_shared_f32(scales + 4 * own_token(e) + 4 * 8 * n);
    }

    // References for the rows that have none yet, or whose scores are past theirs.
    static __device__ __forceinline__ void seek(State& state, const Scores& scores,
                                                const Factors& factors, uint32_t v_scales) {
        float most[m_tiles][2];  // log2
        bool rebase = false;
#pragma unroll
        for (int m = 0; m < m_tiles; m++) {
#pragma unroll
            for (int h = 0; h < 2; h++) {
                most[m][h] = ptx::bits_float(0xff800000u);
#pragma unroll
                for (int i = 0; i < 2 * n_tiles; i++) {
                    const float score = scores[m][i / 2][2 * h + i % 2];
                    most[m][h] = ptx::max_f32(
                        most[m][h], by_token ? score * factors.of_token[i / 2][i % 2] : score);
                }
                if constexpr (!by_token)
                    most[m][h] *= factors.of_row[m][h];
                rebase |= most[m][h] - state.reference[m][h] > max_slack;
            }
        }
        float v_most = 0.0f;
        if constexpr (VCodec::has_row_scale) {
#pragma unroll
            for (int i = 0; i < 2 * n_tiles; i++)
                v_most = ptx::max_f32(v_most, load_scale(v_scales, i / 2, i % 2));
            rebase |= v_most * state.v_norm > v_scale_top;
        }
        if (ptx::any(rebase))
            rebase_state(state, most, v_most);
        if constexpr (!State::always_follows) {
            bool lacks = false;
#pragma unroll
            for (int m = 0; m < m_tiles; m++)
                lacks |= !(min_of(state.reference[m][0], state.reference[m][1]) > lowest_score);
            state.seeks = state.follows || ptx::any(lacks);
        }
    }

    // Raise the references to these scores and bring V's row scales back under their bound.
    static __device__ __forceinline__ void rebase_state(State& state,
                                                        const float (&most)[m_tiles][2],
                                                        float v_most) {
        float v_ratio = 1.0f;
        if constexpr (VCodec::has_row_scale) {
            const float v_quad = over_quad(v_most);
            if (v_quad * state.v_norm > v_scale_top) {
                constexpr uint32_t bias = 127;
                const uint32_t exponent = ptx::float_bits(v_quad) >> 23;
                const float v_norm =
                    ptx::bits_float((2 * bias + v_scale_exponent - exponent) << 23);
                v_ratio = v_norm * inverse_of_power(state.v_norm);
                state.v_norm = v_norm;
            }
        }
#pragma unroll
        for (int m = 0; m < m_tiles; m++) {
            float ratio[2];
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const float reference = ptx::max_f32(state.reference[m][h], over_quad(most[m][h]));
                ratio[h] = ptx::ex2_approx(state.reference[m][h] - reference);
                state.reference[m][h] = reference;
                state.sum[m][h] *= ratio[h];
                ratio[h] *= v_ratio;
            }
#pragma unroll
            for (int i = 0; i < Config::part_dims / 8; i++) {
#pragma unroll
                for (int e = 0; e < 4; e++)
                    state.out[m][i][e] *= ratio[e / 2];
            }
        }
    }

    // The largest over the 4 lanes c that share this lane's rows.
    static __device__ __forceinline__ float over_quad(float v) {
        v = ptx::max_f32(v, ptx::shfl_xor(v, 1));
        return ptx::max_f32(v, ptx::shfl_xor(v, 2));
    }
};

}  // namespace ftj
