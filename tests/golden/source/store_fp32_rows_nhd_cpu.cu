// kv_store_sm90 fp16 d80 k:16bit v:16bit page 1
#include "ptx/ptx_cpu.cuh"
#include "block/e4m3_hardware.cuh"
#include "block/launch_overlapped.cuh"
#include "kernel/kv_store.cuh"

struct Config {
    static constexpr int num_threads = 256;
    static constexpr int min_blocks = 3;
    static constexpr int smem_bytes = 0;
    static constexpr int head_dim = 80;
    using Source = ftj::Fp32;
    using Element = ftj::Fp16;
    using E4m3 = ftj::E4m3Hardware;
    using KEncoder = ftj::Encode16bit<Element>;
    using VEncoder = ftj::Encode16bit<Element>;
    static constexpr uint32_t page_size = 1;
    static constexpr uint32_t num_kv_heads = 2;
    static constexpr bool one_allocation = false;
    static constexpr int tokens_per_warp = 4;
};

extern "C" __global__ __launch_bounds__(Config::num_threads, Config::min_blocks)
void ftj_kv_store_sm90(const __grid_constant__ ftj_store_params params) {
    ftj::KvStore<Config>::run(params);
}
FTJ_CPU_ENTRY(ftj_kv_store_sm90, ftj_store_params)
