// attn_extend_sm75 bf16 d512 k:16bit v:16bit page 1
#include "ptx/ptx_sm75.cuh"
#include "block/e4m3_software.cuh"
#include "block/copy_sync.cuh"
#include "block/mma_sm75.cuh"
#include "kernel/attn_extend.cuh"

struct Config {
    static constexpr int num_threads = 64;
    static constexpr int min_blocks = 1;
    static constexpr int smem_bytes = 50400;
    static constexpr int head_dim = 512;
    using Element = ftj::Bf16;
    using KCodec = ftj::Codec16Bit<Element>;
    using VCodec = ftj::Codec16Bit<Element>;
    static constexpr int page_size = 1;
    static constexpr int num_warps = 2;
    static constexpr int num_stages = 1;
    static constexpr int block_rows = 16;
    static constexpr int m_tiles = 1;
    static constexpr int part_dims = 256;
    static constexpr int tile_tokens = 16;
    static constexpr int new_tokens = 16;
    static constexpr int step_tokens = 16;
    static constexpr int k_code_chunk = 16;
    static constexpr int v_code_chunk = 16;
    static constexpr int k_block_chunk = 16;
    static constexpr int v_block_chunk = 16;
    static constexpr bool slots_contiguous = false;
    static constexpr bool slot_table = true;
    static constexpr bool has_softcap = true;
    static constexpr bool widens = false;
    static constexpr bool v_by_matrices = true;
};

extern "C" __global__ __launch_bounds__(Config::num_threads, Config::min_blocks)
void ftj_attn_extend_sm75(const __grid_constant__ ftj_extend_params params) {
    ftj::AttnExtend<Config>::run(params);
}
