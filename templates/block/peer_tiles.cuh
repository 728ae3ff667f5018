// SPDX-License-Identifier: MIT
// Tiles that two blocks widen together. Where dealing gives the blocks of a cluster neighbouring
// query tiles of a kv head (unit_deal.cuh) they walk the same keys: a run of tiles, of each of
// which either widens half of the rows, and copies them to where the other one has that tile. All
// else a block does by itself.
//
// A warp has to do with the same warp of the other block only, which takes the same steps. For each
// tile either says that its stage is free, and waits for the other to say so before it writes its
// own half, for what was copied from there before has come by then: it has been read. Of a warp's
// last two tiles of a run the other's halves are awaited, and the two meet: then nothing is under
// way between them.
#pragma once
#include "block/code_rows.cuh"

namespace ftj {

template <class Config, class Tile, bool has_peer = Config::has_peer>
struct PeerTiles {  // of a block alone
    static constexpr int shared_bytes = 0;
    static __device__ __forceinline__ void init_barriers(uint32_t) {}
    static __device__ __forceinline__ void init(uint32_t, uint32_t) {}
    static __device__ __forceinline__ void begin(uint32_t) {}
    static __device__ __forceinline__ void end() {}
    static __device__ __forceinline__ void leave() {}
    static __device__ __forceinline__ void wait_free() {}
    template <class TileCursor>
    static __device__ __forceinline__ void hand_over(const TileCursor&, bool) {}
};

template <class Config, class Tile>
struct PeerTiles<Config, Tile, true> {
    static constexpr int warps = 4;
    static constexpr uint32_t stride = warps;  // of a warp's steps; arrivals of a lane
    static constexpr int warp_bytes = 32;
    static constexpr int shared_bytes = warps * warp_bytes;
    static constexpr uint32_t rows = Config::tile_tokens / 2;
    static constexpr uint32_t panels = Tile::dims / 64;
    static constexpr uint32_t panel_bytes = Tile::panel_bytes / 2;  // of half a tile

    uint32_t shared;  // address of the warp's barriers
    uint32_t state;   // one register, where there are none to spare

    static __device__ __forceinline__ void init_barriers(uint32_t shared) {
        for (int warp = 0; warp < warps; warp++) {
            const uint32_t its = shared + warp * warp_bytes;
            ptx::mbarrier_init(its, 1);
            ptx::mbarrier_init(its + 8, 2);
            ptx::mbarrier_init(its + 16, 1);
        }
    }
    __device__ __forceinline__ void init(uint32_t barriers, uint32_t warp) {
        shared = barriers + warp * warp_bytes;
        state = 0;
    }

    // A run of tiles, from this stage on.
    __device__ __forceinline__ void begin(uint32_t stage) {
        meet(stage, 0);
        const uint32_t its = ptx::uniform(ptx::ld_shared_u32(words()));
        const uint32_t ahead = its + (its < stage ? Config::num_stages : 0) - stage;
        state = (state & (ahead_from - 1)) | on | ahead * ahead_from;
    }
    __device__ __forceinline__ void end() { meet(0, 4); }
    // On alone. What was copied from stages has come: from those of the other warps, too.
    __device__ __forceinline__ void leave() {
        if (state & on)
            ptx::sync_group(meeting, warps * warp_size);
        state &= ~on;
    }

    // There is room for the other's half of a tile; until the other has room for this one's.
    __device__ __forceinline__ void wait_free() {
        if (ptx::elect_lane()) {
            ptx::mbarrier_arrive(granted());
            ptx::mbarrier_arrive_peer(ptx::peer_shared(granted()));
        }
        wait(granted(), granted_round);
    }

    // This block's half of a tile, all stores to which have been fenced by their lanes, to the
    // other; and the tile to the consumers.
    template <class TileCursor>
    __device__ __forceinline__ void hand_over(const TileCursor& tiles, bool is_last) {
        ptx::sync_warp();
        const bool is_elected = ptx::elect_lane();
        if (is_elected) {
            auto other = tiles;
            other.advance(state / ahead_from);
            const uint32_t at = ptx::cluster_rank() * rows * 128;
            const uint32_t from = tiles.tile() + at, to = ptx::peer_shared(other.tile() + at);
            const uint32_t barrier = ptx::peer_shared(is_last ? landed() : other.filled());
#pragma unroll
            for (uint32_t i = 0; i < panels; i++)
                ptx::bulk_copy_to_peer(to + i * Tile::panel_bytes, from + i * Tile::panel_bytes,
                                       panel_bytes, barrier);
            ptx::mbarrier_arrive_expect_tx(is_last ? landed() : tiles.filled(),
                                           panels * panel_bytes);
        }
        if (is_last)
            wait(landed(), landed_round);
        ptx::mbarrier_arrive(tiles.filled(), is_elected && !is_last ? stride - 1 : stride);
    }

private:
    static constexpr uint32_t meeting = 12;  // barrier of the producer's warps
    // Of the state: parities; and by how many stages the other's are ahead.
    enum State : uint32_t {
        met_round = 1,
        granted_round = 2,
        landed_round = 4,
        on = 8,
        ahead_from = 16
    };

    __device__ __forceinline__ uint32_t met() const { return shared; }
    __device__ __forceinline__ uint32_t granted() const { return shared + 8; }
    __device__ __forceinline__ uint32_t landed() const { return shared + 16; }
    __device__ __forceinline__ uint32_t words() const { return shared + 24; }

    __device__ __forceinline__ void wait(uint32_t barrier, State round) {
        ptx::mbarrier_wait(barrier, (state & round) != 0);
        state ^= round;
    }
    __device__ __forceinline__ void meet(uint32_t word, uint32_t at) {
        if (ptx::elect_lane()) {
            ptx::mbarrier_arrive_expect_tx(met(), 4);
            ptx::st_async_u32(ptx::peer_shared(words() + at), word, ptx::peer_shared(met()));
        }
        wait(met(), met_round);
    }
};

}  // namespace ftj
