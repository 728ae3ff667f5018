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
//
// None of it is in a loop that matters, and inlined wherever it is used it would be a third of the
// kernel's instructions and of the time to compile them. So a query tile is found in one place of
// deal() and in one of advance(), and loops stay loops. Calls would be simpler, but ptxas gives up
// on a kernel with setmaxnreg and calls within calls.
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
    static constexpr uint32_t num_warps = num_threads / warp_size;
    static constexpr int shared_bytes = num_warps * 16 + num_threads * 20;  // scratch: Sums
    static_assert(num_threads >= max_blocks, "a thread for each block's share");

    // Where a block stands in its rounds.
    struct Rounds {
        uint32_t request;  // of the long ones
        uint32_t round;    // its next
    };

    // The part at hand: tiles unit.tile to `end` of the unit; none, when that is the same.
    Unit unit;
    uint32_t end;
    uint32_t slot;   // of its partial result
    uint32_t parts;  // of the unit, when this is the first of several; else 0

    uint32_t blocks;  // that have work
    uint32_t has_rounds;
    uint32_t num_long;     // requests dealt in rounds
    uint32_t query_tiles;  // of all requests
    Rounds rounds;
    uint32_t left;    // of the block's range, in cost
    uint32_t owed;    // of it, for the start of the unit at `cut`
    Unit cut;         // where the range goes on
    uint32_t is_cut;  // the range is under way
    uint32_t long_requests[max_long];
    alignas(16) uint32_t shares[max_blocks];  // of the cut, in cost

    // The block's share, into `to`, in shared memory. All threads. A call, for it is as long as the
    // kernel's loops together, and runs once.
    static __device__ __noinline__ void deal(const ftj_extend_params& p, unsigned char* shared,
                                             UnitDeal& to) {
        Sums sums(shared);
        if (ptx::thread_index() == 0) {
            to.end = to.unit.tile = to.parts = to.left = to.is_cut = 0;
            to.num_long = to.query_tiles = 0;
            to.rounds = {};
            to.has_rounds = 1;
            to.blocks = min_of(ptx::num_blocks(), max_blocks);
        }
        ptx::sync_block();
        to.count(p, sums);
        Rounds rounds = to.first_round(ptx::thread_index());
        Range range = {};
        uint64_t had = 0;
#pragma unroll 1
        for (Pass pass = Pass::rounds;; pass = pass == Pass::rounds ? Pass::costs : Pass::range) {
            if (pass == Pass::range) {
                sums.add_up();
                to.share_out(sums.total.all, had);
                range = to.find_range(sums);
            }
            const bool walks = pass == Pass::costs || range.is_here;
            Unit at;
            uint32_t left = walks ? sums.mine : 0;
            uint32_t index = left ? sums.start(at) : 0;
#pragma unroll 1
            while (pass == Pass::rounds
                       ? to.next_of_rounds(p, ptx::thread_index(), rounds, at, index)
                       : left-- > 0) {
                to.go(p, at, index, false);
                const bool is_cut = at.index >= to.in_rounds(p, at.run);
                const uint64_t cost = cost_of(at) * p.num_kv_heads;
                if (pass == Pass::rounds)
                    had += cost_of(at);
                else if (pass == Pass::costs)
                    sums.cost.add({cost, is_cut ? cost : 0});
                else if ((is_cut || !to.has_rounds) && to.enter_range(at, cost, range))
                    left = 0;
                index = at.index + 1;
            }
            if (pass == Pass::range)
                break;
        }
        ptx::sync_block();
    }

    // On to the next part, by one thread.
    __device__ __forceinline__ void advance(const ftj_extend_params& p) {
        parts = 0;
        uint32_t index = 0;
        const bool in_rounds = has_rounds && ptx::block_index() < blocks &&
                               next_of_rounds(p, ptx::block_index(), rounds, unit, index);
        if (in_rounds || step(p, index))
            go(p, in_rounds ? unit : cut, index, !in_rounds && has_rounds);
        if (in_rounds) {
            end = unit.tiles;
            return;
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
    // What deal() walks over query tiles for, in this order: the cost of all rounds of the block
    // that has the thread's index; that of the thread's share of all query tiles; the start of the
    // block's range.
    enum class Pass { rounds, costs, range };

    // Of query tiles.
    struct Cost {
        uint64_t all;
        uint64_t cut;  // of those that are not dealt in rounds

        __device__ __forceinline__ void add(const Cost& other) {
            all += other.all;
            cut += other.cut;
        }
    };

    // Each thread counts the query tiles of a run of requests, then the cost of a run of query
    // tiles.
    struct Sums {
        // In shared memory.
        Cost* costs;
        Cost* warp_costs;
        uint32_t* query_tiles;
        // This thread's.
        uint32_t requests = 0;  // of a run
        uint32_t first = 0;     // query tile
        uint32_t mine = 0;      // how many they are
        Cost cost = {};
        Cost before = {};  // of the threads before it
        Cost total = {};   // of all threads

        explicit __device__ __forceinline__ Sums(unsigned char* shared)
            : costs(reinterpret_cast<Cost*>(shared)), warp_costs(costs + num_threads),
              query_tiles(reinterpret_cast<uint32_t*>(warp_costs + num_warps)) {}

        __device__ __forceinline__ void add_up() {
            const uint32_t thread = ptx::thread_index(), warp = thread / warp_size;
            costs[thread] = cost;
            ptx::sync_block();
            Cost sum = {};
#pragma unroll 1
            for (uint32_t t = warp * warp_size; t < (warp + 1) * warp_size; t++) {
                if (t == thread)
                    before = sum;
                sum.add(costs[t]);
            }
            warp_costs[warp] = sum;
            ptx::sync_block();
#pragma unroll 1
            for (uint32_t w = 0; w < num_warps; w++) {
                if (w == warp)
                    before.add(total);
                total.add(warp_costs[w]);
            }
        }

        // Where to go() from `at` to be at the first of this thread's query tiles. There must be
        // one.
        __device__ __forceinline__ uint32_t start(Unit& at) const {
            uint32_t index = first, thread = 0;
#pragma unroll 1
            for (; index >= query_tiles[thread]; thread++)
                index -= query_tiles[thread];
            at = {};
            at.request = thread * requests - 1;
            return index;
        }
    };

    // This block's range of the cut, where the thread at hand is to look for its first tile.
    struct Range {
        uint64_t skip;  // cost before it, from the thread's first query tile that is cut
        bool is_here;
    };

    __device__ __forceinline__ uint32_t in_rounds(const ftj_extend_params& p,
                                                  const QueryRun& run) const {
        return RoundShare::of(Unit::tiles_of(run, p.group), p.num_kv_heads, blocks).query_tiles;
    }
    static __device__ __forceinline__ uint64_t cost_of(const Unit& unit) {
        return unit.tiles + unit_cost;
    }

    // Counts query tiles, and lists the requests that are dealt in rounds.
    __device__ __forceinline__ void count(const ftj_extend_params& p, Sums& sums) {
        const uint32_t thread = ptx::thread_index();
        sums.requests = (p.requests.batch + num_threads - 1) / num_threads;
        const uint32_t end = min_of((thread + 1) * sums.requests, p.requests.batch);
        uint32_t query_tiles = 0;
#pragma unroll 1
        for (uint32_t r = thread * sums.requests; r < end; r++) {
            const QueryRun run = QueryRun::of(p, r);
            query_tiles += Unit::tiles_of(run, p.group);
            if (in_rounds(p, run) == 0)
                continue;
            const uint32_t place = ptx::atomic_add(&num_long, 1);
            if (place < max_long)
                long_requests[place] = r;
        }
        sums.query_tiles[thread] = query_tiles;
        ptx::atomic_add(&this->query_tiles, query_tiles);
        ptx::sync_block();
        const uint32_t share = (this->query_tiles + num_threads - 1) / num_threads;
        sums.first = min_of(thread * share, this->query_tiles);
        sums.mine = min_of(share, this->query_tiles - sums.first);
    }

    // To query tile `index` of the request, or so many on in those that follow, which are entered,
    // if `is_cut`, where their rounds end. There must be one.
    __device__ __forceinline__ void go(const ftj_extend_params& p, Unit& at, uint32_t index,
                                       bool is_cut) const {
#pragma unroll 1
        for (uint32_t tiles; index >= (tiles = Unit::tiles_of(at.run, p.group));) {
            at.run = QueryRun::of(p, ++at.request);
            index = index - tiles + (is_cut ? in_rounds(p, at.run) : 0);
        }
        at.enter(p, index);
    }

    // What each block lacks of an equal share when it has had its units of all rounds. If one has
    // too much already, there are no rounds.
    __device__ __forceinline__ void share_out(uint64_t total, uint64_t had) {
        const uint32_t block = ptx::thread_index();
        if (block == 0)
            blocks = uint32_t(min_of((total + min_share - 1) / min_share, uint64_t(blocks)));
        ptx::sync_block();
        uint64_t share = 0;
        if (block < blocks) {
            const uint64_t equal = divide(total, blocks);
            share = equal + (block < total - equal * blocks);
            if (had + min_share > share)
                has_rounds = 0;  // whoever says so
        }
        ptx::sync_block();
        const bool keeps = may_have_rounds() && has_rounds;
        ptx::sync_block();
        if (block == 0)
            has_rounds = keeps;
        if (block < blocks)
            shares[block] = uint32_t(keeps ? share - had : share);
        ptx::sync_block();
    }

    // By a number below 2^16, digit by digit: the compiler's way takes a hundred instructions.
    static __device__ __forceinline__ uint64_t divide(uint64_t total, uint32_t by) {
        uint64_t quotient = 0;
        uint32_t rest = 0;
#pragma unroll 1
        for (int digit = 3; digit >= 0; digit--) {
            const uint32_t part = rest << 16 | (uint32_t(total >> 16 * digit) & 0xffffu);
            quotient = quotient << 16 | part / by;
            rest = part % by;
        }
        return quotient;
    }

    // Units of a long request are counted through its query tiles, all kv heads of each. In every
    // other round blocks take them from the last to the first.
    __device__ __forceinline__ uint32_t unit_of_round(uint32_t round, uint32_t block) const {
        return round * blocks + (round % 2 ? blocks - 1 - block : block);
    }

    __device__ __forceinline__ bool may_have_rounds() const {
        return num_long && num_long <= max_long;
    }
    __device__ __forceinline__ Rounds first_round(uint32_t block) const {
        return {may_have_rounds() && block < blocks ? 0 : num_long, 0};
    }
    // To the request of a block's next unit, and its head there, before go() to query tile `index`.
    // False: the block has had its units of all rounds.
    __device__ __forceinline__ bool next_of_rounds(const ftj_extend_params& p, uint32_t block,
                                                   Rounds& at, Unit& unit_at,
                                                   uint32_t& index) const {
#pragma unroll 1
        for (; at.request < num_long; at.request++, at.round = 0) {
            unit_at.request = long_requests[at.request];
            unit_at.run = QueryRun::of(p, unit_at.request);
            const uint32_t units = in_rounds(p, unit_at.run) * p.num_kv_heads;
#pragma unroll 1
            while (at.round * blocks < units) {
                const uint32_t mine = unit_of_round(at.round++, block);
                if (mine >= units)
                    continue;
                unit_at.head = mine % p.num_kv_heads;
                unit_at.tile = 0;
                index = mine / p.num_kv_heads;
                return true;
            }
        }
        return false;
    }

    // To the next unit of the range, if one has been there. True: it is in query tile `index`.
    __device__ __forceinline__ bool step(const ftj_extend_params& p, uint32_t& index) {
        if (!is_cut || left <= unit_cost)
            return false;
        owed = unit_cost;
        cut.tile = 0;
        if (++cut.head < p.num_kv_heads)
            return false;
        cut.head = 0;
        index = cut.index + 1;
        return true;
    }

    __device__ __forceinline__ Range find_range(const Sums& sums) const {
        const uint32_t block = ptx::block_index();
        uint64_t begin = 0;
#pragma unroll 1
        for (uint32_t b = 0; b < min_of(block, blocks); b += 4) {
            const auto four = *reinterpret_cast<const ptx::Words4*>(shares + b);
#pragma unroll
            for (uint32_t i = 0; i < 4; i++)
                begin += b + i < block ? four.w[i] : 0;
        }
        const uint64_t before = has_rounds ? sums.before.cut : sums.before.all;
        const uint64_t cost = has_rounds ? sums.cost.cut : sums.cost.all;
        return {begin - before, block < blocks && begin >= before && begin < before + cost};
    }

    // Whether the block's range begins in this query tile, whose units cost so much together.
    __device__ __forceinline__ bool enter_range(const Unit& at, uint64_t cost, Range& range) {
        if (range.skip >= cost) {
            range.skip -= cost;
            return false;
        }
        const uint32_t in_tile = uint32_t(range.skip), of_unit = uint32_t(cost_of(at));
        const uint32_t in_unit = in_tile % of_unit;
        cut = at;
        cut.head = in_tile / of_unit;
        cut.tile = in_unit - min_of(in_unit, unit_cost);
        left = shares[ptx::block_index()];
        owed = unit_cost - min_of(in_unit, unit_cost);
        return true;
    }

    // Parts of a unit that this block starts, and of which so many tiles are left to others.
    __device__ __forceinline__ uint32_t count_parts(uint32_t left) const {
        uint32_t block = ptx::block_index();
        uint32_t count = 1;
#pragma unroll 1
        for (; left; count++)
            left -= min_of(left, shares[++block]);
        return count;
    }
};

}  // namespace ftj
