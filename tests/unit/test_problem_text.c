/* SPDX-License-Identifier: MIT */
/* Problems as lines: what is written is read back as the same kernel, and nothing else is read. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/preset.h"
#include "codegen/problem_text.h"
#include "codegen/source.h"

static void device_of(const char *target, struct ftj_device *device)
{
    cr_assert_eq(ftj_device_of_target(target, NULL, device), FTJ_OK);
}

/* The source is all of a kernel but its options, which follow from the variant and the target. */
static char *source_of(const struct ftj_problem *problem, const struct ftj_device *device)
{
    struct ftj_config config;
    struct ftj_source source = {0};
    const struct ftj_variant *variant = ftj_variant_select(problem, device, &config);
    if (!variant)
        return strdup("unsupported");
    cr_assert_eq(ftj_source_init(&source, variant, problem, &config, device), FTJ_OK);
    char *text = strdup(source.text.data);
    ftj_source_finish(&source);
    return text;
}

static void expect_round_trip(const struct ftj_problem *problem, const struct ftj_device *device)
{
    struct ftj_text line = {0}, again = {0};
    struct ftj_problem read;
    struct ftj_device read_device;
    ftj_problem_write(&line, problem, device);
    cr_assert_eq(line.data[line.size - 1], '\n');
    cr_assert_eq(ftj_problem_parse(line.data, line.size - 1, &read, &read_device), FTJ_OK, "%s: %s",
                 ftj_last_error(), line.data);
    ftj_problem_write(&again, &read, &read_device);
    cr_expect_str_eq(again.data, line.data);
    char *one = source_of(problem, device);
    char *two = source_of(&read, &read_device);
    cr_expect_str_eq(two, one, "%s", line.data);
    free(one);
    free(two);
    ftj_text_finish(&line);
    ftj_text_finish(&again);
}

Test(problem_text, round_trips_every_kernel_of_every_model)
{
    static const char *const targets[] = {"sm_75", "sm_90a", "sm_120a", "cpu"};
    struct ftj_device device;
    for (size_t i = 0; i < ftj_num_preset_layers * ftj_num_preset_formats; i++) {
        ftj_attention_desc desc;
        const struct ftj_preset_layer *layer = &ftj_preset_layers[i / ftj_num_preset_formats];
        if (layer->skip)
            continue;
        cr_assert_eq(ftj_preset_desc(layer, &ftj_preset_formats[i % ftj_num_preset_formats],
                                     &(struct ftj_preset_choice){.order = FTJ_KV_NHD}, &desc),
                     FTJ_OK);
        device_of(targets[i % 4], &device);
        for (int op = 0; op < FTJ_NUM_KERNEL_OPS; op++) {
            struct ftj_problem problem;
            ftj_problem_init(&problem, (enum ftj_kernel_op)op, &desc);
            expect_round_trip(&problem, &device);
        }
    }
}

static void fancy_desc(ftj_attention_desc *desc)
{
    *desc = (ftj_attention_desc){
        .num_q_heads = 12,
        .table = FTJ_TABLE_SLOTS,
        .dtype = FTJ_DTYPE_FP16,
        .store_dtype = FTJ_DTYPE_FP32,
        .generic_dtype = FTJ_DTYPE_FP32,
        .softcap = 30.0f,
    };
    cr_assert_eq(ftj_kv_layout_init(&desc->kv, &(ftj_kv_shape){.k_format = FTJ_KV_FP8,
                                                               .v_format = FTJ_KV_NVFP4,
                                                               .order = FTJ_KV_HND,
                                                               .num_kv_heads = 4,
                                                               .head_dim = 80,
                                                               .page_size = 5}),
                 FTJ_OK);
}

Test(problem_text, round_trips_strides_and_narrowed_devices)
{
    ftj_attention_desc desc;
    struct ftj_device device;
    struct ftj_problem problem;
    fancy_desc(&desc);
    desc.kv.k.codes.slot_stride_bytes += 16;
    desc.kv.k.codes.head_stride_bytes += 5 * 16;
    desc.kv.k.codes.page_stride_bytes += 4 * 5 * 16;
    desc.kv.k.codes.offset_bytes = 32;
    desc.kv.v.block_scales.page_stride_bytes += 1;
    device_of("sm_90a", &device);
    device.features &= ~(uint32_t)FTJ_HAS_FP8_CONVERT;
    device.smem_bytes = 100000;
    for (int op = 0; op < FTJ_NUM_KERNEL_OPS; op++) {
        ftj_problem_init(&problem, (enum ftj_kernel_op)op, &desc);
        expect_round_trip(&problem, &device);
    }
    device.features = 0;
    ftj_problem_init(&problem, FTJ_KERNEL_STORE, &desc);
    expect_round_trip(&problem, &device);
}

Test(problem_text, round_trips_runs_of_queries)
{
    ftj_attention_desc desc;
    struct ftj_device device;
    struct ftj_problem problem;
    fancy_desc(&desc);
    desc.short_queries = 4;
    device_of("sm_90a", &device);
    for (int op = 0; op < FTJ_NUM_KERNEL_OPS; op++) {
        ftj_problem_init(&problem, (enum ftj_kernel_op)op, &desc);
        expect_round_trip(&problem, &device);
        const bool is_short = op == FTJ_KERNEL_SHORT || op == FTJ_KERNEL_SHORT_COMBINE;
        cr_expect_eq(problem.run_queries, is_short ? 4u : 0u, "kernel %d", op);
    }
}

/* The fields of a decode are no other kernel's. */
static void refuses_of_an_extend(enum ftj_kernel_op op, const ftj_attention_desc *desc,
                                 const char *field)
{
    struct ftj_device device;
    struct ftj_problem problem;
    struct ftj_text line = {0};
    device_of("sm_90a", &device);
    ftj_problem_init(&problem, op, desc);
    ftj_problem_write(&line, &problem, &device);
    char *name = strstr(line.data, "op=decode");
    cr_assert_not_null(name);
    memcpy(name, "op=extend", strlen("op=extend"));
    cr_expect_eq(ftj_problem_parse(line.data, line.size - 1, &problem, &device), FTJ_E_INVALID);
    cr_expect_not_null(strstr(ftj_last_error(), field), "%s", ftj_last_error());
    ftj_text_finish(&line);
}

Test(problem_text, refuses_runs_of_queries_and_few_keys_for_other_kernels)
{
    ftj_attention_desc desc;
    fancy_desc(&desc);
    desc.short_queries = 4;
    refuses_of_an_extend(FTJ_KERNEL_SHORT, &desc, "queries=");
    desc.window = FTJ_FEW_KEYS - 1;
    refuses_of_an_extend(FTJ_KERNEL_DECODE, &desc, "few_keys=");
}

static void sample_line(struct ftj_text *line)
{
    ftj_attention_desc desc;
    struct ftj_device device;
    struct ftj_problem problem;
    fancy_desc(&desc);
    desc.kv.k.codes.offset_bytes = 32;
    device_of("sm_90a", &device);
    ftj_problem_init(&problem, FTJ_KERNEL_DECODE, &desc);
    ftj_problem_write(line, &problem, &device);
    line->data[--line->size] = '\0';
}

/* A line that was cut is no line: production may be killed while it writes one. The last number's
 * digits are the one thing that may be fewer. */
Test(problem_text, refuses_every_truncation)
{
    struct ftj_text line = {0};
    struct ftj_problem problem;
    struct ftj_device device;
    sample_line(&line);
    const char *last_slash = strrchr(line.data, '/');
    for (size_t size = 0; size <= (size_t)(last_slash - line.data) + 1; size++) {
        char *cut = malloc(size ? size : 1);
        memcpy(cut, line.data, size);
        cr_expect_eq(ftj_problem_parse(cut, size, &problem, &device), FTJ_E_INVALID, "%.*s",
                     (int)size, line.data);
        free(cut);
    }
    ftj_text_finish(&line);
}

Test(problem_text, refuses_what_cannot_be_and_names_the_field)
{
    static const struct {
        const char *from, *to, *named;
    } rows[] = {
        {"ftjit-problem-1", "ftjit-problem-2", "ftjit-problem-1"},
        {"target=sm_90a", "target=sm_9", "sm_9"},
        {"target=sm_90a", "target=90a", "sm_90a"},
        {"features=", "features=x,", "x"},
        {"target=sm_90a", "target=sm_80", "features="},
        {"smem=", "smem=-", "smem="},
        {"smem=", "smem=99999999", "smem="},
        {"op=decode", "op=prefill", "op=prefill"},
        {"dtype=fp16", "dtype=fp32", "dtype"},
        {"k=fp8", "k=int3", "k=int3"},
        {"head_dim=80", "head_dim=72", "head_dim"},
        {"head_dim=80", "head_dim=080x", "head_dim="},
        {"group=3", "group=0", "group="},
        {"group=3", "group=65", "group="},
        {"kv_heads=4", "kv_heads=", "kv_heads="},
        {"page=5", "page=0", "page="},
        {"page=5", "pages=5", "page="},
        {"order=hnd", "order=hnd order=hnd", "table="},
        {" table=", "  table=", "table="},
        {"table=slots", "table=slot", "table=slot"},
        {"softcap=1", "softcap=2", "softcap="},
        {"softcap=1", "softcap=1 queries=1", "queries="},
        {"softcap=1", "softcap=1 queries=65", "queries="},
        {"softcap=1", "softcap=1 queries=2 queries=2", "strides="},
        {"softcap=1", "softcap=1 few_keys=0", "few_keys="},
        {"softcap=1", "softcap=1 few_keys=2", "few_keys="},
        {"softcap=1", "softcap=1 few_keys=1 queries=2", "strides="},
        {"strides=", "strides=-1,", "strides="},
        {"strides=32/", "strides=31/", "offset_bytes"},
        {"strides=32/", "strides=18446744073709551616/", "strides="},
        {"strides=32/", "strides=- 32/", "after strides="},
    };
    struct ftj_text line = {0};
    sample_line(&line);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct ftj_text changed = {0};
        struct ftj_problem problem;
        struct ftj_device device;
        const char *at = strstr(line.data, rows[i].from);
        cr_assert_not_null(at, "%s in %s", rows[i].from, line.data);
        ftj_text_printf(&changed, "%.*s%s%s", (int)(at - line.data), line.data, rows[i].to,
                        at + strlen(rows[i].from));
        cr_expect_eq(ftj_problem_parse(changed.data, changed.size, &problem, &device),
                     FTJ_E_INVALID, "%s", changed.data);
        cr_expect_not_null(strstr(ftj_last_error(), rows[i].named), "%s: %s", rows[i].to,
                           ftj_last_error());
        ftj_text_finish(&changed);
    }
    ftj_text_finish(&line);
}

Test(problem_text, every_kernel_has_a_name_and_an_operation)
{
    for (int op = 0; op < FTJ_NUM_KERNEL_OPS; op++) {
        cr_expect_str_neq(ftj_kernel_op_name((enum ftj_kernel_op)op), "?", "%d", op);
        cr_expect_neq(ftj_kernel_op_bit((enum ftj_kernel_op)op), 0, "%d", op);
    }
    cr_expect_str_eq(ftj_kernel_op_name((enum ftj_kernel_op)FTJ_NUM_KERNEL_OPS), "?");
    cr_expect_eq(ftj_kernel_op_bit(FTJ_KERNEL_EXTEND_COMBINE), FTJ_OP_EXTEND);
}
