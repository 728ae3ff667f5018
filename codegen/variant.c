/* SPDX-License-Identifier: MIT */
/* The rule that reads the variant table. */
#include "codegen/variant.h"

#include <stdio.h>
#include <string.h>

static bool fits(const struct ftj_variant *variant, const struct ftj_problem *problem,
                 const struct ftj_device *device, struct ftj_config *config)
{
    const uint32_t uncovered = problem->needs & ~variant->covers;
    const uint32_t missing = variant->uses & ~device->features;
    if (variant->op != problem->op || uncovered || missing)
        return false;
    memset(config, 0, sizeof(*config));
    if (!variant->tune(problem, device, config))
        return false;
    config->variant = variant->name;
    return true;
}

const struct ftj_variant *ftj_variant_select(const struct ftj_problem *problem,
                                             const struct ftj_device *device,
                                             struct ftj_config *config)
{
    for (size_t i = 0; i < ftj_num_variants; i++) {
        if (fits(&ftj_variants[i], problem, device, config))
            return &ftj_variants[i];
    }
    return NULL;
}

void ftj_variant_explain(const struct ftj_variant *variant, const struct ftj_problem *problem,
                         const struct ftj_device *device, char *text, size_t size)
{
    struct ftj_config config = {0};
    const uint32_t uncovered = problem->needs & ~variant->covers;
    const uint32_t missing = variant->uses & ~device->features;
    char names[256];
    if (variant->op != problem->op) {
        snprintf(text, size, "is for another operation");
    } else if (missing) {
        ftj_features_text(missing, names, sizeof(names));
        snprintf(text, size, "needs %s, which %s lacks", names, device->target);
    } else if (uncovered) {
        snprintf(text, size, "does not cover needs 0x%x of the problem", uncovered);
    } else if (!variant->tune(problem, device, &config)) {
        snprintf(text, size, "not for this layout, or no tile fits %u bytes of shared memory",
                 device->smem_bytes);
    } else {
        snprintf(text, size, "fits");
    }
}
