/* SPDX-License-Identifier: MIT */
/*
 * Where an engine author starts: open a device, lay out a cache, store a prompt's keys and values,
 * decode one token over them. Runs on GPU 0, or with the argument "cpu" on this machine's CPU.
 *
 * Every value of token j is j + 1 and the query is zero, so that every key weighs the same: the
 * answer must be the mean of the values, and the log-sum-exp the log of their number.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <ftjit/ftjit.h>

enum { q_heads = 8, kv_heads = 2, head_dim = 128, page_size = 16, num_pages = 4, num_tokens = 40 };

struct layer {
    ftj_context *ctx;
    ftj_attention *attn;
    uint64_t page_bytes;
};

/* Once per kind of layer: kernels are built or loaded here, and nowhere else. */
static ftj_status open_layer(struct layer *layer, ftj_device_kind kind)
{
    ftj_status status = ftj_context_create(&(ftj_settings){.kind = kind}, &layer->ctx);
    if (status)
        return status;

    ftj_attention_desc desc = {.num_q_heads = q_heads};
    status = ftj_kv_layout_init(&desc.kv, &(ftj_kv_shape){
                                              .k_format = FTJ_KV_FP8,
                                              .v_format = FTJ_KV_NVFP4,
                                              .num_kv_heads = kv_heads,
                                              .head_dim = head_dim,
                                              .page_size = page_size,
                                          });
    if (status)
        return status;
    layer->page_bytes = desc.kv.page_bytes;
    return ftj_attention_create(layer->ctx, &desc, &layer->attn);
}

/* Once per step: launches and nothing else, so it may be captured in a CUDA graph. */
static ftj_status step(struct layer *layer, const ftj_store_args *new_tokens,
                       const ftj_decode_args *queries, struct CUstream_st *stream)
{
    const ftj_status status = ftj_kv_store(layer->attn, new_tokens, stream);
    if (status)
        return status;
    return ftj_attention_decode(layer->attn, queries, stream);
}

static uint16_t bf16_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return (uint16_t)(bits >> 16); /* exact for the small integers used here */
}

static float float_of(uint16_t bf16)
{
    const uint32_t bits = (uint32_t)bf16 << 16;
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* What the step reads and writes, in device memory. An engine has all this already. */
enum { rows_in, slots, lengths, block_table, query, output, lse, workspace, cache, num_buffers };

static ftj_status fill_buffers(const struct layer *layer, void *buffers[num_buffers])
{
    static uint16_t rows[num_tokens * kv_heads * head_dim];
    static const uint16_t zeros[q_heads * head_dim];
    static const int32_t pages[num_pages] = {2, 0, 3, 1}; /* of the one request, in its order */
    const int32_t length = num_tokens;
    int32_t slot_of[num_tokens];
    for (int token = 0; token < num_tokens; token++) {
        slot_of[token] = pages[token / page_size] * page_size + token % page_size;
        for (int i = 0; i < kv_heads * head_dim; i++)
            rows[token * kv_heads * head_dim + i] = bf16_of((float)(token + 1));
    }

    const struct {
        const void *host; /* NULL: nothing to copy */
        size_t bytes;
    } contents[num_buffers] = {
        [rows_in] = {rows, sizeof(rows)},
        [slots] = {slot_of, sizeof(slot_of)},
        [lengths] = {&length, sizeof(length)},
        [block_table] = {pages, sizeof(pages)},
        [query] = {zeros, sizeof(zeros)},
        [output] = {NULL, sizeof(zeros)},
        [lse] = {NULL, q_heads * sizeof(float)},
        [workspace] = {NULL, ftj_attention_workspace_bytes(layer->attn)},
        [cache] = {NULL, num_pages * layer->page_bytes},
    };
    for (int i = 0; i < num_buffers; i++) {
        ftj_status status = ftj_memory_alloc(layer->ctx, contents[i].bytes, &buffers[i]);
        if (!status && contents[i].host)
            status = ftj_memory_write(layer->ctx, buffers[i], contents[i].host, contents[i].bytes);
        if (status)
            return status;
    }
    return FTJ_OK;
}

static ftj_status attend(struct layer *layer, void *buffers[num_buffers])
{
    const ftj_kv_cache pool = {.packed = buffers[cache], .num_pages = num_pages};
    const ftj_store_args new_tokens = {
        .cache = pool,
        .k = buffers[rows_in],
        .v = buffers[rows_in],
        .slots = buffers[slots],
        .num_tokens = num_tokens,
    };
    const ftj_decode_args queries = {
        .cache = pool,
        .requests = {.batch = 1,
                     .lengths = buffers[lengths],
                     .block_table = buffers[block_table],
                     .block_table_stride = num_pages},
        .q = buffers[query],
        .o = buffers[output],
        .lse = buffers[lse],
        .workspace = buffers[workspace],
        .workspace_bytes = ftj_attention_workspace_bytes(layer->attn),
    };
    const ftj_status status = step(layer, &new_tokens, &queries, NULL);
    return status ? status : ftj_stream_synchronize(layer->ctx, NULL);
}

/* Print the answer; false when it is not the mean of the values. */
static ftj_status read_answer(const struct layer *layer, void *buffers[num_buffers], bool *right)
{
    uint16_t o[q_heads * head_dim];
    float lse_of[q_heads];
    ftj_status status = ftj_memory_read(layer->ctx, o, buffers[output], sizeof(o));
    if (!status)
        status = ftj_memory_read(layer->ctx, lse_of, buffers[lse], sizeof(lse_of));
    if (status)
        return status;

    const float mean = (num_tokens + 1) / 2.0f;
    *right = true;
    for (int i = 0; i < q_heads * head_dim; i++)
        *right &= fabsf(float_of(o[i]) - mean) < 0.01f * mean;
    for (int head = 0; head < q_heads; head++)
        *right &= fabsf(lse_of[head] - logf(num_tokens)) < 1e-3f;
    printf("O = %.3f (expected %.3f), LSE = %.5f (expected %.5f), %llu bytes a page\n",
           (double)float_of(o[0]), (double)mean, (double)lse_of[0], (double)logf(num_tokens),
           (unsigned long long)layer->page_bytes);
    return FTJ_OK;
}

int main(int argc, char **argv)
{
    const bool on_cpu = argc > 1 && !strcmp(argv[1], "cpu");
    struct layer layer = {0};
    void *buffers[num_buffers] = {0};
    bool right = false;

    ftj_status status = open_layer(&layer, on_cpu ? FTJ_DEVICE_CPU : FTJ_DEVICE_CUDA);
    if (!status)
        status = fill_buffers(&layer, buffers);
    if (!status)
        status = attend(&layer, buffers);
    if (!status)
        status = read_answer(&layer, buffers, &right);
    if (status)
        fprintf(stderr, "%s: %s\n", ftj_status_name(status), ftj_last_error());

    for (int i = 0; i < num_buffers && layer.ctx; i++)
        ftj_memory_free(layer.ctx, buffers[i]);
    ftj_attention_destroy(layer.attn);
    ftj_context_destroy(layer.ctx);
    return right ? 0 : 1;
}
