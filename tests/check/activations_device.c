/* SPDX-License-Identifier: MIT */
/* One cache of one layer in one pair of formats: stored, decoded over and read back. */
#include "tests/check/activations_device.h"

#include <stdlib.h>
#include <string.h>

#include "tests/ref/ref_codec.h"

enum { page_size = 64, unread_page = 2147480000 };

/* One layer through one pair, on the device. A zeroed one is empty; everything is owned but what
 * the first three point to. */
struct run {
    ftj_context *ctx;
    const struct activations_layer *layer;
    const struct activations_pair *pair;
    ftj_kv_layout layout;
    uint64_t num_pages;
    ftj_attention *attn;
    struct CUstream_st *stream;
    ftj_kv_cache cache;
    void *k;
    void *v;
    void *slots;
    void *q;
    void *o;
    void *lse;
    void *lengths;
    void *block_table;
    void *workspace;
    size_t workspace_bytes;
};

static void run_finish(struct run *run)
{
    void *const memory[] = {
        run->cache.packed, run->k,       run->v,           run->slots,    run->q, run->o,
        run->lse,          run->lengths, run->block_table, run->workspace};
    for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++)
        ftj_memory_free(run->ctx, memory[i]);
    ftj_stream_destroy(run->ctx, run->stream);
    ftj_attention_destroy(run->attn);
}

static uint32_t num_blocks(const struct activations_layer *layer)
{
    return (layer->num_tokens + page_size - 1) / page_size;
}

/* Pages in an order of their own, with some that nobody uses between them: 7 and the number of
 * pages have no divisor in common. */
static uint64_t page_of_block(const struct run *run, uint32_t block)
{
    return (block * UINT64_C(7) + 3) % run->num_pages;
}

static uint64_t slot_of_token(const struct run *run, uint32_t token)
{
    return page_of_block(run, token / page_size) * page_size + token % page_size;
}

static ftj_status create_attention(struct run *run)
{
    const struct activations_layer *layer = run->layer;
    const ftj_kv_shape shape = {
        .k_format = run->pair->k_format,
        .v_format = run->pair->v_format,
        .order = FTJ_KV_PACKED,
        .num_kv_heads = layer->num_kv_heads,
        .head_dim = layer->head_dim,
        .page_size = page_size,
    };
    ftj_status status = ftj_kv_layout_init(&run->layout, &shape);
    if (status)
        return status;
    const bool store_half = layer->is_half && run->pair->dtype == FTJ_DTYPE_FP16;
    const ftj_attention_desc desc = {
        .ops = FTJ_OP_STORE | FTJ_OP_DECODE,
        .kv = run->layout,
        .num_q_heads = layer->num_q_heads,
        .dtype = run->pair->dtype,
        .store_dtype = store_half ? FTJ_DTYPE_FP16 : FTJ_DTYPE_FP32,
    };
    run->num_pages = num_blocks(layer) + 3;
    while (run->num_pages % 7 == 0)
        run->num_pages++;
    return ftj_attention_create(run->ctx, &desc, &run->attn);
}

/* Memory of `bytes`, every byte 0xff: NaN to whoever reads what was never written. */
static ftj_status allocate(struct run *run, size_t bytes, void **out)
{
    const ftj_status status = ftj_memory_alloc(run->ctx, bytes, out);
    return status ? status : ftj_memory_fill(run->ctx, *out, 0xff, bytes);
}

static ftj_status upload(struct run *run, const void *host, size_t bytes, void **out)
{
    const ftj_status status = ftj_memory_alloc(run->ctx, bytes, out);
    return status ? status : ftj_memory_write(run->ctx, *out, host, bytes);
}

/* Upload values as `dtype`. */
static ftj_status upload_values(struct run *run, ftj_dtype dtype, const float *values,
                                size_t num_values, void **out)
{
    if (dtype == FTJ_DTYPE_FP32)
        return upload(run, values, num_values * sizeof(*values), out);
    uint16_t *narrow = malloc(num_values * sizeof(*narrow));
    if (!narrow)
        return FTJ_E_NO_MEMORY;
    for (size_t i = 0; i < num_values; i++)
        narrow[i] = ref_16bit_narrow(dtype, values[i]);
    const ftj_status status = upload(run, narrow, num_values * sizeof(*narrow), out);
    free(narrow);
    return status;
}

static ftj_status store_rows(struct run *run)
{
    const struct activations_layer *layer = run->layer;
    const size_t num_values = (size_t)layer->num_tokens * layer->num_kv_heads * layer->head_dim;
    const bool store_half = layer->is_half && run->pair->dtype == FTJ_DTYPE_FP16;
    const ftj_dtype dtype = store_half ? FTJ_DTYPE_FP16 : FTJ_DTYPE_FP32;
    int32_t *slots = malloc(layer->num_tokens * sizeof(*slots));
    if (!slots)
        return FTJ_E_NO_MEMORY;
    for (uint32_t token = 0; token < layer->num_tokens; token++)
        slots[token] = (int32_t)slot_of_token(run, token);

    run->cache.num_pages = run->num_pages;
    ftj_status status = allocate(run, run->num_pages * run->layout.page_bytes, &run->cache.packed);
    if (!status)
        status = upload_values(run, dtype, layer->k, num_values, &run->k);
    if (!status)
        status = upload_values(run, dtype, layer->v, num_values, &run->v);
    if (!status)
        status = upload(run, slots, layer->num_tokens * sizeof(*slots), &run->slots);
    if (!status)
        status = ftj_kv_store(run->attn,
                              &(ftj_store_args){
                                  .cache = run->cache,
                                  .k = run->k,
                                  .v = run->v,
                                  .slots = run->slots,
                                  .num_tokens = layer->num_tokens,
                              },
                              run->stream);
    free(slots);
    return status;
}

/* Every query a request of its own, over the same pages. */
static ftj_status upload_requests(struct run *run)
{
    const struct activations_layer *layer = run->layer;
    const uint32_t batch = layer->num_queries, width = num_blocks(layer);
    int32_t *lengths = malloc(batch * sizeof(*lengths));
    int32_t *table = malloc((size_t)batch * width * sizeof(*table));
    ftj_status status = lengths && table ? FTJ_OK : FTJ_E_NO_MEMORY;
    for (uint32_t i = 0; i < batch && !status; i++) {
        const uint32_t length = layer->num_tokens - batch + i + 1;
        lengths[i] = (int32_t)length;
        for (uint32_t block = 0; block < width; block++)
            table[i * width + block] =
                block * page_size < length ? (int32_t)page_of_block(run, block) : unread_page;
    }
    if (!status)
        status = upload(run, lengths, batch * sizeof(*lengths), &run->lengths);
    if (!status)
        status = upload(run, table, (size_t)batch * width * sizeof(*table), &run->block_table);
    free(lengths);
    free(table);
    return status;
}

static ftj_status decode_queries(struct run *run)
{
    const struct activations_layer *layer = run->layer;
    const size_t rows = (size_t)layer->num_queries * layer->num_q_heads;
    run->workspace_bytes = ftj_attention_workspace_bytes(run->attn);
    ftj_status status = upload_requests(run);
    if (!status)
        status = upload_values(run, run->pair->dtype, layer->q, rows * layer->head_dim, &run->q);
    if (!status)
        status = allocate(run, rows * layer->head_dim * sizeof(uint16_t), &run->o);
    if (!status)
        status = allocate(run, rows * sizeof(float), &run->lse);
    if (!status && run->workspace_bytes)
        status = allocate(run, run->workspace_bytes, &run->workspace);
    if (status)
        return status;
    const ftj_decode_args args = {
        .cache = run->cache,
        .requests =
            {
                .batch = layer->num_queries,
                .lengths = run->lengths,
                .block_table = run->block_table,
                .block_table_stride = num_blocks(layer),
            },
        .q = run->q,
        .o = run->o,
        .lse = run->lse,
        .workspace = run->workspace,
        .workspace_bytes = run->workspace_bytes,
    };
    status = ftj_attention_decode(run->attn, &args, run->stream);
    return status ? status : ftj_stream_synchronize(run->ctx, run->stream);
}

/* What the device answered, as doubles. */
static ftj_status read_outputs(struct run *run, struct activations_state *state)
{
    const struct activations_layer *layer = run->layer;
    const size_t rows = (size_t)layer->num_queries * layer->num_q_heads;
    const size_t num_values = rows * layer->head_dim;
    uint16_t *o = malloc(num_values * sizeof(*o));
    float *lse = malloc(rows * sizeof(*lse));
    ftj_status status = o && lse ? FTJ_OK : FTJ_E_NO_MEMORY;
    if (!status)
        status = ftj_memory_read(run->ctx, o, run->o, num_values * sizeof(*o));
    if (!status)
        status = ftj_memory_read(run->ctx, lse, run->lse, rows * sizeof(*lse));
    for (size_t i = 0; i < num_values && !status; i++)
        state->o[i] = ref_16bit_widen(run->pair->dtype, o[i]);
    for (size_t i = 0; i < rows && !status; i++)
        state->lse[i] = lse[i];
    free(o);
    free(lse);
    return status;
}

/* Copy a row's bytes of one array out of the cache's image; nothing if the format has no such. */
static void get_bytes(const uint8_t *image, const ftj_kv_array *array, uint64_t slot, uint32_t head,
                      void *out)
{
    if (array->row_bytes == 0)
        return;
    const uint64_t at = array->offset_bytes + slot / page_size * array->page_stride_bytes +
                        head * array->head_stride_bytes +
                        slot % page_size * array->slot_stride_bytes;
    memcpy(out, image + at, array->row_bytes);
}

/* Decode every row of K or of V from the image; returns how many are not the reference's. */
static uint64_t decode_side(const struct run *run, const uint8_t *image, const ftj_kv_side *side,
                            ftj_kv_format format, const float *values, double *decoded)
{
    const struct activations_layer *layer = run->layer;
    uint64_t wrong_rows = 0;
    for (uint32_t i = 0; i < layer->num_tokens * layer->num_kv_heads; i++) {
        const uint64_t slot = slot_of_token(run, i / layer->num_kv_heads);
        const uint32_t head = i % layer->num_kv_heads;
        const size_t at = (size_t)i * layer->head_dim;
        struct ref_row got = {.row_scale = 0.0f}, wanted;
        get_bytes(image, &side->codes, slot, head, got.codes);
        get_bytes(image, &side->row_scales, slot, head, &got.row_scale);
        get_bytes(image, &side->block_scales, slot, head, got.block_scales);
        ref_row_decode(format, run->pair->dtype, &got, layer->head_dim, decoded + at);
        ref_row_encode(format, run->pair->dtype, values + at, layer->head_dim, &wanted);
        wrong_rows += memcmp(got.codes, wanted.codes, sizeof(got.codes)) != 0 ||
                      memcmp(&got.row_scale, &wanted.row_scale, sizeof(got.row_scale)) != 0 ||
                      memcmp(got.block_scales, wanted.block_scales, sizeof(got.block_scales)) != 0;
    }
    return wrong_rows;
}

static ftj_status read_cache(struct run *run, struct activations_rows *decoded,
                             uint64_t *wrong_rows)
{
    const size_t bytes = run->num_pages * run->layout.page_bytes;
    uint8_t *image = malloc(bytes);
    if (!image)
        return FTJ_E_NO_MEMORY;
    const ftj_status status = ftj_memory_read(run->ctx, image, run->cache.packed, bytes);
    if (!status)
        *wrong_rows =
            decode_side(run, image, &run->layout.k, run->pair->k_format, run->layer->k,
                        decoded->k) +
            decode_side(run, image, &run->layout.v, run->pair->v_format, run->layer->v, decoded->v);
    free(image);
    return status;
}

ftj_status activations_device_run(ftj_context *ctx, const struct activations_layer *layer,
                                  const struct activations_pair *pair,
                                  struct activations_device *device)
{
    struct run run = {.ctx = ctx, .layer = layer, .pair = pair};
    ftj_status status = create_attention(&run);
    if (!status)
        status = ftj_stream_create(ctx, &run.stream);
    if (!status)
        status = store_rows(&run);
    if (!status)
        status = decode_queries(&run);
    if (!status)
        status = activations_state_init(&device->outputs, layer);
    if (!status)
        status = read_outputs(&run, &device->outputs);
    if (!status)
        status = activations_rows_init(&device->decoded, layer);
    if (!status)
        status = read_cache(&run, &device->decoded, &device->wrong_rows);
    device->token_bytes = run.layout.token_bytes;
    run_finish(&run);
    return status;
}

void activations_device_finish(struct activations_device *device)
{
    activations_state_finish(&device->outputs);
    activations_rows_finish(&device->decoded);
    *device = (struct activations_device){.token_bytes = 0};
}
