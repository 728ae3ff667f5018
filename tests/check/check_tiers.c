/* SPDX-License-Identifier: MIT */
#include "tests/check/check_tiers.h"

#include <stdio.h>
#include <string.h>

#include "codegen/variant.h"

/* X(name, bit, text, meaning) as data. */
static const struct {
    uint32_t bit;
    const char *name;
} features_by_name[] = {
#define FEATURE_ROW(name, bit, text, meaning) {1u << (bit), text},
    FTJ_FEATURE_MAP(FEATURE_ROW)
#undef FEATURE_ROW
};
static const size_t num_features = sizeof(features_by_name) / sizeof(*features_by_name);

uint32_t check_features_parse(const char *names)
{
    uint32_t features = 0;
    while (*names) {
        const size_t length = strcspn(names, ",");
        for (size_t i = 0; i < num_features; i++) {
            const char *name = features_by_name[i].name;
            if (strlen(name) == length && strncmp(name, names, length) == 0)
                features |= features_by_name[i].bit;
        }
        names += length + (names[length] == ',');
    }
    return features;
}

static void append_narrow(char narrow[96], uint32_t features)
{
    for (size_t i = 0; i < num_features; i++) {
        if (!(features & features_by_name[i].bit))
            continue;
        const size_t used = strlen(narrow);
        snprintf(narrow + used, 96 - used, "%s-%s", used ? "," : "", features_by_name[i].name);
    }
}

/*
 * What to take away so that `variant` is the first row that fits: from each better row of the same
 * kernel one feature that this one can do without. False when a better row needs nothing more, so
 * that this one can never be chosen for what both cover.
 */
static bool narrow_to(const struct ftj_variant *variant, uint32_t features, uint32_t *removed)
{
    *removed = 0;
    for (const struct ftj_variant *better = ftj_variants; better != variant; better++) {
        if (better->op != variant->op || (better->uses & ~features) != 0)
            continue;
        if ((better->uses & *removed) != 0)
            continue;
        const uint32_t spare = better->uses & ~variant->uses;
        if (!spare)
            return (variant->covers & ~better->covers) != 0;
        *removed |= spare;
    }
    return true;
}

size_t check_tiers_list(enum ftj_kernel_op op, uint32_t probed, uint32_t features,
                        struct check_tier tiers[CHECK_MAX_TIERS])
{
    const uint32_t gone = probed & ~features; /* a setting replaces the environment's narrowing */
    size_t num_tiers = 0;
    for (size_t i = 0; i < ftj_num_variants && num_tiers + 2 <= CHECK_MAX_TIERS; i++) {
        const struct ftj_variant *variant = &ftj_variants[i];
        uint32_t removed = 0;
        if (variant->op != op || (variant->uses & ~features) != 0)
            continue;
        if (!narrow_to(variant, features, &removed))
            continue;
        struct check_tier *tier = &tiers[num_tiers++];
        *tier = (struct check_tier){.variant = variant->name};
        snprintf(tier->name, sizeof(tier->name), "%s", variant->name);
        append_narrow(tier->narrow, gone | removed);

        const uint32_t convert = FTJ_HAS_FP8_CONVERT & features & ~removed & ~variant->uses;
        if (!convert)
            continue;
        struct check_tier *software = &tiers[num_tiers++];
        *software = (struct check_tier){.variant = variant->name, .is_secondary = true};
        snprintf(software->name, sizeof(software->name), "%s-fp8_convert", variant->name);
        append_narrow(software->narrow, gone | removed | convert);
    }
    return num_tiers;
}

ftj_status check_contexts_get(struct check_contexts *contexts, const struct check_options *options,
                              const char *narrow, ftj_context **out)
{
    for (size_t i = 0; i < contexts->num_open; i++) {
        if (strcmp(contexts->open[i].narrow, narrow) == 0) {
            *out = contexts->open[i].ctx;
            return FTJ_OK;
        }
    }
    if (contexts->num_open == CHECK_MAX_TIERS)
        return FTJ_E_NO_MEMORY;
    ftj_context *ctx = NULL;
    const ftj_status status = ftj_context_create(
        &(ftj_settings){
            .kind = options->kind,
            .device = options->device,
            .features = *narrow ? narrow : NULL,
            .cache_dir = options->cache_dir,
            .log = options->log,
            .log_data = options->log_data,
            .log_level = FTJ_LOG_WARNING,
        },
        &ctx);
    if (status)
        return status;
    snprintf(contexts->open[contexts->num_open].narrow, sizeof(contexts->open[0].narrow), "%s",
             narrow);
    contexts->open[contexts->num_open++].ctx = ctx;
    *out = ctx;
    return FTJ_OK;
}

void check_contexts_finish(struct check_contexts *contexts)
{
    for (size_t i = 0; i < contexts->num_open; i++)
        ftj_context_destroy(contexts->open[i].ctx);
    *contexts = (struct check_contexts){0};
}
