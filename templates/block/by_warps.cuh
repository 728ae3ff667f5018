// SPDX-License-Identifier: MIT
// A decode whose warps attend each by itself, by mma.sync.
#pragma once
#include "block/attend_tile.cuh"
#include "block/merge_warps.cuh"
#include "block/query.cuh"

namespace ftj {

template <class Config, class Tile>
struct TileWork {
    using Attend = AttendTile<Config, Tile>;
    using Query = ftj::Query<Config>;
    using Rows = OutputRows<Config, Tile>;
};

}  // namespace ftj
