// attn_combine bf16 d128
#include "ptx/ptx_sm80.cuh"
#include "block/e4m3_software.cuh"
#include "block/launch_in_order.cuh"
#include "kernel/attn_combine.cuh"

struct Config {
    static constexpr int num_threads = 256;
    static constexpr int min_blocks = 1;
    static constexpr int smem_bytes = 6176;
    static constexpr int head_dim = 128;
    using Element = ftj::Bf16;
    static constexpr int n_tiles = 4;
    static constexpr bool has_runs = true;
};

extern "C" __global__ __launch_bounds__(Config::num_threads, Config::min_blocks)
void ftj_attn_combine(const __grid_constant__ ftj_decode_params params) {
    ftj::AttnCombine<Config>::run(params);
}
