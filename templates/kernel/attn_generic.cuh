// SPDX-License-Identifier: MIT
// Attention in fp32, for every format, order and table: what the fast kernels are judged by.
//
//   o = sum_j p_j v_j / sum_j p_j,   p_j = e^(s_j - max s),   lse = max s + ln sum_j p_j
//   s_j = sm_scale * q.k_j, then softcap * tanh(s_j / softcap);   a sink is one more s with v = 0
//
// over keys j < length, j <= position, j + window > position. One warp owns one (query, q head) and
// walks over tiles of 32 keys: lane j scores key j of the tile, then each lane sums up its columns
// lane, lane + 32, ... of V over the tile. Sums of a tile are added to those before it, which keeps
// rounding errors small over long contexts. Values are fp32 throughout, contraction allowed.
// A query that sees no key gives exactly 0 and -inf; with a sink, 0 and the sink.
//
// Grid: ceil(num_queries * q_heads / warps_per_block), or fewer.
#pragma once
#include "block/group_reduce.cuh"
#include "block/row_value.cuh"

namespace ftj {

template <class Config>
struct AttnGeneric {
    using Query = typename Config::Query;
    using QueryStorage = typename Query::Storage;

    static constexpr int head_dim = Config::head_dim;
    static constexpr int warps_per_block = Config::num_threads / warp_size;
    static constexpr int columns_per_lane = (head_dim + warp_size - 1) / warp_size;

    static_assert(Config::num_threads % warp_size == 0, "whole warps only");

    // The work of one warp.
    struct Unit {
        uint64_t row;  // of Q and O
        uint32_t q_head;
        uint32_t request;
        int64_t first_key;
        int64_t end_key;
    };

    struct State {
        float max;
        float sum;
        float out[columns_per_lane];  // column lane + 32 i
    };

    static __device__ void run(const ftj_generic_params& p) {
        const uint32_t q_heads = p.num_kv_heads * p.group;
        const uint64_t num_rows = static_cast<uint64_t>(p.num_queries) * q_heads;
        const uint32_t warp = ptx::thread_index() / warp_size;
        const uint32_t lane = ptx::thread_index() % warp_size;
        const uint64_t first = ptx::block_index() * uint64_t(warps_per_block) + warp;
        const uint64_t step = ptx::num_blocks() * uint64_t(warps_per_block);

        for (uint64_t row = first; row < num_rows; row += step) {
            const Unit unit = unit_of(p, row, static_cast<uint32_t>(row / q_heads),
                                      static_cast<uint32_t>(row % q_heads));
            State state = initial_state(p, unit.q_head);
            for (int64_t key = unit.first_key; key < unit.end_key; key += warp_size)
                attend_tile(p, unit, key, lane, state);
            store_out(p, unit, lane, state);
        }
    }

    // Which keys a query sees. A request that does not exist has none.
    static __device__ Unit unit_of(const ftj_generic_params& p, uint64_t row, uint32_t query,
                                   uint32_t q_head) {
        const uint32_t request =
            p.q_requests ? pointer<const uint32_t>(p.q_requests)[query] : query;
        const int64_t length = request < p.requests.batch ? length_of(p.requests, request) : 0;
        const int64_t position =
            p.q_positions ? pointer<const int32_t>(p.q_positions)[query] : length - 1;
        const int64_t end = position + 1 < length ? position + 1 : length;
        const int64_t window_start = position + 1 - static_cast<int64_t>(p.requests.window);
        const int64_t start = p.requests.window && window_start > 0 ? window_start : 0;
        return {row, q_head, request, start, end};
    }

    static __device__ int64_t length_of(const ftj_requests_params& requests, uint32_t request) {
        if (requests.lengths)
            return pointer<const int32_t>(requests.lengths)[request];
        const auto* indptr = pointer<const int32_t>(requests.indptr) + request;
        return static_cast<int64_t>(indptr[1]) - indptr[0];
    }

    static __device__ State initial_state(const ftj_generic_params& p, uint32_t q_head) {
        State state = {};
        state.max = p.sinks ? pointer<const float>(p.sinks)[q_head] : neg_inf();
        state.sum = state.max == neg_inf() ? 0.0f : 1.0f;
        return state;
    }

    static __device__ void attend_tile(const ftj_generic_params& p, const Unit& unit, int64_t key,
                                       uint32_t lane, State& state) {
        const int64_t left = unit.end_key - key;
        const uint32_t num_keys = left < warp_size ? static_cast<uint32_t>(left) : warp_size;
        const uint32_t kv_head = unit.q_head / p.group;

        Place place = {0, 0};
        float score = neg_inf();
        if (lane < num_keys) {
            place = place_of_key(p.requests, unit.request, key + lane);
            score = score_of(p, unit, cache_row(p.cache.k, place, kv_head));
        }
        const float weight = weigh(score, state);
        add_values(p, place, kv_head, lane, weight, num_keys, state);
    }

    static __device__ Place place_of_key(const ftj_requests_params& requests, uint32_t request,
                                         int64_t key) {
        const auto* table = pointer<const int32_t>(requests.table);
        if constexpr (Config::slot_table) {
            const int64_t first = pointer<const int32_t>(requests.indptr)[request];
            return place_of_slot<Config::page_size>(static_cast<uint64_t>(table[first + key]));
        } else {
            const Place logical = place_of_slot<Config::page_size>(static_cast<uint64_t>(key));
            const int64_t entry = request * requests.table_stride + logical.page;
            return {static_cast<uint32_t>(table[entry]), logical.offset};
        }
    }

    static __device__ float score_of(const ftj_generic_params& p, const Unit& unit,
                                     const CacheRow& row) {
        const auto k = Config::KRow::of(row);
        const auto* q = pointer<const QueryStorage>(p.q) + unit.row * head_dim;
        float dot = 0.0f;
        for (uint32_t i = 0; i < head_dim; i++)
            dot = ptx::fma_rn(Query::widen(q[i]), k.value(i), dot);
        const float score = dot * p.sm_scale;
        return p.softcap == 0.0f ? score : p.softcap * ptx::tanh_f32(score / p.softcap);
    }

    // This lane's p; the state is brought to the new maximum. All lanes take part.
    static __device__ float weigh(float score, State& state) {
        const float max = ptx::max_f32(state.max, group_max<warp_size>(score));
        const float weight = exp_difference(score, max);
        const float rescale = exp_difference(state.max, max);
        state.sum = state.sum * rescale + group_sum<warp_size>(weight);
        state.max = max;
        for (int i = 0; i < columns_per_lane; i++)
            state.out[i] *= rescale;
        return weight;
    }

    static __device__ void add_values(const ftj_generic_params& p, Place place, uint32_t kv_head,
                                      uint32_t lane, float weight, uint32_t num_keys,
                                      State& state) {
        float tile_out[columns_per_lane] = {};
        for (uint32_t j = 0; j < num_keys; j++) {
            const float p_j = ptx::shfl(weight, j);
            const Place place_j = {ptx::shfl(place.page, j), ptx::shfl(place.offset, j)};
            const auto v = Config::VRow::of(cache_row(p.cache.v, place_j, kv_head));
            for (int i = 0; i < columns_per_lane; i++) {
                const uint32_t column = lane + i * warp_size;
                if (column < head_dim)
                    tile_out[i] = ptx::fma_rn(p_j, v.value(column), tile_out[i]);
            }
        }
        for (int i = 0; i < columns_per_lane; i++)
            state.out[i] += tile_out[i];
    }

    static __device__ void store_out(const ftj_generic_params& p, const Unit& unit, uint32_t lane,
                                     const State& state) {
        auto* out = pointer<QueryStorage>(p.o) + unit.row * head_dim;
        const bool is_empty = state.sum == 0.0f;
        for (int i = 0; i < columns_per_lane; i++) {
            const uint32_t column = lane + i * warp_size;
            if (column < head_dim)
                out[column] = Query::narrow(is_empty ? 0.0f : state.out[i] / state.sum);
        }
        if (lane == 0 && p.lse)
            pointer<float>(p.lse)[unit.row] =
                is_empty ? neg_inf() : state.max + ptx::lg2_approx(state.sum) * ln2;
    }

    // e^(x - max), 0 for x = -inf, also where max is.
    static __device__ float exp_difference(float x, float max) {
        return x == neg_inf() ? 0.0f : ptx::ex2_approx((x - max) * log2e);
    }

    static __device__ float neg_inf() { return ptx::bits_float(0xff800000u); }
};

}  // namespace ftj
