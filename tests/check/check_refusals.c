/* SPDX-License-Identifier: MIT */
/*
 * What must be refused on the host, before any launch: the sentence names the argument, outputs
 * stay as they were, and the next valid call works. Traps T3, T4, T32, T33, T34.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ftjit/memory.h"
#include "runtime/attention_state.h"
#include "tests/check/check_attention.h"

/* A case that works, to be spoiled in one place. */
struct fixture {
    struct attention_case c;
    struct attention_device device;
};

static bool fixture_init_shape(struct fixture *fixture, struct check_row *row,
                               const struct attention_shape *shape)
{
    *fixture = (struct fixture){0};
    if (!attention_case_init(&fixture->c, row, shape))
        return false;
    attention_case_fill_random(&fixture->c, &row->random);
    attention_case_solve(&fixture->c);
    fixture->c.desc.ops = FTJ_OP_DECODE | FTJ_OP_STORE;
    return attention_device_init(&fixture->device, row, &fixture->c);
}

static bool fixture_init(struct fixture *fixture, struct check_row *row)
{
    const struct attention_shape shape = {
        .k_format = FTJ_KV_FP8,
        .v_format = FTJ_KV_NVFP4,
        .order = FTJ_KV_HND,
        .head_dim = 64,
        .num_kv_heads = 2,
        .group = 2,
        .page_size = 16,
        .batch = 2,
        .lengths = {20, 3},
        .dtype = FTJ_DTYPE_BF16,
    };
    return fixture_init_shape(fixture, row, &shape);
}

static void fixture_finish(struct fixture *fixture, struct check_row *row)
{
    attention_device_finish(&fixture->device, row);
    attention_case_finish(&fixture->c);
}

static void still_works(struct fixture *fixture, struct check_row *row)
{
    struct attention_result result = {0};
    if (attention_decode(&fixture->device, row, &fixture->c, &result))
        attention_check(&fixture->c, row, &result);
    attention_result_finish(&result);
}

/* O must hold the poison it was born with. */
static void untouched(const struct fixture *fixture, struct check_row *row)
{
    uint8_t *bytes = check_alloc(fixture->device.o.bytes);
    if (check_buffer_read(&fixture->device.o, row, bytes)) {
        for (size_t i = 0; i < fixture->device.o.bytes; i++) {
            if (bytes[i] != CHECK_POISON_BYTE)
                check_fail(row, "a refused call wrote byte %zu of o", i);
        }
    }
    check_cache_compare(&fixture->c.cache, row, &fixture->device.cache);
    free(bytes);
}

static void refuse_layouts(struct check_row *row)
{
    static const struct {
        ftj_kv_shape shape;
        const char *words;
    } bad[] = {
        {{.num_kv_heads = 1, .head_dim = 72, .page_size = 16, .k_format = FTJ_KV_NVFP4},
         "head_dim|72|16"},
        {{.num_kv_heads = 1, .head_dim = 0, .page_size = 16}, "head_dim|0"},
        {{.num_kv_heads = 1, .head_dim = 528, .page_size = 16}, "head_dim|528|512"},
        {{.num_kv_heads = 0, .head_dim = 64, .page_size = 16}, "num_kv_heads|0"},
        {{.num_kv_heads = 1, .head_dim = 64, .page_size = 0}, "page_size|0"},
        {{.num_kv_heads = 1, .head_dim = 64, .page_size = 1, .k_format = (ftj_kv_format)7},
         "k_format|7"},
        {{.num_kv_heads = 1, .head_dim = 64, .page_size = 1, .order = (ftj_kv_order)9}, "order|9"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        ftj_kv_layout layout = {.token_bytes = 12345};
        check_refused(row, ftj_kv_layout_init(&layout, &bad[i].shape), FTJ_E_INVALID, bad[i].words);
        if (layout.token_bytes != 12345)
            check_fail(row, "a refused layout was written to");
    }
}

static void refuse_descriptors(struct check_row *row)
{
    ftj_attention_desc good = {.ops = FTJ_OP_DECODE, .num_q_heads = 4};
    const ftj_kv_shape shape = {.num_kv_heads = 2, .head_dim = 64, .page_size = 16};
    if (!check_ok(row, ftj_kv_layout_init(&good.kv, &shape), "ftj_kv_layout_init"))
        return;
    enum { NUM_BAD = 16 };
    ftj_attention_desc bad[NUM_BAD];
    for (size_t i = 0; i < NUM_BAD; i++)
        bad[i] = good;
    const char *const words[NUM_BAD] = {
        "num_q_heads|5|2",
        "num_q_heads|130|64",
        "dtype|fp32",
        "store_dtype|9",
        "softcap|-1",
        "page_stride_bytes|8",
        "slot_stride_bytes|",
        "table|5",
        "softcap|e-41|1e-30",
        "sm_scale|inf",
        "offset_bytes is 2048|rows of kv.k.codes", /* another page_size than it was made of */
        "page_stride_bytes is 1024|over each other",
        "v.codes.page_stride_bytes is|2^39",
        "k.codes.offset_bytes is|2^39",
        "v.codes.offset_bytes is 2048|k.codes",
        "short_queries is 65",
    };
    bad[0].num_q_heads = 5;
    bad[1].num_q_heads = 130;
    bad[2].dtype = FTJ_DTYPE_FP32;
    bad[3].store_dtype = (ftj_dtype)9;
    bad[4].softcap = -1;
    bad[5].kv.k.codes.page_stride_bytes = 8;
    bad[6].kv.v.codes.slot_stride_bytes = 112; /* shorter than a row */
    bad[7].table = (ftj_kv_table)5;
    bad[8].softcap = 1e-40f;
    bad[9].sm_scale = INFINITY;
    bad[10].kv.shape.page_size = 32;
    bad[11].kv.k.codes.page_stride_bytes = 1024; /* half of a head's */
    bad[12].kv.v.codes.page_stride_bytes = UINT64_MAX - 15;
    bad[13].kv.k.codes.offset_bytes = UINT64_MAX - 15;
    bad[14].kv.k.codes.offset_bytes = bad[14].kv.v.codes.offset_bytes;
    bad[15].short_queries = 65;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        ftj_attention *attn = NULL;
        check_refused(row, ftj_attention_create(row->ctx, &bad[i], &attn), FTJ_E_INVALID, words[i]);
        if (attn)
            check_fail(row, "a refused descriptor (%s) gave an attention", words[i]);
        ftj_attention_destroy(attn);
    }
    check_refused(row, ftj_attention_create(row->ctx, NULL, NULL), FTJ_E_INVALID, "desc is NULL");
    check_refused(row, ftj_attention_create(row->ctx, &good, NULL), FTJ_E_INVALID, "out is NULL");
    check_refused(row, ftj_attention_create(NULL, &good, NULL), FTJ_E_INVALID, "ctx is NULL");
}

static void refuse_decodes(struct check_row *row)
{
    struct fixture fixture;
    enum { NUM_BAD = 13 };
    if (fixture_init(&fixture, row)) {
        const ftj_decode_args good = fixture.device.args;
        ftj_decode_args bad[NUM_BAD] = {good, good, good, good, good, good, good,
                                        good, good, good, good, good, good};
        const char *const words[NUM_BAD] = {
            "q is NULL|device memory", "q is|aligned|16",        "o is NULL",
            "workspace is NULL",       "workspace_bytes is",     "block_table_stride is 0",
            "k_row_scales is NULL",    "v_block_scales is NULL", "num_pages is 0",
            "num_pages is|1 to",       "q_head_stride is|2^38",  "o_batch_stride is 64|each other",
            "block_table_stride is|to"};
        bad[0].q = NULL;
        bad[1].q = (const uint8_t *)good.q + 2;
        bad[2].o = NULL;
        bad[3].workspace = NULL;
        bad[4].workspace_bytes = good.workspace_bytes - 1;
        bad[5].requests.block_table_stride = 0;
        bad[6].cache.k_row_scales = NULL;
        bad[7].cache.v_block_scales = NULL;
        bad[8].cache.num_pages = 0;
        bad[9].cache.num_pages = UINT64_MAX / 16 + 2; /* of 16 tokens: a few more than 2^64 slots */
        bad[10].q_head_stride = (int64_t)1 << 60;
        bad[11].o_batch_stride = 64; /* a head's: of four heads */
        bad[12].requests.block_table_stride = INT64_MAX;
        for (size_t i = 0; i < NUM_BAD; i++)
            check_refused(row, ftj_attention_decode(fixture.device.attn, &bad[i], NULL),
                          FTJ_E_INVALID, words[i]);
        check_refused(row, ftj_attention_decode(fixture.device.attn, NULL, NULL), FTJ_E_INVALID,
                      "args is NULL");
        check_refused(row, ftj_attention_decode(NULL, &good, NULL), FTJ_E_INVALID, "attn is NULL");
        untouched(&fixture, row);
        still_works(&fixture, row);
    }
    fixture_finish(&fixture, row);
}

/* An attention that only extends copies spans of every array too. */
static void refuse_extends(struct check_row *row)
{
    struct fixture fixture;
    ftj_attention *attn = NULL;
    if (fixture_init(&fixture, row)) {
        ftj_attention_desc desc = fixture.c.desc;
        desc.ops = FTJ_OP_EXTEND;
        /* Any device memory will do, and any size: nothing may be launched. */
        const ftj_extend_args good = {.cache = fixture.device.cache.view,
                                      .requests = fixture.device.args.requests,
                                      .num_queries = 2,
                                      .qo_indptr = fixture.device.lengths.device,
                                      .q = fixture.device.q.device,
                                      .o = fixture.device.o.device,
                                      .workspace = fixture.device.workspace.device,
                                      .workspace_bytes = SIZE_MAX};
        ftj_extend_args bad[3] = {good, good, good};
        bad[0].cache.k_row_scales = (uint8_t *)good.cache.k_row_scales + 8;
        bad[1].cache.v_block_scales = (uint8_t *)good.cache.v_block_scales + 8;
        bad[2].k_new = fixture.device.q.device;
        if (check_ok(row, ftj_attention_create(row->ctx, &desc, &attn), "ftj_attention_create")) {
            check_refused(row, ftj_attention_extend(attn, &bad[0], NULL), FTJ_E_INVALID,
                          "k_row_scales is|aligned|16");
            check_refused(row, ftj_attention_extend(attn, &bad[1], NULL), FTJ_E_INVALID,
                          "v_block_scales is|aligned|16");
            check_refused(row, ftj_attention_extend(attn, &bad[2], NULL), FTJ_E_INVALID,
                          "v_new is NULL and k_new is not");
        }
        untouched(&fixture, row);
        ftj_attention_destroy(attn);
    }
    fixture_finish(&fixture, row);
}

/* Where rows of several kv heads come by one bulk copy, an array needs more than its rows do. */
static void refuse_head_rows(struct check_row *row)
{
    struct fixture fixture;
    const struct attention_shape shape = {
        .k_format = FTJ_KV_FP8,
        .v_format = FTJ_KV_NVFP4,
        .order = FTJ_KV_NHD,
        .head_dim = 64,
        .num_kv_heads = 4,
        .group = 2,
        .page_size = 32,
        .batch = 2,
        .lengths = {20, 3},
        .dtype = FTJ_DTYPE_BF16,
    };
    if (fixture_init_shape(&fixture, row, &shape)) {
        const struct ftj_kernel *kernel = fixture.device.attn->kernels[FTJ_KERNEL_DECODE];
        ftj_decode_args bad = fixture.device.args;
        bad.cache.k_row_scales = (uint8_t *)bad.cache.k_row_scales + 8;
        if (kernel->config.copies_runs)
            check_refused(row, ftj_attention_decode(fixture.device.attn, &bad, NULL), FTJ_E_INVALID,
                          "k_row_scales is|aligned|16");
        else
            check_skip(row, "rows are copied one by one here");
        untouched(&fixture, row);
        still_works(&fixture, row);
    }
    fixture_finish(&fixture, row);
}

static void refuse_stores(struct check_row *row)
{
    struct fixture fixture;
    enum { NUM_BAD = 6 };
    if (fixture_init(&fixture, row)) {
        /* Any device memory will do as a source: nothing may be launched. */
        const ftj_store_args good = {.cache = fixture.device.cache.view,
                                     .k = fixture.device.q.device,
                                     .v = fixture.device.q.device,
                                     .slots = fixture.device.lengths.device,
                                     .num_tokens = 1};
        ftj_store_args bad[NUM_BAD] = {good, good, good, good, good, good};
        const char *const words[NUM_BAD] = {
            "k is NULL",     "v is NULL",
            "slots is NULL", "v_token_stride is 10",
            "k is|aligned",  "num_tokens is 18446744073709551615|2^40"};
        bad[0].k = NULL;
        bad[1].v = NULL;
        bad[2].slots = NULL;
        bad[3].v_token_stride = 10;
        bad[4].k = (const uint8_t *)good.k + 1;
        bad[5].num_tokens = UINT64_MAX; /* whose blocks, counted in 64 bits, would be none */
        for (size_t i = 0; i < NUM_BAD; i++)
            check_refused(row, ftj_kv_store(fixture.device.attn, &bad[i], NULL), FTJ_E_INVALID,
                          words[i]);
        untouched(&fixture, row);
        still_works(&fixture, row);
    }
    fixture_finish(&fixture, row);
}

/* T4: host memory where device memory must be. */
static void refuse_host_memory(struct check_row *row)
{
    struct fixture fixture;
    if (row->options->kind != FTJ_DEVICE_CUDA) {
        check_skip(row, "on the CPU device host memory is device memory");
        return;
    }
    if (fixture_init(&fixture, row)) {
        uint16_t *host = check_alloc(4096);
        const ftj_store_args args = {.cache = fixture.device.cache.view,
                                     .k = fixture.device.q.device,
                                     .v = host,
                                     .slots = fixture.device.lengths.device,
                                     .num_tokens = 1};
        check_refused(row, ftj_kv_store(fixture.device.attn, &args, NULL), FTJ_E_INVALID, "v ");
        untouched(&fixture, row);
        still_works(&fixture, row);
        free(host);
    }
    fixture_finish(&fixture, row);
}

static void allow_no_work(struct check_row *row)
{
    struct fixture fixture;
    if (fixture_init(&fixture, row)) {
        ftj_decode_args decode = fixture.device.args;
        ftj_store_args store = {.cache = fixture.device.cache.view};
        decode.requests.batch = 0;
        check_ok(row, ftj_attention_decode(fixture.device.attn, &decode, NULL),
                 "a decode of no requests");
        check_ok(row, ftj_kv_store(fixture.device.attn, &store, NULL), "a store of no tokens");
        untouched(&fixture, row);
        still_works(&fixture, row);
    }
    fixture_finish(&fixture, row);
}

static const struct {
    const char *name;
    void (*run)(struct check_row *row);
} cases[] = {
    {"layouts", refuse_layouts},
    {"descriptors", refuse_descriptors},
    {"decode arguments", refuse_decodes},
    {"extend arguments", refuse_extends},
    {"rows of several kv heads", refuse_head_rows},
    {"store arguments", refuse_stores},
    {"host memory as V (T4)", refuse_host_memory},
    {"no tokens and no requests are no work", allow_no_work},
};

static uint64_t num_rows(const struct check_options *options)
{
    (void)options;
    return sizeof(cases) / sizeof(*cases);
}

static void describe(struct check_row *row)
{
    snprintf(row->shape, sizeof(row->shape), "%s", cases[row->index].name);
}

static void run(struct check_row *row, void *prepared)
{
    (void)prepared;
    cases[row->index].run(row);
}

const struct check_test check_refusals_test = {
    .name = "refusals",
    .op = FTJ_KERNEL_DECODE,
    .num_rows = num_rows,
    .num_quick = num_rows,
    .run = run,
    .describe = describe,
};
