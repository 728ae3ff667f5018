// SPDX-License-Identifier: MIT
// A decode of which four warps attend together, by wgmma, and one more brings the tiles: kv heads
// of many query heads.
#pragma once
#include "block/attend_group.cuh"
#include "block/group_output.cuh"
#include "block/group_query.cuh"

namespace ftj {

template <class Config, class Tile>
struct TileWork {
    using Attend = AttendGroup<Config, Tile>;
    using Query = GroupQuery<Config>;
    using Rows = GroupOutput<Config, Tile>;

    // Registers go from warpgroup to warpgroup: those that attend have what the others give back.
    static constexpr int producer_registers = 24;
    static constexpr int reader_registers = 65536 / Config::min_blocks / 128 - producer_registers;
    static_assert(Config::num_threads == 256, "two warpgroups");
    static __device__ __forceinline__ void take_registers() {
        ptx::setmaxnreg_inc<reader_registers>();
    }
    static __device__ __forceinline__ void give_registers() {
        ptx::setmaxnreg_dec<producer_registers>();
    }
};

}  // namespace ftj
