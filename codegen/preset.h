/* SPDX-License-Identifier: MIT */
/* Models that are served, as the attentions their layers need: what `ftjit warm` compiles ahead. */
#ifndef FTJ_CODEGEN_PRESET_H
#define FTJ_CODEGEN_PRESET_H

#include "codegen/problem.h"

/* One kind of layer of a model. Layers that differ in window, sinks or scale alone share kernels,
 * but for a decode whose window leaves few keys. */
struct ftj_preset_layer {
    const char *model;
    const char *kind; /* "full", "window", or the name of a kind that has no kernel yet */
    uint32_t num_q_heads;
    uint32_t num_kv_heads;
    uint32_t head_dim;
    uint32_t window; /* 0: none */
    uint32_t page_size;
    bool is_assumed;  /* query heads or window are not published: defaults stand there */
    const char *skip; /* NULL, or why nothing is compiled for it */
};

extern const struct ftj_preset_layer ftj_preset_layers[];
extern const size_t ftj_num_preset_layers;

/* Formats of K and V that every model is compiled for. */
struct ftj_preset_format {
    const char *name; /* "fp8+nvfp4" */
    ftj_kv_format k;
    ftj_kv_format v;
};

extern const struct ftj_preset_format ftj_preset_formats[];
extern const size_t ftj_num_preset_formats;

/* How the engine keeps its cache. Zeroed: packed, as a model's pages say, one GPU, bf16. */
struct ftj_preset_choice {
    ftj_kv_order order;
    ftj_kv_table table;
    uint32_t page_size;       /* 0: the layer's */
    uint32_t tensor_parallel; /* GPUs that share the heads; 0: 1 */
    ftj_dtype dtype;
};

/* The attention of a layer. FTJ_E_UNSUPPORTED, with a sentence: so many GPUs cannot share its
 * heads. */
FTJ_NODISCARD ftj_status ftj_preset_desc(const struct ftj_preset_layer *layer,
                                         const struct ftj_preset_format *format,
                                         const struct ftj_preset_choice *choice,
                                         ftj_attention_desc *desc);

#endif
