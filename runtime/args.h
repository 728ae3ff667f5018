/* SPDX-License-Identifier: MIT */
/* Arguments of a call, checked, as the parameters of its kernel. Nothing is launched here. */
#ifndef FTJ_RUNTIME_ARGS_H
#define FTJ_RUNTIME_ARGS_H

#include "runtime/attention_state.h"
#include "templates/block/params.h"

FTJ_NODISCARD ftj_status ftj_args_store(const struct ftj_attention *attn,
                                        const ftj_store_args *args, ftj_store_params *params);
FTJ_NODISCARD ftj_status ftj_args_decode(const struct ftj_attention *attn,
                                         const ftj_decode_args *args, ftj_decode_params *params);
FTJ_NODISCARD ftj_status ftj_args_extend(const struct ftj_attention *attn,
                                         const ftj_extend_args *args, ftj_extend_params *params);
/* What its tensor copies read, when the arguments are checked. */
FTJ_NODISCARD ftj_status ftj_args_tensors(const struct ftj_attention *attn,
                                          const ftj_extend_args *args, ftj_extend_params *params);
/* An extend's, checked, for decode's kernels. */
void ftj_args_short(const struct ftj_attention *attn, const ftj_extend_args *args,
                    const ftj_extend_params *extend, ftj_decode_params *params);
FTJ_NODISCARD ftj_status ftj_args_generic(const struct ftj_attention *attn,
                                          const ftj_generic_args *args, ftj_generic_params *params);
FTJ_NODISCARD ftj_status ftj_args_merge(const struct ftj_attention *attn,
                                        const ftj_merge_args *args, ftj_merge_params *params);

#endif
