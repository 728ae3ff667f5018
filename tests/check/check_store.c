/* SPDX-License-Identifier: MIT */
#include "tests/check/check_store.h"

#include <stdlib.h>
#include <string.h>

#include "ftjit/memory.h"

/* What the counter of rejected tokens holds before the call. */
#define REJECTED_BEFORE 5

static size_t element_bytes(ftj_dtype dtype)
{
    return dtype == FTJ_DTYPE_FP32 ? 4 : 2;
}

static void init_source(struct store_source *source, const struct store_shape *shape, uint32_t gap,
                        int64_t pitch)
{
    const size_t element = element_bytes(shape->store_dtype);
    source->head_stride = shape->kv.head_dim + gap;
    const int64_t width = shape->kv.num_kv_heads * source->head_stride;
    source->token_stride = pitch ? pitch : width * (gap ? 3 : 1);
    source->first = gap ? (size_t)width : 0;
    /* A dense source ends with its last row: whoever uses the other side's pitch runs out of it. */
    source->bytes = shape->num_tokens * (size_t)source->token_stride * element;
    source->values = check_alloc(source->bytes);
    memset(source->values, CHECK_POISON_BYTE, source->bytes);
}

bool store_case_init(struct store_case *c, struct check_row *row, const struct store_shape *shape)
{
    *c = (struct store_case){.shape = *shape};
    if (!check_ok(row, ftj_kv_layout_init(&c->desc.kv, &shape->kv), "ftj_kv_layout_init"))
        return false;
    if (shape->wide_cache)
        check_layout_widen(&c->desc.kv);
    c->desc.ops = FTJ_OP_STORE;
    c->desc.dtype = shape->dtype;
    c->desc.store_dtype = shape->store_dtype;
    init_source(&c->sources[CHECK_K], shape, shape->wide_k ? 16 : 0, shape->k_pitch);
    init_source(&c->sources[CHECK_V], shape, shape->wide_v ? 3 : 0, 0);
    check_cache_init(&c->before, &c->desc.kv, shape->dtype, shape->num_pages);
    check_cache_copy(&c->expected, &c->before);
    const int64_t num_slots = (int64_t)(shape->num_pages * shape->kv.page_size);
    for (uint32_t t = 0; t < shape->num_tokens; t++)
        c->num_rejected += shape->slots[t] >= num_slots;
    return true;
}

void store_case_finish(struct store_case *c)
{
    free(c->sources[CHECK_K].values);
    free(c->sources[CHECK_V].values);
    check_cache_finish(&c->before);
    check_cache_finish(&c->expected);
    *c = (struct store_case){0};
}

void store_case_set(struct store_case *c, enum check_side side, uint32_t token, uint32_t head,
                    const float *values)
{
    const struct store_source *source = &c->sources[side];
    const ftj_dtype dtype = c->shape.store_dtype;
    const size_t first =
        source->first + token * (size_t)source->token_stride + head * (size_t)source->head_stride;
    float widened[REF_MAX_HEAD_DIM];
    for (uint32_t d = 0; d < c->shape.kv.head_dim; d++) {
        if (dtype == FTJ_DTYPE_FP32) {
            widened[d] = values[d];
            memcpy(source->values + 4 * (first + d), &values[d], 4);
        } else {
            const uint16_t bits = ref_16bit_narrow(dtype, values[d]);
            widened[d] = ref_16bit_widen(dtype, bits);
            memcpy(source->values + 2 * (first + d), &bits, 2);
        }
    }
    const int64_t slot = c->shape.slots[token];
    if (slot >= 0 && (uint64_t)slot < c->shape.num_pages * c->shape.kv.page_size)
        check_cache_encode(&c->expected, side, (uint64_t)slot, head, widened);
}

struct store_memory {
    struct check_cache_memory cache;
    struct check_buffer k, v, slots, rejected;
};

static bool init_slots(const struct store_case *c, struct check_row *row,
                       struct check_buffer *buffer)
{
    const uint32_t count = c->shape.num_tokens;
    if (c->shape.slots_are_int64)
        return check_buffer_init_with(buffer, row, "slots", c->shape.slots,
                                      count * sizeof(int64_t));
    int32_t *slots = check_alloc(count * sizeof(*slots));
    for (uint32_t t = 0; t < count; t++)
        slots[t] = (int32_t)c->shape.slots[t];
    const bool done = check_buffer_init_with(buffer, row, "slots", slots, count * sizeof(*slots));
    free(slots);
    return done;
}

static bool init_memory(const struct store_case *c, struct check_row *row,
                        struct store_memory *memory)
{
    const uint32_t rejected = REJECTED_BEFORE;
    const struct store_source *k = &c->sources[CHECK_K];
    const struct store_source *v = &c->sources[CHECK_V];
    return check_cache_upload(&c->before, row, &memory->cache) &&
           check_buffer_init_with(&memory->k, row, "the K source", k->values, k->bytes) &&
           check_buffer_init_with(&memory->v, row, "the V source", v->values, v->bytes) &&
           init_slots(c, row, &memory->slots) &&
           check_buffer_init_with(&memory->rejected, row, "num_rejected", &rejected,
                                  sizeof(rejected));
}

static const void *source_pointer(const struct check_buffer *buffer,
                                  const struct store_source *source, ftj_dtype dtype)
{
    return (const uint8_t *)buffer->device + source->first * element_bytes(dtype);
}

static bool launch(const struct store_case *c, struct check_row *row, ftj_attention *attn,
                   const struct store_memory *memory)
{
    const struct store_source *k = &c->sources[CHECK_K];
    const struct store_source *v = &c->sources[CHECK_V];
    const ftj_store_args args = {
        .cache = memory->cache.view,
        .k = source_pointer(&memory->k, k, c->shape.store_dtype),
        .v = source_pointer(&memory->v, v, c->shape.store_dtype),
        .k_token_stride = k->token_stride,
        .k_head_stride = k->head_stride,
        .v_token_stride = v->token_stride,
        .v_head_stride = v->head_stride,
        .slots = memory->slots.device,
        .slots_are_int64 = c->shape.slots_are_int64,
        .num_tokens = c->shape.num_tokens,
        .num_rejected = memory->rejected.device,
    };
    return check_ok(row, ftj_kv_store(attn, &args, NULL), "ftj_kv_store") &&
           check_ok(row, ftj_stream_synchronize(row->ctx, NULL), "ftj_stream_synchronize");
}

void store_case_run(const struct store_case *c, struct check_row *row, struct check_cache *got)
{
    struct store_memory memory = {0};
    ftj_attention *attn = NULL;
    uint32_t rejected = 0;
    if (!check_ok(row, ftj_attention_create(row->ctx, &c->desc, &attn), "ftj_attention_create") ||
        !init_memory(c, row, &memory) || !launch(c, row, attn, &memory))
        goto cleanup;
    check_cache_compare(&c->expected, row, &memory.cache);
    if (check_buffer_read(&memory.rejected, row, &rejected) &&
        rejected != REJECTED_BEFORE + c->num_rejected)
        check_fail(row, "num_rejected: got %u, expected %u + %u", rejected, REJECTED_BEFORE,
                   c->num_rejected);
    if (got) {
        check_cache_copy(got, &c->before);
        check_cache_download(got, row, &memory.cache);
    }

cleanup:
    check_cache_memory_finish(&memory.cache, row);
    check_buffer_finish(&memory.k, row);
    check_buffer_finish(&memory.v, row);
    check_buffer_finish(&memory.slots, row);
    check_buffer_finish(&memory.rejected, row);
    ftj_attention_destroy(attn);
}
