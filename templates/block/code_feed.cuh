// SPDX-License-Identifier: MIT
// Tiles of K or V that the cache holds as codes. A producer warp takes whole tiles, or a part of
// each, in its turn, and has nothing to do with the others: it fetches codes and scales into slots
// of its own, ahead of time, and widens them once, into the swizzled tile that all consumers read.
// Row scales are put on what is widened; those of keys go beside the tile where the warp has not
// all of it (half_rows.cuh). Rows that nobody may see are zeros, codes and scales.
//
// Rows that follow each other in a page (a run) come by bulk copies, one an array, which cost the
// warp nothing while they are under way. Other rows come one by one by cp.async, which a fence
// waits for: those have been under way since the fence before.
#pragma once
#include "block/code_rows.cuh"
#include "block/half_rows.cuh"
#include "block/query_tile.cuh"
#include "block/swizzled.cuh"
#include "block/tile_feed.cuh"

namespace ftj {

template <class Config>
struct CodeFeed {
    static constexpr int head_dim = Config::head_dim;
    static constexpr int tokens = Config::tile_tokens;
    static constexpr int warps = int(feed_threads / warp_size);
    static constexpr int rows = Config::code_rows;     // of a tile, that a warp brings
    static constexpr int parts = tokens / rows;        // of a tile, a warp each
    static constexpr int stride = warps / parts;       // warps that take turns
    static constexpr int run_rows = Config::code_run;  // that a bulk copy brings; 0: none does
    static constexpr int slots = Config::code_slots;
    static constexpr bool is_bulk = run_rows > 0;
    static constexpr int runs = is_bulk ? rows / run_rows : rows;  // a lane looks up one
    using Tile = SwizzledTile<tokens, head_dim>;
    static constexpr bool has_halves = has_half_rows<Config>;
    static constexpr bool is_alike =
        is_same<typename Config::KWiden, typename Config::VWiden>;  // addresses serve both sides
    // K and V by one piece of code; of 256 dims registers are spilled for it.
    static constexpr bool fetches_alike = is_alike && !is_bulk && head_dim < 256;
    using K = CodeRows<typename Config::KWiden, head_dim, rows, false, has_halves>;
    using V = CodeRows<typename Config::VWiden, head_dim, rows, true, false>;
    static constexpr int slot_bytes = K::bytes > V::bytes ? K::bytes : V::bytes;
    static constexpr int shared_bytes = warps * slots * slot_bytes;
    static constexpr int barrier_bytes = 8 * warps * slots;
    static_assert(tokens % rows == 0 && warps % parts == 0, "turns come round");
    static_assert(runs <= int(warp_size), "a lane looks up a run");
    static_assert(Config::num_stages > stride, "a cursor goes round once a turn, at most");
    static_assert(!Config::has_records || run_rows == rows, "a record is a slot");
    static_assert(stride < 4 || (Config::num_stages >= 6 && Config::query_stages == 1),
                  "what after() says of phases");

    uint32_t lane;
    uint32_t part;      // of a tile, this warp's
    uint32_t turn;      // first tile that is this warp's
    uint32_t slots_at;  // shared address of the warp's
    uint32_t barriers;  // of those, where copies are counted
    uint32_t fetched;   // slot to be filled next
    uint32_t widened;   // slot to be read next
    uint32_t round;     // parity of its copies
    uint32_t page;      // of this lane's run
    uint32_t offset;
    // Of the unit: as it lies in shared memory, it would be read anew at every step.
    KeyRange cached;
    const int32_t* table;
    uint32_t head;

    static __device__ __forceinline__ void init_barriers(uint32_t shared) {
        for (int i = 0; is_bulk && i < warps * slots; i++)
            ptx::mbarrier_init(shared + 8 * i, 1);
    }
    // Reading the thread's number anew takes its turn behind loads and stores of shared memory;
    // what came by a shuffle is kept.
    __device__ __forceinline__ void init(uint32_t shared, uint32_t shared_barriers) {
        const uint32_t thread = ptx::thread_index() % feed_threads;
        const uint32_t warp = ptx::shfl(thread / warp_size, 0);
        lane = ptx::shfl(thread % warp_size, thread % warp_size);
        part = warp % parts;
        turn = first_turn(warp / parts);
        slots_at = shared + warp * (slots * slot_bytes);
        barriers = shared_barriers + warp * (slots * 8);
        fetched = widened = round = 0;
    }

    // The warp's step after `step`, where K and V take turns. Where it takes every fourth, the
    // other side's, as one takes longer to widen: 0 3 8 11, 1 6 9 14, 2 5 10 13 and 4 7 12 15.
    //
    // From K the step is the shorter one, for the stages' sake. A warp that waits for a stage tells
    // the phases of its barrier apart by parity, and so must know that the one before has ended,
    // from the last stage that it has waited for. Consumers give back K of a tile a softmax before
    // V of the tile before it: with six stages a warp that came from K by five steps could find a
    // barrier two phases behind, and write over values that are still being read.
    //
    // From a warp's last step of a unit to its first of the next it may be nine steps. There it is
    // the one tile of queries that says it: no warp begins a unit before all keys of the last one
    // have been given back.
    static __device__ __forceinline__ uint32_t after(uint32_t step) {
        if constexpr (stride == 4)
            return step % 2 ? step + 5 : step + 3;
        return step + stride;
    }
    static __device__ __forceinline__ uint32_t first_turn(uint32_t of_stride) {
        if constexpr (stride == 4)
            return of_stride == 3 ? 4 : of_stride;
        return stride == 1 ? 0 : of_stride;
    }

    __device__ __forceinline__ void begin(const ftj_extend_params& p,
                                          const QueryTile<Config>& unit) {
        cached = unit.cached;
        table = pointer<const int32_t>(p.requests.table) + unit.table_start;
        head = unit.head;
    }
    // Which of the warp's rows are to be seen, of the tile from `first` on.
    __device__ __forceinline__ KeyRange seen_rows(uint32_t first) const {
        const uint32_t base = first + part * rows;
        return {cached.begin - min_of(cached.begin, base), cached.end - min_of(cached.end, base)};
    }

    // Where the rows of the tile from `first` on are.
    __device__ __forceinline__ void find(uint32_t first) {
        constexpr uint32_t length = is_bulk ? run_rows : 1;
        const uint32_t token = first + part * rows + lane % runs * length;
        page = offset = 0;
        if (!is_one_run && (token >= cached.end || token + length <= cached.begin))
            return;
        if constexpr (Config::slot_table) {
            const auto slot = static_cast<uint32_t>(table[token]);
            page = slot / Config::page_size;
            offset = slot % Config::page_size;
        } else {
            page = static_cast<uint32_t>(table[token / Config::page_size]);
            offset = token % Config::page_size;
        }
    }

    // Start the copies of one side of the tile that was found, of which these rows are to be seen.
    template <class Side>
    __device__ __forceinline__ void fetch(const ftj_side_params& side,
                                          const ftj_array_params& other_scales, KeyRange seen) {
        const uint32_t slot = slots_at + fetched * slot_bytes;
        ptx::sync_warp();  // the slot has been read
        if constexpr (is_bulk) {
            const uint32_t barrier = barriers + 8 * fetched;
            const KeyRange its = runs_of(seen);
            constexpr int own_bytes = Side::code_row + Side::block_row + 4;
            constexpr uint32_t bytes = run_rows * (own_bytes + (Side::tells_unit ? 4 : 0));
            // A lane that the assembler knows to be one: it would try all of them for addresses.
            const bool is_elected = is_one_run && ptx::elect_lane();
            if (is_one_run ? is_elected : lane == 0)
                ptx::mbarrier_arrive_expect_tx(
                    barrier, its.end > its.begin ? (its.end - its.begin) * bytes : 0);
            if (is_one_run ? is_elected : lane >= its.begin && lane < its.end) {
                if constexpr (Config::has_records) {
                    copy_run<own_bytes>(side.codes, slot, barrier);
                } else {
                    copy_run<Side::code_row>(side.codes, slot, barrier);
                    copy_run<Side::block_row>(side.block_scales, slot + Side::blocks, barrier);
                    copy_run<4>(side.row_scales, slot + Side::scales, barrier);
                }
                copy_run<Side::tells_unit ? 4 : 0>(other_scales, slot + Side::other_scales,
                                                   barrier);
            }
        } else {
            static_assert(!Side::tells_unit, "half a tile");
            fetch_rows<Side::code_row>(side.codes, seen, slot);
            fetch_rows<Side::block_row>(side.block_scales, seen, slot + Side::blocks);
            fetch_rows<4>(side.row_scales, seen, slot + Side::scales);
        }
        fetched = fetched == slots - 1 ? 0 : fetched + 1;
    }

    // Until the rows of the next slot have come, of which `its` are to be seen. A bulk copy brings
    // what is there: NaN times a weight of nothing would be seen.
    template <class Side>
    __device__ __forceinline__ void wait(KeyRange its) const {
        if constexpr (is_bulk) {
            ptx::mbarrier_wait(barriers + 8 * widened, round);
            if (its.begin > 0 || its.end < rows)
                clear_unseen<Side>(its, slots_at + widened * slot_bytes);
        } else {
            ptx::cp_async_wait<slots - 1>();
        }
        ptx::sync_warp();  // the copies of all lanes have come
    }

    // The rows in the next slot, which have come, into their places, when those are free. What is
    // there to be read of the slot is on its way by then.
    template <class Side, class TileCursor, class Peer>
    __device__ __forceinline__ void widen(const TileCursor& tiles, float score_scale,
                                          bool is_paired, Peer& peer) {
        const uint32_t slot = slots_at + widened * slot_bytes;
        if constexpr (has_halves) {
            const uint32_t own = slot + Side::scales + 4 * lane;
            HalfScales<typename Side::Widen, rows> its(own);
            // Those of V, by the warp of K that tells consumers of them; else of no rows.
            HalfScales<typename V::Widen, Side::tells_unit ? rows : 0> values(
                slot + Side::other_scales + 4 * lane);
            SlotRows mine = {0, rows};
            if (is_paired)
                mine = {ptx::cluster_rank() * (rows / 2), rows / 2};
            WidenRows<Side, Tile, is_alike ? WidenKind::half_alike : WidenKind::half> halves(
                lane, part * rows, slot, tiles.tile(), mine);
            halves.start();
            tiles.wait_free();
            its.find_top();
            if constexpr (Side::tells_unit)
                tell_units(values, tiles.scales(), score_scale * its.power(its.exponent()));
            if (is_paired)
                peer.wait_free();
            if (Side::is_value && its.is_wide()) {
                WidenRows<Side, Tile, WidenKind::seldom>(lane, part * rows, slot, tiles.tile(),
                                                         mine)
                    .run();
            } else {
                its.template narrow<!Side::is_value && Side::Widen::keys_take_rest>(own);
                halves.go_on();
            }
        } else {
            tiles.wait_free();
            WidenRows<Side, Tile, WidenKind::plain>(lane, part * rows, slot, tiles.tile()).run();
            if constexpr (!Side::is_value)
                tell_scales(slot + Side::scales, tiles.scales() + 4 * part * rows, score_scale);
        }
        const bool wraps = widened == slots - 1;
        widened = wraps ? 0 : widened + 1;
        round ^= wraps;
    }

private:
    // The runs of a tile in which some rows are to be seen. Of a whole tile some always are.
    static constexpr bool is_one_run = parts == 1 && runs == 1;
    static __device__ __forceinline__ KeyRange runs_of(KeyRange seen) {
        if constexpr (is_one_run)
            return {0, 1};
        return {min_of(seen.begin, uint32_t(rows)) / run_rows,
                (min_of(seen.end, uint32_t(rows)) + run_rows - 1) / run_rows};
    }

    // To the consumers, beside keys that are widened without them.
    __device__ __forceinline__ void tell_scales(uint32_t from, uint32_t to,
                                                float score_scale) const {
#pragma unroll
        for (uint32_t row = 0; row < uint32_t(rows); row += warp_size) {
            const uint32_t at = 4 * (row + lane);
            if (rows % warp_size == 0 || row + lane < uint32_t(rows))
                ptx::st_shared_u32(to + at,
                                   ptx::float_bits(ptx::ld_shared_f32(from + at) * score_scale));
        }
    }
    __device__ __forceinline__ void tell_units(HalfScales<typename V::Widen, rows>& values,
                                               uint32_t units, float to_log2) const {
        values.find_top();
        TileUnits its = {to_log2, -0.0f, 1.0f};
        if (!values.is_wide()) {
            its.exponent = float(values.exponent());
            its.inverse = values.power(-values.exponent());
        }
        its.store(units, lane);
    }

    template <int row_bytes>
    __device__ __forceinline__ void copy_run(const ftj_array_params& array, uint32_t shared,
                                             uint32_t barrier) const {
        constexpr uint32_t bytes = run_rows * row_bytes;
        static_assert(bytes % 16 == 0, "what a bulk copy can move");
        const uint32_t in_page = Config::has_records ? 0 : offset * uint32_t(row_bytes);
        if constexpr (row_bytes > 0)
            ptx::cp_async_bulk(shared + (is_one_run ? 0 : lane * bytes),
                               pointer<const void>(array.base + head * array.head_stride +
                                                   page * array.page_stride + in_page),
                               bytes, barrier);
    }

    template <class Side>
    __device__ __forceinline__ void clear_unseen(KeyRange its, uint32_t slot) const {
#pragma unroll 1
        for (uint32_t row = lane; row < uint32_t(rows); row += warp_size) {
            if (row >= its.begin && row < its.end)
                continue;
#pragma unroll 1
            for (int at = 0; at < Side::code_row; at += 16)
                ptx::st_shared_v4(slot + row * Side::code_row + at, {});
#pragma unroll 1
            for (int at = 0; at < Side::block_row; at += 4)
                ptx::st_shared_u32(slot + Side::blocks + row * Side::block_row + at, 0);
            ptx::st_shared_u32(slot + Side::scales + row * 4, 0);
            if constexpr (Side::tells_unit)
                ptx::st_shared_u32(slot + Side::other_scales + row * 4, 0);
        }
    }

    static __device__ __forceinline__ uint64_t of_lane(uint64_t v, uint32_t lane) {
        return uint64_t(ptx::shfl(uint32_t(v >> 32), lane)) << 32 | ptx::shfl(uint32_t(v), lane);
    }
    template <int row_bytes>
    __device__ __forceinline__ void fetch_rows(const ftj_array_params& array, KeyRange seen,
                                               uint32_t shared) const {
        if constexpr (row_bytes > 0) {
            constexpr uint32_t chunk = row_bytes < 16 ? row_bytes : 16;
            constexpr uint32_t chunks = row_bytes / chunk;
            // Of the row that this lane has looked up.
            const uint64_t own = array.base + head * array.head_stride + page * array.page_stride +
                                 offset * array.slot_stride;
#pragma unroll 4
            for (uint32_t at = 0; at < rows * chunks; at += warp_size) {
                const uint32_t piece = at + lane, row = piece / chunks;
                const uint64_t its = chunks == 1 ? own : of_lane(own, row);
                const uint64_t from = its + lane % chunks * chunk;
                if (rows * chunks % warp_size != 0 && row >= rows)
                    continue;
                const bool is_seen = row >= seen.begin && row < seen.end;
                ptx::cp_async_of<chunk>(shared + piece * chunk, pointer<const void>(from),
                                        is_seen ? chunk : 0);
            }
        }
    }
};

}  // namespace ftj
