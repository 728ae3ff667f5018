// SPDX-License-Identifier: MIT
// Dealing an extend's work so that blocks that run at the same time read the same keys.
//
// A request of many units (query_tile.cuh) is dealt in rounds: in each every block gets a whole
// unit, neighbours of one another, and all of them walk the same keys of a few kv heads at about
// the same time, which the L2 then reads once. Rounds alternate in direction, for units grow. The
// units that are left, and those of shorter requests, are cut by tiles of keys into one contiguous
// range per block, each as long as what the block still lacks of an equal share. Query tiles that a
// cut divides leave partial results, at most two a block, as in query_tile.cuh.
//
// To start a unit costs a block as much time as a few tiles (its queries, the first tile without
// another under it, its result), and it is counted so: a cost of unit_cost, then one of each tile.
//
// Nothing depends on anything but lengths and grid, so a replayed graph computes what an eager call
// would, and the same bits.
#pragma once
#include "block/query_tile.cuh"

namespace ftj {

// What of a request is dealt in rounds.
struct RoundShare {
    uint32_t query_tiles;  // the first so many

    // Half a round to one and a half are left over for the cut, which makes shares equal. One round
    // alone is not worth it.
    static __device__ __forceinline__ RoundShare of(uint32_t query_tiles, uint32_t heads,
                                                    uint32_t blocks) {
        const uint32_t halves = 2 * query_tiles * heads / blocks;
        const uint32_t rounds = (halves - min_of(halves, 1u)) / 2;
        return {rounds < 2 ? 0 : rounds * blocks / heads};
    }
};

template <class Config>
struct UnitDeal {
    using Unit = QueryTile<Config>;
    static constexpr uint32_t num_threads = Config::num_threads;
    static constexpr uint32_t max_blocks = 160;  // others get nothing; no Hopper has as many SMs
    static constexpr uint32_t max_long = 32;     // requests dealt in rounds
    static constexpr uint32_t min_share = 2;     // of the cut, a block's
    static constexpr uint32_t unit_cost = 3;     // to start one, in tiles
    // Scratch of deal(): a sum of costs and one of query tiles per thread.
    static constexpr int shared_bytes = num_threads * 12;
    static_assert(num_threads >= max_blocks, "a thread adds up a block's rounds");

    // The part at hand: tiles unit.tile to `end` of the unit; none, when that is the same.
    Unit unit;
    uint32_t end;
    uint32_t slot;   // of its partial result
    uint32_t parts;  // of the unit, when this is the first of several; else 0

    uint32_t blocks;  // that have work
    uint32_t has_rounds;
    uint32_t num_long;  // requests dealt in rounds
    uint32_t at_long;   // the one whose rounds are under way
    uint32_t at_unit;   // this block's next there
    uint32_t left;      // of the block's range, in cost
    uint32_t owed;      // of it, for the start of the unit at `cut`
    Unit cut;           // where the range goes on
    uint32_t is_cut;    // the range is under way
    uint32_t long_requests[max_long];
    uint32_t shares[max_blocks];  // of the cut, in cost

    // The block's share, into `to`, in shared memory. All threads. A call, for it is as long as the
    // kernel's loops together, and runs once.
    static __device__ __noinline__ void deal(const ftj_extend_params& p, unsigned char* shared,
                                             UnitDeal& to) {
        Sums sums = {reinterpret_cast<uint64_t*>(shared),
                     reinterpret_cast<uint32_t*>(shared + num_threads * 8), 0};
        const uint32_t thread = ptx::thread_index();
        if (thread == 0) {
            to.end = to.unit.tile = to.parts = to.left = to.is_cut = 0;
            to.num_long = to.at_long = to.at_unit = 0;
            to.has_rounds = 1;
            to.blocks = min_of(ptx::num_blocks(), max_blocks);
        }
        ptx::sync_block();
        to.find_long(p);
        ptx::sync_block();
        Unit start;
        uint64_t cost = 0;
#pragma unroll 1
        for (bool in_rounds = false;; in_rounds = true) {
            cost = to.add_up(p, sums, in_rounds, start);
            if (in_rounds)
                break;
            to.share_out(p, sums.total());
            if (!to.has_rounds)
                break;
        }
        to.enter_range(p, sums, start, cost);
        ptx::sync_block();
    }

    // On to the next part, by one thread.
    __device__ __forceinline__ void advance(const ftj_extend_params& p) {
        parts = 0;
        if (has_rounds && ptx::block_index() < blocks && next_of_rounds(p))
            return;
        if (is_cut && left > unit_cost) {
            step(p, cut, 1);
            owed = unit_cost;
        }
        if (left <= owed) {
            end = unit.tile;
            return;
        }
        unit = cut;
        const uint32_t mine = min_of(unit.tiles - unit.tile, left - owed);
        end = unit.tile + mine;
        slot = 2 * ptx::block_index() + is_cut;
        left -= owed + mine;
        owed = unit_cost;  // for the next
        is_cut = 1;
        if (unit.tile == 0 && end != unit.tiles)
            parts = count_parts(unit.tiles - end);
    }

private:
    // What each thread counted, the first `used` of them, and what they are together.
    struct Sums {
        uint64_t* costs;
        uint32_t* query_tiles;
        uint32_t used;

        __device__ __forceinline__ uint64_t before(uint32_t thread) const {
            uint64_t sum = 0;
            for (uint32_t t = 0; t < min_of(thread, used); t++)
                sum += costs[t];
            return sum;
        }
        __device__ __forceinline__ uint64_t total() const { return before(used); }
    };

    // First query tile of a request that is cut.
    __device__ __forceinline__ uint32_t first_cut(const ftj_extend_params& p, const QueryRun& run,
                                                  bool in_rounds) const {
        if (!in_rounds || !num_long)
            return 0;
        return RoundShare::of(Unit::tiles_of(run, p.group), p.num_kv_heads, blocks).query_tiles;
    }

    __device__ __forceinline__ void find_long(const ftj_extend_params& p) {
        for (uint32_t r = ptx::thread_index(); r < p.requests.batch; r += num_threads) {
            const uint32_t query_tiles = Unit::tiles_of(QueryRun::of(p, r), p.group);
            if (RoundShare::of(query_tiles, p.num_kv_heads, blocks).query_tiles == 0)
                continue;
            const uint32_t place = ptx::atomic_add(&num_long, 1);
            if (place < max_long)
                long_requests[place] = r;
        }
    }

    static __device__ __forceinline__ uint64_t cost_of(const Unit& unit) {
        return unit.tiles + unit_cost;
    }

    // Each thread counts the query tiles of a run of requests, then the cost of a run of query
    // tiles, of which `start` is the first. Returns the thread's.
    __device__ __forceinline__ uint64_t add_up(const ftj_extend_params& p, Sums& sums,
                                               bool in_rounds, Unit& start) const {
        const uint32_t thread = ptx::thread_index();
        const uint32_t run = (p.requests.batch + num_threads - 1) / num_threads;
        const uint32_t run_end = min_of((thread + 1) * run, p.requests.batch);
        uint32_t query_tiles = 0;
        for (uint32_t r = thread * run; r < run_end; r++) {
            const QueryRun of = QueryRun::of(p, r);
            query_tiles += Unit::tiles_of(of, p.group) - first_cut(p, of, in_rounds);
        }
        ptx::sync_block();
        sums.query_tiles[thread] = query_tiles;
        ptx::sync_block();
        query_tiles = 0;
        for (uint32_t t = 0; t < min_of(num_threads, p.requests.batch); t++)
            query_tiles += sums.query_tiles[t];

        const uint32_t share = (query_tiles + num_threads - 1) / num_threads;
        const uint32_t first = min_of(thread * share, query_tiles);
        sums.used = share ? (query_tiles + share - 1) / share : 0;
        const uint32_t mine = min_of(share, query_tiles - first);
        uint64_t cost = 0;
        if (mine) {
            locate(p, sums, run, first, in_rounds, start);
            Unit at = start;
            for (uint32_t i = 0; i < mine; i++) {
                if (i)
                    step(p, at, p.num_kv_heads, in_rounds);
                cost += cost_of(at) * p.num_kv_heads;
            }
        }
        sums.costs[thread] = cost;
        ptx::sync_block();
        return cost;
    }

    // The query tile `at`, counted over all that add_up() counts.
    __device__ __forceinline__ void locate(const ftj_extend_params& p, const Sums& sums,
                                           uint32_t run, uint32_t at, bool in_rounds,
                                           Unit& unit_at) const {
        uint32_t thread = 0;
        for (; at >= sums.query_tiles[thread]; thread++)
            at -= sums.query_tiles[thread];
        unit_at = {};
        for (uint32_t r = thread * run;; r++) {
            unit_at.request = r;
            unit_at.run = QueryRun::of(p, r);
            const uint32_t first = first_cut(p, unit_at.run, in_rounds);
            const uint32_t tiles = Unit::tiles_of(unit_at.run, p.group) - first;
            if (at < tiles) {
                unit_at.enter(p, first + at);
                return;
            }
            at -= tiles;
        }
    }

    // So many heads on, into the next query tile if need be. There must be one.
    __device__ __forceinline__ void step(const ftj_extend_params& p, Unit& at, uint32_t heads,
                                         bool in_rounds) const {
        at.tile = 0;
        at.head += heads;
        if (at.head < p.num_kv_heads)
            return;
        at.head -= p.num_kv_heads;
        uint32_t to = at.index + 1;
        while (to >= Unit::tiles_of(at.run, p.group)) {
            at.run = QueryRun::of(p, ++at.request);
            to = first_cut(p, at.run, in_rounds);
        }
        at.enter(p, to);
    }
    __device__ __forceinline__ void step(const ftj_extend_params& p, Unit& at,
                                         uint32_t heads) const {
        step(p, at, heads, has_rounds);
    }

    // What each block lacks of an equal share when it has had its units of all rounds. If one has
    // too much already, there are no rounds.
    __device__ __forceinline__ void share_out(const ftj_extend_params& p, uint64_t total) {
        const uint32_t block = ptx::thread_index();
        const bool may_have = num_long && num_long <= max_long;
        if (block == 0)
            blocks = uint32_t(min_of((total + min_share - 1) / min_share, uint64_t(blocks)));
        ptx::sync_block();
        if (block < blocks) {
            const uint64_t share = total * (block + 1) / blocks - total * block / blocks;
            const uint64_t in_rounds = may_have ? add_rounds(p, block) : 0;
            if (in_rounds + min_share > share)
                has_rounds = 0;  // whoever says so
            shares[block] = uint32_t(share - min_of(in_rounds, share));
        }
        ptx::sync_block();
        const bool keeps = may_have && has_rounds;
        ptx::sync_block();
        if (ptx::thread_index() == 0)
            has_rounds = keeps;
        if (block < blocks && may_have && !keeps)
            shares[block] = uint32_t(total * (block + 1) / blocks - total * block / blocks);
        ptx::sync_block();
    }

    // Units of a long request are counted through its query tiles, all kv heads of each.
    __device__ __forceinline__ uint32_t unit_of_round(uint32_t round, uint32_t block) const {
        return round * blocks + (round % 2 ? blocks - 1 - block : block);
    }
    __device__ __forceinline__ uint32_t units_in_rounds(const ftj_extend_params& p,
                                                        const QueryRun& run) const {
        return first_cut(p, run, true) * p.num_kv_heads;
    }

    // Cost of a block's units of all rounds.
    __device__ __forceinline__ uint64_t add_rounds(const ftj_extend_params& p,
                                                   uint32_t block) const {
        uint64_t cost = 0;
        for (uint32_t i = 0; i < num_long; i++) {
            Unit at = {};
            at.request = long_requests[i];
            at.run = QueryRun::of(p, at.request);
            const uint32_t units = units_in_rounds(p, at.run);
            for (uint32_t round = 0; round * blocks < units; round++) {
                const uint32_t mine = unit_of_round(round, block);
                if (mine >= units)
                    continue;
                at.enter(p, mine / p.num_kv_heads);
                cost += cost_of(at);
            }
        }
        return cost;
    }

    __device__ __forceinline__ bool next_of_rounds(const ftj_extend_params& p) {
        for (; at_long < num_long; at_long++, at_unit = 0) {
            const uint32_t request = long_requests[at_long];
            const QueryRun run = QueryRun::of(p, request);
            const uint32_t units = units_in_rounds(p, run);
            for (; at_unit * blocks < units; at_unit++) {
                const uint32_t mine = unit_of_round(at_unit, ptx::block_index());
                if (mine >= units)
                    continue;
                unit.request = request;
                unit.run = run;
                unit.head = mine % p.num_kv_heads;
                unit.tile = 0;
                unit.enter(p, mine / p.num_kv_heads);
                end = unit.tiles;
                at_unit++;
                return true;
            }
        }
        return false;
    }

    // The thread whose run of query tiles holds the first tile of the block's range walks it once
    // more.
    __device__ __forceinline__ void enter_range(const ftj_extend_params& p, const Sums& sums,
                                                Unit& start, uint64_t cost) {
        const uint32_t block = ptx::block_index();
        uint64_t begin = 0;
        for (uint32_t b = 0; b < min_of(block, blocks); b++)
            begin += shares[b];
        const uint64_t before = sums.before(ptx::thread_index());
        if (block >= blocks || begin < before || begin >= before + cost)
            return;
        uint64_t skip = begin - before;
        for (uint64_t of; skip >= (of = cost_of(start) * p.num_kv_heads); skip -= of)
            step(p, start, p.num_kv_heads);
        const uint32_t in_tile = uint32_t(skip), of_unit = uint32_t(cost_of(start));
        const uint32_t in_unit = in_tile % of_unit;
        start.head = in_tile / of_unit;
        start.tile = in_unit - min_of(in_unit, unit_cost);
        cut = start;
        left = shares[block];
        owed = unit_cost - min_of(in_unit, unit_cost);
    }

    // Parts of a unit that this block starts, and of which so many tiles are left to others.
    __device__ __forceinline__ uint32_t count_parts(uint32_t left) const {
        uint32_t block = ptx::block_index();
        uint32_t count = 1;
        for (; left; count++)
            left -= min_of(left, shares[++block]);
        return count;
    }
};

}  // namespace ftj
