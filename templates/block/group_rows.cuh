// SPDX-License-Identifier: MIT
// What a thread of a warpgroup holds of its 64 query rows: two rows, g and g + 8 of its warp's 16;
// of scores and of O columns 8 * i + 2 * c + e in [4 * i + 2 * h + e]. Lane is 4 * g + c.
//
// The reference of the softmax is a true score: the largest of the first tile in which the row sees
// a key, which for a part of a unit may be the request's first one, looked at for that. Weights are
// what floats are, as exact at 2^60 as at 1, and later tiles need no maximum; only where a sum
// leaves the range (a later score is 2^100 times the reference, or an O overflows) is the unit done
// anew with a reference that follows the maximum: it moves when a score exceeds it by more than 8
// (in log2), whatever the scale of the logits. O is multiplied when the product under way has
// ended, which is why weigh() only says by how much.
//
// Weights of fp16 over codes have the unit of the tile's values in them (half_rows.cuh): scores are
// raised by its exponent E, references are true scores so raised, and sums are those of weights
// times 2^-E. A weight that is no fp16, 2^16 times the reference, makes an output no number.
#pragma once
#include "block/final_row.cuh"
#include "block/group_products.cuh"
#include "block/half_rows.cuh"
#include "block/seen_keys.cuh"
#include "block/tanh.cuh"

namespace ftj {

template <class Config>
struct GroupRows {
    using Element = typename Config::Element;
    using Unit = QueryTile<Config>;
    static constexpr int head_dim = Config::head_dim;
    static constexpr int tokens = Config::tile_tokens;
    static constexpr float max_slack = 8.0f;          // log2
    static constexpr float most_sum = 1.2676506e30f;  // 2^100
    static constexpr float settled_sum = 16777216.0f;
    static constexpr bool has_units = has_half_rows<Config>;
    static constexpr bool always_follows = Element::largest_exponent < 127;  // no range to spare
    using Scores = float[tokens / 2];
    using Outputs = float[head_dim / 2];
    using Weights = uint32_t[tokens / 4];  // A operands of the product with V
    // From products to log2 units (with a soft cap, to what it takes): one for all columns, or with
    // row scales of K one for each of a lane's.
    static constexpr bool has_columns = Config::KWiden::is_coded && !has_units;
    using Factors = float[has_columns ? tokens / 4 : 1];

    uint32_t row;         // of the request: the warp's first
    KeyRange seen;        // by all of the warp's rows, in the cache or beside it
    float reference[2];   // log2
    float sum[2];         // this thread's share
    float ratio[2];       // what O is to be multiplied by
    bool is_rebased;      // in any lane of the warp: ratio is not 1
    uint32_t follows;     // the reference follows the maximum
    uint32_t seeks;       // so it does, or some row of the warp has none
    uint32_t factors_at;  // shared address of its rows' factors over codes (GroupQueries), or 0
    uint32_t plain_end;   // tile up to which there is nothing to mask and nothing to seek

    __device__ __forceinline__ void begin(uint32_t first_row, bool follows_maximum) {
        row = ptx::uniform(first_row);
        reference[0] = reference[1] = lowest_score;
        sum[0] = sum[1] = 0;
        follows = ptx::uniform(always_follows || follows_maximum);
        seeks = 1;
        plain_end = factors_at = 0;
    }

    // Before the first weigh(), and best under a product: it takes divisions.
    __device__ __forceinline__ void find_seen(const ftj_extend_params& p, const Unit& unit) {
        const SeenKeys its = SeenKeys::find(p, unit, {0, unit.run.length}, row, 16);
        seen = {ptx::uniform(its.by_all.begin), ptx::uniform(its.by_all.end)};
    }

    // ---- softmax -------------------------------------------------------------------------------
    // Products of a tile to weights before their rounding.
    template <class TileKeys>
    __device__ __forceinline__ void weigh(const ftj_extend_params& p, const Unit& unit,
                                          const TileKeys& keys, uint32_t tile, Factors& factors,
                                          TileUnits& units, Scores& scores) {
        if constexpr (Config::has_softcap)
            cap(p, has_factors(keys, tile), factors, scores);
        is_rebased = false;
        if (tile >= plain_end)
            look_at(p, unit, keys, tile, factors, units, scores);

        float sums[2] = {0.0f, 0.0f};
        const float to_weight[2] = {above(reference[0], units), above(reference[1], units)};
#pragma unroll
        for (int i = 0; i < tokens / 2; i += 2) {
            constexpr int rows = 2;
            const int h = i / 2 % rows;
            scores[i] = ptx::ex2_approx(ptx::fma_rn(scores[i], factor(factors, i), to_weight[h]));
            scores[i + 1] =
                ptx::ex2_approx(ptx::fma_rn(scores[i + 1], factor(factors, i + 1), to_weight[h]));
            sums[h] += scores[i] + scores[i + 1];
        }
#pragma unroll
        for (int h = 0; h < 2; h++)
            sum[h] = has_units ? ptx::fma_rn(sums[h], units.inverse, sum[h]) : sum[h] + sums[h];
    }

    template <class Weight>
    static __device__ __forceinline__ void round(const Scores& scores, Weights& weights) {
#pragma unroll
        for (int i = 0; i < tokens / 4; i++)
            weights[i] = GroupMma<Weight>::pack(scores[2 * i], scores[2 * i + 1]);
    }

    // After a weigh() that has rebased, or where values are in another order from here on.
    __device__ __forceinline__ void rescale(Outputs& out, bool swaps) {
        if (!is_rebased)
            ratio[0] = ratio[1] = 1.0f;
        if (swaps_values && swaps)
            swap(out);
#pragma unroll
        for (int i = 0; i < head_dim / 2; i++)
            out[i] *= ratio[i / 2 % 2];
    }

    // Outputs of values in another order (WidenNvfp4::swaps_values) to those of values in theirs,
    // or back.
    static constexpr bool swaps_values = swaps_half_values<Config>;
    static __device__ __forceinline__ void swap(Outputs& out) {
        const bool is_upper = ptx::thread_index() % 4 >= 2;
#pragma unroll
        for (int i = 0; i < head_dim / 2; i += 2) {
            const float other = ptx::shfl_xor(is_upper ? out[i] : out[i + 1], 2);
            out[i] = is_upper ? other : out[i];
            out[i + 1] = is_upper ? out[i + 1] : other;
        }
    }

    // ---- results -------------------------------------------------------------------------------
    __device__ __forceinline__ void add_sums() {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            sum[h] += ptx::shfl_xor(sum[h], 1);
            sum[h] += ptx::shfl_xor(sum[h], 2);
        }
    }

    // Whether a sum or an output has left the range: not of a reference that follows the maximum.
    __device__ __forceinline__ bool is_out_of_range(const Outputs& out) const {
        float nothing[4] = {};
#pragma unroll
        for (int i = 0; i < head_dim / 2; i++)
            nothing[i % 4] = ptx::fma_rn(out[i], 0.0f, nothing[i % 4]);
        const float all = nothing[0] + nothing[1] + (nothing[2] + nothing[3]);
        return !follows && ptx::any(!(sum[0] <= most_sum && sum[1] <= most_sum && all == 0.0f));
    }

    // References near the maximum, as those take them to be who add up parts. Exact.
    __device__ __forceinline__ void settle(Outputs& out) {
        if (!ptx::any(!is_settled(sum[0]) || !is_settled(sum[1])))
            return;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            constexpr uint32_t bias = 127;
            const uint32_t exponent = is_settled(sum[h]) ? bias : ptx::float_bits(sum[h]) >> 23;
            ratio[h] = ptx::bits_float((2 * bias - exponent) << 23);
            reference[h] += float(int(exponent - bias));
            sum[h] *= ratio[h];
        }
        is_rebased = true;
        rescale(out, false);
    }

    // Pairs of threads trade halves of what they have of 16 columns, so that each writes four
    // neighbours, and four threads whole sectors.
    __device__ __forceinline__ void write_outputs(const ftj_extend_params& p, const Unit& unit,
                                                  const Outputs& out) const {
        const uint32_t c = ptx::thread_index() % 4;
        const bool is_odd = c % 2;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const uint32_t mine = row + 8 * h + ptx::thread_index() % warp_size / 4;
            const bool is_there = mine < unit.end_row;
            const uint32_t query = is_there ? by_group(p).divide(mine) : 0;
            const uint32_t q_head = unit.head * p.group + (is_there ? mine - query * p.group : 0);
            const int64_t token = int64_t(unit.run.first) + query;
            const FinalRow end = finalise(p.sinks, q_head, reference[h], sum[h]);
            auto* o = pointer<typename Element::Storage>(p.o) + token * p.o_token_stride +
                      q_head * p.o_head_stride + 8 * is_odd + 4 * (c / 2);
#pragma unroll
            for (int i = 0; i < head_dim / 2; i += 8) {
                const uint32_t left = pack(out + i + 2 * h, end.factor);
                const uint32_t right = pack(out + i + 4 + 2 * h, end.factor);
                const uint32_t other = ptx::shfl_xor(is_odd ? left : right, 1);
                const ptx::Words2 words = {{is_odd ? other : left, is_odd ? right : other}};
                if (is_there)
                    *reinterpret_cast<ptx::Words2*>(o + 2 * i) = words;
            }
            if (p.lse && is_there && c == 0)
                pointer<float>(p.lse)[token * (p.num_kv_heads * p.group) + q_head] = end.lse;
        }
    }

    // The same rows as a part of their unit, for extend_combine.cuh.
    __device__ __forceinline__ void write_partial(const ftj_extend_params& p, const Unit& unit,
                                                  const Outputs& out, uint32_t slot) const {
        const uint32_t c = ptx::thread_index() % 4;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const uint32_t mine = row + 8 * h + ptx::thread_index() % warp_size / 4;
            if (mine >= unit.end_row)
                continue;
            const uint64_t at = uint64_t(slot) * Config::block_rows + (mine - unit.first_row);
            float* to = pointer<float>(p.partial_out) + at * head_dim + 2 * c;
#pragma unroll
            for (int i = 0; i < head_dim / 2; i += 4) {
                const ptx::Words2 words = {
                    {ptx::float_bits(out[i + 2 * h]), ptx::float_bits(out[i + 2 * h + 1])}};
                *reinterpret_cast<ptx::Words2*>(to + 2 * i) = words;
            }
            if (c == 0) {
                float* state = pointer<float>(p.partial_state) + 2 * at;
                state[0] = reference[h], state[1] = sum[h];
            }
        }
    }

private:
    static __device__ __forceinline__ uint32_t pack(const float* two, float factor) {
        return GroupMma<Element>::pack(two[0] * factor, two[1] * factor);
    }

    // A sum of nothing has no exponent to be brought to.
    static __device__ __forceinline__ bool is_settled(float sum) {
        return !(sum > settled_sum) && (!has_units || sum == 0.0f || sum * settled_sum >= 1.0f);
    }

    // What takes a score to the exponent of its weight, which has that of the values in it.
    static __device__ __forceinline__ float above(float reference, const TileUnits& units) {
        return has_units ? units.exponent - reference : -reference;
    }
    static __device__ __forceinline__ float factor(const Factors& factors, int i) {
        return factors[has_columns ? i / 4 * 2 + i % 2 : 0];
    }
    // All of them into the products.
    static __device__ __forceinline__ void apply(Factors& factors, Scores& scores) {
#pragma unroll
        for (int i = 0; i < tokens / 2; i++)
            scores[i] *= factor(factors, i);
#pragma unroll
        for (float& it : factors)
            it = 1.0f;
    }

    // Scores in log2 units; what is capped has the factors of the rows in it.
    __device__ __forceinline__ void cap(const ftj_extend_params& p, bool of_rows, Factors& factors,
                                        Scores& scores) const {
        const float to_cap = 1.0f / p.softcap, cap_log2 = p.softcap * log2e;
        apply(factors, scores);
        if (of_rows)
            multiply(scores);
#pragma unroll
        for (int i = 0; i < tokens / 2; i++)
            scores[i] = cap_log2 * tanh_of(scores[i] * to_cap);
    }

    template <class TileKeys>
    __device__ __forceinline__ bool has_factors(const TileKeys& keys, uint32_t tile) const {
        return factors_at != 0 && keys.is_cached(tile);
    }
    // By the factors of the two rows.
    __device__ __forceinline__ void multiply(Scores& scores) const {
        const uint32_t own = factors_at + ptx::thread_index() % warp_size / 4 * 4;
        const float both[2] = {ptx::ld_shared_f32(own), ptx::ld_shared_f32(own + 8 * 4)};
#pragma unroll
        for (int i = 0; i < tokens / 2; i++)
            scores[i] *= both[i / 2 % 2];
    }

    // By the exponent of the values: references are those of weights.
    static __device__ __forceinline__ void raise(TileUnits& units, Scores& scores) {
#pragma unroll
        for (float& score : scores)
            score += units.exponent;
        units.exponent = 0.0f;
    }

    // A tile of which more is to be done than to weigh it, or of which that is not known yet. What
    // is left of the factors is one for all, and not negative: a mask makes scores infinite.
    template <class TileKeys>
    __device__ __forceinline__ void look_at(const ftj_extend_params& p, const Unit& unit,
                                            const TileKeys& keys, uint32_t tile, Factors& factors,
                                            TileUnits& units, Scores& scores) {
        const uint32_t token = keys.first(tile), end = keys.end(tile);
        const uint32_t seen_end = min_of(seen.end, end);
        const bool is_whole = token >= seen.begin && token + tokens <= seen_end;
        const bool of_rows = has_factors(keys, tile);
        if (has_columns || has_units || factors[0] < 0.0f)
            apply(factors, scores);
        if (of_rows && !Config::has_softcap)  // cap() has done so
            multiply(scores);
        if constexpr (has_units)
            raise(units, scores);
        if (!is_whole)
            mask(p, unit, token, end, scores);
        if (seeks)
            seek(scores, factors[0]);
        if (keys.is_look(tile))
            units.exponent = ptx::bits_float(0xff800000u);  // weights of nothing
        else if (is_whole && !seeks && !of_rows)
            plain_end = tile + (seen_end - token) / tokens;
    }
    __device__ __forceinline__ void mask(const ftj_extend_params& p, const Unit& unit,
                                         uint32_t token, uint32_t end, Scores& scores) const {
        const float minus_infinity = ptx::bits_float(0xff800000u);
        const uint32_t column = token + 2 * (ptx::thread_index() % 4);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const uint32_t mine = ptx::made_anew(row) + 8 * h + ptx::thread_index() % warp_size / 4;
            const KeyRange keys = unit.run.seen_by(by_group(p).divide(mine), p.requests.window);
            const uint32_t count = max_of(min_of(keys.end, end), keys.begin) - keys.begin;
            const uint32_t first = column - keys.begin;  // below it: past every count
#pragma unroll
            for (int i = 0; i < tokens / 8; i++) {
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    if (first + 8 * i + e >= count)
                        scores[4 * i + 2 * h + e] = minus_infinity;
                }
            }
        }
    }

    // A reference for the rows that have none yet, or for those whose scores are past theirs.
    __device__ __forceinline__ void seek(const Scores& scores, float to_log2) {
        float most[2] = {scores[0], scores[2]};
#pragma unroll
        for (int i = 0; i < tokens / 2; i += 4) {
            most[0] = ptx::max_f32(most[0], ptx::max_f32(scores[i], scores[i + 1]));
            most[1] = ptx::max_f32(most[1], ptx::max_f32(scores[i + 2], scores[i + 3]));
        }
        is_rebased = ptx::any(most[0] * to_log2 - reference[0] > max_slack ||
                              most[1] * to_log2 - reference[1] > max_slack);
        if (is_rebased)
            rebase(most, to_log2);
        const bool lacks = !(min_of(reference[0], reference[1]) > lowest_score);
        seeks = follows | ptx::uniform(ptx::any(lacks));
    }

    // Raise the references to the largest of these scores, over the four threads of a row.
    __device__ __forceinline__ void rebase(const float (&most)[2], float to_log2) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float largest = ptx::max_f32(most[h], ptx::shfl_xor(most[h], 1));
            largest = ptx::max_f32(largest, ptx::shfl_xor(largest, 2));
            const float raised = ptx::max_f32(reference[h], largest * to_log2);
            ratio[h] = ptx::ex2_approx(reference[h] - raised);
            reference[h] = raised;
            sum[h] *= ratio[h];
        }
    }
};

}  // namespace ftj
