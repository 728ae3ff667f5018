// SPDX-License-Identifier: MIT
// The two stages of a ring that all warps of a block fill and read in turn.
//
// Where copies arrive at barriers in memory the warps do not meet: each waits for a tile to have
// come, and, before it fills the other stage, for the others to have read what is there. It does
// the second not when it has read it itself, but when it has done all but the last step of the tile
// after it, and then hardly ever has to wait. A meeting of the block before each tile cost a tenth.
#pragma once
#include "block/types.cuh"

namespace ftj {

template <class Config, class Copies = Copy>
struct StagePair {
    // Pieces of fewer than 4 bytes are copied by hand (copy_piece.cuh), and arrive at no barrier.
    static constexpr bool has_hand_copies =
        (Config::KCodec::has_block_scale && Config::k_block_chunk < 4) ||
        (Config::VCodec::has_block_scale && Config::v_block_chunk < 4) ||
        Config::k_code_chunk < 4 || Config::v_code_chunk < 4;
    static constexpr bool meets =
        !Copies::has_arrivals || has_hand_copies || Config::widens || Config::num_stages != 2;
    static constexpr int bytes = 32;  // two barriers of a stage: filled and free

    uint32_t barriers;  // shared address of stage 0's
    uint32_t read;      // tiles that the thread has read since the kernel began

    // All meet before the first use.
    explicit __device__ __forceinline__ StagePair(uint32_t of_barriers)
        : barriers(of_barriers), read(0) {
        if constexpr (!meets) {
            if (ptx::thread_index() == 0) {
#pragma unroll
                for (uint32_t stage = 0; stage < 2; stage++) {
                    Copies::init_barrier(filled_of(stage), Config::num_threads);
                    Copies::init_barrier(free_of(stage), Config::num_threads);
                }
            }
        }
    }

    __device__ __forceinline__ uint32_t stage() const { return read % 2; }

    // The tile to be read next has come.
    __device__ __forceinline__ void wait() const {
        if constexpr (meets) {
            Copies::template wait<0>();
            ptx::sync_block();
        } else {
            Copies::wait_barrier(filled_of(stage()), read / 2 % 2);
        }
    }

    // The other stage, once nobody reads what is there.
    __device__ __forceinline__ uint32_t wait_for_other() const {
        const uint32_t other = stage() ^ 1;
        if constexpr (!meets) {
            if (read > 0)
                Copies::wait_barrier(free_of(other), (read - 1) / 2 % 2);
        }
        return other;
    }

    // This thread has begun all of its copies into the stage.
    __device__ __forceinline__ void fill(uint32_t stage) const {
        if constexpr (meets)
            Copies::commit();
        else
            Copies::arrive_copied(filled_of(stage));
    }

    // This thread has read the tile, and used what it has read. One lane could arrive for its warp,
    // but racecheck would not know that it has waited for the others.
    __device__ __forceinline__ void leave() {
        if constexpr (!meets)
            Copies::arrive(free_of(stage()));
        read++;
    }

private:
    __device__ __forceinline__ uint32_t filled_of(uint32_t stage) const {
        return barriers + 8 * stage;
    }
    __device__ __forceinline__ uint32_t free_of(uint32_t stage) const {
        return barriers + 16 + 8 * stage;
    }
};

}  // namespace ftj
