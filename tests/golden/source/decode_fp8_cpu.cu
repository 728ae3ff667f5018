// attn_decode_sm90 bf16 d96 k:fp8 v:fp8 page 16
#include "ptx/ptx_cpu.cuh"
#include "block/e4m3_hardware.cuh"
#include "block/mma_sm80.cuh"
#include "block/stage_bulk.cuh"
#include "block/launch_overlapped.cuh"
#include "block/by_warps.cuh"
#include "kernel/attn_decode.cuh"

struct Config {
    static constexpr int num_threads = 128;
    static constexpr int min_blocks = 2;
    static constexpr int smem_bytes = 102980;
    static constexpr int head_dim = 96;
    using Element = ftj::Bf16;
    using KCodec = ftj::CodecFp8<ftj::E4m3Hardware>;
    using VCodec = ftj::CodecFp8<ftj::E4m3Hardware>;
    static constexpr int page_size = 16;
    static constexpr int num_warps = 4;
    static constexpr int num_stages = 8;
    static constexpr int tile_tokens = 16;
    static constexpr int n_tiles = 1;
    static constexpr int warps_per_tile = 1;
    static constexpr int unit_heads = 1;
    static constexpr int group_parts = 1;
    static constexpr bool slots_contiguous = true;
    static constexpr bool one_allocation = false;
    static constexpr bool slot_table = false;
    static constexpr bool has_softcap = false;
    static constexpr bool has_runs = false;
    static constexpr bool takes_turns = false;
    static constexpr int record_bytes = 0;
    static constexpr int k_codes_at = 0;
    static constexpr int k_scales_at = 0;
    static constexpr int k_blocks_at = 0;
    static constexpr int v_codes_at = 0;
    static constexpr int v_scales_at = 0;
    static constexpr int v_blocks_at = 0;
    static constexpr int value_shift = 0;
    static constexpr bool strides_in_rows = true;
};

extern "C" __global__ __launch_bounds__(Config::num_threads, Config::min_blocks)
void ftj_attn_decode_sm90(const __grid_constant__ ftj_decode_params params) {
    ftj::AttnDecode<Config>::run(params);
}
FTJ_CPU_ENTRY(ftj_attn_decode_sm90, ftj_decode_params)
