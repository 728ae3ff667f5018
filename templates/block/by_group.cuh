// SPDX-License-Identifier: MIT
// A decode whose four warps attend together, by wgmma: kv heads of many query heads.
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
};

}  // namespace ftj
