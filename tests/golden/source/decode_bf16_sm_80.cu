// attn_decode_sm80 bf16 d128 k:16bit v:16bit page 64
#include "ptx/ptx_sm80.cuh"
#include "block/e4m3_software.cuh"
#include "block/copy_async.cuh"
#include "block/mma_sm80.cuh"
#include "block/stage_copy.cuh"
#include "block/launch_in_order.cuh"
#include "block/by_warps.cuh"
#include "kernel/attn_decode.cuh"

struct Config {
    static constexpr int num_threads = 128;
    static constexpr int min_blocks = 2;
    static constexpr int smem_bytes = 65860;
    static constexpr int head_dim = 128;
    using Element = ftj::Bf16;
    using KCodec = ftj::Codec16Bit<Element>;
    using VCodec = ftj::Codec16Bit<Element>;
    static constexpr int page_size = 64;
    static constexpr int num_warps = 4;
    static constexpr int num_stages = 2;
    static constexpr int tile_tokens = 16;
    static constexpr int n_tiles = 1;
    static constexpr int warps_per_tile = 1;
    static constexpr int unit_heads = 1;
    static constexpr int group_parts = 1;
    static constexpr bool slots_contiguous = true;
    static constexpr bool one_allocation = true;
    static constexpr bool slot_table = false;
    static constexpr bool has_softcap = false;
    static constexpr bool has_runs = false;
    static constexpr bool takes_turns = false;
    static constexpr int k_code_chunk = 16;
    static constexpr int v_code_chunk = 16;
    static constexpr int k_block_chunk = 16;
    static constexpr int v_block_chunk = 16;
};

extern "C" __global__ __launch_bounds__(Config::num_threads, Config::min_blocks)
void ftj_attn_decode_sm80(const __grid_constant__ ftj_decode_params params) {
    ftj::AttnDecode<Config>::run(params);
}
