/* SPDX-License-Identifier: MIT */
/* A prefill of 16k tokens in one call, and in chunks: the same within a rounding. Its size is what
 * the CPU target cannot do; the case of 300 tokens is among the acceptance cases. */
#include "tests/check/acceptance.h"
#include "tests/gpu/gpu_driver.h"

#define NUM_TOKENS 16384

/* 1001 is no multiple of a page or a tile. */
static const uint32_t sizes[] = {1024, 1001, 4096};

static void compare(struct check_row *row, ftj_kv_format k, ftj_kv_format v)
{
    const struct extend_shape shape = {
        .attention = {.k_format = k,
                      .v_format = v,
                      .dtype = FTJ_DTYPE_BF16,
                      .head_dim = 128,
                      .num_kv_heads = 1,
                      .group = 4,
                      .page_size = 64,
                      .batch = 1,
                      .lengths = {NUM_TOKENS}},
        .q_lens = {NUM_TOKENS},
    };
    acceptance_compare_chunks(row, &shape, sizes, sizeof(sizes) / sizeof(*sizes));
}

static void chunks_of_16_bits(struct check_row *row, const struct gpu_driver *driver)
{
    (void)driver;
    compare(row, FTJ_KV_16BIT, FTJ_KV_16BIT);
}

static void chunks_of_fp8(struct check_row *row, const struct gpu_driver *driver)
{
    (void)driver;
    compare(row, FTJ_KV_FP8, FTJ_KV_FP8);
}

static void chunks_of_nvfp4(struct check_row *row, const struct gpu_driver *driver)
{
    (void)driver;
    compare(row, FTJ_KV_NVFP4, FTJ_KV_NVFP4);
}

int main(void)
{
    static const struct gpu_test tests[] = {
        {"a prefill of 16k in chunks equals the whole, 16 bits", chunks_of_16_bits},
        {"a prefill of 16k in chunks equals the whole, fp8", chunks_of_fp8},
        {"a prefill of 16k in chunks equals the whole, nvfp4", chunks_of_nvfp4},
    };
    return gpu_run(tests, sizeof(tests) / sizeof(*tests));
}
