/* SPDX-License-Identifier: MIT */
#include "tests/golden/source/tuned_numbers.h"

#include <stdio.h>
#include <string.h>

#include "codegen/variant.h"
#include "tests/compile/matrix_rows.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* One of each size of shared memory, and of each tier. */
static const char *const targets[] = {"sm_75", "sm_80", "sm_86", "sm_90a", "sm_120a"};

struct numbers {
    char text[160];
};

static void tune(const struct ftj_problem *problem, const char *target, struct numbers *numbers)
{
    struct ftj_device device;
    struct ftj_config config;
    const struct ftj_variant *variant = NULL;
    if (!ftj_device_of_target(target, NULL, &device))
        variant = ftj_variant_select(problem, &device, &config);
    if (!variant) {
        snprintf(numbers->text, sizeof(numbers->text), "none");
        return;
    }
    snprintf(numbers->text, sizeof(numbers->text), "%-16s %4u %6u %5u %5u %5u %4u %6u %6u",
             variant->name, config.num_threads, config.min_blocks, config.num_warps,
             config.warps_per_tile, config.rows_per_block, config.tile_tokens, config.num_stages,
             config.smem_bytes);
}

static void write_problem(struct ftj_text *text, const char *name,
                          const struct ftj_problem *problem)
{
    struct numbers numbers[COUNT(targets)];
    for (size_t i = 0; i < COUNT(targets); i++)
        tune(problem, targets[i], &numbers[i]);
    for (size_t i = 0; i < COUNT(targets); i++) {
        if (i > 0 && !strcmp(numbers[i].text, numbers[i - 1].text))
            continue;
        size_t last = i;
        while (last + 1 < COUNT(targets) && !strcmp(numbers[last + 1].text, numbers[i].text))
            last++;
        char devices[40];
        snprintf(devices, sizeof(devices), "%s%s%s", targets[i], last > i ? "-" : "",
                 last > i ? targets[last] : "");
        ftj_text_printf(text, "%-52s %-13s %s\n", name, devices, numbers[i].text);
    }
}

void tuned_numbers_write(struct ftj_text *text)
{
    ftj_text_printf(text, "%-52s %-13s %-16s %4s %6s %5s %5s %5s %4s %6s %6s\n", "problem",
                    "devices", "variant", "thr", "blocks", "warps", "share", "rows", "tile",
                    "stages", "smem");
    for (int op = 0; op < FTJ_NUM_KERNEL_OPS; op++) {
        for (size_t i = 0; i < matrix_num_rows(false); i++) {
            const struct matrix_row row = matrix_row_at(false, i);
            ftj_attention_desc desc;
            struct ftj_problem problem;
            char name[128];
            matrix_row_text(&row, name, sizeof(name));
            if (matrix_row_desc(&row, &desc)) {
                ftj_text_printf(text, "%s: %s\n", name, ftj_last_error());
                continue;
            }
            if (!ftj_desc_needs(&desc, (enum ftj_kernel_op)op))
                continue;
            ftj_problem_init(&problem, (enum ftj_kernel_op)op, &desc);
            write_problem(text, name, &problem);
        }
    }
}
