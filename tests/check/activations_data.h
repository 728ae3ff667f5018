/* SPDX-License-Identifier: MIT */
/* The host's half of activations.h: the files, exact attention over them, and the expected costs.
 * Needs no device. */
#ifndef FTJ_TESTS_ACTIVATIONS_DATA_H
#define FTJ_TESTS_ACTIVATIONS_DATA_H

#include "tests/check/activations.h"

/* Outputs of all queries and heads. A zeroed one is empty. */
struct activations_state {
    double *o;   /* [num_queries][num_q_heads][head_dim]; owned */
    double *lse; /* [num_queries][num_q_heads]; owned */
};

/* One layer of a directory. A zeroed one is empty. */
struct activations_layer {
    uint32_t index;
    uint32_t num_tokens;
    uint32_t num_kv_heads;
    uint32_t num_queries; /* query i stands at position num_tokens - num_queries + i */
    uint32_t num_q_heads;
    uint32_t head_dim;
    bool is_half; /* K and V are exact in fp16 */
    float *q;     /* owned, in the files' shapes */
    float *k;
    float *v;
    struct activations_state exact; /* over the data as it is */
};

/* K and V of a layer as doubles, [num_tokens][num_kv_heads][head_dim]. A zeroed one is empty. */
struct activations_rows {
    double *k; /* owned */
    double *v;
};

/* What expected.tsv says of one layer and pair, or of a layer's exact attention. */
struct activations_expected {
    struct activations_error format;
    double k_rms;
    double v_rms;
};
struct activations_sums {
    double lse;
    double o; /* of magnitudes */
};

/* FTJ_E_NOT_FOUND, without a sentence, when the directory has no such layer. */
FTJ_NODISCARD ftj_status activations_layer_init(struct activations_layer *layer, const char *dir,
                                                uint32_t index,
                                                char sentence[ACTIVATIONS_SENTENCE]);
void activations_layer_finish(struct activations_layer *layer);

FTJ_NODISCARD ftj_status activations_state_init(struct activations_state *state,
                                                const struct activations_layer *layer);
void activations_state_finish(struct activations_state *state);
FTJ_NODISCARD ftj_status activations_rows_init(struct activations_rows *rows,
                                               const struct activations_layer *layer);
void activations_rows_finish(struct activations_rows *rows);

/* Exact attention of the layer's queries over `rows`, the queries rounded to `q_dtype` first (FP32:
 * as they are). `state` is initialised by the caller. */
void activations_attend(const struct activations_layer *layer, ftj_dtype q_dtype,
                        const struct activations_rows *rows, struct activations_state *state);

struct activations_error activations_compare(const struct activations_layer *layer,
                                             const struct activations_state *got,
                                             const struct activations_state *wanted);

/* Fill `format`, `k_rms` and `v_rms` of a result from the decoded cache. */
FTJ_NODISCARD ftj_status activations_format_cost(const struct activations_layer *layer,
                                                 const struct activations_rows *decoded,
                                                 struct activations_result *result);

/* FTJ_E_NOT_FOUND, without a sentence: there is no expected.tsv, or it says nothing of this.
 * FTJ_E_DAMAGED, with one: a line of it is malformed. */
FTJ_NODISCARD ftj_status activations_expected_get(const char *dir, uint32_t layer,
                                                  const struct activations_pair *pair,
                                                  struct activations_expected *expected,
                                                  char sentence[ACTIVATIONS_SENTENCE]);
FTJ_NODISCARD ftj_status activations_sums_get(const char *dir, uint32_t layer,
                                              struct activations_sums *sums,
                                              char sentence[ACTIVATIONS_SENTENCE]);

/* Hold a result against what is expected, within 1 %: "" when it agrees, else which figure does
 * not. */
void activations_hold(const struct activations_result *result,
                      const struct activations_expected *expected,
                      char sentence[ACTIVATIONS_SENTENCE]);

#endif
