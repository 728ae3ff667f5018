// SPDX-License-Identifier: MIT
// One tile of 64 keys by four warps of a block together, for kv heads of many query heads.
//
//   scores [64 tokens][64 columns]  = K q     K decoded to registers, a warp's 16 tokens; q in
//   memory O^T    [64 dims][64 columns] *2 += V^T p  V^T decoded to registers, a warp's 32 dims; p
//   in memory
//
// Both are wgmma with A in registers, so that codes are decoded as attend_tile.cuh has it and
// nothing decoded goes through shared memory; weights do, for a warp has them of its own tokens and
// wants them of all. Lane (g, c) has columns 2c and 2c + 1 of every eight in scores and in O.
//
// Which token is row k of the second product is free, as long as V and the weights agree: a lane
// has the 16 tokens from 16 c on, four of them in each step of 16 rows, and so the four that lanes
// read at a time lie 16 rows apart, where a stage can keep them out of each other's banks.
//
//   warp    K, q K starts | V of the same tile | softmax, weights to memory | all meet | V p starts
//
// The product with V runs under the next tile's K, and under what the SM's other block does.
//
// Rounding is attend_tile.cuh's, with one maximum for all warps: when a warp finds that it must
// move, by what it says beside its weights, all of them weigh the tile once more.
#pragma once
#include "block/group_products.cuh"
#include "block/group_state.cuh"
#include "block/segments.cuh"
#include "block/tanh.cuh"

namespace ftj {

template <class Config, class Tile>
struct AttendGroup {
    using KCodec = typename Config::KCodec;
    using VCodec = typename Config::VCodec;
    using Pitch = typename Tile::Pitch;
    using Query = GroupQuery<Config>;
    using Weights = typename Query::Weights;
    using State = GroupState<Config>;
    using Lanes = GroupLanes<Config, Tile>;
    static constexpr int head_dim = Config::head_dim;
    static constexpr int columns = Query::columns;
    static constexpr int tiles = GroupColumns<Config>::tiles;  // of 8 columns
    static constexpr int tokens = Config::tile_tokens;
    static constexpr int warps = Config::num_warps;
    static constexpr int m_tiles = State::m_tiles;  // a warp's 16 rows of each are of one product
    static constexpr float max_slack = 256.0f;      // of the weights of a column in a lane
    static constexpr float v_scale_top = 128.0f;    // of a normalised V row scale: p * it < 2^15
    static constexpr int v_scale_exponent = 4;      // what it is brought to when it is more
    static_assert(tokens == 64 && warps == 4 && head_dim % 64 == 0, "operands of wgmma");
    static_assert(tiles % 2 == 0, "weights are stored two tiles at a time");

    template <class Codec>
    using Group = GroupMma<select_type<is_same<typename Codec::Mma, MmaBf16>, Bf16, Fp16>>;

    // `whole`: every row of the tile, which starts at `token`, is visible to every column.
    template <class Shown>
    static __device__ __forceinline__ void attend(const ftj_decode_params& p, const Query& query,
                                                  const Lanes& lanes, State& state, uint32_t stage,
                                                  const Shown& visible, uint32_t, uint32_t token,
                                                  bool whole) {
        if (!whole) {
            if (lanes.warp < uint32_t(Config::warps_per_tile))
                Tile::clear_invisible(stage, visible, token, lanes.warp);
            sync_readers<warps>();
        }
        Seen seen;
        float scores[columns / 2];
        uint32_t values[m_tiles][tokens / 4];
        start_scores(query, lanes, stage, state, seen, scores);
        load_values(lanes, stage, values);
        // Both ways wait: ptxas keeps what comes before a branch before it, and would else leave
        // the values for when the scores are there.
        if (ptx::any(whole)) {
            take(scores);
            if constexpr (Config::has_softcap)
                cap(p, seen, scores);
        } else {
            take(scores);
            if constexpr (Config::has_softcap)
                cap(p, seen, scores);
            mask(visible, token + lanes.row, seen, scores);
        }

        const uint32_t turn = ptx::uniform(token / tokens % 2);
        const uint32_t weights = query.shared + Query::weights + turn * Weights::bytes;
        const uint32_t flag = query.shared + Query::flags + 4 * turn;
        float sums[tiles][2];
        weigh(lanes, state, seen, scores, sums, weights);
        if (is_over(state, seen, sums))
            ptx::st_shared_u32(flag, token + 1);
        meet();
        // No product is under way here; but both ways wait, or ptxas would let none be beside a
        // branch that changes what they make.
        const bool moves = ptx::any(ptx::ld_shared_u32(flag) == token + 1);
        if (!moves) {
            state.settle();
        } else {
            state.settle();
            rebase(query, lanes, state, seen, scores);
            weigh(lanes, state, seen, scores, sums, weights);
            meet();
        }
#pragma unroll
        for (int n = 0; n < tiles; n++) {
            state.sum[n][0] += sums[n][0];
            state.sum[n][1] += sums[n][1];
        }
#pragma unroll
        for (int m = 0; m < m_tiles; m++)
            ptx::wgmma_keep(values[m]);
        ptx::wgmma_fence();
#pragma unroll
        for (int m = 0; m < m_tiles; m++)
            Group<VCodec>::template registers<columns>(state.out[m], values[m],
                                                       Weights::over_rows(weights));
        ptx::wgmma_commit();
        // Of rows that are not decoded ptxas would let no product be under way otherwise.
        if constexpr (!KCodec::is_coded || !VCodec::is_coded)
            state.settle();
    }

private:
    // Of the lane's two tokens.
    struct Seen {
        float scales[2];  // what makes products log2 units
        float v_scales[2];
    };

    // What has been written is there for the products, of all warps.
    static __device__ __forceinline__ void meet() {
        ptx::fence_proxy_async_shared();
        sync_readers<warps>();
    }

    static __device__ __forceinline__ void start_scores(const Query& query, const Lanes& lanes,
                                                        uint32_t stage, State& state, Seen& seen,
                                                        float (&scores)[columns / 2]) {
        const uint32_t codes = stage + Tile::k_codes(0) + lanes.k_codes;
        const uint32_t blocks = stage + Tile::k_blocks(0) + lanes.k_blocks;
        uint32_t keys[head_dim / 64][16];
        for_each_piece<head_dim, KCodec::widest_key(head_dim)>([&](auto piece) {
            uint32_t upper[piece.dims / 16][2], lower[piece.dims / 16][2];  // rows g and g + 8
            static_assert(piece.dims == Lanes::key_dims, "addresses are of one width of piece");
            KCodec::template load_keys<piece.dims>(codes + KCodec::code_bytes(piece.at),
                                                   blocks + piece.at / 16, 2 * Pitch::k_codes,
                                                   2 * Pitch::k_blocks, upper, lower);
#pragma unroll
            for (int j = 0; j < piece.dims / 16; j++) {
                const int product = piece.at / 16 + j;
                uint32_t* a = keys[product / 4] + product % 4 * 4;
                a[0] = upper[j][0], a[1] = lower[j][0], a[2] = upper[j][1], a[3] = lower[j][1];
            }
        });
        seen.scales[0] = seen.scales[1] = query.score_scale;
        if constexpr (KCodec::has_row_scale) {
            const uint32_t scales = stage + Tile::k_scales(0) + lanes.k_scales;
            seen.scales[0] *= ptx::ld_shared_f32(scales);
            seen.scales[1] *= ptx::ld_shared_f32(scales + 2 * Pitch::k_scales);
        }
        seen.v_scales[0] = seen.v_scales[1] = 1.0f;
        if constexpr (VCodec::has_row_scale) {
            const uint32_t scales = stage + Tile::v_scales(0) + lanes.v_scales;
            seen.v_scales[0] = ptx::ld_shared_f32(scales);
            seen.v_scales[1] = ptx::ld_shared_f32(scales + 2 * Pitch::v_scales);
        }
#pragma unroll
        for (int i = 0; i < columns / 2; i++)
            scores[i] = 0;
#pragma unroll
        for (int step = 0; step < head_dim / 64; step++)
            ptx::wgmma_keep(keys[step]);
        state.settle();
        const uint32_t queries = Query::Tile::over_rows(query.shared);
        ptx::wgmma_fence();
#pragma unroll
        for (int step = 0; step < head_dim / 64; step++)
            Group<KCodec>::template registers<columns>(scores, keys[step],
                                                       queries + Query::Tile::step_over_rows(step));
        ptx::wgmma_commit();
    }

    // V^T of all tokens, of the warp's dims.
    static __device__ __forceinline__ void load_values(const Lanes& lanes, uint32_t stage,
                                                       uint32_t (&values)[m_tiles][tokens / 4]) {
        for_each_piece<tokens, 16>([&](auto subtile) {
            const int row = subtile.at / 4;
            const uint32_t first = stage + Tile::v_codes(0) + lanes.v_codes + row * Pitch::v_codes;
            const uint32_t blocks =
                stage + Tile::v_blocks(0) + lanes.v_blocks + row * Pitch::v_blocks;
            const uint32_t codes[4] = {first, first + Pitch::v_codes, first + 2 * Pitch::v_codes,
                                       first + 3 * Pitch::v_codes};
            const uint32_t of_blocks[2] = {blocks, blocks + 2 * Pitch::v_blocks};
            uint32_t operands[m_tiles][4];
            VCodec::template load_value<Lanes::warp_dims>(codes, of_blocks, operands);
#pragma unroll
            for (int m = 0; m < m_tiles; m++) {
#pragma unroll
                for (int i = 0; i < 4; i++)
                    values[m][subtile.at / 4 + i] = operands[m][i];
            }
        });
    }

    // The products that were started.
    static __device__ __forceinline__ void take(float (&scores)[columns / 2]) {
        ptx::wgmma_wait<0>();
        ptx::wgmma_keep(scores);
    }

    static __device__ __forceinline__ void cap(const ftj_decode_params& p, Seen& seen,
                                               float (&scores)[columns / 2]) {
#pragma unroll
        for (int i = 0; i < 4 * tiles; i++)
            scores[i] = p.softcap * log2e * tanh_of(scores[i] * seen.scales[i % 4 / 2] / p.softcap);
        seen.scales[0] = seen.scales[1] = 1.0f;
    }

    // Rows of no key: whatever was read, their score is minus infinity and V's scale 0.
    template <class Shown>
    static __device__ __forceinline__ void mask(const Shown& visible, uint32_t token, Seen& seen,
                                                float (&scores)[columns / 2]) {
        const float minus_infinity = ptx::bits_float(0xff800000u);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            if (token + 2 * half >= visible.begin && token + 2 * half < visible.end)
                continue;
            seen.scales[half] = 1.0f;
            seen.v_scales[half] = 0.0f;
#pragma unroll
            for (int n = 0; n < tiles; n++)
                scores[4 * n + 2 * half] = scores[4 * n + 2 * half + 1] = minus_infinity;
        }
    }

    // Scores to weights, which are rows of an operand in memory, and what they add up to.
    static __device__ __forceinline__ void weigh(const Lanes& lanes, const State& state,
                                                 const Seen& seen,
                                                 const float (&scores)[columns / 2],
                                                 float (&sums)[tiles][2], uint32_t weights) {
        const uint32_t rows = weights + lanes.weights;
        float v_factors[2] = {1.0f, 1.0f};
        if constexpr (VCodec::has_row_scale) {
            v_factors[0] = seen.v_scales[0] * state.v_norm;
            v_factors[1] = seen.v_scales[1] * state.v_norm;
        }
#pragma unroll
        for (int n = 0; n < tiles; n += 2) {
            ptx::Words4 matrices;
#pragma unroll
            for (int m = 0; m < 4; m++) {
                const int tile = n + m / 2, half = m % 2;
                float p[2];
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    p[e] = ptx::ex2_approx(ptx::fma_rn(scores[4 * tile + 2 * half + e],
                                                       seen.scales[half], -state.max[tile][e]));
                    sums[tile][e] = half == 0 ? p[e] : sums[tile][e] + p[e];
                }
                matrices.w[m] = VCodec::Mma::pack(p[0] * v_factors[half], p[1] * v_factors[half]);
            }
            ptx::stmatrix(rows ^ 16 * n, matrices);
        }
    }
    // Whether a weight may be more than 2^8, or a row scale more than its bound.
    static __device__ __forceinline__ bool is_over(const State& state, const Seen& seen,
                                                   const float (&sums)[tiles][2]) {
        float most = 0.0f;
#pragma unroll
        for (int n = 0; n < tiles; n++)
            most = ptx::max_f32(most, ptx::max_f32(sums[n][0], sums[n][1]));
        bool over = most > max_slack;
        if constexpr (VCodec::has_row_scale)
            over |= ptx::max_f32(seen.v_scales[0], seen.v_scales[1]) * state.v_norm > v_scale_top;
        return over;
    }

    // Raise the maxima to all warps' scores and bring V's row scales back under their bound. No
    // product is under way.
    static __device__ __forceinline__ void rebase(const Query& query, const Lanes& lanes,
                                                  State& state, const Seen& seen,
                                                  const float (&scores)[columns / 2]) {
        const uint32_t lane = ptx::thread_index() % warp_size;
        const uint32_t maxima = query.shared + Query::maxima + 8 * (lane % 4);
        const uint32_t largest_values = query.shared + Query::largest_values;
        const float v_most = over_tokens(ptx::max_f32(seen.v_scales[0], seen.v_scales[1]));
#pragma unroll
        for (int n = 0; n < tiles; n++) {
            uint32_t most[2];
#pragma unroll
            for (int e = 0; e < 2; e++)
                most[e] = ptx::float_bits(over_tokens(ptx::max_f32(
                    scores[4 * n + e] * seen.scales[0], scores[4 * n + 2 + e] * seen.scales[1])));
            if (lane < 4)
                ptx::st_shared_v2(maxima + lanes.warp * (4 * columns) + 32 * n,
                                  {{most[0], most[1]}});
        }
        if (lane == 0)
            ptx::st_shared_u32(largest_values + 4 * lanes.warp, ptx::float_bits(v_most));
        sync_readers<warps>();

        float v_ratio = 1.0f;
        if constexpr (VCodec::has_row_scale)
            v_ratio = renorm(ptx::ld_shared_v4(largest_values), state);
#pragma unroll
        for (int n = 0; n < tiles; n++) {
            float most[2] = {state.max[n][0], state.max[n][1]};
#pragma unroll
            for (int warp = 0; warp < warps; warp++) {
                const ptx::Words2 its = ptx::ld_shared_v2(maxima + warp * (4 * columns) + 32 * n);
                most[0] = ptx::max_f32(most[0], ptx::bits_float(its.w[0]));
                most[1] = ptx::max_f32(most[1], ptx::bits_float(its.w[1]));
            }
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const float ratio = ptx::ex2_approx(state.max[n][e] - most[e]);
                state.max[n][e] = most[e];
                state.sum[n][e] *= ratio;
#pragma unroll
                for (int m = 0; m < m_tiles; m++) {
                    state.out[m][4 * n + e] *= ratio * v_ratio;
                    state.out[m][4 * n + 2 + e] *= ratio * v_ratio;
                }
            }
        }
    }
    // What the outputs are to be multiplied by.
    static __device__ __forceinline__ float renorm(const ptx::Words4& of_warps, State& state) {
        constexpr uint32_t bias = 127;
        const float most = ptx::max_f32(
            ptx::max_f32(ptx::bits_float(of_warps.w[0]), ptx::bits_float(of_warps.w[1])),
            ptx::max_f32(ptx::bits_float(of_warps.w[2]), ptx::bits_float(of_warps.w[3])));
        if (most * state.v_norm <= v_scale_top)
            return 1.0f;
        const uint32_t exponent = ptx::float_bits(most) >> 23;
        const float v_norm = ptx::bits_float((2 * bias + v_scale_exponent - exponent) << 23);
        const float ratio = v_norm / state.v_norm;
        state.v_norm = v_norm;
        return ratio;
    }
    // The largest over the 8 lanes g that hold this lane's columns.
    static __device__ __forceinline__ float over_tokens(float v) {
#pragma unroll
        for (uint32_t mask = 4; mask < warp_size; mask *= 2)
            v = ptx::max_f32(v, ptx::shfl_xor(v, mask));
        return v;
    }
};

}  // namespace ftj
