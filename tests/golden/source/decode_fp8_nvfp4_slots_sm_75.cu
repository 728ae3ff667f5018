// attn_decode_sm75 fp16 d64 k:fp8 v:nvfp4 page 1
#include "ptx/ptx_sm75.cuh"
#include "block/e4m3_software.cuh"
#include "block/copy_sync.cuh"
#include "block/mma_sm75.cuh"
#include "block/stage_copy.cuh"
#include "block/launch_in_order.cuh"
#include "block/by_warps.cuh"
#include "kernel/attn_decode.cuh"

struct Config {
    static constexpr int num_threads = 128;
    static constexpr int min_blocks = 2;
    static constexpr int smem_bytes = 27972;
    static constexpr int head_dim = 64;
    using Element = ftj::Fp16;
    using KCodec = ftj::CodecFp8<ftj::E4m3Software>;
    using VCodec = ftj::CodecNvfp4<ftj::E4m3Software>;
    static constexpr int page_size = 1;
    static constexpr int num_warps = 4;
    static constexpr int num_stages = 4;
    static constexpr int tile_tokens = 16;
    static constexpr int n_tiles = 3;
    static constexpr int warps_per_tile = 1;
    static constexpr int unit_heads = 2;
    static constexpr int group_parts = 1;
    static constexpr bool slots_contiguous = false;
    static constexpr bool one_allocation = false;
    static constexpr bool slot_table = true;
    static constexpr bool has_softcap = true;
    static constexpr bool has_runs = false;
    static constexpr bool takes_turns = false;
    static constexpr int k_code_chunk = 16;
    static constexpr int v_code_chunk = 16;
    static constexpr int k_block_chunk = 16;
    static constexpr int v_block_chunk = 4;
};

extern "C" __global__ __launch_bounds__(Config::num_threads, Config::min_blocks)
void ftj_attn_decode_sm75(const __grid_constant__ ftj_decode_params params) {
    ftj::AttnDecode<Config>::run(params);
}
