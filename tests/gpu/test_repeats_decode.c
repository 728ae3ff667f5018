/* SPDX-License-Identifier: MIT */
/* The same decode a thousand times, and the same bits each time, in every format: a stage that is
 * given back before its loads have landed, or filled before a merge has read it, would show here.
 * Blocks have several units, and every stage is filled several times. */
#include <stdlib.h>
#include <string.h>

#include "ftjit/memory.h"
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

static bool build(struct attention_case *c, struct check_row *row, const struct format *format)
{
    const struct attention_shape shape = {
        .k_format = format->k,
        .v_format = format->v,
        .dtype = format->dtype,
        .head_dim = 128,
        .num_kv_heads = 4,
        .group = 4,
        .page_size = 64,
        .max_blocks = 16,
        .batch = 6,
        .lengths = {900, 700, 2500, 130, 1, 64},
    };
    if (!attention_case_init(c, row, &shape))
        return false;
    attention_case_fill_random(c, &row->random);
    return true;
}

static void repeat(struct check_row *row, const struct format *format)
{
    struct attention_case c = {0};
    struct attention_device device = {0};
    struct attention_result first = {0};
    uint16_t *before = NULL, *after = NULL;
    if (!build(&c, row, format) || !attention_device_init(&device, row, &c) ||
        !attention_decode(&device, row, &c, &first))
        goto cleanup;
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
            check_fail(row, "%s, K %s, V %s: call %d gives other bits",
                       format->dtype == FTJ_DTYPE_FP16 ? "fp16" : "bf16",
                       ftj_kv_format_name(format->k), ftj_kv_format_name(format->v), i + 2);
    }

cleanup:
    free(before);
    free(after);
    attention_result_finish(&first);
    attention_device_finish(&device, row);
    attention_case_finish(&c);
}

static void repeats_of_16_bits(struct check_row *row, const struct gpu_driver *driver)
{
    (void)driver;
    repeat(row, &formats[0]);
    repeat(row, &formats[1]);
}

static void repeats_of_codes(struct check_row *row, const struct gpu_driver *driver)
{
    (void)driver;
    for (size_t i = 2; i < sizeof(formats) / sizeof(*formats); i++)
        repeat(row, &formats[i]);
}

int main(void)
{
    static const struct gpu_test tests[] = {
        {"a thousand decodes of 16-bit rows have the same bits", repeats_of_16_bits},
        {"a thousand decodes of codes have the same bits", repeats_of_codes},
    };
    return gpu_run(tests, sizeof(tests) / sizeof(*tests));
}
