// SPDX-License-Identifier: MIT
// Kernels that follow each other in a stream, each started while the one before still runs (sm_90):
// its blocks are in place, and wait, when the other's results are there.
#pragma once

namespace ftj {

struct Launch {
    static __device__ __forceinline__ void let_next_start() {
        ptx::griddepcontrol_launch_dependents();
    }
    static __device__ __forceinline__ void wait_for_previous() { ptx::griddepcontrol_wait(); }
};

}  // namespace ftj
