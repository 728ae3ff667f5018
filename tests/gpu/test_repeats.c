/* SPDX-License-Identifier: MIT */
/* The same extend a thousand times, and the same bits each time: for every shape of tile and every
 * way of bringing keys (by tensor maps, by bulk copies, row by row) that a device has kernels for.
 * Races between the roles of a block would show here. Units are dealt in rounds, cut into parts,
 * and short. */
#include <stdlib.h>
#include <string.h>

#include "ftjit/memory.h"
#include "runtime/attention_state.h"
#include "tests/check/check_extend.h"
#include "tests/gpu/gpu_driver.h"

#define NUM_REPEATS 1000
#define HEADS       4
#define GROUP       4
#define SHORT       8 /* queries of a run that decode's kernels take */

struct variant {
    ftj_kv_format k;
    ftj_kv_format v;
    ftj_dtype dtype;
    float softcap;
    float sm_scale; /* 0: the usual */
};

/* The last five with one head_dim only: mixed formats; consumers that a cap holds up, so that the
 * producer is far ahead of them; and logits of a standard deviation of 60, for which units are done
 * twice. */
static const struct variant variants[] = {
    {FTJ_KV_16BIT, FTJ_KV_16BIT, FTJ_DTYPE_BF16, 0, 0},
    {FTJ_KV_16BIT, FTJ_KV_16BIT, FTJ_DTYPE_FP16, 0, 0},
    {FTJ_KV_FP8, FTJ_KV_FP8, FTJ_DTYPE_BF16, 0, 0},
    {FTJ_KV_NVFP4, FTJ_KV_NVFP4, FTJ_DTYPE_BF16, 0, 0},
    {FTJ_KV_FP8, FTJ_KV_NVFP4, FTJ_DTYPE_BF16, 0, 0},
    {FTJ_KV_16BIT, FTJ_KV_FP8, FTJ_DTYPE_BF16, 0, 0},
    {FTJ_KV_FP8, FTJ_KV_FP8, FTJ_DTYPE_BF16, 15, 0},
    {FTJ_KV_16BIT, FTJ_KV_16BIT, FTJ_DTYPE_BF16, 0, 5},
    {FTJ_KV_NVFP4, FTJ_KV_NVFP4, FTJ_DTYPE_BF16, 0, 5},
};

/* What is repeated, in which shape, and the kernel that serves it on an sm_90a; NULL: decode's. */
struct repeated {
    const struct variant *variant;
    uint32_t head_dim;
    uint32_t page_size;
    const char *on_hopper;
};

static bool build(struct extend_case *c, struct check_row *row, const struct repeated *what)
{
    const struct variant *variant = what->variant;
    const bool is_short = !what->on_hopper;
    struct extend_shape shape = {
        .attention = {.k_format = variant->k,
                      .v_format = variant->v,
                      .dtype = variant->dtype,
                      .softcap = variant->softcap,
                      .sm_scale = variant->sm_scale,
                      .head_dim = what->head_dim,
                      .num_kv_heads = HEADS,
                      .group = GROUP,
                      .page_size = what->page_size,
                      .max_blocks = 16,
                      .batch = 4,
                      .lengths = {900, 700, 2500, 130}},
        .q_lens = {500, 33, 1, 130},
        .has_new = what->head_dim == 128 && !is_short,
    };
    if (is_short) {
        const uint32_t q_lens[] = {SHORT, 3, 1, SHORT};
        memcpy(shape.q_lens, q_lens, sizeof(q_lens));
        shape.short_queries = SHORT;
    }
    if (!extend_case_init(c, row, &shape))
        return false;
    extend_case_fill_random(c, &row->random);
    return true;
}

/* A rule that sends a shape elsewhere would leave a kernel without its repeats. */
static void check_variant(struct check_row *row, const ftj_attention *attn, const char *on_hopper)
{
    ftj_device_info info;
    const char *name = attn->kernels[FTJ_KERNEL_EXTEND]->variant->name;
    ftj_context_info(row->ctx, &info);
    if (on_hopper && strcmp(info.target, "sm_90a") == 0 && strcmp(name, on_hopper) != 0)
        check_fail(row, "%s serves what is to be %s's", name, on_hopper);
}

static void repeat(struct check_row *row, const struct repeated *what)
{
    const struct variant *variant = what->variant;
    struct extend_case c = {0};
    struct extend_device device = {0};
    struct extend_result first = {0};
    uint16_t *before = NULL, *after = NULL;
    if (!build(&c, row, what) || !extend_device_init(&device, row, &c) ||
        !extend_run(&device, row, &c, &first))
        goto cleanup;
    check_variant(row, device.attention.attn, what->on_hopper);
    before = check_alloc(c.q_bytes);
    after = check_alloc(c.q_bytes);
    if (!check_buffer_read(&device.o, row, before))
        goto cleanup;
    for (int i = 0; i < NUM_REPEATS && row->outcome != CHECK_FAILED; i++) {
        check_ok(row, ftj_attention_extend(device.attention.attn, &device.args, NULL),
                 "ftj_attention_extend");
        check_ok(row, ftj_stream_synchronize(row->ctx, NULL), "ftj_stream_synchronize");
        if (!check_buffer_read(&device.o, row, after))
            break;
        if (memcmp(before, after, c.q_bytes) != 0)
            check_fail(row, "head_dim %u, K %s, V %s, page %u: call %d gives other bits",
                       what->head_dim, ftj_kv_format_name(variant->k),
                       ftj_kv_format_name(variant->v), what->page_size, i + 2);
    }

cleanup:
    free(before);
    free(after);
    extend_result_finish(&first);
    extend_device_finish(&device, row);
    extend_case_finish(&c);
}

static void repeat_all(struct check_row *row, uint32_t head_dim, const char *on_hopper)
{
    const size_t count = sizeof(variants) / sizeof(*variants) - (head_dim == 128 ? 0 : 5);
    for (size_t i = 0; i < count; i++)
        repeat(row, &(struct repeated){&variants[i], head_dim, 64, on_hopper});
}

static void repeats_of_head_dim_64(struct check_row *row, const struct gpu_driver *driver)
{
    (void)driver;
    repeat_all(row, 64, "attn_extend_sm90");
}

static void repeats_of_head_dim_128(struct check_row *row, const struct gpu_driver *driver)
{
    (void)driver;
    repeat_all(row, 128, "attn_extend_sm90");
}

static void repeats_of_head_dim_256(struct check_row *row, const struct gpu_driver *driver)
{
    (void)driver;
    repeat_all(row, 256, "attn_extend_sm90");
}

static void repeats_of_short_runs(struct check_row *row, const struct gpu_driver *driver)
{
    (void)driver;
    repeat_all(row, 128, NULL);
}

/* Rows that do not follow each other are copied one by one. */
static void repeats_row_by_row(struct check_row *row, const struct gpu_driver *driver)
{
    (void)driver;
    for (size_t i = 0; i < 4; i++)
        repeat(row, &(struct repeated){&variants[i], 128, 1, "attn_extend_sm90"});
    repeat(row, &(struct repeated){&variants[3], 64, 1, "attn_extend_sm90"});
    repeat(row, &(struct repeated){&variants[3], 256, 1, "attn_extend_sm90"});
}

/* On a device without wgmma, whose warps tell each other of stages by mbarriers too. */
static void repeats_by_mma_sync(struct check_row *row, const struct gpu_driver *driver)
{
    struct check_row narrowed = *row;
    (void)driver;
    narrowed.ctx = NULL;
    if (!check_ok(row,
                  ftj_context_create(&(ftj_settings){.features = "-tma,-wgmma"}, &narrowed.ctx),
                  "ftj_context_create"))
        return;
    for (size_t i = 0; i < 5; i++)
        repeat(&narrowed,
               &(struct repeated){&variants[i], i < 4 ? 128 : 64, 64, "attn_extend_sm80"});
    ftj_context_destroy(narrowed.ctx);
    if (narrowed.outcome == CHECK_FAILED)
        check_fail(row, "%s", narrowed.message);
}

int main(void)
{
    static const struct gpu_test tests[] = {
        {"a thousand extends of head_dim 64 have the same bits", repeats_of_head_dim_64},
        {"a thousand extends of head_dim 128 have the same bits", repeats_of_head_dim_128},
        {"a thousand extends of head_dim 256 have the same bits", repeats_of_head_dim_256},
        {"a thousand extends over pages of one token have the same bits", repeats_row_by_row},
        {"a thousand extends by mma.sync have the same bits", repeats_by_mma_sync},
        {"a thousand extends of short runs have the same bits", repeats_of_short_runs},
    };
    return gpu_run(tests, sizeof(tests) / sizeof(*tests));
}
