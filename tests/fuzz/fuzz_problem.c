/* SPDX-License-Identifier: MIT */
/* The reader of recorded misses: a line that is taken is written back as itself, and has a source.
 */
#include <stdlib.h>
#include <string.h>

#include "codegen/problem_text.h"
#include "codegen/source.h"
#include "tests/fuzz/fuzz_target.h"

static void use(const struct ftj_problem *problem, const struct ftj_device *device)
{
    struct ftj_text line = {0};
    struct ftj_text again = {0};
    struct ftj_problem read;
    struct ftj_device read_device;
    ftj_problem_write(&line, problem, device);
    if (ftj_problem_parse(line.data, line.size - 1, &read, &read_device))
        abort();
    ftj_problem_write(&again, &read, &read_device);
    if (strcmp(line.data, again.data) != 0)
        abort();
    ftj_text_finish(&line);
    ftj_text_finish(&again);

    struct ftj_config config;
    struct ftj_source source = {0};
    const struct ftj_variant *variant = ftj_variant_select(problem, device, &config);
    if (variant && ftj_source_init(&source, variant, problem, &config, device))
        abort();
    ftj_source_finish(&source);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *at = (const char *)data;
    const char *end = at + size;
    while (at < end) {
        struct ftj_problem problem;
        struct ftj_device device;
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const size_t length = (size_t)((newline ? newline : end) - at);
        if (!ftj_problem_parse(at, length, &problem, &device))
            use(&problem, &device);
        at += length + 1;
    }
    return 0;
}

size_t fuzz_seed(int index, uint8_t *data, size_t max)
{
    static const char *const targets[] = {"sm_75", "sm_90a", "cpu"};
    if (index >= 15)
        return 0;
    ftj_attention_desc desc = {.num_q_heads = 8, .softcap = index % 2 ? 1.0f : 0.0f};
    const ftj_kv_shape shape = {.k_format = (ftj_kv_format)(index % 3),
                                .v_format = (ftj_kv_format)(index / 3 % 3),
                                .order = (ftj_kv_order)(index % 3),
                                .num_kv_heads = 4,
                                .head_dim = 64,
                                .page_size = 16};
    struct ftj_device device;
    struct ftj_problem problem;
    struct ftj_text line = {0};
    if (ftj_kv_layout_init(&desc.kv, &shape) ||
        ftj_device_of_target(targets[index % 3], NULL, &device))
        abort();
    if (index % 4 == 3)
        desc.kv.v.codes.slot_stride_bytes += 64;
    ftj_problem_init(&problem, (enum ftj_kernel_op)(index % FTJ_NUM_KERNEL_OPS), &desc);
    ftj_problem_write(&line, &problem, &device);
    const size_t size = line.size < max ? line.size : 0;
    memcpy(data, line.data, size);
    ftj_text_finish(&line);
    return size;
}
