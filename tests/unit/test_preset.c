/* SPDX-License-Identifier: MIT */
#include <criterion/criterion.h>
#include <string.h>

#include "codegen/preset.h"
#include "codegen/variant.h"

static const struct ftj_preset_layer *layer_of(const char *model, const char *kind)
{
    for (size_t i = 0; i < ftj_num_preset_layers; i++) {
        if (!strcmp(ftj_preset_layers[i].model, model) && !strcmp(ftj_preset_layers[i].kind, kind))
            return &ftj_preset_layers[i];
    }
    cr_assert_fail("%s %s", model, kind);
    return NULL;
}

Test(preset, every_layer_has_kernels_on_every_target_or_a_reason)
{
    static const char *const targets[] = {"sm_75",  "sm_80",   "sm_89",
                                          "sm_90a", "sm_100a", "sm_120a"};
    static const enum ftj_kernel_op ops[] = {FTJ_KERNEL_STORE,   FTJ_KERNEL_DECODE,
                                             FTJ_KERNEL_COMBINE, FTJ_KERNEL_MERGE,
                                             FTJ_KERNEL_EXTEND,  FTJ_KERNEL_EXTEND_COMBINE};
    size_t num_kernels = 0;
    for (size_t i = 0; i < ftj_num_preset_layers; i++) {
        const struct ftj_preset_layer *layer = &ftj_preset_layers[i];
        for (size_t f = 0; f < ftj_num_preset_formats && !layer->skip; f++) {
            ftj_attention_desc desc;
            struct ftj_preset_choice choice = {.order = FTJ_KV_NHD, .table = FTJ_TABLE_SLOTS};
            cr_assert_eq(ftj_preset_desc(layer, &ftj_preset_formats[f], &choice, &desc), FTJ_OK);
            cr_expect_eq(ftj_desc_check(&desc, NULL), FTJ_OK, "%s: %s", layer->model,
                         ftj_last_error());
            for (size_t t = 0; t < 6 * 6; t++) {
                struct ftj_device device;
                struct ftj_problem problem;
                struct ftj_config config;
                cr_assert_eq(ftj_device_of_target(targets[t / 6], NULL, &device), FTJ_OK);
                ftj_problem_init(&problem, ops[t % 6], &desc);
                const bool is_covered = ftj_variant_select(&problem, &device, &config);
                cr_expect(is_covered || device.capability_major < 8, "%s %s, kernel %zu on %s",
                          layer->model, layer->kind, t % 6, device.target);
                num_kernels += is_covered;
            }
        }
    }
    cr_expect_gt(num_kernels, 1000);
}

Test(preset, follows_the_table_of_models)
{
    const struct ftj_preset_layer *gemma = layer_of("gemma-4-26B-A4B", "full");
    cr_expect_eq(gemma->num_q_heads / gemma->num_kv_heads, 8);
    cr_expect_eq(gemma->head_dim, 512);
    cr_expect_eq(layer_of("gpt-oss-120b", "window")->window, 128);
    cr_expect_eq(layer_of("Qwen3.6-27B", "full")->num_q_heads, 24);
    cr_expect(layer_of("gemma-4-12B", "window")->is_assumed);
    cr_expect_not(layer_of("Muse-Glimmer-30B", "window")->is_assumed);
    cr_expect_not_null(layer_of("GLM-5.2", "dsa")->skip);
    cr_expect_not_null(layer_of("DeepSeek-V4", "csa")->skip);
    cr_expect_eq(ftj_num_preset_formats, 4);
}

Test(preset, gpus_share_heads_or_it_is_said_why_not)
{
    ftj_attention_desc desc;
    struct ftj_preset_choice choice = {.tensor_parallel = 8};
    const struct ftj_preset_layer *llama = layer_of("Llama-3.1-8B", "full");
    const struct ftj_preset_layer *qwen = layer_of("Qwen2-7B", "full");
    cr_assert_eq(ftj_preset_desc(llama, &ftj_preset_formats[0], &choice, &desc), FTJ_OK);
    cr_expect_eq(desc.kv.shape.num_kv_heads, 1);
    cr_expect_eq(desc.num_q_heads, 4);
    choice.tensor_parallel = 16; /* each kv head twice */
    cr_assert_eq(ftj_preset_desc(llama, &ftj_preset_formats[0], &choice, &desc), FTJ_OK);
    cr_expect_eq(desc.kv.shape.num_kv_heads, 1);
    cr_expect_eq(desc.num_q_heads, 2);
    choice.tensor_parallel = 8;
    cr_expect_eq(ftj_preset_desc(qwen, &ftj_preset_formats[0], &choice, &desc), FTJ_E_UNSUPPORTED);
    cr_expect_not_null(strstr(ftj_last_error(), "28 query heads"), "%s", ftj_last_error());
    choice.tensor_parallel = 7;
    cr_expect_eq(ftj_preset_desc(qwen, &ftj_preset_formats[0], &choice, &desc), FTJ_E_UNSUPPORTED);
    choice.tensor_parallel = 2;
    cr_expect_eq(ftj_preset_desc(qwen, &ftj_preset_formats[0], &choice, &desc), FTJ_OK);
}
