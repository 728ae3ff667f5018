// SPDX-License-Identifier: MIT
// Tiles of K or V that the cache holds as codes. A producer warp takes whole tiles, or a part of
// each, in its turn, and has nothing to do with the others: it fetches codes and scales into slots
// of its own, ahead of time, and widens them once, into the swizzled tile that all consumers read.
// Row scales are put on what is widened, or go beside the tile. Rows that nobody may see are zeros,
// codes and scales.
//
// Rows that follow each other in a page (a run) come by bulk copies, one an array, which cost the
// warp nothing while they are under way. Other rows come one by one by cp.async, which a fence
// waits for: those have been under way since the fence before.
#pragma once
#include "block/query_tile.cuh"
#include "block/swizzled.cuh"
#include "block/tile_feed.cuh"
#include "block/widen_rows.cuh"

namespace ftj {

// How a warp's rows of one side lie in a slot.
template <class Widen_, int head_dim, int rows_, bool is_scaled_>
struct CodeRows {
    using Widen = Widen_;
    static constexpr bool is_scaled = is_scaled_;  // by the row's scale, when it is widened
    static constexpr int rows = rows_;
    static constexpr int code_row = Widen::code_bytes(head_dim);
    static constexpr int block_row = Widen::block_bytes(head_dim);
    static constexpr int blocks = rows * code_row;
    static constexpr int scales = blocks + rows * block_row;
    static constexpr int bytes = Widen::is_coded ? scales + rows * 4 : 0;
    static_assert(bytes % 16 == 0, "slots follow each other on 16-byte boundaries");
};

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
    using K = CodeRows<typename Config::KWiden, head_dim, rows, false>;
    using V = CodeRows<typename Config::VWiden, head_dim, rows, true>;
    static constexpr int slot_bytes = K::bytes > V::bytes ? K::bytes : V::bytes;
    static constexpr int shared_bytes = warps * slots * slot_bytes;
    static constexpr int barrier_bytes = 8 * warps * slots;
    static_assert(tokens % rows == 0 && warps % parts == 0, "turns come round");
    static_assert(runs <= int(warp_size), "a lane looks up a run");
    static_assert(Config::num_stages > stride, "a cursor goes round once a turn, at most");
    static_assert(stride < 4 || Config::num_stages >= 6, "what after() says of phases");

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

    // Which of the warp's rows are to be seen, of the tile from `first` on.
    __device__ __forceinline__ KeyRange seen_rows(KeyRange keys, uint32_t first) const {
        const uint32_t base = first + part * rows;
        return {keys.begin - min_of(keys.begin, base), keys.end - min_of(keys.end, base)};
    }

    // Where the rows of the tile from `first` on are.
    __device__ __forceinline__ void find(const ftj_extend_params& p, const QueryTile<Config>& unit,
                                         uint32_t first) {
        const auto* table = pointer<const int32_t>(p.requests.table) + unit.table_start;
        constexpr uint32_t length = is_bulk ? run_rows : 1;
        const uint32_t token = first + part * rows + lane % runs * length;
        const KeyRange keys = unit.cached;
        page = offset = 0;
        if (token >= keys.end || token + length <= keys.begin)
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
    __device__ __forceinline__ void fetch(const ftj_side_params& side, uint32_t head,
                                          KeyRange seen) {
        const uint32_t slot = slots_at + fetched * slot_bytes;
        ptx::sync_warp();  // the slot has been read
        if constexpr (is_bulk) {
            const uint32_t barrier = barriers + 8 * fetched;
            const uint32_t first = min_of(seen.begin, uint32_t(rows)) / run_rows;
            const uint32_t end = (min_of(seen.end, uint32_t(rows)) + run_rows - 1) / run_rows;
            constexpr uint32_t bytes = run_rows * (Side::code_row + Side::block_row + 4);
            if (lane == 0)
                ptx::mbarrier_arrive_expect_tx(barrier, end > first ? (end - first) * bytes : 0);
            if (lane >= first && lane < end) {
                copy_run<Side::code_row>(side.codes, head, slot, barrier);
                copy_run<Side::block_row>(side.block_scales, head, slot + Side::blocks, barrier);
                copy_run<4>(side.row_scales, head, slot + Side::scales, barrier);
            }
        } else {
            fetch_rows<Side::code_row>(side.codes, head, seen, slot);
            fetch_rows<Side::block_row>(side.block_scales, head, seen, slot + Side::blocks);
            fetch_rows<4>(side.row_scales, head, seen, slot + Side::scales);
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

    // The rows in the next slot, which have come, into their places.
    template <class Side>
    __device__ __forceinline__ void widen(uint32_t tile, uint32_t scales, float score_scale) {
        const uint32_t slot = slots_at + widened * slot_bytes;
        using Batch = typename WidenRows<Side>::Batch;
        WidenRows<Side> walk(*this, slot, tile);
        constexpr uint32_t step = WidenRows<Side>::batch_rows;
        const uint32_t end = ptx::opaque(rows);  // or the compiler unrolls what is told not to be
        if constexpr (WidenRows<Side>::in_pairs) {
            // Loads before the stores of the batch before: each may alias the next load.
            Batch even, odd;
            walk.load(0, even);
#pragma unroll 1
            for (uint32_t row = 0; row < end; row += 2 * step) {
                walk.load(step, odd);
                walk.store(0, even);
                walk.go_on_loading(2 * step);
                if (row + 2 * step < end)
                    walk.load(0, even);
                walk.store(step, odd);
                walk.go_on_storing(2 * step);
            }
        } else {
#pragma unroll 1
            for (uint32_t row = 0; row < end; row += step) {
                Batch batch;
                walk.load(0, batch);
                walk.go_on_loading(step);
                walk.store(0, batch);
                walk.go_on_storing(step);
            }
        }
#pragma unroll
        for (uint32_t row = lane; !Side::is_scaled && row < uint32_t(rows); row += warp_size)
            ptx::st_shared_u32(
                scales + 4 * (part * rows + row),
                ptx::float_bits(ptx::ld_shared_f32(slot + Side::scales + 4 * row) * score_scale));
        const bool wraps = widened == slots - 1;
        widened = wraps ? 0 : widened + 1;
        round ^= wraps;
    }

private:
    // Where a lane's share of a slot goes: 16 bytes of codes at a time, of rows `at_once` apart.
    template <class Side>
    struct WidenRows {
        using Widen = typename Side::Widen;
        static constexpr uint32_t lanes = Side::code_row / 16;  // that share a row
        static constexpr uint32_t at_once = warp_size / lanes;  // rows
        static constexpr uint32_t chunks = Widen::chunk_codes / 8;
        static constexpr uint32_t loads = at_once < 8 ? 8 / at_once : 1;  // a whole group of rows
        static constexpr uint32_t batch_rows = loads * at_once;
        // Registers for two batches.
        static constexpr bool in_pairs = loads <= 2 && rows % (2 * batch_rows) == 0;
        static_assert(rows % batch_rows == 0, "whole batches");
        // Eight lanes store at a time: where they reach into several panels, each panel's lanes
        // take other rows, so that no two meet in a bank.
        static constexpr uint32_t panels =
            lanes * chunks < 16 ? 1 : (lanes < 8 ? lanes : 8) * chunks / 8;
        static constexpr uint32_t apart = lanes >= 8 ? 1 : 8 / lanes;

        struct Batch {
            ptx::Words4 codes[loads];
            uint32_t block_scales[loads];
            float row_scales[loads];
        };
        uint32_t codes_at;
        uint32_t blocks_at;
        uint32_t scales_at;
        uint32_t to[loads][chunks];

        __device__ __forceinline__ WidenRows(const CodeFeed& feed, uint32_t slot, uint32_t tile) {
            const uint32_t lane = ptx::made_anew(feed.lane);
            const uint32_t q = lane % lanes;
            const uint32_t first = lane / lanes ^ q * chunks / 8 % panels * apart;
            codes_at = slot + first * Side::code_row + q * 16;
            blocks_at =
                slot + Side::blocks + first * Side::block_row + q * (Widen::chunk_codes / 16);
            scales_at = slot + Side::scales + first * 4;
#pragma unroll
            for (uint32_t j = 0; j < loads; j++) {
#pragma unroll
                for (uint32_t i = 0; i < chunks; i++)
                    to[j][i] =
                        tile + Tile::at(feed.part * rows + (first ^ j * at_once), q * chunks + i);
            }
        }
        // `row`: on from where they stand.
        __device__ __forceinline__ void load(uint32_t row, Batch& batch) const {
#pragma unroll
            for (uint32_t j = 0; j < loads; j++) {
                const uint32_t at = row + j * at_once;
                batch.codes[j] = ptx::ld_shared_v4(codes_at + at * Side::code_row);
                batch.block_scales[j] = 0;
                if constexpr (Side::block_row > 0)
                    batch.block_scales[j] = ptx::ld_shared_u16(blocks_at + at * Side::block_row);
                if constexpr (Side::is_scaled)
                    batch.row_scales[j] = ptx::ld_shared_f32(scales_at + at * 4);
            }
        }
        __device__ __forceinline__ void store(uint32_t row, const Batch& batch) const {
#pragma unroll
            for (uint32_t j = 0; j < loads; j++) {
#pragma unroll
                for (uint32_t i = 0; i < chunks; i++)
                    ptx::st_shared_v4(to[j][i] + row * 128, widen(batch, j, int(i)));
            }
        }
        __device__ __forceinline__ void go_on_loading(uint32_t count) {
            codes_at += count * Side::code_row;
            blocks_at += count * Side::block_row;
            scales_at += count * 4;
        }
        __device__ __forceinline__ void go_on_storing(uint32_t count) {
#pragma unroll
            for (uint32_t j = 0; j < loads; j++) {
#pragma unroll
                for (uint32_t i = 0; i < chunks; i++)
                    to[j][i] += count * 128;
            }
        }

    private:
        static __device__ __forceinline__ ptx::Words4 widen(const Batch& batch, uint32_t j, int i) {
            if constexpr (Side::is_scaled)
                return Widen::widen(batch.codes[j], batch.block_scales[j], batch.row_scales[j], i);
            else
                return Widen::widen(batch.codes[j], batch.block_scales[j], i);
        }
    };

    template <int row_bytes>
    __device__ __forceinline__ void copy_run(const ftj_array_params& array, uint32_t head,
                                             uint32_t shared, uint32_t barrier) const {
        constexpr uint32_t bytes = run_rows * row_bytes;
        static_assert(bytes % 16 == 0, "what a bulk copy can move");
        if constexpr (row_bytes > 0)
            ptx::cp_async_bulk(shared + lane * bytes,
                               pointer<const void>(array.base + head * array.head_stride +
                                                   page * array.page_stride +
                                                   offset * uint32_t(row_bytes)),
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
        }
    }

    template <int row_bytes>
    __device__ __forceinline__ void fetch_rows(const ftj_array_params& array, uint32_t head,
                                               KeyRange seen, uint32_t shared) const {
        if constexpr (row_bytes > 0) {
            constexpr uint32_t chunk = row_bytes < 16 ? row_bytes : 16;
            constexpr uint32_t chunks = row_bytes / chunk;
            const uint64_t base = array.base + head * array.head_stride;
#pragma unroll 4
            for (uint32_t at = 0; at < rows * chunks; at += warp_size) {
                const uint32_t piece = at + lane, row = piece / chunks;
                const uint64_t from = base + ptx::shfl(page, row) * array.page_stride +
                                      ptx::shfl(offset, row) * array.slot_stride +
                                      piece % chunks * chunk;
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
