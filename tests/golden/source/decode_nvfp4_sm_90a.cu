// attn_decode_sm90 bf16 d128 k:nvfp4 v:nvfp4 page 64
#include "ptx/ptx_sm90.cuh"
#include "block/e4m3_hardware.cuh"
#include "block/mma_sm80.cuh"
#include "block/stage_bulk.cuh"
#include "block/launch_overlapped.cuh"
#include "block/by_warps.cuh"
#include "kernel/attn_decode.cuh"

struct Config {
    static constexpr int num_threads = 256;
    static constexpr int min_blocks = 2;
    static constexpr int smem_bytes = 78564;
    static constexpr int head_dim = 128;
    using Element = ftj::Bf16;
    using KCodec = ftj::CodecNvfp4<ftj::E4m3Hardware>;
    using VCodec = ftj::CodecNvfp4<ftj::E4m3Hardware>;
    static constexpr int page_size = 64;
    static constexpr int num_warps = 8;
    static constexpr int num_stages = 2;
    static constexpr int tile_tokens = 64;
    static constexpr int n_tiles = 1;
    static constexpr int warps_per_tile = 2;
    static constexpr int unit_heads = 1;
    static constexpr int group_parts = 1;
    static constexpr bool slots_contiguous = true;
    static constexpr bool one_allocation = true;
    static constexpr bool slot_table = false;
    static constexpr bool has_softcap = false;
    static constexpr bool has_runs = false;
    static constexpr bool takes_turns = false;
    static constexpr int record_bytes = 9728;
    static constexpr int k_codes_at = 0;
    static constexpr int k_scales_at = 4096;
    static constexpr int k_blocks_at = 4352;
    static constexpr int v_codes_at = 4864;
    static constexpr int v_scales_at = 8960;
    static constexpr int v_blocks_at = 9216;
    static constexpr int value_shift = 0;
    static constexpr bool strides_in_rows = false;
};

extern "C" __global__ __launch_bounds__(Config::num_threads, Config::min_blocks)
void ftj_attn_decode_sm90(const __grid_constant__ ftj_decode_params params) {
    ftj::AttnDecode<Config>::run(params);
}
