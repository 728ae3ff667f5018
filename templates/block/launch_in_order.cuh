// SPDX-License-Identifier: MIT
// Kernels that follow each other in a stream, one after the other. The interface is that of
// launch_overlapped.cuh.
#pragma once

namespace ftj {

struct Launch {
    static __device__ __forceinline__ void let_next_start() {}
    static __device__ __forceinline__ void wait_for_previous() {}
};

}  // namespace ftj
