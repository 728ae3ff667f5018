// SPDX-License-Identifier: MIT
// What a warp holds of its rows of a query tile: O, and the softmax's reference and sum.
//
// Lane (g, c) has rows g and g + 8 of each tile of 16, in fragments as mma_sm80.cuh describes them.
// Where V is read by matrices, column j of fragment i is dim 8 * i + j. Elsewhere columns 2c and
// 2c + 1 of V's fragments are value_dim(tile, half, 2c) and value_dim(.., 2c + 1), so that of every
// piece of dims the lane holds one run: dims / 4 of them from dims / 4 * c on.
//
// The reference is group_rows.cuh's: of weights with a float's range the largest score of the first
// tile in which the row sees a key, and where that leaves the range the block does the unit anew.
// Then, and of fp16 weights always, it follows the maximum lazily: it moves when a score exceeds it
// by more than 8 (in log2), so that p <= 2^8.
#pragma once
#include "block/final_row.cuh"
#include "block/pieces.cuh"
#include "block/query_tile.cuh"

namespace ftj {

constexpr int widest_value = 64;  // dims of the widest piece of V: the same whatever the codec

template <class Config>
struct RowState {
    using Element = typename Config::Element;
    static constexpr int m_tiles = Config::m_tiles;
    static constexpr int head_dim = Config::head_dim;
    static constexpr int dims = Config::part_dims;
    static constexpr float most_sum = 1.2676506e30f;  // 2^100
    static constexpr float settled_sum = 16777216.0f;
    static constexpr bool always_follows =  // fp16 weights have no range to spare
        Element::largest_exponent < 127 || (Config::VCodec::is_coded && !Config::widens);

    float out[m_tiles][dims / 8][4];
    float reference[m_tiles][2];  // log2
    float sum[m_tiles][2];        // this lane's share
    float v_norm;                 // power of two on V's row scales; out is of values times it
    bool follows;                 // the reference follows the maximum
    bool seeks;                   // so it does, or some row of the warp has none

    __device__ __forceinline__ void clear(bool follows_maximum) {
        follows = always_follows || follows_maximum;
        seeks = true;
#pragma unroll
        for (int m = 0; m < m_tiles; m++) {
#pragma unroll
            for (int i = 0; i < dims / 8; i++)
                out[m][i][0] = out[m][i][1] = out[m][i][2] = out[m][i][3] = 0;
            reference[m][0] = reference[m][1] = lowest_score;
            sum[m][0] = sum[m][1] = 0;
        }
        v_norm = ptx::bits_float(0x7e800000u);  // 2^126: the first real scale replaces it
    }

    __device__ __forceinline__ void multiply(float factor) {
#pragma unroll
        for (int m = 0; m < m_tiles; m++) {
#pragma unroll
            for (int i = 0; i < dims / 8; i++) {
#pragma unroll
                for (int e = 0; e < 4; e++)
                    out[m][i][e] *= factor;
            }
        }
    }

    __device__ __forceinline__ void add_sums() {
#pragma unroll
        for (int m = 0; m < m_tiles; m++) {
#pragma unroll
            for (int h = 0; h < 2; h++) {
                sum[m][h] += ptx::shfl_xor(sum[m][h], 1);
                sum[m][h] += ptx::shfl_xor(sum[m][h], 2);
            }
        }
    }

    // Whether a sum or an output has left the range: not of a reference that follows the maximum.
    __device__ __forceinline__ bool is_out_of_range() const {
        float nothing = 0.0f;
        bool is_within = true;
#pragma unroll
        for (int m = 0; m < m_tiles; m++) {
            is_within &= sum[m][0] <= most_sum && sum[m][1] <= most_sum;
#pragma unroll
            for (int i = 0; i < dims / 2; i++)
                nothing = ptx::fma_rn(out[m][i / 4][i % 4], 0.0f, nothing);
        }
        return !follows && !(is_within && nothing == 0.0f);
    }

    // References near the maximum, as those take them to be who add up parts. Exact.
    __device__ __forceinline__ void settle() {
#pragma unroll
        for (int m = 0; m < m_tiles; m++) {
            if (!ptx::any(max_of(sum[m][0], sum[m][1]) > settled_sum))
                continue;
            float ratio[2];
#pragma unroll
            for (int h = 0; h < 2; h++) {
                constexpr uint32_t bias = 127;
                const uint32_t exponent =
                    sum[m][h] > settled_sum ? ptx::float_bits(sum[m][h]) >> 23 : bias;
                ratio[h] = ptx::bits_float((2 * bias - exponent) << 23);
                reference[m][h] += float(int(exponent - bias));
                sum[m][h] *= ratio[h];
            }
#pragma unroll
            for (int i = 0; i < dims / 2; i++)
                out[m][i / 4][i % 4] *= ratio[i % 4 / 2];
        }
    }

    // For a warp with the same rows, through shared memory: a lane's words one after the other,
    // neighbours in neighbouring banks.
    static constexpr int slot_bytes = (m_tiles * (dims / 2) + 4 * m_tiles) * int(warp_size) * 4;

    __device__ __forceinline__ void put(float* slot) const {
        float* word = slot + ptx::thread_index() % warp_size;
#pragma unroll
        for (int m = 0; m < m_tiles; m++) {
#pragma unroll
            for (int i = 0; i < dims / 2; i++)
                word[(m * (dims / 2) + i) * warp_size] = out[m][i / 4][i % 4];
#pragma unroll
            for (int h = 0; h < 2; h++) {
                word[(state_word(m) + h) * warp_size] = reference[m][h];
                word[(state_word(m) + 2 + h) * warp_size] = sum[m][h];
            }
        }
    }

    // Merge with what the other warp has put there, over other keys.
    __device__ __forceinline__ void take(const float* slot) {
        const float* word = slot + ptx::thread_index() % warp_size;
#pragma unroll
        for (int m = 0; m < m_tiles; m++) {
            float mine[2], other[2];
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const float other_reference = word[(state_word(m) + h) * warp_size];
                const float most = ptx::max_f32(reference[m][h], other_reference);
                mine[h] = ptx::ex2_approx(reference[m][h] - most);
                other[h] = ptx::ex2_approx(other_reference - most);
                reference[m][h] = most;
                sum[m][h] =
                    sum[m][h] * mine[h] + word[(state_word(m) + 2 + h) * warp_size] * other[h];
            }
#pragma unroll
            for (int i = 0; i < dims / 2; i++)
                out[m][i / 4][i % 4] = out[m][i / 4][i % 4] * mine[i % 4 / 2] +
                                       word[(m * (dims / 2) + i) * warp_size] * other[i % 4 / 2];
        }
    }

    // Rows `row` on of the request, dims `first_dim` on: final.
    __device__ __forceinline__ void write_outputs(const ftj_extend_params& p,
                                                  const QueryTile<Config>& unit, uint32_t row,
                                                  uint32_t first_dim) const {
        using Pack = typename ProductOf<Element>::Mma;
        for_each_row(unit, row, [&](int m, int h, uint32_t mine) {
            const uint32_t query = by_group(p).divide(mine);
            const uint32_t q_head = unit.head * p.group + (mine - query * p.group);
            const int64_t token = int64_t(unit.run.first) + query;
            const FinalRow end = finalise(p.sinks, q_head, reference[m][h], sum[m][h]);
            auto* o = pointer<typename Element::Storage>(p.o) + token * p.o_token_stride +
                      q_head * p.o_head_stride + first_dim;
            for_each_run(m, h, [&](int at, const float(&v)[run_dims]) {
                Run<run_dims / 2> words;
#pragma unroll
                for (int i = 0; i < run_dims; i += 2)
                    words.w[i / 2] = Pack::pack(v[i] * end.factor, v[i + 1] * end.factor);
                *reinterpret_cast<Run<run_dims / 2>*>(o + at) = words;
            });
            if (p.lse && first_dim == 0 && ptx::thread_index() % 4 == 0)
                pointer<float>(p.lse)[token * (p.num_kv_heads * p.group) + q_head] = end.lse;
        });
    }

    // The same rows as a part of their unit, for extend_combine.cuh.
    __device__ __forceinline__ void write_partial(const ftj_extend_params& p,
                                                  const QueryTile<Config>& unit, uint32_t row,
                                                  uint32_t first_dim, uint32_t slot) const {
        for_each_row(unit, row, [&](int m, int h, uint32_t mine) {
            const uint64_t at_row = uint64_t(slot) * Config::block_rows + (mine - unit.first_row);
            float* to = pointer<float>(p.partial_out) + at_row * head_dim + first_dim;
            for_each_run(m, h, [&](int at, const float(&v)[run_dims]) {
                Run<run_dims> words;
#pragma unroll
                for (int i = 0; i < run_dims; i++)
                    words.w[i] = ptx::float_bits(v[i]);
                *reinterpret_cast<Run<run_dims>*>(to + at) = words;
            });
            if (first_dim == 0 && ptx::thread_index() % 4 == 0) {
                float* state = pointer<float>(p.partial_state) + 2 * at_row;
                state[0] = reference[m][h], state[1] = sum[m][h];
            }
        });
    }

private:
    static constexpr int state_word(int m) { return m_tiles * (dims / 2) + 4 * m; }

    template <class Visit>
    __device__ __forceinline__ void for_each_row(const QueryTile<Config>& unit, uint32_t row,
                                                 const Visit& visit) const {
        const uint32_t g = ptx::thread_index() % warp_size / 4;
#pragma unroll
        for (int m = 0; m < m_tiles; m++) {
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const uint32_t mine = row + 16 * m + 8 * h + g;
                if (mine < unit.end_row)
                    visit(m, h, mine);
            }
        }
    }

    // Of neighbouring dims, as a lane has them.
    static constexpr int run_dims = Config::v_by_matrices ? 2 : 4;
    template <int words>
    struct alignas(4 * words) Run {
        uint32_t w[words];
    };

    // So many dims at a time: visit(first of them, values).
    template <class Visit>
    __device__ __forceinline__ void for_each_run(int m, int h, const Visit& visit) const {
        const int c = ptx::thread_index() % 4;
        if constexpr (Config::v_by_matrices) {
#pragma unroll
            for (int i = 0; i < dims / 8; i++) {
                const float v[run_dims] = {out[m][i][2 * h], out[m][i][2 * h + 1]};
                visit(8 * i + 2 * c, v);
            }
        } else {
            for_each_piece<dims, widest_value>([&](auto piece) {
                constexpr int column_dims = piece.dims / 8;  // one column's share of the run
#pragma unroll
                for (int at = 0; at < piece.dims / 4; at += 4) {
                    float v[4];
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        const int column = (at + i) / column_dims;
                        const int dim = (at + i) % column_dims;
                        const int tile = piece.at / 16 + dim / 4 * 2 + dim % 2 * (piece.dims > 16);
                        const int half = piece.dims > 16 ? dim % 4 / 2 : dim;
                        v[i] = out[m][2 * tile + half][2 * h + column];
                    }
                    visit(piece.at + piece.dims / 4 * c + at, v);
                }
            });
        }
    }
};

}  // namespace ftj
