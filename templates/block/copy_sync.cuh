// SPDX-License-Identifier: MIT
// How bytes travel from global to shared memory where there is no cp.async: through registers, at
// once. The interface is that of copy_async.cuh.
#pragma once

namespace ftj {

struct Copy {
    static constexpr bool has_arrivals = false;

    template <int bytes>
    static __device__ __forceinline__ void copy(uint32_t shared, const void* global) {
        static_assert(bytes == 16 || bytes == 8 || bytes == 4, "as copy_async.cuh");
        if constexpr (bytes == 16)
            ptx::st_shared_v4(shared, *static_cast<const ptx::Words4*>(global));
        else if constexpr (bytes == 8)
            ptx::st_shared_v2(shared, *static_cast<const ptx::Words2*>(global));
        else
            ptx::st_shared_u32(shared, *static_cast<const uint32_t*>(global));
    }
    template <int bytes, int to, int from>
    static __device__ __forceinline__ void copy_past(uint32_t shared, const void* global) {
        copy<bytes>(shared + to, static_cast<const unsigned char*>(global) + from);
    }
    template <int bytes>
    static __device__ __forceinline__ void copy_or_clear(uint32_t shared, const void* global,
                                                         bool is_copied) {
        if (is_copied)
            copy<bytes>(shared, global);
        else if constexpr (bytes == 16)
            ptx::st_shared_v4(shared, {});
        else if constexpr (bytes == 8)
            ptx::st_shared_v2(shared, {});
        else
            ptx::st_shared_u32(shared, 0);
    }
    static __device__ __forceinline__ void commit() {}
    template <int pending>
    static __device__ __forceinline__ void wait() {}
};

}  // namespace ftj
