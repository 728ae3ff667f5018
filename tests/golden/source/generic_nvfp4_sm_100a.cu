// attn_generic bf16 d512 k:nvfp4 v:nvfp4 page 784
#include "ptx/ptx_sm90.cuh"
#include "block/e4m3_hardware.cuh"
#include "kernel/attn_generic.cuh"

struct Config {
    static constexpr int num_threads = 128;
    static constexpr int min_blocks = 1;
    static constexpr int smem_bytes = 0;
    static constexpr int head_dim = 512;
    using Query = ftj::Fp32;
    using Element = ftj::Bf16;
    using KRow = ftj::RowValueNvfp4;
    using VRow = ftj::RowValueNvfp4;
    static constexpr uint32_t page_size = 784;
    static constexpr bool slot_table = false;
};

extern "C" __global__ __launch_bounds__(Config::num_threads, Config::min_blocks)
void ftj_attn_generic(const __grid_constant__ ftj_generic_params params) {
    ftj::AttnGeneric<Config>::run(params);
}
