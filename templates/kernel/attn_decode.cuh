// SPDX-License-Identifier: MIT
// Split-KV decode: one query per request, or a short run of them, every query head of a kv head at
// once.
//
//   s = score_scale * q . k     o = sum_t p_t v_t     p_t = 2^(s_t - max)     l = sum_t p_t
//
// A block walks a contiguous range of tiles (segments.cuh); its groups of warps_per_tile warps
// (one, or a few that share the tokens of a tile) take the tiles in turn, each with a ring of
// stages of its own, so that the main loop has no barrier but the group's:
//
//   group   wait(tile i) | fetch(tile i + stages - 1) | score, softmax, accumulate (tile i)
//
// Where the rows of a token's kv heads lie side by side, groups do too: each of unit_heads groups
// has the same tokens of another kv head, so that what memory gives at once (64 bytes, more than
// the scales of a row) is asked for about once.
//
// How a tile arrives is block/stage_copy.cuh's, stage_bulk.cuh's or stage_heads.cuh's business;
// what is done with it by each warp, or by four of them together, and every rounding,
// by_warps.cuh's or by_group.cuh's. The four are fed: a warp beside them brings their tiles. At the
// end of a segment the warps merge, and the block writes O, or a partial result if it does not hold
// the whole segment: attn_combine.cuh does the rest. Grid: what fills the device, whatever the
// batch.
#pragma once
#include "block/codec_16bit.cuh"
#include "block/codec_fp8.cuh"
#include "block/codec_nvfp4.cuh"
#include "block/empty_rows.cuh"
#include "block/first_tiles.cuh"
#include "block/segments.cuh"

namespace ftj {

template <class Config>
struct AttnDecode {
    using Tile = Stage<Config>;
    using Attend = typename TileWork<Config, Tile>::Attend;
    using Query = typename TileWork<Config, Tile>::Query;
    using Rows = typename TileWork<Config, Tile>::Rows;
    using State = typename Attend::State;
    static constexpr int num_warps = Config::num_warps;
    static constexpr int num_stages = Config::num_stages;
    static constexpr int warps_per_tile = Config::warps_per_tile;
    static constexpr int unit_heads = Config::unit_heads;
    static constexpr int num_rings = num_warps / Tile::ring_warps;
    static constexpr int group_warps = warps_per_tile * unit_heads;
    static constexpr int num_groups = num_warps / group_warps;  // that take turns
    static_assert(num_groups * group_warps == num_warps, "every kv head has as many");
    static constexpr bool shares_ring = Tile::ring_warps > warps_per_tile;  // with other kv heads
    static constexpr uint32_t tile_tokens = Config::tile_tokens;
    using Table = RequestTable<Config>;
    using Work = WorkRange<tile_tokens, Table>;
    using Run = Segment<tile_tokens, Table>;
    using First = FirstTiles<Rows>;

    struct Smem {
        static constexpr int query = 0;  // wgmma wants its operands on 1024 bytes
        static constexpr int ring = query + Query::shared_bytes;
        static constexpr int barriers = ring + num_rings * num_stages * Tile::bytes;
        static constexpr int rows = barriers + num_rings * Tile::barrier_bytes;
        static constexpr int range = rows + Rows::shared_bytes;
        static constexpr int bytes = range + int(sizeof(Work));
    };
    static_assert(Smem::bytes == Config::smem_bytes, "decode_shape.c and Smem must agree");
    // Whether there are warps beside those that take tiles, of which the first brings them.
    static constexpr bool is_fed = Config::num_threads > int(warp_size) * num_warps;

    // The next tile to be fetched: this group's own place in the block's range, stages ahead.
    struct Cursor {
        Run segment;
        uint32_t index;    // of the tile within the block's range
        uint32_t run_end;  // of the segment's run within the range
        typename Tile::Place place;
    };

    static __device__ void run(const ftj_decode_params& p) {
        unsigned char* smem = ptx::dynamic_shared();
        const uint32_t of_ring = ring_index();
        typename Tile::Ring ring;
        ring.init(ptx::shared_address(smem + Smem::ring) + of_ring * (num_stages * Tile::bytes),
                  ptx::shared_address(smem + Smem::barriers) + of_ring * Tile::barrier_bytes);
        Query query;
        query.shared = ptx::shared_address(smem + Smem::query) + head_of_unit() * Query::head_bytes;
        Work& range = shared_range();
        const uint32_t group = of_ring / (group_warps / Tile::ring_warps);
        if constexpr (Tile::is_early)
            start_early(p, range, smem + Smem::rows, group, ring, query);
        else
            find_range(p, range, nullptr);
        const Work work = range;
        if constexpr (!is_fed) {
            if (work.count)
                attend(p, work, group, ring, query, smem);
        } else if (ptx::thread_index() < num_warps * warp_size) {
            TileWork<Config, Tile>::take_registers();
            if (work.count)
                attend(p, work, group, ring, query, smem);
        } else {
            TileWork<Config, Tile>::give_registers();
            if (ring.fills())
                feed(p, work, group, ring);
        }
        if (range.has_empty)
            EmptyRows<Config>::write(p);
    }

private:
    static __device__ __forceinline__ void follow_previous() {
        Launch::wait_for_previous();
        Launch::let_next_start();  // not sooner: the combine reads lengths before it waits
    }

    // What is asked for once a unit stays there: it would have registers in the loop.
    static __device__ __forceinline__ Work& shared_range() {
        return *reinterpret_cast<Work*>(ptx::dynamic_shared() + Smem::range);
    }

    // The block's, by one warp.
    static __device__ __forceinline__ void find_range(const ftj_decode_params& p, Work& range,
                                                      uint32_t* early_ends) {
        if (!early_ends)
            follow_previous();
        if (ptx::thread_index() < warp_size) {
            const Work found = Work::of_block(p, early_ends);
            if (ptx::thread_index() == 0)
                range = found;
        }
        ptx::sync_block();
    }

    // The range, and on their way each ring's first tile and the first queries; while the kernel
    // before still runs, as far as may be.
    static __device__ __forceinline__ void start_early(const ftj_decode_params& p, Work& range,
                                                       unsigned char* rows, uint32_t group,
                                                       typename Tile::Ring& ring, Query& query) {
        static_assert(sizeof(First) <= Rows::shared_bytes, "it lies where warps will merge");
        auto& first = *reinterpret_cast<First*>(rows);
        bool is_early = first.start(p);
#pragma unroll 1
        while (true) {
            uint32_t* ends = is_early ? first.ends : nullptr;
            find_range(p, range, ends);
            const Work work = range;
            const Cursor cursor = start_cursor(p, work, group, NewestPages{p, is_early}, ends);
            if (is_early) {
                bring_near(p, work, cursor, ring);
                ptx::sync_block();
                follow_previous();
            }
            fill(p, work, cursor, ring);
            if (work.count)
                query.fetch(p, columns(p, work.first));
            if (!is_early)
                break;
            const bool has_tile = cursor.index < work.count;
            uint32_t now = cursor.place.page;
            if (has_tile && ring.fills())
                now = find_tile(p, cursor.segment, NewestPages{p, false}).page;
            if (first.template is_right<Table>(p, now, cursor.place.page))
                break;
            ring.drop(has_tile);
            is_early = false;
        }
        // What is read from here on is known to be the same for a whole warp again: without, ptxas
        // had the range in registers of each lane's, and the loop of NVFP4 took 2 % longer.
        ptx::sync_block();
    }

    // The L2 is asked for a ring's first tiles while the kernel before still runs, whose last
    // blocks leave memory idle. Not where there are few: what ends the kernel before would wait for
    // them.
    static __device__ __forceinline__ void bring_near(const ftj_decode_params& p, const Work& work,
                                                      const Cursor& cursor,
                                                      const typename Tile::Ring& ring) {
        if constexpr (Tile::near_tiles > 0) {
            constexpr uint32_t least_tiles = 3 * num_groups, many_tiles = 8 * num_groups;
            if (work.count < least_tiles || !ring.fills())
                return;
            Run segment = cursor.segment;
            typename Tile::Place place = cursor.place;
#pragma unroll 1
            for (int left = work.count < many_tiles ? 1 : Tile::near_tiles; left > 0; left--) {
                const uint32_t token = segment.token(segment.tile);
                typename Tile::Place next = place;
                segment.tile += num_groups;
                if (segment.tile >= segment.tiles)
                    left = 1;
                if (left > 1)
                    next = find_tile(p, segment, NewestPages{p, true});
                ring.bring_near(p.cache, ring_head(segment), segment.keys, token, place);
                place = next;
            }
        }
    }

    // Where lanes copy rows, which is long, the first tiles are fetched by the main loop's own
    // code; not where the next query's rows would lie in registers of their own meanwhile.
    static constexpr bool fills_in_loop =
        Tile::barrier_bytes == 0 && num_stages > 1 && !Query::in_shared;

    // Where lanes exchange the places of rows, the first lane's: what depends on it is then known
    // to be the same for the whole warp. Of every exchange there was a second version otherwise,
    // for lanes that have parted: up to a fifth of the kernel.
    static __device__ __forceinline__ uint32_t ring_index() {
        if constexpr (is_fed)
            return 0;
        const uint32_t ring = ptx::thread_index() / warp_size / Tile::ring_warps;
        return Tile::exchanges_places ? ptx::shfl(ring, 0) : ring;
    }

    static __device__ __forceinline__ void attend(const ftj_decode_params& p, const Work& work,
                                                  uint32_t group, typename Tile::Ring& ring,
                                                  Query& query, unsigned char* smem) {
        Run segment = work.first;
        Cursor cursor = {};
        if constexpr (!is_fed)
            cursor = start_cursor(p, work, group + Tile::is_early * num_groups, TablePages{});
        if constexpr (!Tile::is_early)
            query.fetch(p, columns(p, segment));
        if constexpr (!fills_in_loop && !is_fed) {
#pragma unroll 1
            for (int stage = Tile::is_early; stage < num_stages - 1 - Tile::lag; stage++)
                fetch_next(p, work, cursor, ring);
        }
        const typename Attend::Lanes lanes(ptx::thread_index() / warp_size);
        uint32_t index = group;
        bool is_filling = fills_in_loop;  // first the ring, with nothing to attend to yet
        for (uint32_t begin = 0; begin < work.count;) {
            const uint32_t end = min_of(work.count, begin + segment.tiles - segment.tile);
            if (!is_filling)
                query.take(p);
            State state;
            const WholeTiles whole(p, segment, begin);
            uint32_t at = is_filling ? 0 : index;
            const uint32_t upto = is_filling ? num_stages - 1 : end;
#pragma unroll 1
            for (; at < upto; at += is_filling ? 1 : num_groups) {
                const uint32_t stage = bring_next(p, work, cursor, ring, is_filling);
                if (!is_filling)
                    Attend::attend(p, query, lanes, state, stage, segment.keys,
                                   segment.head_block * Rows::num_rows, whole.token(at),
                                   whole.has(at));
            }
            if (is_filling) {
                is_filling = false;
                continue;
            }
            index = at;
            ring.meet();
            Rows::write(p, segment, begin, end, state, ring.last_read(),
                        ptx::shared_address(smem + Smem::rows), end == work.count, [&] {
                            query.clear();
                            if (end == work.count)
                                return;
                            segment.next(p, shared_range());
                            query.fetch(p, columns(p, segment));
                        });
            begin = end;
        }
    }

    // All tiles after the first, as stages become free.
    static __device__ __forceinline__ void feed(const ftj_decode_params& p, const Work& work,
                                                uint32_t group, typename Tile::Ring& ring) {
        Cursor cursor = start_cursor(p, work, group + Tile::is_early * num_groups, TablePages{});
#pragma unroll 1
        while (cursor.index < work.count) {
            ring.await_free();
            fetch_next(p, work, cursor, ring);
        }
    }

    // Of the block's range, whose tile `begin` is the segment's: tiles that every column sees
    // whole.
    struct WholeTiles {
        uint32_t first;
        uint32_t count;
        uint32_t begin_token;  // of the first

        __device__ __forceinline__ WholeTiles(const ftj_decode_params& p, const Run& segment,
                                              uint32_t begin) {
            const auto by_all = segment.keys.seen_by_all(p);
            const uint32_t tile = (by_all.begin + tile_tokens - 1) / tile_tokens;
            const uint32_t end = by_all.end / tile_tokens;
            first = begin + tile - segment.keys.begin / tile_tokens - segment.tile;
            count = end > tile ? end - tile : 0;
            begin_token = tile * tile_tokens;
            if constexpr (!keeps_little<Config>)
                ptx::keep(first), ptx::keep(count), ptx::keep(begin_token);
        }
        __device__ __forceinline__ uint32_t token(uint32_t at) const {
            return begin_token + (at - first) * tile_tokens;
        }
        // Also false before the first: the difference is a large one then.
        __device__ __forceinline__ bool has(uint32_t at) const { return at - first < count; }
    };

    template <class Read>
    static __device__ __forceinline__ Cursor start_cursor(const ftj_decode_params& p,
                                                          const Work& work, uint32_t group,
                                                          const Read& read,
                                                          const uint32_t* ends = nullptr) {
        Cursor cursor = {};
        cursor.segment = work.first;
        cursor.index = 0;
        cursor.run_end = work.first.tiles - work.first.tile;
        advance(p, work, cursor, group, read, ends);
        return cursor;
    }

    // Move by some tiles and look up where the new one lies; its copy comes a tile later, when the
    // table's answer has arrived.
    template <class Read>
    static __device__ __forceinline__ void advance(const ftj_decode_params& p, const Work& work,
                                                   Cursor& cursor, uint32_t by, const Read& read,
                                                   const uint32_t* ends = nullptr) {
        cursor.index += by;
        cursor.segment.tile += by;
        if (cursor.index >= work.count)
            return;
        while (cursor.index >= cursor.run_end) {
            cursor.segment.next(p, shared_range(), ends);
            cursor.segment.tile = cursor.index - cursor.run_end;
            cursor.run_end += cursor.segment.tiles;
        }
        cursor.place = find_tile(p, cursor.segment, read);
    }
    template <class Read>
    static __device__ __forceinline__ typename Tile::Place find_tile(const ftj_decode_params& p,
                                                                     const Run& segment,
                                                                     const Read& read) {
        return Tile::find(p.requests, segment.request, segment.keys, segment.token(segment.tile),
                          read);
    }

    static __device__ __forceinline__ void fetch_next(const ftj_decode_params& p, const Work& work,
                                                      Cursor& cursor, typename Tile::Ring& ring) {
        if (fill(p, work, cursor, ring))
            advance(p, work, cursor, num_groups, TablePages{});
    }
    static __device__ __forceinline__ bool fill(const ftj_decode_params& p, const Work& work,
                                                const Cursor& cursor, typename Tile::Ring& ring) {
        if (!ring.fills())
            return false;
        if (cursor.index >= work.count) {
            ring.skip();
            return false;
        }
        const auto& segment = cursor.segment;
        ring.fill(p.cache, ring_head(segment), segment.keys, segment.token(segment.tile),
                  cursor.place);
        return true;
    }

    // Wait for the next tile, then start the copy into the stage read before it. A single stage
    // (what a small memory leaves wide heads) is filled when it is needed.
    static __device__ __forceinline__ uint32_t bring_next(const ftj_decode_params& p,
                                                          const Work& work, Cursor& cursor,
                                                          typename Tile::Ring& ring,
                                                          bool is_filling) {
        if constexpr (num_stages == 1) {
            ptx::sync_warp();
            fetch_next(p, work, cursor, ring);
            return ring.wait();
        } else {
            uint32_t stage = 0;
            if (!is_filling)
                stage = ring.wait();
            if constexpr (!is_fed)
                fetch_next(p, work, cursor, ring);
            return stage;
        }
    }

    // The warp's.
    static __device__ __forceinline__ uint32_t head_of_unit() {
        return unit_heads == 1
                   ? 0
                   : ptx::thread_index() / (warp_size * warps_per_tile) % uint32_t(unit_heads);
    }
    static __device__ __forceinline__ uint32_t kv_head(const Run& segment) {
        return segment.head_set * unit_heads + head_of_unit();
    }
    // The warp's columns: of one kv head, or the first of a unit's.
    static __device__ __forceinline__ Columns<Config::has_runs> columns(const ftj_decode_params& p,
                                                                        const Run& segment) {
        return segment.columns(
            p, Query::has_all_heads ? segment.head_set * unit_heads : kv_head(segment),
            Rows::num_rows);
    }
    // Whose rows the warp's ring has: its own head's, or the first of those that share it.
    static __device__ __forceinline__ uint32_t ring_head(const Run& segment) {
        return shares_ring ? segment.head_set * (unit_heads / Config::group_parts)
                           : kv_head(segment);
    }
};

}  // namespace ftj
