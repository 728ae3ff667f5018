// extend_combine_sm90 bf16 d128
#include "ptx/ptx_sm90.cuh"
#include "block/e4m3_hardware.cuh"
#include "block/launch_overlapped.cuh"
#include "kernel/extend_combine.cuh"

struct Config {
    static constexpr int num_threads = 256;
    static constexpr int min_blocks = 5;
    static constexpr int smem_bytes = 6144;
    static constexpr int head_dim = 128;
    using Element = ftj::Bf16;
    static constexpr int rows_per_block = 16;
};

extern "C" __global__ __launch_bounds__(Config::num_threads, Config::min_blocks)
void ftj_extend_combine_sm90(const __grid_constant__ ftj_extend_params params) {
    ftj::ExtendCombine<Config>::run(params);
}
