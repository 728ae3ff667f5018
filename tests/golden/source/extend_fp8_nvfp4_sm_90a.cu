// attn_extend_sm90 bf16 d128 k:fp8 v:nvfp4 page 64
#include "ptx/ptx_sm90a.cuh"
#include "block/e4m3_hardware.cuh"
#include "block/launch_overlapped.cuh"
#include "kernel/attn_extend_sm90.cuh"

struct Config {
    static constexpr int num_threads = 512;
    static constexpr int min_blocks = 1;
    static constexpr int smem_bytes = 219936;
    static constexpr int head_dim = 128;
    using Element = ftj::Bf16;
    using KWiden = ftj::WidenFp8<ftj::E4m3Hardware>;
    using VWiden = ftj::WidenNvfp4<ftj::E4m3Hardware>;
    static constexpr int page_size = 64;
    static constexpr int num_consumers = 3;
    static constexpr int block_rows = 192;
    static constexpr int tile_tokens = 64;
    static constexpr int new_tokens = 64;
    static constexpr int num_stages = 6;
    static constexpr int query_stages = 1;
    static constexpr int code_slots = 2;
    static constexpr int code_rows = 64;
    static constexpr int code_run = 64;
    static constexpr int tensor_run = 64;
    static constexpr int producer_registers = 80;
    static constexpr int consumer_registers = 144;
    static constexpr bool slots_contiguous = true;
    static constexpr bool slot_table = false;
    static constexpr bool has_softcap = false;
    static constexpr bool takes_turns = true;
    static constexpr bool has_records = true;
    static constexpr bool has_peer = true;
};

extern "C" __global__ __launch_bounds__(Config::num_threads, Config::min_blocks)
void ftj_attn_extend_sm90(const __grid_constant__ ftj_extend_params params) {
    ftj::AttnExtendSm90<Config>::run(params);
}
