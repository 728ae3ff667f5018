// SPDX-License-Identifier: MIT
// Dealing a decode's work on the device, from lengths that only the device knows.
//
// A unit is one (request, set of kv heads, block of columns), a tile tile_tokens tokens of it,
// aligned. A set is one kv head, or a few where their rows lie beside each other in memory, each
// with warps of its own. A column is a query head of the kv head; where requests have runs of
// queries, of any of these, query after query. All units that have tiles stand in a row, and the
// row is cut into one contiguous range per block, in one of two ways:
//
//   by pieces  units of equal length: each is cut into as many equal pieces as the grid has room
//              for, or a block gets several whole ones; some blocks may get nothing. Whole units
//              are dealt in turn, where all requests show keys: blocks that follow each other read
//              the heads of the same pages at the same time, which memory gives faster
//   by cost    any lengths: a unit is as wide as its tiles and what it costs a block to start one,
//              counted in tiles, and the ranges are equally wide
//
// Nothing here depends on anything but lengths and grid, so a replayed graph computes what an eager
// call would. One warp of a block does it: where all do, they take from each other, and from the
// kernel beside them, what they need to get to their first copy. The row is counted in 32 bits: it
// ends at 2^36 tokens of a unit or more, which no call reads within a second.
#pragma once
#include "block/columns.cuh"
#include "block/visible_keys.cuh"

namespace ftj {

// How far it is from one unit of a block to its next one, beside to the one that follows.
struct UnitStride {
    uint32_t more_sets;
    uint32_t more_requests;

    // So many units, of requests that have one block of columns.
    __device__ __forceinline__ void set(uint32_t units, uint32_t head_sets) {
        more_requests = (units - 1) / head_sets;
        more_sets = units - 1 - more_requests * head_sets;
    }
};
struct NoStride {
    static constexpr uint32_t more_sets = 0;
    static constexpr uint32_t more_requests = 0;
    static __device__ __forceinline__ void set(uint32_t, uint32_t) {}
};

// Where a block stands: a run of tiles of one segment.
template <uint32_t tile_tokens, class Table>
struct Segment {
    using Keys = typename Table::Keys;
    using Stride = typename OneOrRun<NoStride, UnitStride, Table::takes_turns>::Type;
    static constexpr uint32_t tile_shift = tile_tokens == 64 ? 6 : tile_tokens == 32 ? 5 : 4;
    static_assert(1u << tile_shift == tile_tokens, "tiles are of 16, 32 or 64 tokens");

    uint32_t request;
    uint32_t head_set;    // which kv heads
    uint32_t head_block;  // of its columns
    uint32_t tile;        // first tile of the run, counted from the segment's first
    uint32_t tiles;       // of the whole segment
    Keys keys;

    __device__ __forceinline__ void enter(uint32_t to, Keys its_keys) {
        request = to;
        keys = its_keys;
        tiles = keys.num_tiles(tile_shift);
    }

    // To the start of the next segment that has tiles. There must be one. With `ends`, keys end
    // there.
    __device__ __forceinline__ void next(const ftj_decode_params& p, const Stride& stride,
                                         const uint32_t* ends = nullptr) {
        tile = 0;
        if (++head_block < keys.head_blocks(p))
            return;
        head_block = 0;
        head_set += 1 + stride.more_sets;
        const bool is_past = head_set >= p.head_sets;
        head_set -= is_past ? p.head_sets : 0;
        if (!is_past && !stride.more_requests)
            return;
        request += stride.more_requests + is_past - 1;
        do
            enter(request + 1, keys_of<Table>(p, request + 1, ends));
        while (!tiles);
    }

    // First token of a tile of the segment, which may lie before the first visible key.
    __device__ __forceinline__ uint32_t token(uint32_t of_tile) const {
        return (keys.begin / tile_tokens + of_tile) * tile_tokens;
    }

    // Of a kv head of the segment.
    __device__ __forceinline__ Columns<Keys::is_run> columns(const ftj_decode_params& p,
                                                             uint32_t kv_head,
                                                             uint32_t block_columns) const {
        return Columns<Keys::is_run>::of(p, keys, request, kv_head, head_block, block_columns);
    }
};

// Where a place of the row lies.
template <class Keys>
struct RowPlace {
    uint32_t request;
    uint32_t unit;    // of the request
    uint32_t at;      // of the unit's width
    uint32_t begin;   // of that width in the row
    uint32_t before;  // tiles before the place, modulo 2^32
    Keys keys;
};

// The row, and its cut: the first `longer` blocks have `each` + 1 of its width, the others `each`,
// the last what is left. All lanes of a warp have the same, but for their runs of requests (one,
// with up to 32), which they add up.
template <class Table>
struct Cut {
    using Keys = typename Table::Keys;
    using Place = RowPlace<Keys>;
    static constexpr uint32_t at_once = 4;  // lengths on their way
    const ftj_decode_params& p;
    uint32_t* ends;      // of the requests' keys, if they are read early
    uint32_t num_units;  // of a request, but for its own factor
    uint32_t count;      // requests that show a key, each times its own factor
    uint32_t has_empty;  // some requests show no key to any query
    uint32_t blocks;     // that have work
    uint32_t each;
    uint32_t longer;
    uint32_t width;
    uint32_t pieces;       // of each unit; 0: by cost
    uint32_t piece_tiles;  // of a piece; the first `longer_pieces` of a unit have one more
    uint32_t longer_pieces;
    uint32_t all_tiles;  // of one unit of each request
    uint32_t run_begin;  // this lane's requests
    uint32_t run_end;
    uint32_t from;  // in the row, as if a request had one unit
    uint32_t upto;
    uint32_t tiles_before;
    uint32_t count_before;  // of `count`, likewise
    uint32_t count_upto;
    Keys first_keys;  // of its first

    explicit __device__ __forceinline__ Cut(const ftj_decode_params& of_call,
                                            uint32_t* early_ends = nullptr)
        : p(of_call), ends(early_ends), num_units(Keys::units_alike(of_call)), blocks(0) {
        const uint32_t lane = ptx::thread_index() % warp_size;
        const uint32_t run = (p.requests.batch + warp_size - 1) / warp_size;
        run_begin = min_of(lane * run, p.requests.batch);
        run_end = min_of(run_begin + run, p.requests.batch);
        uint32_t own_tiles = 0, own_count = 0, most = 0;
        bool is_empty = false;
        first_keys = {};
#pragma unroll 1
        for (uint32_t begin = run_begin; begin < run_end; begin += at_once) {
            Keys keys[at_once];
#pragma unroll
            for (uint32_t i = 0; i < at_once; i++)
                keys[i] = Table::newest(p, min_of(begin + i, run_end - 1), ends != nullptr);
#pragma unroll
            for (uint32_t i = 0; i < at_once && begin + i < run_end; i++) {
                if (ends)
                    ends[begin + i] = keys[i].end;
                if (i == 0 && begin == run_begin)
                    first_keys = keys[0];
                const uint32_t tiles = keys[i].num_tiles(p.tile_shift);
                own_tiles += tiles * keys[i].own_units(p);
                own_count += tiles ? keys[i].own_units(p) : 0;
                most = max_of(most, tiles);
                is_empty |= tiles == 0 && keys[i].num_queries() != 0;
            }
        }
        has_empty = ptx::any(is_empty);
        // Lanes past the last request's have nothing, and need not know what is before them.
        const uint32_t lanes = min_of(p.requests.batch, warp_size);
        uint32_t tiles = own_tiles, upto_count = own_count;
#pragma unroll 1
        for (uint32_t delta = 1; delta < lanes; delta *= 2) {
            const uint32_t other = lane < delta ? lane : lane - delta;
            const uint32_t other_tiles = ptx::shfl(tiles, other);
            const uint32_t other_count = ptx::shfl(upto_count, other);
            most = max_of(most, ptx::shfl(most, other));
            tiles += lane < delta ? 0 : other_tiles;
            upto_count += lane < delta ? 0 : other_count;
        }
        tiles_before = tiles - own_tiles;
        count_before = upto_count - own_count;
        count_upto = upto_count;
        all_tiles = ptx::shfl(tiles, lanes - 1);
        count = ptx::shfl(upto_count, lanes - 1);
        most = ptx::shfl(most, lanes - 1);
        if (!count)
            return;
        share_out(most);
        upto = pieces ? pieces * upto_count : tiles + p.unit_cost * upto_count;
        from = upto - (pieces ? pieces * own_count : own_tiles + p.unit_cost * own_count);
    }

    __device__ __forceinline__ uint32_t begin_of(uint32_t block) const {
        return min_of(each * block + min_of(block, longer), width);
    }
    // The block that has a place.
    __device__ __forceinline__ uint32_t owner(uint32_t place) const {
        if (each == 1 && longer == 0)  // no division, which a combine would wait for
            return place;
        const uint32_t of_longer = (each + 1) * longer;
        return place < of_longer ? place / (each + 1) : longer + (place - of_longer) / each;
    }

    __device__ __forceinline__ uint32_t unit_width(uint32_t tiles) const {
        return tiles == 0 ? 0 : pieces ? pieces : tiles + p.unit_cost;
    }
    // Tiles of a unit before place `at` of its width.
    __device__ __forceinline__ uint32_t unit_tiles(uint32_t at) const {
        return pieces ? at * piece_tiles + min_of(at, longer_pieces) : at - min_of(at, p.unit_cost);
    }
    // Where in its width a unit's first tile is.
    __device__ __forceinline__ uint32_t first_tile() const { return pieces ? 0 : p.unit_cost; }

    // Of a place below the width; or, where a number is given, of the first place of that unit. The
    // lane that has its request in its run walks the run once more.
    static constexpr uint32_t no_unit = 0xffffffffu;
    __device__ __forceinline__ Place locate(uint32_t place, uint32_t number = no_unit) const {
        Place to = {};
        const bool by_place = number == no_unit;
        if (is_plain()) {
            const uint32_t of_all = by_place ? place / pieces : number;
            to.request = of_all / num_units;
            to.unit = of_all - to.request * num_units;
            to.keys = first_keys.of_lane(to.request);
            to.begin = of_all * pieces;
            to.at = by_place ? place - to.begin : 0;
            return to;
        }
        const bool has_it =
            by_place ? place >= from * num_units && place < upto * num_units
                     : number >= count_before * num_units && number < count_upto * num_units;
        if (has_it) {
            to.unit = number - count_before * num_units;
            to.begin = from * num_units;
            to.before = tiles_before;
            for (to.request = run_begin;; to.request++) {
                to.keys =
                    to.request == run_begin ? first_keys : keys_of<Table>(p, to.request, ends);
                const uint32_t tiles = to.keys.num_tiles(p.tile_shift);
                const uint32_t units = tiles ? num_units * to.keys.own_units(p) : 0;
                const uint32_t of_request = unit_width(tiles) * units;
                if (by_place ? place - to.begin < of_request : to.unit < units)
                    break;
                to.begin += of_request;
                to.unit -= units;
                to.before += tiles * to.keys.own_units(p);
            }
        }
        const uint32_t lane = ptx::first_lane(has_it);
        to.request = ptx::shfl(to.request, lane);
        to.keys = to.keys.of_lane(lane);
        to.begin = ptx::shfl(to.begin, lane);
        const uint32_t tiles = to.keys.num_tiles(p.tile_shift);
        to.unit = by_place ? (place - to.begin) / unit_width(tiles) : ptx::shfl(to.unit, lane);
        to.begin += to.unit * unit_width(tiles);
        to.at = by_place ? place - to.begin : 0;
        to.before = ptx::shfl(to.before, lane) * num_units + to.unit * tiles + unit_tiles(to.at);
        return to;
    }

    __device__ __forceinline__ uint32_t head_set(const Place& place) const {
        const uint32_t head_blocks = place.keys.head_blocks(p);
        return head_blocks == 1 ? place.unit : place.unit / head_blocks;
    }

    // Whether each block has a piece, and each lane a request that shows keys, if any: where a
    // piece is takes two divisions then, and no walk.
    __device__ __forceinline__ bool is_plain() const {
        return !Keys::is_run && pieces && each == 1 && p.requests.batch <= warp_size &&
               count == p.requests.batch;
    }

    // Whether blocks get several whole units, of requests that all show keys.
    __device__ __forceinline__ bool is_in_turn() const {
        return Table::takes_turns && pieces && each > 1 && count == p.requests.batch &&
               p.head_blocks == 1;
    }
    // How many units a block has then.
    __device__ __forceinline__ uint32_t turns(uint32_t block) const {
        return (width - block - 1) / blocks + 1;
    }

    // The tiles from a place, at `begin`, to `end`, if it tells them; if not, locate(end) must.
    __device__ __forceinline__ bool tells(const Place& place, uint32_t begin, uint32_t end,
                                          uint32_t& tiles) const {
        const uint32_t span = end - begin;
        const uint32_t of_unit = place.keys.num_tiles(p.tile_shift);
        const bool is_in_unit = place.at + span <= unit_width(of_unit);
        tiles = pieces == 1  ? span * of_unit
                : is_in_unit ? unit_tiles(place.at + span) - unit_tiles(place.at)
                             : all_tiles * num_units - place.before;
        return pieces == 1 || is_in_unit || end == width;
    }

private:
    // By pieces where that takes hardly longer: a block's time is its tiles and the starts of its
    // pieces. By cost a block has one start at most that its range does not count. Where memory is
    // what all wait for, it is worth it that a few have nothing to do: each of the others gets the
    // more of it, and whole units, or one piece to a block, leave fewer parts. Where an SM is, they
    // are worth a third of a start.
    __device__ __forceinline__ void share_out(uint32_t most) {
        width = (all_tiles + p.unit_cost * count) * num_units;
        longer = 0;
        const uint32_t least = (1u << p.min_shift) + p.unit_cost;  // of a block, by cost
        uint32_t unit_pieces = p.unit_pieces, block_units = p.block_units;
        if constexpr (Keys::is_run) {  // the host does not know how many units there are
            const uint32_t units = count * num_units;
            unit_pieces = units < p.blocks ? p.blocks / units : 1;
            block_units = (units - 1) / p.blocks + 1;
        }
        pieces = min_of(unit_pieces, ((most - 1) >> p.min_shift) + 1);
        piece_tiles = most / pieces;
        longer_pieces = most - piece_tiles * pieces;
        const uint32_t longest = piece_tiles + (longer_pieces != 0);
        const uint64_t time = uint64_t(longest + p.unit_cost) * block_units - p.unit_cost - 1;
        const uint32_t busy = p.blocks - p.most_idle;
        const uint64_t most_time = width + uint64_t(p.slack) * busy;
        if (all_tiles == most * count && (time <= least || time * busy <= most_time)) {
            each = block_units;
            width = pieces * count * num_units;
            blocks = each == 1 ? width : (width + each - 1) / each;
            return;
        }
        pieces = 0;
        if (width <= least * p.blocks) {
            each = least;
            blocks = (width + least - 1) / least;
        } else {
            each = width / p.blocks;
            longer = width - each * p.blocks;
            blocks = p.blocks;
        }
    }
};

// The share of one block.
template <uint32_t tile_tokens, class Table>
struct WorkRange : Segment<tile_tokens, Table>::Stride {
    Segment<tile_tokens, Table> first;
    uint32_t count;      // tiles; 0: nothing to do
    uint32_t has_empty;  // some requests show no key to any query

    // All lanes of a warp get the block's. If it is early, `ends` gets where the keys of each
    // request were found to end.
    static __device__ __forceinline__ WorkRange of_block(const ftj_decode_params& p,
                                                         uint32_t* ends) {
        const Cut<Table> cut(p, ends);
        WorkRange range = {};
        range.has_empty = cut.has_empty;
        if (ptx::block_index() >= cut.blocks)
            return range;
        const uint32_t index = ptx::block_index();
        const bool is_in_turn = cut.is_in_turn();
        const uint32_t begin = is_in_turn ? index : cut.begin_of(index);
        const uint32_t end = is_in_turn ? index + cut.turns(index) : cut.begin_of(index + 1);
        typename Cut<Table>::Place place;
#pragma unroll 1
        for (uint32_t at = begin;; at = end) {  // one locate() of both, for the time to compile it
            const auto found = cut.locate(at);
            if (at == end)
                range.count = found.before - place.before;
            else
                place = found;
            if (at == end || cut.tells(place, begin, end, range.count))
                break;
        }
        range.first.enter(place.request, place.keys);
        range.first.tile = cut.unit_tiles(place.at);
        range.first.head_set = cut.head_set(place);
        range.first.head_block = place.unit - range.first.head_set * place.keys.head_blocks(p);
        if (is_in_turn)
            range.set(cut.blocks, p.head_sets);
        return range;
    }
};

}  // namespace ftj
