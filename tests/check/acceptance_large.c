/* SPDX-License-Identifier: MIT */
/* O06 and O11: sizes past what 32-bit offsets and grid dimensions hold. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ftjit/memory.h"
#include "tests/check/acceptance.h"

#define O06_PAGES 32776u
#define O06_SLOT  2097663u
#define O06_BYTES (5ull << 30)
#define O11_BATCH 65536u

/* Everything O06 holds on the device. Sizes are far past what an image on the host is for. */
struct large {
    ftj_attention *attn;
    struct check_buffer k_codes, v_codes, k_scales, v_scales, k, v, slots;
    struct check_buffer q, o, lse, lengths, table, workspace;
};

static void large_finish(struct large *large, struct check_row *row)
{
    struct check_buffer *const buffers[] = {
        &large->k_codes, &large->v_codes, &large->k_scales,  &large->v_scales, &large->k,
        &large->v,       &large->slots,   &large->q,         &large->o,        &large->lse,
        &large->lengths, &large->table,   &large->workspace,
    };
    for (size_t i = 0; i < sizeof(buffers) / sizeof(*buffers); i++)
        check_buffer_finish(buffers[i], row);
    ftj_attention_destroy(large->attn);
}

static bool o06_init(struct large *large, struct check_row *row)
{
    static const int64_t slots[2] = {O06_SLOT, 0};
    static const int32_t length[1] = {64};
    static const int32_t page[1] = {O06_PAGES - 1};
    uint16_t rows[2 * 1024];
    const size_t num_slots = (size_t)O06_PAGES * 64;
    ftj_attention_desc desc = {.ops = FTJ_OP_STORE | FTJ_OP_DECODE};
    const ftj_kv_shape shape = {.k_format = FTJ_KV_FP8,
                                .v_format = FTJ_KV_FP8,
                                .order = FTJ_KV_NHD,
                                .num_kv_heads = 8,
                                .head_dim = 128,
                                .page_size = 64};
    for (int i = 0; i < 2 * 1024; i++)
        rows[i] = ref_bf16_narrow(64);
    if (!check_ok(row, ftj_kv_layout_init(&desc.kv, &shape), "ftj_kv_layout_init") ||
        !check_ok(row, ftj_attention_create(row->ctx, &desc, &large->attn),
                  "ftj_attention_create") ||
        !check_buffer_init(&large->k_codes, row, "K codes", num_slots * 1024) ||
        !check_buffer_init(&large->v_codes, row, "V codes", num_slots * 1024) ||
        !check_buffer_init(&large->k_scales, row, "K scales", num_slots * 8 * sizeof(float)) ||
        !check_buffer_init(&large->v_scales, row, "V scales", num_slots * 8 * sizeof(float)) ||
        !check_buffer_init_with(&large->v, row, "v", rows, sizeof(rows)) ||
        !check_buffer_init_with(&large->slots, row, "slots", slots, sizeof(slots)) ||
        !check_buffer_init_with(&large->lengths, row, "lengths", length, sizeof(length)) ||
        !check_buffer_init_with(&large->table, row, "the table", page, sizeof(page)) ||
        !check_buffer_init(&large->o, row, "o", 8 * 128 * 2) ||
        !check_buffer_init(&large->lse, row, "lse", 8 * sizeof(float)) ||
        !check_buffer_init(&large->workspace, row, "the workspace",
                           ftj_attention_workspace_bytes(large->attn)))
        return false;
    memset(rows, 0, sizeof(rows));
    return check_buffer_init_with(&large->k, row, "k", rows, sizeof(rows)) &&
           check_buffer_init_with(&large->q, row, "q", rows, 8 * 128 * 2);
}

/* The last page is zero but for the row to be stored. */
static bool o06_clear_last_page(struct large *large, struct check_row *row)
{
    const size_t codes = (size_t)(O06_PAGES - 1) * 64 * 1024;
    const size_t scales = (size_t)(O06_PAGES - 1) * 64 * 8 * sizeof(float);
    const struct {
        struct check_buffer *buffer;
        size_t offset;
    } parts[4] = {{&large->k_codes, codes},
                  {&large->v_codes, codes},
                  {&large->k_scales, scales},
                  {&large->v_scales, scales}};
    for (int i = 0; i < 4; i++) {
        uint8_t *start = (uint8_t *)parts[i].buffer->device + parts[i].offset;
        if (!check_ok(row,
                      ftj_memory_fill(row->ctx, start, 0, parts[i].buffer->bytes - parts[i].offset),
                      "ftj_memory_fill"))
            return false;
    }
    return true;
}

/* Rows 0 and the last hold 64; the row after the first and the two before the last page do not. */
static void o06_check_codes(const struct large *large, struct check_row *row)
{
    static const struct {
        uint64_t slot;
        uint8_t code;
    } expected[5] = {{O06_SLOT, 0x7e},
                     {0, 0x7e},
                     {1, CHECK_POISON_BYTE},
                     {O06_SLOT - 64, CHECK_POISON_BYTE},
                     {O06_SLOT % (1u << 21), CHECK_POISON_BYTE}}; /* where 31 bits would land */
    uint8_t codes[1024];
    for (int i = 0; i < 5; i++) {
        const uint8_t *start = (const uint8_t *)large->v_codes.device + expected[i].slot * 1024;
        if (!check_ok(row, ftj_memory_read(row->ctx, codes, start, sizeof(codes)),
                      "ftj_memory_read"))
            return;
        for (int d = 0; d < 1024; d++) {
            if (codes[d] != expected[i].code)
                check_fail(row, "slot %llu byte %d: got %02x, expected %02x",
                           (unsigned long long)expected[i].slot, d, codes[d], expected[i].code);
        }
    }
}

static void o06_check_decode(const struct large *large, struct check_row *row)
{
    uint16_t o[8 * 128];
    float lse[8];
    if (!check_buffer_read(&large->o, row, o) || !check_buffer_read(&large->lse, row, lse))
        return;
    for (int i = 0; i < 8 * 128; i++) {
        if (!(fabsf(ref_bf16_widen(o[i]) - 1) <= 0x1p-7f + 1e-3f))
            check_fail(row, "o[%d][%d]: got %g, expected 1", i / 128, i % 128,
                       (double)ref_bf16_widen(o[i]));
    }
    for (int h = 0; h < 8; h++) {
        if (!(fabsf(lse[h] - 4.158883f) <= 1e-3f))
            check_fail(row, "lse[%d]: got %g, expected 4.158883", h, (double)lse[h]);
    }
}

void acceptance_o06_offsets_past_2_31(struct check_row *row)
{
    struct large large = {0};
    ftj_device_info info = {0};
    ftj_context_info(row->ctx, &info);
    if (info.kind == FTJ_DEVICE_CPU || info.memory_bytes < O06_BYTES) {
        check_skip(row, "needs a GPU with 5 GiB; this device has %llu MiB",
                   (unsigned long long)(info.memory_bytes >> 20));
        return;
    }
    if (o06_init(&large, row) && o06_clear_last_page(&large, row)) {
        const ftj_kv_cache cache = {.k_codes = large.k_codes.device,
                                    .k_row_scales = large.k_scales.device,
                                    .v_codes = large.v_codes.device,
                                    .v_row_scales = large.v_scales.device,
                                    .num_pages = O06_PAGES};
        const ftj_store_args store = {.cache = cache,
                                      .k = large.k.device,
                                      .v = large.v.device,
                                      .slots = large.slots.device,
                                      .slots_are_int64 = true,
                                      .num_tokens = 2};
        const ftj_decode_args decode = {
            .cache = cache,
            .requests = {.batch = 1,
                         .lengths = large.lengths.device,
                         .block_table = large.table.device,
                         .block_table_stride = 1},
            .q = large.q.device,
            .o = large.o.device,
            .lse = large.lse.device,
            .workspace = large.workspace.device,
            .workspace_bytes = large.workspace.bytes,
        };
        if (check_ok(row, ftj_kv_store(large.attn, &store, NULL), "ftj_kv_store") &&
            check_ok(row, ftj_attention_decode(large.attn, &decode, NULL),
                     "ftj_attention_decode") &&
            check_ok(row, ftj_stream_synchronize(row->ctx, NULL), "ftj_stream_synchronize")) {
            o06_check_codes(&large, row);
            o06_check_decode(&large, row);
        }
    }
    large_finish(&large, row);
}

/* Request i has the one key in page i. */
static bool o11_init(struct large *large, struct check_row *row)
{
    const size_t values = (size_t)O11_BATCH * 64;
    uint16_t *v = check_alloc(values * sizeof(*v));
    int32_t *pages = check_alloc(O11_BATCH * sizeof(*pages));
    int32_t *ones = check_alloc(O11_BATCH * sizeof(*ones));
    uint16_t *zeros = check_alloc(values * sizeof(*zeros));
    for (size_t i = 0; i < values; i++)
        v[i] = ref_bf16_narrow((float)(i / 64 % 7 + 1));
    for (uint32_t i = 0; i < O11_BATCH; i++) {
        pages[i] = (int32_t)i;
        ones[i] = 1;
    }
    const bool done =
        check_buffer_init(&large->k_codes, row, "the packed cache", values * 2 * sizeof(*v)) &&
        check_buffer_init_with(&large->k, row, "k", zeros, values * sizeof(*v)) &&
        check_buffer_init_with(&large->v, row, "v", v, values * sizeof(*v)) &&
        check_buffer_init_with(&large->slots, row, "slots", pages, O11_BATCH * sizeof(*pages)) &&
        check_buffer_init_with(&large->table, row, "table", pages, O11_BATCH * sizeof(*pages)) &&
        check_buffer_init_with(&large->lengths, row, "lengths", ones, O11_BATCH * sizeof(*ones)) &&
        check_buffer_init_with(&large->q, row, "q", zeros, values * sizeof(*zeros)) &&
        check_buffer_init(&large->o, row, "o", values * sizeof(*v)) &&
        check_buffer_init(&large->lse, row, "lse", O11_BATCH * sizeof(float)) &&
        check_buffer_init(&large->workspace, row, "the workspace",
                          ftj_attention_workspace_bytes(large->attn));
    free(v);
    free(pages);
    free(ones);
    free(zeros);
    return done;
}

static void o11_check(const struct large *large, struct check_row *row)
{
    uint16_t *o = check_alloc(large->o.bytes);
    float *lse = check_alloc(large->lse.bytes);
    if (check_buffer_read(&large->o, row, o) && check_buffer_read(&large->lse, row, lse)) {
        for (uint32_t i = 0; i < O11_BATCH; i++) {
            for (uint32_t d = 0; d < 64; d++) {
                const float got = ref_bf16_widen(o[i * 64 + d]);
                if (got != (float)(i % 7 + 1))
                    check_fail(row, "o of request %u [%u]: got %g, expected %u", i, d, (double)got,
                               i % 7 + 1);
            }
            if (!(fabsf(lse[i]) <= 1e-3f))
                check_fail(row, "lse of request %u: got %g, expected 0", i, (double)lse[i]);
        }
    }
    free(o);
    free(lse);
}

void acceptance_o11_more_than_65535_requests(struct check_row *row)
{
    struct large large = {0};
    ftj_attention_desc desc = {.ops = FTJ_OP_STORE | FTJ_OP_DECODE};
    const ftj_kv_shape shape = {.num_kv_heads = 1, .head_dim = 64, .page_size = 1};
    if (row->options->kind == FTJ_DEVICE_CPU && row->tier->narrow[0]) {
        check_skip(row, "on the CPU device only the first variant takes the time for this");
        return;
    }
    if (check_ok(row, ftj_kv_layout_init(&desc.kv, &shape), "ftj_kv_layout_init") &&
        check_ok(row, ftj_attention_create(row->ctx, &desc, &large.attn), "ftj_attention_create") &&
        o11_init(&large, row)) {
        const ftj_kv_cache cache = {.packed = large.k_codes.device, .num_pages = O11_BATCH};
        const ftj_store_args store = {.cache = cache,
                                      .k = large.k.device,
                                      .v = large.v.device,
                                      .slots = large.slots.device,
                                      .num_tokens = O11_BATCH};
        const ftj_decode_args decode = {
            .cache = cache,
            .requests = {.batch = O11_BATCH,
                         .lengths = large.lengths.device,
                         .block_table = large.table.device,
                         .block_table_stride = 1},
            .q = large.q.device,
            .o = large.o.device,
            .lse = large.lse.device,
            .workspace = large.workspace.device,
            .workspace_bytes = large.workspace.bytes,
        };
        if (check_ok(row, ftj_kv_store(large.attn, &store, NULL), "ftj_kv_store") &&
            check_ok(row, ftj_attention_decode(large.attn, &decode, NULL),
                     "ftj_attention_decode") &&
            check_ok(row, ftj_stream_synchronize(row->ctx, NULL), "ftj_stream_synchronize"))
            o11_check(&large, row);
    }
    large_finish(&large, row);
}
