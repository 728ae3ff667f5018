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
// That is what long units take. Beside requests dealt in rounds, units of few tiles are dealt
// whole, to all blocks in equal shares, and the cut comes after them: whatever they take, all
// blocks take as long.
//
// Nothing depends on anything but lengths and grid: a replayed graph computes an eager call's bits.
//
// None of it is in a loop that matters, and inlined wherever it is used it would be a third of the
// kernel's instructions and of the time to compile them. So a query tile is found in one place of
// deal() and in one of advance(), with its request; sums are made in one; nothing is divided by a
// number that is known before; and loops stay loops. Calls would be simpler, but ptxas gives up on
// a kernel with setmaxnreg and calls within calls.
#pragma once
#include "block/query_tile.cuh"
#include "block/unit_rounds.cuh"

namespace ftj {

template <class Config>
struct UnitDeal {
    using Unit = QueryTile<Config>;
    static constexpr uint32_t num_threads = Config::num_threads;
    static constexpr uint32_t max_blocks = 144;  // others get nothing; no Hopper has as many SMs
    static constexpr uint32_t min_share = 2;     // of the cut, a block's
    static constexpr uint32_t unit_cost = 3;     // to start one, in tiles
    // Costs: of all units; of short requests', when they are dealt whole; of what is neither so nor
    // in rounds.
    enum Kind { all, whole, rest, num_kinds };
    using Sums = UnitSums<num_kinds, num_threads>;
    static constexpr int shared_bytes = Sums::shared_bytes;  // scratch
    static_assert(num_threads >= max_blocks, "a thread for each block's share");

    // Where the range of the cut begins.
    struct Start {
        uint32_t request;
        uint32_t index;  // of the query tile
        uint32_t head;
        uint32_t tile;
        uint32_t left;
        uint32_t owed;
    };

    // The part at hand: tiles unit.tile to `end` of the unit; none, when that is the same.
    Unit unit;
    uint32_t end;
    uint32_t slot;       // of its partial result
    uint32_t parts;      // of the unit, when this is the first of several; else 0
    uint16_t is_taken;   // it has been ordered
    uint16_t is_paired;  // the other block of the cluster has one of the same keys

    Divisor blocks;
    RoundUnits<Config::has_peer> in_order;  // those in rounds
    uint16_t has_rounds;
    LongRequests::Place rounds;  // where the block stands in them
    // The block's range at hand: of units that are dealt whole, then of the cut.
    uint32_t left;         // of it, in cost
    uint32_t owed;         // of that, for the start of the unit at `cut`
    uint32_t whole_share;  // of units that are dealt whole, in cost
    Unit cut;              // where it goes on
    uint16_t has_begun;    // what is at `cut` has been given out
    uint16_t is_whole;     // units are dealt whole
    uint32_t saved;        // of what units in rounds cost
    Start cut_start;       // of the other range
    uint64_t cut_begin;    // in cost
    LongRequests longs;
    uint32_t shares[max_blocks];  // of the cut, in cost

    // The block's share, into `to`, in shared memory. All threads. A call, for it is as long as the
    // kernel's loops together, and runs once.
    static __device__ __noinline__ void deal(const ftj_extend_params& p, unsigned char* shared,
                                             UnitDeal& to) {
        Sums sums(shared);
        auto* words = reinterpret_cast<uint32_t*>(&to);
#pragma unroll 1
        for (uint32_t i = ptx::thread_index(); i < sizeof(UnitDeal) / 4; i += num_threads)
            words[i] = 0;
        ptx::sync_block();
        if (ptx::thread_index() == 0) {
            to.is_whole = to.has_rounds = to.is_taken = 1;
            to.owed = unit_cost;
            to.in_order.init();
            to.blocks = Divisor::of(to.in_order.in_pairs(min_of(ptx::num_blocks(), max_blocks)));
        }
        ptx::sync_block();
        // The threads count the query tiles of their requests, then what their shares of all query
        // tiles cost, then add up the shares of blocks; and look for where the block's ranges
        // begin.
        Ranges ranges = {};
#pragma unroll 1
        for (uint32_t pass = 0;; pass++) {
            if (pass == 0) {
                to.count(p, sums);
            } else if (pass == 2) {
                ranges = to.share_out(sums);
            } else {
                if (pass == 3)
                    to.find_cut(sums, ranges);
                to.walk(p, sums, ranges, pass == 3);
            }
            if (pass == 3)
                break;
            sums.add_up();
            if (pass == 0) {
                if (to.in_order.pairs() && ptx::thread_index() == 0)
                    to.longs.sort();
                sums.share_query_tiles();
            }
        }
        ptx::sync_block();
    }

    // On to the next part, by one thread.
    __device__ __forceinline__ void advance(const ftj_extend_params& p) {
        parts = 0;
        uint32_t index = 0;
        const bool in_rounds =
            has_rounds && ptx::block_index() < blocks.number && next_of_rounds(p, index);
        bool in_range = !in_rounds && has_rounds;
        const uint32_t paired = in_rounds ? in_order.pairs() : 0;
        is_paired = uint16_t(paired);
        if (in_rounds || step(p, index, in_range))
            go(p, in_rounds ? unit : cut, index, in_range, paired);
        if (in_rounds || left <= least()) {
            end = in_rounds ? unit.tiles : unit.tile;
            return;
        }
        unit = cut;
        const uint32_t mine = is_whole ? unit.tiles : min_of(unit.tiles - unit.tile, left - owed);
        end = unit.tile + mine;
        if (!is_whole)
            slot = 2 * ptx::block_index() + has_begun;
        left -= min_of(left, owed + mine);
        owed = unit_cost;  // for the next
        has_begun = 1;
        if (unit.tile == 0 && end != unit.tiles)
            parts = count_parts(unit.tiles - end);
    }

private:
    // The ranges of this block, where the thread at hand is to look for their starts: the cost
    // before them, from the thread's first query tile of their kind.
    struct Ranges {
        uint64_t to_whole;
        uint64_t to_cut;
        uint64_t before;  // of what the cut is of: until it is known where that begins
        uint64_t mine;
    };
    static constexpr uint64_t not_here = ~0ull;

    __device__ __forceinline__ uint32_t in_rounds(const ftj_extend_params& p,
                                                  const QueryRun& run) const {
        return round_tiles(p, rounds_of(Unit::tiles_of(run, p.group) * p.num_kv_heads, blocks));
    }
    // The first so many query tiles of a request.
    __device__ __forceinline__ uint32_t round_tiles(const ftj_extend_params& p,
                                                    uint32_t rounds) const {
        return in_order.tiles(rounds * blocks.number, by_heads(p));
    }
    static __device__ __forceinline__ uint32_t cost_of(const Unit& unit) {
        return unit.tiles + unit_cost;
    }
    // Of that, what two blocks save that walk the same keys.
    __device__ __forceinline__ uint32_t saved_of(const Unit& unit) const {
        return in_order.pairs() ? unit.tiles / 16 : 0;
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
            const uint32_t tiles = Unit::tiles_of(run, p.group);
            query_tiles += tiles;
            longs.add(r, rounds_of(tiles * p.num_kv_heads, blocks));
        }
        sums.cost.of[all] = query_tiles;
    }

    // The costs of the thread's share of all query tiles; or what of them the block's ranges begin
    // in.
    __device__ __forceinline__ void walk(const ftj_extend_params& p, Sums& sums, Ranges& ranges,
                                         bool enters) {
        Unit at;
        uint32_t left =
            enters && min_of(ranges.to_whole, ranges.to_cut) == not_here ? 0 : sums.mine;
        uint32_t index = left ? sums.start(at) : 0;
#pragma unroll 1
        while (left-- > 0) {
            go(p, at, index, false);
            const uint32_t in_rounds = this->in_rounds(p, at.run);
            const bool is_short = ShortRequest::is(at.run, in_rounds);
            const bool is_rest = !is_short && at.index >= in_rounds;
            const uint64_t cost = uint64_t(cost_of(at)) * p.num_kv_heads;
            if (!enters) {
                sums.cost.add({cost, is_short ? cost : 0, is_rest ? cost : 0});
                if (at.index < in_rounds && longs.are_few())
                    add_rounds(at, p.num_kv_heads);
            } else if (!has_rounds || is_short || is_rest) {
                enter_range(at, cost, ranges, has_rounds && is_short);
            }
            index = at.index + 1;
        }
    }

    // What units of a query tile that is dealt in rounds cost the blocks that get them.
    __device__ __forceinline__ void add_rounds(const Unit& at, uint32_t heads) {
        const uint32_t cost = cost_of(at) - saved_of(at);
        if (in_order.pairs())
            ptx::atomic_add(&saved, heads * saved_of(at));
        uint32_t place = in_order.first(at.index, heads);
        uint32_t round = blocks.divide(place);
        place -= round * blocks.number;
#pragma unroll 1
        for (uint32_t head = 0; head < heads; head++) {
            ptx::atomic_add(&shares[round % 2 ? blocks.number - 1 - place : place], cost);
            place += in_order.apart();
            if (place >= blocks.number)
                place -= blocks.number, round++;
        }
    }

    // Query tiles of a request, first ones, that the range at hand does not have.
    __device__ __forceinline__ uint32_t skipped(const ftj_extend_params& p,
                                                const QueryRun& run) const {
        const uint32_t rounds = in_rounds(p, run);
        return is_whole == ShortRequest::is(run, rounds) ? rounds : Unit::tiles_of(run, p.group);
    }

    // To query tile `index` of the request, or so many on in those that follow, which are entered,
    // if `in_range`, at the first that the range at hand has. There must be one.
    __device__ __forceinline__ void go(const ftj_extend_params& p, Unit& at, uint32_t index,
                                       bool in_range, uint32_t paired = 0) const {
#pragma unroll 1
        for (uint32_t tiles; index >= (tiles = Unit::tiles_of(at.run, p.group));) {
            at.run = QueryRun::of(p, ++at.request);
            index = index - tiles + (in_range ? skipped(p, at.run) : 0);
        }
        at.enter(p, index, paired);
    }

    // What each block lacks of an equal share when it has had its units of all rounds and those
    // that are dealt whole. If one has too much already, there are no such units. Leaves the
    // block's share in `sums` to be added up, and says what of the ranges is known.
    __device__ __forceinline__ Ranges share_out(Sums& sums) {
        const uint32_t block = ptx::thread_index();
        const EqualShares equal = {sums.total.of[all], blocks, min_share};
        const EqualShares of_rounds = {sums.total.of[all] - saved, blocks, min_share};
        const EqualShares of_short = {sums.total.of[whole], blocks, 0};
        uint64_t share = 0, beside_rounds = 0, of_whole = 0, begin = 0;
#pragma unroll 1
        for (uint32_t next = 2; next-- > 0;) {
            share = equal.begin(block + next) - share;
            if (in_order.pairs())
                beside_rounds = of_rounds.begin(block + next) - beside_rounds;
            begin = of_short.begin(block + next);
            of_whole = begin - of_whole;
        }
        share = 0 - share, of_whole = 0 - of_whole;
        beside_rounds = in_order.pairs() ? 0 - beside_rounds : share;
        uint64_t had = 0;
        if (block < blocks.number) {
            had = shares[block] + of_whole;
            if (block == ptx::block_index())
                whole_share = uint32_t(of_whole), cut_begin = begin;
            if (had + min_share > beside_rounds)
                has_rounds = 0;  // whoever says so
        }
        ptx::sync_block();
        const bool keeps = longs.are_few() && has_rounds;
        begin = cut_begin - sums.before.of[whole];
        const Ranges ranges = {keeps && begin < sums.cost.of[whole] ? begin : not_here, not_here,
                               keeps ? sums.before.of[rest] : sums.before.of[all],
                               keeps ? sums.cost.of[rest] : sums.cost.of[all]};
        ptx::sync_block();
        if (block == 0)
            has_rounds = keeps;
        share = keeps ? beside_rounds - had : share;
        sums.cost = {};
        if (block < blocks.number)
            shares[block] = uint32_t(sums.cost.of[all] = share);
        return ranges;
    }

    // Where the block's share of the cut begins, when shares are added up.
    __device__ __forceinline__ void find_cut(Sums& sums, Ranges& ranges) {
        if (ptx::thread_index() == ptx::block_index())
            cut_begin = sums.before.of[all];
        ptx::sync_block();
        const uint64_t begin = cut_begin - ranges.before;
        if (begin < ranges.mine)
            ranges.to_cut = begin;
        if (ptx::block_index() >= blocks.number)
            ranges.to_cut = ranges.to_whole = not_here;
    }

    // To the request of the block's next unit, and its head there, before go() to query tile
    // `index`. False: the block has had its units of all rounds.
    __device__ __forceinline__ bool next_of_rounds(const ftj_extend_params& p, uint32_t& index) {
        uint32_t mine;
        if (!longs.next(in_order, blocks, by_heads(p), rounds, mine))
            return false;
        stand_before(unit, longs.requests[rounds.request]);
        index = in_order.index(mine, by_heads(p));
        unit.head = in_order.head(mine, by_heads(p));
        unit.tile = 0;
        return true;
    }

    // So that go() enters the request.
    static __device__ __forceinline__ void stand_before(Unit& at, uint32_t request) {
        at.request = request - 1;
        at.run.queries = 0;
    }

    // What a range has left has to be more. A unit that is dealt whole is the block's that its
    // start falls to.
    __device__ __forceinline__ uint32_t least() const { return is_whole ? 0 : owed; }

    // To the next unit of the range, if one has been there, or to the other range. True: it is in
    // query tile `index`.
    __device__ __forceinline__ bool step(const ftj_extend_params& p, uint32_t& index,
                                         bool& in_range) {
        if (is_whole && left == 0 && cut_start.left > cut_start.owed) {
            is_whole = has_begun = 0;
            stand_before(cut, cut_start.request);
            cut.head = cut_start.head;
            cut.tile = cut_start.tile;
            left = cut_start.left;
            owed = cut_start.owed;
            index = cut_start.index;
            in_range = false;
            return true;
        }
        if (!has_begun || left <= least())
            return false;
        owed = unit_cost;
        cut.tile = 0;
        if (++cut.head < p.num_kv_heads)
            return false;
        cut.head = 0;
        index = cut.index + 1;
        return true;
    }

    // Whether a range begins in this query tile, whose units cost so much together.
    __device__ __forceinline__ void enter_range(const Unit& at, uint64_t cost, Ranges& ranges,
                                                bool of_whole) {
        const uint64_t to = of_whole ? ranges.to_whole : ranges.to_cut;
        const uint64_t left_to = to < cost || to == not_here ? not_here : to - cost;
        ranges.to_whole = of_whole ? left_to : ranges.to_whole;
        ranges.to_cut = of_whole ? ranges.to_cut : left_to;
        if (to >= cost)
            return;
        const uint32_t of_unit = cost_of(at);
        uint32_t head = 0, in_unit = uint32_t(to);
#pragma unroll 1
        for (; in_unit >= of_unit; head++)
            in_unit -= of_unit;
        const uint32_t in_start = min_of(in_unit, unit_cost);
        if (of_whole) {
            const uint32_t left_of_unit = in_unit ? of_unit - in_unit : 0;
            cut = at;
            cut.head = head;
            has_begun = in_unit != 0;
            left = whole_share - min_of(whole_share, left_of_unit);
        } else {
            cut_start = {
                at.request,          at.index, head, in_unit - in_start, shares[ptx::block_index()],
                unit_cost - in_start};
        }
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
