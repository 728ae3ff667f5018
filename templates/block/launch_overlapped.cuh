// SPDX-License-Identifier: MIT
// Two kernels of one call, the second started while the first still runs (sm_90): its blocks are in
// place, and wait, when the first one's results are there.
#pragma once

namespace ftj {

struct Launch {
    static __device__ __forceinline__ void let_next_start() {
        ptx::griddepcontrol_launch_dependents();
    }
    static __device__ __forceinline__ void wait_for_previous() { ptx::griddepcontrol_wait(); }
};

}  // namespace ftj
