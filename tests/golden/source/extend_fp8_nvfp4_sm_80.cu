// attn_extend_sm80 bf16 d128 k:fp8 v:nvfp4 page 64
#include "ptx/ptx_sm80.cuh"
#include "block/e4m3_software.cuh"
#include "block/copy_async.cuh"
#include "block/mma_sm80.cuh"
#include "block/wide_keys.cuh"
#include "kernel/attn_extend.cuh"

struct Config {
    static constexpr int num_threads = 128;
    static constexpr int min_blocks = 2;
    static constexpr int smem_bytes = 70304;
    static constexpr int head_dim = 128;
    using Element = ftj::Bf16;
    using KCodec = ftj::CodecFp8<ftj::E4m3Software>;
    using VCodec = ftj::CodecNvfp4<ftj::E4m3Software>;
    static constexpr int page_size = 64;
    static constexpr int num_warps = 4;
    static constexpr int num_stages = 2;
    static constexpr int block_rows = 128;
    static constexpr int m_tiles = 2;
    static constexpr int part_dims = 128;
    static constexpr int tile_tokens = 64;
    static constexpr int new_tokens = 32;
    static constexpr int step_tokens = 32;
    static constexpr int k_code_chunk = 16;
    static constexpr int v_code_chunk = 16;
    static constexpr int k_block_chunk = 16;
    static constexpr int v_block_chunk = 8;
    static constexpr bool slots_contiguous = true;
    static constexpr bool slot_table = false;
    static constexpr bool has_softcap = false;
    static constexpr bool widens = false;
    static constexpr bool v_by_matrices = false;
};

extern "C" __global__ __launch_bounds__(Config::num_threads, Config::min_blocks)
void ftj_attn_extend_sm80(const __grid_constant__ ftj_extend_params params) {
    ftj::AttnExtend<Config>::run(params);
}
