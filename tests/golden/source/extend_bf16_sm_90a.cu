// attn_extend_sm90 bf16 d128 k:16bit v:16bit page 64
#include "ptx/ptx_sm90a.cuh"
#include "block/e4m3_hardware.cuh"
#include "block/launch_overlapped.cuh"
#include "kernel/attn_extend_sm90.cuh"

struct Config {
    static constexpr int num_threads = 512;
    static constexpr int min_blocks = 1;
    static constexpr int smem_bytes = 214536;
    static constexpr int head_dim = 128;
    using Element = ftj::Bf16;
    using KWiden = ftj::Rows16Bit;
    using VWiden = ftj::Rows16Bit;
    static constexpr int page_size = 64;
    static constexpr int num_consumers = 3;
    static constexpr int block_rows = 192;
    static constexpr int tile_tokens = 64;
    static constexpr int new_tokens = 64;
    static constexpr int num_stages = 7;
    static constexpr int query_stages = 2;
    static constexpr int code_slots = 0;
    static constexpr int code_rows = 16;
    static constexpr int code_run = 0;
    static constexpr int tensor_run = 64;
    static constexpr int producer_registers = 56;
    static constexpr int consumer_registers = 152;
    static constexpr bool slots_contiguous = true;
    static constexpr bool slot_table = false;
    static constexpr bool has_softcap = false;
    static constexpr bool takes_turns = false;
    static constexpr bool has_records = false;
    static constexpr bool has_peer = false;
};

extern "C" __global__ __launch_bounds__(Config::num_threads, Config::min_blocks)
void ftj_attn_extend_sm90(const __grid_constant__ ftj_extend_params params) {
    ftj::AttnExtendSm90<Config>::run(params);
}
