// SPDX-License-Identifier: MIT
// Keys of which a block widens the cached ones in shared memory: the codes of a tile arrive in a
// stage of their own, and all warps make 16-bit values of them, in the tile that new keys arrive in
// as they are. So both are met by the same products, and a code is decoded once for the block.
#pragma once
#include "block/key_tile.cuh"
#include "block/widen_rows.cuh"

namespace ftj {

template <class Config>
struct WideKeys : BothKeys<Config> {
    using BothKeys<Config>::BothKeys;
    using Codes = typename CachedKeys<Config>::Tile;
    using Tile = typename NewKeys<Config>::Tile;
    static_assert(Codes::tokens == Tile::tokens, "one becomes the other");

    // The codes at `from`, arrived for all threads, into the tile at `to`. K's row scales become
    // factors of the scores, in the order in which a lane of a fragment has its tokens.
    static __device__ __forceinline__ void widen(const ftj_extend_params& p, uint32_t from,
                                                 uint32_t to, uint32_t own_thread) {
        const uint32_t thread = ptx::made_anew(own_thread);
        widen_side<typename Config::KWiden, false, typename Codes::K, typename Tile::K>(
            from + Codes::k, to + Tile::k, thread);
        widen_side<typename Config::VWiden, true, typename Codes::V, typename Tile::V>(
            from + Codes::v, to + Tile::v, thread);
        if (thread < Tile::tokens) {
            const uint32_t token = thread / 8 * 8 + spread(thread % 8);
            const float scale = ptx::ld_shared_f32(from + Codes::k + Codes::K::scales + 4 * token);
            ptx::st_shared_u32(to + Tile::k + Tile::K::scales + 4 * thread,
                               ptx::float_bits(scale * ptx::abs_f32(p.score_scale)));
        }
    }

private:
    // Sixteen values at a time, which are one block of them. Half of the lanes begin with the
    // second eight, so that eight neighbours meet no bank twice.
    template <class Widen, bool with_row_scale, class From, class To>
    static __device__ __forceinline__ void widen_side(uint32_t from, uint32_t to, uint32_t thread) {
        static_assert(Widen::is_coded, "16-bit rows arrive as they are");
        constexpr uint32_t row_units = Config::head_dim / 16;
        constexpr uint32_t units = Tile::tokens * row_units;
        constexpr int unit_bytes = From::Codec::code_bytes(16);
        constexpr int half = unit_bytes / 8;  // of the words
        const bool is_turned = thread / 4 % 2;
        const uint32_t first = is_turned ? 16 : 0;  // bytes to what a lane begins with
#pragma unroll
        for (uint32_t at = 0; at < units; at += Config::num_threads) {
            const uint32_t unit = at + thread;
            if (units % Config::num_threads != 0 && unit >= units)
                break;
            const uint32_t row = unit / row_units, place = unit % row_units;
            uint32_t words[2 * half];
            load_shared<unit_bytes>(from + row * From::pitch + place * unit_bytes, words);
            ptx::Words4 codes = {};
#pragma unroll
            for (int i = 0; i < 2 * half; i++)
                codes.w[i] = is_turned ? words[i ^ half] : words[i];
            uint32_t block_scale = 0;
            if constexpr (From::Codec::has_block_scale)
                block_scale = ptx::ld_shared_u8(from + From::blocks + row * row_units + place);
            float row_scale = 1.0f;
            if constexpr (with_row_scale)
                row_scale = ptx::ld_shared_f32(from + From::scales + 4 * row);
            const uint32_t values = to + row * To::pitch + place * 32;
#pragma unroll
            for (int i = 0; i < 2; i++)
                ptx::st_shared_v4(i == 0 ? values + first : values + 16 - first,
                                  Widen::widen(codes, block_scale, row_scale, i));
        }
    }
};

}  // namespace ftj
