// SPDX-License-Identifier: MIT
// The rows of output of requests that show no key.
#pragma once
#include "block/final_row.cuh"
#include "block/visible_keys.cuh"

namespace ftj {

template <class Config>
struct EmptyRows {
    using Element = typename Config::Element;
    static constexpr uint32_t quads = Config::head_dim / 4;

    // The blocks share them out.
    static __device__ __forceinline__ void write(const ftj_decode_params& p) {
        const uint32_t q_heads = p.num_kv_heads * p.group;
        for (uint32_t r = ptx::block_index(); r < p.requests.batch; r += ptx::num_blocks()) {
            const auto keys = RequestTable<Config>::keys(p, r);
            if (keys.end > keys.begin)
                continue;
            for (uint32_t query = 0; query < keys.num_queries(); query++)
                write_row(p, keys.first_row(r) + query, q_heads);
        }
    }

private:
    static __device__ __forceinline__ void write_row(const ftj_decode_params& p, uint32_t row,
                                                     uint32_t q_heads) {
#pragma unroll 1
        for (uint32_t i = ptx::thread_index(); i < q_heads * quads; i += Config::num_threads) {
            const uint32_t head = i / quads;
            store_quad<Element>(output_row<Element>(p, row, head) + i % quads * 4, {}, 0.0f);
            if (i % quads == 0)
                write_lse(p, row, head, finalise(p.sinks, head, lowest_score, 0.0f).lse);
        }
    }
};

}  // namespace ftj
