// SPDX-License-Identifier: MIT
// How bytes travel from global to shared memory: cp.async (sm_80), in groups that are waited for.
#pragma once

namespace ftj {

struct Copy {
    static constexpr bool has_arrivals = true;

    // 16, 8 or 4 bytes, aligned to their number on both sides.
    template <int bytes>
    static __device__ __forceinline__ void copy(uint32_t shared, const void* global) {
        static_assert(bytes == 16 || bytes == 8 || bytes == 4, "what cp.async can move");
        if constexpr (bytes == 16)
            ptx::cp_async_16(shared, global);
        else if constexpr (bytes == 8)
            ptx::cp_async_8(shared, global);
        else
            ptx::cp_async_4(shared, global);
    }
    // The same, `to` bytes further on in shared memory and `from` in global memory.
    template <int bytes, int to, int from>
    static __device__ __forceinline__ void copy_past(uint32_t shared, const void* global) {
        if constexpr (bytes == 16)
            ptx::cp_async_16_past<to, from>(shared, global);
        else
            copy<bytes>(shared + to, static_cast<const unsigned char*>(global) + from);
    }
    // The same, or zeros; nothing is read then.
    template <int bytes>
    static __device__ __forceinline__ void copy_or_clear(uint32_t shared, const void* global,
                                                         bool is_copied) {
        if constexpr (bytes == 16)
            ptx::cp_async_of_line(shared, global, is_copied ? bytes : 0);
        else
            ptx::cp_async_of<bytes>(shared, global, is_copied ? bytes : 0);
    }
    // Barriers in memory, at which what a thread has copied arrives by itself.
    static __device__ __forceinline__ void init_barrier(uint32_t barrier, uint32_t arrivals) {
        ptx::mbarrier_init(barrier, arrivals);
    }
    static __device__ __forceinline__ void arrive_copied(uint32_t barrier) {
        ptx::cp_async_mbarrier_arrive(barrier);
    }
    static __device__ __forceinline__ void arrive(uint32_t barrier) {
        ptx::mbarrier_arrive(barrier);
    }
    static __device__ __forceinline__ void wait_barrier(uint32_t barrier, uint32_t parity) {
        ptx::mbarrier_wait(barrier, parity);
    }
    static __device__ __forceinline__ void commit() { ptx::cp_async_commit(); }
    // At most `pending` groups are still under way when it returns.
    template <int pending>
    static __device__ __forceinline__ void wait() {
        ptx::cp_async_wait<pending>();
    }
};

}  // namespace ftj
