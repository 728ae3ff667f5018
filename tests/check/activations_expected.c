/* SPDX-License-Identifier: MIT */
/* expected.tsv: "exact" lines with the sums of a layer's exact attention, "pair" lines with what a
 * pair of formats costs it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/check/activations_data.h"

static const double tolerance = 0.01; /* of an expected figure, which has three digits */

/* One line of expected.tsv: what it is about, and up to five figures. */
struct expected_line {
    char kind[8];
    uint32_t layer;
    char k_format[8];
    char v_format[8];
    double figures[5];
};

static bool parse_line(const char *text, struct expected_line *line)
{
    double *f = line->figures;
    if (sscanf(text, "exact %u %lf %lf", &line->layer, &f[0], &f[1]) == 3) {
        strcpy(line->kind, "exact");
        return true;
    }
    strcpy(line->kind, "pair");
    return sscanf(text, "pair %u %7s %7s %lf %lf %lf %lf %lf", &line->layer, line->k_format,
                  line->v_format, &f[0], &f[1], &f[2], &f[3], &f[4]) == 8;
}

/* The figures of one layer; `pair` NULL: of its exact attention. */
static ftj_status find_line(const char *dir, uint32_t layer, const struct activations_pair *pair,
                            double figures[5], char sentence[ACTIVATIONS_SENTENCE])
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/expected.tsv", dir);
    FILE *file = fopen(path, "r");
    if (!file)
        return FTJ_E_NOT_FOUND;
    ftj_status status = FTJ_E_NOT_FOUND;
    char text[256];
    for (unsigned number = 1; status == FTJ_E_NOT_FOUND && fgets(text, sizeof(text), file);
         number++) {
        struct expected_line line = {.kind = ""};
        if (text[0] == '#' || text[0] == '\n')
            continue;
        if (!parse_line(text, &line)) {
            snprintf(sentence, ACTIVATIONS_SENTENCE,
                     "expected.tsv: line %u is neither an exact nor a pair line", number);
            status = FTJ_E_DAMAGED;
            break;
        }
        if (line.layer != layer || (pair == NULL) != (strcmp(line.kind, "exact") == 0))
            continue;
        if (pair && (strcmp(line.k_format, ftj_kv_format_name(pair->k_format)) != 0 ||
                     strcmp(line.v_format, ftj_kv_format_name(pair->v_format)) != 0))
            continue;
        memcpy(figures, line.figures, sizeof(line.figures));
        status = FTJ_OK;
    }
    fclose(file);
    return status;
}

ftj_status activations_expected_get(const char *dir, uint32_t layer,
                                    const struct activations_pair *pair,
                                    struct activations_expected *expected,
                                    char sentence[ACTIVATIONS_SENTENCE])
{
    double f[5];
    const ftj_status status = find_line(dir, layer, pair, f, sentence);
    if (!status)
        *expected = (struct activations_expected){
            .format = {.o_rms = f[0], .o_max = f[1], .lse_max = f[2]},
            .k_rms = f[3],
            .v_rms = f[4],
        };
    return status;
}

ftj_status activations_sums_get(const char *dir, uint32_t layer, struct activations_sums *sums,
                                char sentence[ACTIVATIONS_SENTENCE])
{
    double f[5];
    const ftj_status status = find_line(dir, layer, NULL, f, sentence);
    if (!status)
        *sums = (struct activations_sums){.lse = f[0], .o = f[1]};
    return status;
}

void activations_hold(const struct activations_result *result,
                      const struct activations_expected *expected,
                      char sentence[ACTIVATIONS_SENTENCE])
{
    const struct {
        const char *name;
        double got;
        double wanted;
    } figures[] = {
        {"relative RMS error of O", result->format.o_rms, expected->format.o_rms},
        {"largest error of O", result->format.o_max, expected->format.o_max},
        {"largest error of LSE", result->format.lse_max, expected->format.lse_max},
        {"relative RMS error of K", result->k_rms, expected->k_rms},
        {"relative RMS error of V", result->v_rms, expected->v_rms},
    };
    sentence[0] = '\0';
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
        const double got = figures[i].got, wanted = figures[i].wanted;
        if (fabs(got - wanted) <= tolerance * wanted)
            continue;
        snprintf(sentence, ACTIVATIONS_SENTENCE,
                 "the formats' %s is %.3g; expected.tsv has %.3g, and 1 %% is allowed",
                 figures[i].name, got, wanted);
        return;
    }
}
