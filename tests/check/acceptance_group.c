/* SPDX-License-Identifier: MIT */
/* Kv heads of many query heads, which four warps attend to together where there is wgmma: every
 * number of columns, pages smaller and larger than a tile, ends of requests and a window's
 * beginning inside a tile, a request without keys. And logits so large that tile after tile has a
 * new maximum, which is all warps'. */
#include "tests/check/acceptance.h"

void acceptance_large_groups(struct check_row *row)
{
    static const struct {
        ftj_kv_format k, v;
        ftj_dtype dtype;
        ftj_kv_order order;
        uint32_t page_size, num_kv_heads, group, window;
        float softcap, sm_scale;
    } cases[] = {
        {FTJ_KV_16BIT, FTJ_KV_16BIT, FTJ_DTYPE_BF16, FTJ_KV_PACKED, 64, 1, 64, 0, 0, 0},
        {FTJ_KV_FP8, FTJ_KV_FP8, FTJ_DTYPE_BF16, FTJ_KV_HND, 128, 2, 50, 300, 0, 5.0f},
        {FTJ_KV_NVFP4, FTJ_KV_NVFP4, FTJ_DTYPE_FP16, FTJ_KV_PACKED, 16, 1, 36, 0, 20.0f, 0},
        {FTJ_KV_FP8, FTJ_KV_NVFP4, FTJ_DTYPE_BF16, FTJ_KV_PACKED, 32, 2, 34, 0, 0, 5.0f},
        {FTJ_KV_NVFP4, FTJ_KV_16BIT, FTJ_DTYPE_BF16, FTJ_KV_PACKED, 64, 1, 64, 300, 20.0f, 0},
        {FTJ_KV_16BIT, FTJ_KV_FP8, FTJ_DTYPE_FP16, FTJ_KV_HND, 64, 1, 56, 0, 0, 5.0f},
        {FTJ_KV_FP8, FTJ_KV_FP8, FTJ_DTYPE_BF16, FTJ_KV_PACKED, 64, 2, 62, 300, 0, 0},
        {FTJ_KV_NVFP4, FTJ_KV_NVFP4, FTJ_DTYPE_BF16, FTJ_KV_PACKED, 64, 1, 44, 0, 0, 5.0f},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct attention_shape shape = acceptance_small_shape(cases[i].k, 420);
        shape.v_format = cases[i].v;
        shape.dtype = cases[i].dtype;
        shape.order = cases[i].order;
        shape.page_size = cases[i].page_size;
        shape.num_kv_heads = cases[i].num_kv_heads;
        shape.group = cases[i].group;
        shape.window = cases[i].window;
        shape.softcap = cases[i].softcap;
        shape.sm_scale = cases[i].sm_scale;
        shape.head_dim = 128;
        shape.has_sinks = i % 2;
        shape.batch = 4;
        shape.lengths[1] = 1;
        shape.lengths[3] = 97;
        shape.max_blocks = i % 2 ? 3 : 0;
        acceptance_decode_random_by(row, &shape, "attn_decode_group_sm90");
    }
}
