// kv_store_sm90 bf16 d128 k:fp8 v:nvfp4 page 64
#include "ptx/ptx_sm90.cuh"
#include "block/e4m3_hardware.cuh"
#include "block/launch_overlapped.cuh"
#include "kernel/kv_store.cuh"

struct Config {
    static constexpr int num_threads = 256;
    static constexpr int min_blocks = 5;
    static constexpr int smem_bytes = 0;
    static constexpr int head_dim = 128;
    using Source = ftj::Bf16;
    using Element = ftj::Bf16;
    using E4m3 = ftj::E4m3Hardware;
    using KEncoder = ftj::EncodeFp8<E4m3>;
    using VEncoder = ftj::EncodeNvfp4<E4m3>;
    static constexpr uint32_t page_size = 64;
    static constexpr uint32_t num_kv_heads = 2;
    static constexpr bool one_allocation = true;
    static constexpr int tokens_per_warp = 4;
};

extern "C" __global__ __launch_bounds__(Config::num_threads, Config::min_blocks)
void ftj_kv_store_sm90(const __grid_constant__ ftj_store_params params) {
    ftj::KvStore<Config>::run(params);
}
