/* SPDX-License-Identifier: MIT */
/*
 * The reference codecs and the exact attention on the activations of a real model: the figures that
 * tests/data/smollm2/README.md states were computed by somebody else's code.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/check/activations_data.h"
#include "tests/ref/ref_codec.h"

static const uint32_t layers[] = {0, 10, 18, 29};

/* FTJIT_TEST_DATA is the tests/data folder; the build system sets it. */
static const char *data_dir(void)
{
    static char dir[4096];
    const char *root = getenv("FTJIT_TEST_DATA");
    cr_assert(root != NULL, "FTJIT_TEST_DATA is not set: run this test through meson");
    snprintf(dir, sizeof(dir), "%s/smollm2", root);
    return dir;
}

/* Every row of one side through its format and back. */
static void round_trip(const struct activations_layer *layer, ftj_kv_format format,
                       const float *values, double *decoded)
{
    const size_t num_rows = (size_t)layer->num_tokens * layer->num_kv_heads;
    for (size_t row = 0; row < num_rows; row++) {
        struct ref_row bytes;
        const size_t at = row * layer->head_dim;
        ref_row_encode(format, FTJ_DTYPE_BF16, values + at, layer->head_dim, &bytes);
        ref_row_decode(format, FTJ_DTYPE_BF16, &bytes, layer->head_dim, decoded + at);
    }
}

static void expect_cost(const struct activations_layer *layer, const struct activations_pair *pair)
{
    char sentence[ACTIVATIONS_SENTENCE] = "";
    struct activations_result result = {.layer = layer->index, .pair = pair};
    struct activations_rows rows = {.k = NULL};
    cr_assert(activations_rows_init(&rows, layer) == FTJ_OK);
    round_trip(layer, pair->k_format, layer->k, rows.k);
    round_trip(layer, pair->v_format, layer->v, rows.v);
    cr_assert(activations_format_cost(layer, &rows, &result) == FTJ_OK);
    struct activations_expected expected;
    cr_assert(activations_expected_get(data_dir(), layer->index, pair, &expected, sentence) ==
                  FTJ_OK,
              "layer %u, %s: %s", layer->index, pair->name, sentence);
    activations_hold(&result, &expected, sentence);
    cr_expect(sentence[0] == '\0', "layer %u, %s: %s", layer->index, pair->name, sentence);
    activations_rows_finish(&rows);
}

static void expect_layer(uint32_t index)
{
    char sentence[ACTIVATIONS_SENTENCE] = "";
    struct activations_layer layer = {.index = 0};
    cr_assert(activations_layer_init(&layer, data_dir(), index, sentence) == FTJ_OK, "%s",
              sentence);
    struct activations_sums expected, sums = {.lse = 0};
    cr_assert(activations_sums_get(data_dir(), index, &expected, sentence) == FTJ_OK, "%s",
              sentence);
    const size_t rows = (size_t)layer.num_queries * layer.num_q_heads;
    for (size_t i = 0; i < rows; i++)
        sums.lse += layer.exact.lse[i];
    for (size_t i = 0; i < rows * layer.head_dim; i++)
        sums.o += fabs(layer.exact.o[i]);
    cr_expect(fabs(sums.lse - expected.lse) < 6e-4, "layer %u: sum of LSE %.4f", index, sums.lse);
    cr_expect(fabs(sums.o - expected.o) < 1e-6 * expected.o, "layer %u: sum of |O| %.5f", index,
              sums.o);
    for (size_t i = 0; i < ACTIVATIONS_NUM_PAIRS; i++)
        expect_cost(&layer, &activations_pairs[i]);
    activations_layer_finish(&layer);
}

Test(activations, real_layers_cost_what_an_independent_reference_found)
{
    for (size_t i = 0; i < sizeof(layers) / sizeof(layers[0]); i++)
        expect_layer(layers[i]);
}

Test(activations, a_layer_that_is_not_there_is_not_found)
{
    char sentence[ACTIVATIONS_SENTENCE] = "";
    struct activations_layer layer = {.index = 0};
    cr_expect(activations_layer_init(&layer, data_dir(), 1, sentence) == FTJ_E_NOT_FOUND);
    struct activations_expected expected;
    cr_expect(activations_expected_get(data_dir(), 1, &activations_pairs[0], &expected, sentence) ==
              FTJ_E_NOT_FOUND);
    cr_expect(sentence[0] == '\0');
}

Test(activations, a_figure_off_by_more_than_a_hundredth_is_named)
{
    char sentence[ACTIVATIONS_SENTENCE] = "";
    const struct activations_expected expected = {
        .format = {.o_rms = 1e-2, .o_max = 0.5, .lse_max = 0.25}, .k_rms = 0.02, .v_rms = 0.03};
    struct activations_result result = {
        .format = expected.format, .k_rms = expected.k_rms, .v_rms = 0.03 * 1.009};
    activations_hold(&result, &expected, sentence);
    cr_expect(sentence[0] == '\0', "%s", sentence);
    result.v_rms = 0.03 * 1.011;
    activations_hold(&result, &expected, sentence);
    cr_expect(strstr(sentence, "error of V is 0.0303; expected.tsv has 0.03") != NULL, "%s",
              sentence);
    result.format.o_max = NAN;
    activations_hold(&result, &expected, sentence);
    cr_expect(strstr(sentence, "largest error of O is nan") != NULL, "%s", sentence);
}

/* A directory with three copies of a small file each, and an expected.tsv. */
static void write_file(const char *dir, const char *name, const void *bytes, size_t size)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *file = fopen(path, "wb");
    cr_assert(file != NULL);
    cr_assert(fwrite(bytes, 1, size, file) == size);
    cr_assert(fclose(file) == 0);
}

static void write_array(const char *dir, const char *name, const char *shape, size_t num_values)
{
    uint8_t bytes[16384] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, 118, 0};
    memset(bytes + 10, ' ', 118);
    const int used = snprintf((char *)bytes + 10, 118,
                              "{'descr': '<f2', 'fortran_order': False, 'shape': %s}", shape);
    bytes[10 + used] = ' ';
    cr_assert(128 + 2 * num_values <= sizeof(bytes));
    write_file(dir, name, bytes, 128 + 2 * num_values);
}

Test(activations, files_that_do_not_fit_each_other_are_refused)
{
    static const struct {
        const char *q, *k, *v;
        size_t num_q, num_k, num_v;
        const char *part;
    } rows[] = {
        {"(2, 4, 32)", "(9, 2, 32)", "(8, 2, 32)", 256, 576, 512, "K and V"},
        {"(2, 4, 48)", "(8, 2, 32)", "(8, 2, 32)", 384, 512, 512, "head sizes"},
        {"(2, 5, 32)", "(8, 2, 32)", "(8, 2, 32)", 320, 512, 512, "multiple"},
        {"(9, 2, 32)", "(8, 2, 32)", "(8, 2, 32)", 576, 512, 512, "more queries than tokens"},
        {"(2, 2, 40)", "(8, 2, 40)", "(8, 2, 40)", 160, 640, 640, "multiple of 16"},
        {"(2, 64)", "(8, 64)", "(8, 64)", 128, 512, 512, "[tokens, heads, D]"},
    };
    char dir[] = "/tmp/ftjit_test_activations_XXXXXX";
    cr_assert(mkdtemp(dir) != NULL);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        write_array(dir, "layer07_q.npy", rows[i].q, rows[i].num_q);
        write_array(dir, "layer07_k.npy", rows[i].k, rows[i].num_k);
        write_array(dir, "layer07_v.npy", rows[i].v, rows[i].num_v);
        char sentence[ACTIVATIONS_SENTENCE] = "";
        struct activations_layer layer = {.index = 0};
        cr_expect(activations_layer_init(&layer, dir, 7, sentence) == FTJ_E_INVALID);
        cr_expect(strstr(sentence, rows[i].part) != NULL, "\"%s\" lacks \"%s\"", sentence,
                  rows[i].part);
        cr_expect(layer.k == NULL);
    }
    static const char broken[] = "# fine\n\nexact 7 1.0 2.0\npair 7 16bit 16bit 1.0\n";
    write_file(dir, "expected.tsv", broken, sizeof(broken) - 1);
    char sentence[ACTIVATIONS_SENTENCE] = "";
    struct activations_sums sums;
    cr_expect(activations_sums_get(dir, 7, &sums, sentence) == FTJ_OK && sums.o == 2.0);
    cr_expect(activations_sums_get(dir, 8, &sums, sentence) == FTJ_E_DAMAGED);
    cr_expect(strstr(sentence, "line 4") != NULL, "%s", sentence);

    static const char *const names[] = {"layer07_q.npy", "layer07_k.npy", "layer07_v.npy",
                                        "expected.tsv"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[4096];
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        unlink(path);
    }
    rmdir(dir);
}
