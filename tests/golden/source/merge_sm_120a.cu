// state_merge fp16 d256
#include "ptx/ptx_sm90.cuh"
#include "block/e4m3_hardware.cuh"
#include "kernel/state_merge.cuh"

struct Config {
    static constexpr int num_threads = 256;
    static constexpr int min_blocks = 1;
    static constexpr int smem_bytes = 0;
    static constexpr int head_dim = 256;
    using Element = ftj::Fp16;
};

extern "C" __global__ __launch_bounds__(Config::num_threads, Config::min_blocks)
void ftj_state_merge(const __grid_constant__ ftj_merge_params params) {
    ftj::StateMerge<Config>::run(params);
}
