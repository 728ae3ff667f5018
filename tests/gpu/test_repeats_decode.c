/* SPDX-License-Identifier: MIT */
/* The same decode a thousand times, and the same bits each time, in every format and by every
 * kernel of a decode on Hopper: a stage that is given back before its loads have landed, or filled
 * before a merge has read it, would show here. Blocks have several units, and every stage is filled
 * several times. */
#include <stdlib.h>
#include <string.h>

#include "ftjit/memory.h"
#include "runtime/attention_state.h"
#include "tests/check/check_attention.h"
#include "tests/gpu/gpu_driver.h"

#define NUM_REPEATS 1000

struct format {
    ftj_kv_format k;
    ftj_kv_format v;
    ftj_dtype dtype;
};

static const struct format formats[] = {
    {FTJ_KV_16BIT, FTJ_KV_16BIT, FTJ_DTYPE_BF16}, {FTJ_KV_16BIT, FTJ_KV_16BIT, FTJ_DTYPE_FP16},
    {FTJ_KV_FP8, FTJ_KV_FP8, FTJ_DTYPE_BF16},     {FTJ_KV_NVFP4, FTJ_KV_NVFP4, FTJ_DTYPE_BF16},
    {FTJ_KV_FP8, FTJ_KV_NVFP4, FTJ_DTYPE_BF16},
};

/* How the cache lies, and the kernel that serves it on an sm_90a. */
static const struct layout {
    ftj_kv_order order;
    uint32_t page_size;
    uint32_t group;
    const char *on_hopper;
} layouts[] = {
    {FTJ_KV_PACKED, 64, 4, "attn_decode_sm90"},    {FTJ_KV_PACKED, 64, 24, "attn_decode_sm90"},
    {FTJ_KV_NHD, 64, 4, "attn_decode_heads_sm90"}, {FTJ_KV_PACKED, 1, 4, "attn_decode_heads_sm90"},
    {FTJ_KV_NHD, 16, 24, "attn_decode_sm80"},
};

static bool build(struct attention_case *c, struct check_row *row, const struct format *format,
                  const struct layout *layout)
{
    const struct attention_shape shape = {
        .k_format = format->k,
        .v_format = format->v,
        .order = layout->order,
        .dtype = format->dtype,
        .head_dim = 128,
        .num_kv_heads = 4,
        .group = layout->group,
        .page_size = layout->page_size,
        .max_blocks = 16,
        .batch = 6,
        .lengths = {900, 700, 2500, 130, 1, 64},
    };
    if (!attention_case_init(c, row, &shape))
        return false;
    attention_case_fill_random(c, &row->random);
    attention_case_solve(c);
    return true;
}

/* A rule that sends a layout elsewhere would leave a kernel without its repeats. */
static void check_variant(struct check_row *row, const ftj_attention *attn, const char *on_hopper)
{
    ftj_device_info info;
    const char *name = attn->kernels[FTJ_KERNEL_DECODE]->variant->name;
    ftj_context_info(row->ctx, &info);
    if (strcmp(info.target, "sm_90a") == 0 && strcmp(name, on_hopper) != 0)
        check_fail(row, "%s serves what is to be %s's", name, on_hopper);
}

static void repeat(struct check_row *row, const struct format *format, const struct layout *layout)
{
    struct attention_case c = {0};
    struct attention_device device = {0};
    struct attention_result first = {0};
    uint16_t *before = NULL, *after = NULL;
    if (!build(&c, row, format, layout) || !attention_device_init(&device, row, &c) ||
        !attention_decode(&device, row, &c, &first))
        goto cleanup;
    check_variant(row, device.attn, layout->on_hopper);
    attention_check(&c, row, &first);
    before = check_alloc(c.q_bytes);
    after = check_alloc(c.q_bytes);
    if (!check_buffer_read(&device.o, row, before))
        goto cleanup;
    for (int i = 0; i < NUM_REPEATS && row->outcome != CHECK_FAILED; i++) {
        check_ok(row, ftj_attention_decode(device.attn, &device.args, NULL),
                 "ftj_attention_decode");
        check_ok(row, ftj_stream_synchronize(row->ctx, NULL), "ftj_stream_synchronize");
        if (!check_buffer_read(&device.o, row, after))
            break;
        if (memcmp(before, after, c.q_bytes) != 0)
            check_fail(row, "%s, K %s, V %s, %s, page %u, group %u: call %d gives other bits",
                       format->dtype == FTJ_DTYPE_FP16 ? "fp16" : "bf16",
                       ftj_kv_format_name(format->k), ftj_kv_format_name(format->v),
                       ftj_kv_order_name(layout->order), layout->page_size, layout->group, i + 2);
    }

cleanup:
    free(before);
    free(after);
    attention_result_finish(&first);
    attention_device_finish(&device, row);
    attention_case_finish(&c);
}

static void repeat_formats(struct check_row *row, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++) {
        for (size_t j = 0; j < sizeof(layouts) / sizeof(*layouts); j++)
            repeat(row, &formats[i], &layouts[j]);
    }
}

static void repeats_of_16_bits(struct check_row *row, const struct gpu_driver *driver)
{
    (void)driver;
    repeat_formats(row, 0, 2);
}

static void repeats_of_codes(struct check_row *row, const struct gpu_driver *driver)
{
    (void)driver;
    repeat_formats(row, 2, sizeof(formats) / sizeof(*formats));
}

int main(void)
{
    static const struct gpu_test tests[] = {
        {"a thousand decodes of 16-bit rows have the same bits", repeats_of_16_bits},
        {"a thousand decodes of codes have the same bits", repeats_of_codes},
    };
    return gpu_run(tests, sizeof(tests) / sizeof(*tests));
}
