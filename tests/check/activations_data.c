/* SPDX-License-Identifier: MIT */
/* The files of a layer, and exact attention over its rows. */
#include "tests/check/activations_data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/ref/ref_attention.h"
#include "tests/ref/ref_codec.h"

/* The bars are about twice what the naive reference loses on these activations, by rounding p and o
 * to 16 bits. */
const struct activations_pair activations_pairs[ACTIVATIONS_NUM_PAIRS] = {
    {"bf16", FTJ_KV_16BIT, FTJ_KV_16BIT, FTJ_DTYPE_BF16, 4e-3},
    {"fp8", FTJ_KV_FP8, FTJ_KV_FP8, FTJ_DTYPE_FP16, 1e-3},
    {"nvfp4", FTJ_KV_NVFP4, FTJ_KV_NVFP4, FTJ_DTYPE_FP16, 1e-3},
    {"fp8+nvfp4", FTJ_KV_FP8, FTJ_KV_NVFP4, FTJ_DTYPE_FP16, 1e-3},
};

enum { max_tokens = 1 << 20, max_heads = 1024 };

/* Read one file of a layer and check its rank. */
static ftj_status read_array(const char *dir, uint32_t index, char name, struct ref_npy *array,
                             char sentence[ACTIVATIONS_SENTENCE])
{
    char path[4096];
    const int used = snprintf(path, sizeof(path), "%s/layer%02u_%c.npy", dir, index, name);
    if (used < 0 || (size_t)used >= sizeof(path)) {
        snprintf(sentence, ACTIVATIONS_SENTENCE, "the directory's name is longer than %zu bytes",
                 sizeof(path));
        return FTJ_E_INVALID;
    }
    if (name == 'k' && access(path, F_OK) != 0)
        return FTJ_E_NOT_FOUND;
    const ftj_status status = ref_npy_read(path, array, sentence);
    if (status)
        return status;
    const uint64_t *shape = array->shape;
    if (array->num_dims != 3 || shape[0] < 1 || shape[0] > max_tokens || shape[1] < 1 ||
        shape[1] > max_heads || shape[2] < 32 || shape[2] > REF_MAX_HEAD_DIM || shape[2] % 16) {
        snprintf(sentence, ACTIVATIONS_SENTENCE,
                 "layer%02u_%c.npy: its shape should be [tokens, heads, D], with D a multiple of "
                 "16 from 32 to %d",
                 index, name, REF_MAX_HEAD_DIM);
        return FTJ_E_INVALID;
    }
    return FTJ_OK;
}

/* The three shapes must fit each other. */
static ftj_status check_shapes(uint32_t index, const uint64_t *q, const uint64_t *k,
                               const uint64_t *v, char sentence[ACTIVATIONS_SENTENCE])
{
    const char *fault = NULL;
    if (memcmp(k, v, 3 * sizeof(*k)) != 0)
        fault = "K and V have different shapes";
    else if (q[2] != k[2])
        fault = "Q and K have different head sizes";
    else if (q[1] % k[1] != 0)
        fault = "the heads of Q are no multiple of those of K";
    else if (q[0] > k[0])
        fault = "there are more queries than tokens";
    if (!fault)
        return FTJ_OK;
    snprintf(sentence, ACTIVATIONS_SENTENCE, "in layer %u %s", index, fault);
    return FTJ_E_INVALID;
}

ftj_status activations_state_init(struct activations_state *state,
                                  const struct activations_layer *layer)
{
    const size_t rows = (size_t)layer->num_queries * layer->num_q_heads;
    state->o = calloc(rows * layer->head_dim, sizeof(*state->o));
    state->lse = calloc(rows, sizeof(*state->lse));
    return state->o && state->lse ? FTJ_OK : FTJ_E_NO_MEMORY;
}

void activations_state_finish(struct activations_state *state)
{
    free(state->o);
    free(state->lse);
    *state = (struct activations_state){.o = NULL};
}

static size_t num_row_values(const struct activations_layer *layer)
{
    return (size_t)layer->num_tokens * layer->num_kv_heads * layer->head_dim;
}

ftj_status activations_rows_init(struct activations_rows *rows,
                                 const struct activations_layer *layer)
{
    rows->k = calloc(num_row_values(layer), sizeof(*rows->k));
    rows->v = calloc(num_row_values(layer), sizeof(*rows->v));
    return rows->k && rows->v ? FTJ_OK : FTJ_E_NO_MEMORY;
}

void activations_rows_finish(struct activations_rows *rows)
{
    free(rows->k);
    free(rows->v);
    *rows = (struct activations_rows){.k = NULL};
}

/* Exact attention over the data as it is. */
static ftj_status attend_to_data(struct activations_layer *layer)
{
    struct activations_rows rows = {.k = NULL};
    ftj_status status = activations_rows_init(&rows, layer);
    if (!status)
        status = activations_state_init(&layer->exact, layer);
    if (!status) {
        for (size_t i = 0; i < num_row_values(layer); i++) {
            rows.k[i] = layer->k[i];
            rows.v[i] = layer->v[i];
        }
        activations_attend(layer, FTJ_DTYPE_FP32, &rows, &layer->exact);
    }
    activations_rows_finish(&rows);
    return status;
}

ftj_status activations_layer_init(struct activations_layer *layer, const char *dir, uint32_t index,
                                  char sentence[ACTIVATIONS_SENTENCE])
{
    struct ref_npy q = {.values = NULL}, k = {.values = NULL}, v = {.values = NULL};
    ftj_status status = read_array(dir, index, 'k', &k, sentence);
    if (!status)
        status = read_array(dir, index, 'v', &v, sentence);
    if (!status)
        status = read_array(dir, index, 'q', &q, sentence);
    if (!status)
        status = check_shapes(index, q.shape, k.shape, v.shape, sentence);
    if (status)
        goto cleanup;

    *layer = (struct activations_layer){
        .index = index,
        .num_tokens = (uint32_t)k.shape[0],
        .num_kv_heads = (uint32_t)k.shape[1],
        .num_queries = (uint32_t)q.shape[0],
        .num_q_heads = (uint32_t)q.shape[1],
        .head_dim = (uint32_t)k.shape[2],
        .is_half = k.value_bytes == 2 && v.value_bytes == 2,
        .q = q.values,
        .k = k.values,
        .v = v.values,
    };
    q.values = k.values = v.values = NULL;
    status = attend_to_data(layer);
    if (status) {
        activations_layer_finish(layer);
        snprintf(sentence, ACTIVATIONS_SENTENCE, "no memory for layer %u", index);
    }

cleanup:
    ref_npy_finish(&q);
    ref_npy_finish(&k);
    ref_npy_finish(&v);
    return status;
}

void activations_layer_finish(struct activations_layer *layer)
{
    free(layer->q);
    free(layer->k);
    free(layer->v);
    activations_state_finish(&layer->exact);
    *layer = (struct activations_layer){.index = 0};
}

void activations_attend(const struct activations_layer *layer, ftj_dtype q_dtype,
                        const struct activations_rows *rows, struct activations_state *state)
{
    const uint32_t head_dim = layer->head_dim;
    const uint32_t group = layer->num_q_heads / layer->num_kv_heads;
    for (uint32_t i = 0; i < layer->num_queries * layer->num_q_heads; i++) {
        double q[REF_MAX_HEAD_DIM];
        for (uint32_t d = 0; d < head_dim; d++) {
            const float value = layer->q[(size_t)i * head_dim + d];
            q[d] = q_dtype == FTJ_DTYPE_FP32
                       ? value
                       : ref_16bit_widen(q_dtype, ref_16bit_narrow(q_dtype, value));
        }
        const uint32_t kv_head = i % layer->num_q_heads / group;
        const struct ref_attention attn = {
            .q = q,
            .k = rows->k + kv_head * head_dim,
            .v = rows->v + kv_head * head_dim,
            .k_stride = (int64_t)layer->num_kv_heads * head_dim,
            .v_stride = (int64_t)layer->num_kv_heads * head_dim,
            .head_dim = head_dim,
            .num_keys = layer->num_tokens,
            .position = layer->num_tokens - layer->num_queries + i / layer->num_q_heads,
            .sm_scale = 1.0 / sqrt(head_dim),
        };
        ref_attention_exact(&attn, state->o + (size_t)i * head_dim, state->lse + i);
    }
}

/* max() that a NaN cannot slip through. */
static double worst(double a, double b)
{
    return isnan(a) || a > b ? a : b;
}

struct activations_error activations_compare(const struct activations_layer *layer,
                                             const struct activations_state *got,
                                             const struct activations_state *wanted)
{
    struct activations_error error = {.o_rms = 0.0};
    double error_squares = 0.0, wanted_squares = 0.0;
    const size_t rows = (size_t)layer->num_queries * layer->num_q_heads;
    for (size_t i = 0; i < rows * layer->head_dim; i++) {
        const double difference = got->o[i] - wanted->o[i];
        error_squares += difference * difference;
        wanted_squares += wanted->o[i] * wanted->o[i];
        error.o_max = worst(fabs(difference), error.o_max);
    }
    for (size_t i = 0; i < rows; i++)
        error.lse_max = worst(fabs(got->lse[i] - wanted->lse[i]), error.lse_max);
    error.o_rms = sqrt(error_squares / wanted_squares);
    return error;
}

static double relative_rms(const double *got, const float *wanted, size_t num_values)
{
    double error_squares = 0.0, wanted_squares = 0.0;
    for (size_t i = 0; i < num_values; i++) {
        error_squares += (got[i] - wanted[i]) * (got[i] - wanted[i]);
        wanted_squares += (double)wanted[i] * wanted[i];
    }
    return sqrt(error_squares / wanted_squares);
}

ftj_status activations_format_cost(const struct activations_layer *layer,
                                   const struct activations_rows *decoded,
                                   struct activations_result *result)
{
    struct activations_state state = {.o = NULL};
    const ftj_status status = activations_state_init(&state, layer);
    if (!status) {
        activations_attend(layer, FTJ_DTYPE_FP32, decoded, &state);
        result->format = activations_compare(layer, &state, &layer->exact);
        result->k_rms = relative_rms(decoded->k, layer->k, num_row_values(layer));
        result->v_rms = relative_rms(decoded->v, layer->v, num_row_values(layer));
    }
    activations_state_finish(&state);
    return status;
}
