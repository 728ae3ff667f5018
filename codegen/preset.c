/* SPDX-License-Identifier: MIT */
#include "codegen/preset.h"

static const char no_sparse[] = "sparse attention over an index (QSA) has no kernel yet";
static const char no_latent[] = "sparse attention over a latent cache (DSA) has no kernel yet";
static const char no_block_sparse[] =
    "block-sparse attention (BSA) has no kernel yet, and a quantised cache is refused";
static const char no_compressed[] =
    "its compressed attention has no kernel yet, and a quantised cache is refused";

/* Linear layers (GDN, KDA) keep no KV cache and are not here. Where query heads and window are not
 * published ("assumed"), the heads are taken to be twice the kv heads of the window layers, and the
 * window to be 1024, as in the sister model where they are. */
// clang-format off
const struct ftj_preset_layer ftj_preset_layers[] = {
    /* model                     kind       q  kv  dim  window page  assumed skipped */
    {"Qwen3-30B-A3B",           "full",    32,  4, 128,     0,   1,  false,  0},
    {"Qwen3.5-35B-A3B",         "full",    16,  2, 256,     0,   1,  false,  0},
    {"Qwen3.6-35B-A3B",         "full",    16,  2, 256,     0,   1,  false,  0},
    {"Qwen3.6-27B",             "full",    24,  4, 256,     0,   1,  false,  0},
    {"Qwen3.8-Flash-Next",      "qsa",     24,  2, 256,     0,  64,  false,  no_sparse},
    {"gemma-4-26B-A4B",         "window",  16,  8, 256,  1024,   1,  false,  0},
    {"gemma-4-26B-A4B",         "full",    16,  2, 512,     0,   1,  false,  0},
    {"gemma-4-12B",             "window",  16,  8, 256,  1024,   1,  true,   0},
    {"gemma-4-12B",             "full",    16,  1, 512,     0,   1,  true,   0},
    {"Gemma-4-31B-NVFP4",       "window",  32, 16, 256,  1024,   1,  true,   0},
    {"Gemma-4-31B-NVFP4",       "full",    32,  4, 512,     0,   1,  true,   0},
    {"gpt-oss-20b",             "window",  64,  8,  64,   128,   1,  false,  0},
    {"gpt-oss-20b",             "full",    64,  8,  64,     0,   1,  false,  0},
    {"gpt-oss-120b",            "window",  64,  8,  64,   128,   1,  false,  0},
    {"gpt-oss-120b",            "full",    64,  8,  64,     0,   1,  false,  0},
    {"Muse-Glimmer-30B",        "window",  32,  2, 128,  2048,   1,  false,  0},
    {"Muse-Glimmer-30B",        "full",    32,  2, 128,     0,   1,  false,  0},
    {"GLM-4.7",                 "full",    96,  8, 128,     0,   1,  false,  0},
    {"GLM-5.2",                 "dsa",     64,  1, 576,     0,   1,  false,  no_latent},
    {"GLM-5.3-Flash",           "dsa",     64,  1, 512,     0,  64,  false,  no_latent},
    {"MiniMax-M2.5",            "full",    48,  8, 128,     0,   1,  false,  0},
    {"MiniMax-M3",              "bsa",     64,  4, 128,     0, 128,  false,  no_block_sparse},
    {"DeepSeek-V4",             "csa",     0,  0,   0,     0,   0,  false,  no_compressed},
    {"Llama-3.1-8B",            "full",    32,  8, 128,     0,   1,  false,  0},
    {"Qwen3-8B",                "full",    32,  8, 128,     0,   1,  false,  0},
    {"Mistral-7B",              "full",    32,  8, 128,     0,   1,  false,  0},
    {"Mistral-Small-3.1",       "full",    32,  8, 128,     0,   1,  false,  0},
    {"Qwen2-7B",                "full",    28,  4, 128,     0,   1,  false,  0},
};

const struct ftj_preset_format ftj_preset_formats[] = {
    {"bf16",      FTJ_KV_16BIT, FTJ_KV_16BIT},
    {"fp8",       FTJ_KV_FP8,   FTJ_KV_FP8},
    {"nvfp4",     FTJ_KV_NVFP4, FTJ_KV_NVFP4},
    {"fp8+nvfp4", FTJ_KV_FP8,   FTJ_KV_NVFP4},
};
// clang-format on
const size_t ftj_num_preset_layers = sizeof(ftj_preset_layers) / sizeof(*ftj_preset_layers);
const size_t ftj_num_preset_formats = sizeof(ftj_preset_formats) / sizeof(*ftj_preset_formats);

ftj_status ftj_preset_desc(const struct ftj_preset_layer *layer,
                           const struct ftj_preset_format *format,
                           const struct ftj_preset_choice *choice, ftj_attention_desc *desc)
{
    const uint32_t gpus = choice->tensor_parallel ? choice->tensor_parallel : 1;
    const uint32_t kv_heads = layer->num_kv_heads;
    /* More GPUs than kv heads: each kv head is kept several times. */
    if (layer->num_q_heads % gpus || (kv_heads % gpus && gpus % kv_heads))
        return ftj_fail(NULL, FTJ_E_UNSUPPORTED,
                        "%s has %u query heads over %u kv heads, which %u GPUs cannot share",
                        layer->model, layer->num_q_heads, kv_heads, gpus);
    *desc = (ftj_attention_desc){
        .num_q_heads = layer->num_q_heads / gpus,
        .dtype = choice->dtype ? choice->dtype : FTJ_DTYPE_BF16,
        .table = choice->table,
        .window = layer->window,
    };
    return ftj_kv_layout_init(
        &desc->kv, &(ftj_kv_shape){
                       .k_format = format->k,
                       .v_format = format->v,
                       .order = choice->order,
                       .num_kv_heads = kv_heads > gpus ? kv_heads / gpus : 1,
                       .head_dim = layer->head_dim,
                       .page_size = choice->page_size ? choice->page_size : layer->page_size,
                   });
}
