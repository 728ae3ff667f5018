/* SPDX-License-Identifier: MIT */
/* Every kernel, best first within an operation. To add one, write templates/kernel/<name>.cuh, its
 * tune and write functions, one row here and one in the check harness. */
#include "codegen/tune.h"

#define ANY_16BIT_DTYPE (FTJ_NEED_BF16 | FTJ_NEED_FP16)
#define ANY_DTYPE       (ANY_16BIT_DTYPE | FTJ_NEED_FP32)
#define ANY_KV          (FTJ_NEED_KV_16BIT | FTJ_NEED_KV_FP8 | FTJ_NEED_KV_NVFP4)

const struct ftj_variant ftj_variants[] = {
    {
        .name = "kv_store_sm90",
        .op = FTJ_KERNEL_STORE,
        .covers = ANY_DTYPE | ANY_KV,
        .uses = FTJ_HAS_FP8_CONVERT | FTJ_HAS_TMA,
        .tune = ftj_tune_store_overlapped,
        .write = ftj_write_store,
        .includes = "block/launch_overlapped.cuh kernel/kv_store.cuh",
        .kernel = "KvStore",
        .params_type = "ftj_store_params",
        .exact_rounding = true,
    },
    {
        .name = "kv_store",
        .op = FTJ_KERNEL_STORE,
        .covers = ANY_DTYPE | ANY_KV,
        .tune = ftj_tune_store,
        .write = ftj_write_store,
        .includes = "block/launch_in_order.cuh kernel/kv_store.cuh",
        .kernel = "KvStore",
        .params_type = "ftj_store_params",
        .exact_rounding = true,
    },
    {
        .name = "attn_decode_group_sm90",
        .op = FTJ_KERNEL_DECODE,
        .covers = ANY_16BIT_DTYPE | ANY_KV | FTJ_NEED_SOFTCAP,
        .uses = FTJ_HAS_MMA_BF16 | FTJ_HAS_FP8_CONVERT | FTJ_HAS_TMA | FTJ_HAS_WGMMA,
        .tune = ftj_tune_decode_group,
        .write = ftj_write_decode_bulk,
        .includes = "block/mma_sm80.cuh block/stage_bulk.cuh block/launch_overlapped.cuh "
                    "block/by_group.cuh kernel/attn_decode.cuh",
        .kernel = "AttnDecode",
        .params_type = "ftj_decode_params",
    },
    {
        .name = "attn_decode_sm90",
        .op = FTJ_KERNEL_DECODE,
        .covers = ANY_16BIT_DTYPE | ANY_KV | FTJ_NEED_SOFTCAP,
        .uses = FTJ_HAS_MMA_BF16 | FTJ_HAS_FP8_CONVERT | FTJ_HAS_TMA,
        .tune = ftj_tune_decode_bulk,
        .write = ftj_write_decode_bulk,
        .includes = "block/mma_sm80.cuh block/stage_bulk.cuh block/launch_overlapped.cuh "
                    "block/by_warps.cuh kernel/attn_decode.cuh",
        .kernel = "AttnDecode",
        .params_type = "ftj_decode_params",
    },
    {
        .name = "attn_decode_heads_sm90",
        .op = FTJ_KERNEL_DECODE,
        .covers = ANY_16BIT_DTYPE | ANY_KV | FTJ_NEED_SLOT_TABLE | FTJ_NEED_SOFTCAP,
        .uses = FTJ_HAS_MMA_BF16 | FTJ_HAS_FP8_CONVERT | FTJ_HAS_TMA,
        .tune = ftj_tune_decode_heads,
        .write = ftj_write_decode_heads,
        .includes = "block/mma_sm80.cuh block/stage_heads.cuh block/launch_overlapped.cuh "
                    "block/by_warps.cuh kernel/attn_decode.cuh",
        .kernel = "AttnDecode",
        .params_type = "ftj_decode_params",
    },
    {
        .name = "attn_decode_sm80",
        .op = FTJ_KERNEL_DECODE,
        .covers = ANY_16BIT_DTYPE | ANY_KV | FTJ_NEED_SLOT_TABLE | FTJ_NEED_SOFTCAP,
        .uses = FTJ_HAS_CP_ASYNC | FTJ_HAS_MMA_BF16,
        .tune = ftj_tune_decode,
        .write = ftj_write_decode,
        .includes = "block/copy_async.cuh block/mma_sm80.cuh block/stage_copy.cuh "
                    "block/launch_in_order.cuh "
                    "block/by_warps.cuh kernel/attn_decode.cuh",
        .kernel = "AttnDecode",
        .params_type = "ftj_decode_params",
    },
    {
        .name = "attn_decode_sm75",
        .op = FTJ_KERNEL_DECODE,
        .covers = ANY_16BIT_DTYPE | ANY_KV | FTJ_NEED_SLOT_TABLE | FTJ_NEED_SOFTCAP,
        .uses = FTJ_HAS_MMA_F16,
        .tune = ftj_tune_decode,
        .write = ftj_write_decode,
        .includes = "block/copy_sync.cuh block/mma_sm75.cuh block/stage_copy.cuh "
                    "block/launch_in_order.cuh "
                    "block/by_warps.cuh kernel/attn_decode.cuh",
        .kernel = "AttnDecode",
        .params_type = "ftj_decode_params",
    },
    {
        .name = "attn_combine_sm90",
        .op = FTJ_KERNEL_COMBINE,
        .covers = ANY_16BIT_DTYPE,
        .uses = FTJ_HAS_FP8_CONVERT | FTJ_HAS_TMA,
        .tune = ftj_tune_combine_overlapped,
        .write = ftj_write_combine,
        .includes = "block/launch_overlapped.cuh kernel/attn_combine.cuh",
        .kernel = "AttnCombine",
        .params_type = "ftj_decode_params",
    },
    {
        .name = "attn_combine",
        .op = FTJ_KERNEL_COMBINE,
        .covers = ANY_16BIT_DTYPE,
        .tune = ftj_tune_combine,
        .write = ftj_write_combine,
        .includes = "block/launch_in_order.cuh kernel/attn_combine.cuh",
        .kernel = "AttnCombine",
        .params_type = "ftj_decode_params",
    },
    {
        .name = "attn_extend_sm90",
        .op = FTJ_KERNEL_EXTEND,
        .covers = ANY_16BIT_DTYPE | ANY_KV | FTJ_NEED_SLOT_TABLE | FTJ_NEED_SOFTCAP,
        .uses =
            FTJ_HAS_CP_ASYNC | FTJ_HAS_MMA_BF16 | FTJ_HAS_FP8_CONVERT | FTJ_HAS_TMA | FTJ_HAS_WGMMA,
        .tune = ftj_tune_extend_sm90,
        .write = ftj_write_extend_sm90,
        .includes = "kernel/attn_extend_sm90.cuh",
        .kernel = "AttnExtendSm90",
        .params_type = "ftj_extend_params",
    },
    {
        .name = "attn_extend_sm80",
        .op = FTJ_KERNEL_EXTEND,
        .covers = ANY_16BIT_DTYPE | ANY_KV | FTJ_NEED_SLOT_TABLE | FTJ_NEED_SOFTCAP,
        .uses = FTJ_HAS_CP_ASYNC | FTJ_HAS_MMA_BF16,
        .tune = ftj_tune_extend_sm80,
        .write = ftj_write_extend,
        .includes = "block/copy_async.cuh block/mma_sm80.cuh block/wide_keys.cuh "
                    "kernel/attn_extend.cuh",
        .kernel = "AttnExtend",
        .params_type = "ftj_extend_params",
    },
    {
        .name = "attn_extend_sm75",
        .op = FTJ_KERNEL_EXTEND,
        .covers = ANY_16BIT_DTYPE | ANY_KV | FTJ_NEED_SLOT_TABLE | FTJ_NEED_SOFTCAP,
        .uses = FTJ_HAS_MMA_F16,
        .tune = ftj_tune_extend,
        .write = ftj_write_extend,
        .includes = "block/copy_sync.cuh block/mma_sm75.cuh kernel/attn_extend.cuh",
        .kernel = "AttnExtend",
        .params_type = "ftj_extend_params",
    },
    {
        .name = "extend_combine",
        .op = FTJ_KERNEL_EXTEND_COMBINE,
        .covers = ANY_16BIT_DTYPE,
        .tune = ftj_tune_extend_combine,
        .write = ftj_write_extend_combine,
        .includes = "kernel/extend_combine.cuh",
        .kernel = "ExtendCombine",
        .params_type = "ftj_extend_params",
    },
    {
        .name = "state_merge",
        .op = FTJ_KERNEL_MERGE,
        .covers = ANY_16BIT_DTYPE,
        .tune = ftj_tune_merge,
        .write = ftj_write_merge,
        .includes = "kernel/state_merge.cuh",
        .kernel = "StateMerge",
        .params_type = "ftj_merge_params",
    },
    {
        .name = "attn_generic",
        .op = FTJ_KERNEL_GENERIC,
        .covers = ANY_DTYPE | ANY_KV | FTJ_NEED_SLOT_TABLE | FTJ_NEED_SOFTCAP,
        .tune = ftj_tune_generic,
        .write = ftj_write_generic,
        .includes = "kernel/attn_generic.cuh",
        .kernel = "AttnGeneric",
        .params_type = "ftj_generic_params",
    },
};
const size_t ftj_num_variants = sizeof(ftj_variants) / sizeof(*ftj_variants);
