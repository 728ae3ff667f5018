/* SPDX-License-Identifier: MIT */
#include "tests/check/check_cache.h"

#include <stdlib.h>
#include <string.h>

static const char *const array_names[CHECK_CACHE_ARRAYS] = {
    "the cache's K codes", "the cache's K row scales", "the cache's K block scales",
    "the cache's V codes", "the cache's V row scales", "the cache's V block scales",
};

static const ftj_kv_array *array_of(const ftj_kv_layout *layout, enum check_side side,
                                    enum check_part part)
{
    const ftj_kv_side *arrays = side == CHECK_K ? &layout->k : &layout->v;
    return part == CHECK_CODES        ? &arrays->codes
           : part == CHECK_ROW_SCALES ? &arrays->row_scales
                                      : &arrays->block_scales;
}

static size_t image_index(const ftj_kv_layout *layout, enum check_side side, enum check_part part)
{
    return layout->shape.order == FTJ_KV_PACKED ? 0 : (size_t)side * 3 + (size_t)part;
}

/* One past the last byte of the array, from its allocation's first. */
static size_t array_end(const ftj_kv_layout *layout, const ftj_kv_array *array, uint64_t num_pages)
{
    if (!array->row_bytes || !num_pages)
        return 0;
    return array->offset_bytes + (num_pages - 1) * array->page_stride_bytes +
           (layout->shape.num_kv_heads - 1) * array->head_stride_bytes +
           (layout->shape.page_size - 1) * array->slot_stride_bytes + array->row_bytes;
}

uint8_t *check_cache_row(const struct check_cache *cache, enum check_side side,
                         enum check_part part, uint64_t slot, uint32_t head)
{
    const ftj_kv_array *array = array_of(&cache->layout, side, part);
    const uint32_t page_size = cache->layout.shape.page_size;
    if (!array->row_bytes)
        return NULL;
    return cache->images[image_index(&cache->layout, side, part)] + array->offset_bytes +
           slot / page_size * array->page_stride_bytes + head * array->head_stride_bytes +
           slot % page_size * array->slot_stride_bytes;
}

static void poison_row(ftj_kv_format format, ftj_dtype dtype, struct ref_row *row)
{
    memset(row->codes, 0x7f, sizeof(row->codes));
    memset(row->block_scales, 0x7f, sizeof(row->block_scales));
    row->row_scale = ref_float_of_bits(0x7fc00000u);
    if (format != FTJ_KV_16BIT)
        return;
    const uint16_t nan = dtype == FTJ_DTYPE_FP16 ? 0x7e00 : 0x7fc0;
    for (size_t i = 0; i < sizeof(row->codes); i += sizeof(nan))
        memcpy(row->codes + i, &nan, sizeof(nan));
}

void check_cache_init(struct check_cache *cache, const ftj_kv_layout *layout, ftj_dtype dtype,
                      uint64_t num_pages)
{
    *cache = (struct check_cache){.layout = *layout, .dtype = dtype, .num_pages = num_pages};
    for (int side = CHECK_K; side <= CHECK_V; side++) {
        for (int part = CHECK_CODES; part <= CHECK_BLOCK_SCALES; part++) {
            const size_t end = array_end(layout, array_of(layout, side, part), num_pages);
            size_t *bytes = &cache->image_bytes[image_index(layout, side, part)];
            if (end > *bytes)
                *bytes = end;
        }
    }
    if (layout->shape.order == FTJ_KV_PACKED)
        cache->image_bytes[0] = num_pages * layout->page_bytes;
    for (size_t i = 0; i < CHECK_CACHE_ARRAYS; i++) {
        if (!cache->image_bytes[i])
            continue;
        cache->images[i] = check_alloc(cache->image_bytes[i]);
        memset(cache->images[i], CHECK_POISON_BYTE, cache->image_bytes[i]);
    }
    struct ref_row k_poison;
    struct ref_row v_poison;
    poison_row(layout->shape.k_format, dtype, &k_poison);
    poison_row(layout->shape.v_format, dtype, &v_poison);
    for (uint64_t slot = 0; slot < num_pages * layout->shape.page_size; slot++) {
        for (uint32_t head = 0; head < layout->shape.num_kv_heads; head++) {
            check_cache_put(cache, CHECK_K, slot, head, &k_poison);
            check_cache_put(cache, CHECK_V, slot, head, &v_poison);
        }
    }
}

void check_cache_copy(struct check_cache *copy, const struct check_cache *cache)
{
    *copy = *cache;
    for (size_t i = 0; i < CHECK_CACHE_ARRAYS; i++) {
        if (!cache->images[i])
            continue;
        copy->images[i] = check_alloc(cache->image_bytes[i]);
        memcpy(copy->images[i], cache->images[i], cache->image_bytes[i]);
    }
}

void check_cache_finish(struct check_cache *cache)
{
    for (size_t i = 0; i < CHECK_CACHE_ARRAYS; i++)
        free(cache->images[i]);
    *cache = (struct check_cache){0};
}

void check_cache_put(struct check_cache *cache, enum check_side side, uint64_t slot, uint32_t head,
                     const struct ref_row *row)
{
    const ftj_kv_side *arrays = side == CHECK_K ? &cache->layout.k : &cache->layout.v;
    memcpy(check_cache_row(cache, side, CHECK_CODES, slot, head), row->codes,
           arrays->codes.row_bytes);
    uint8_t *row_scale = check_cache_row(cache, side, CHECK_ROW_SCALES, slot, head);
    if (row_scale)
        memcpy(row_scale, &row->row_scale, sizeof(float));
    uint8_t *block_scales = check_cache_row(cache, side, CHECK_BLOCK_SCALES, slot, head);
    if (block_scales)
        memcpy(block_scales, row->block_scales, arrays->block_scales.row_bytes);
}

void check_cache_get(const struct check_cache *cache, enum check_side side, uint64_t slot,
                     uint32_t head, struct ref_row *row)
{
    const ftj_kv_side *arrays = side == CHECK_K ? &cache->layout.k : &cache->layout.v;
    *row = (struct ref_row){0};
    memcpy(row->codes, check_cache_row(cache, side, CHECK_CODES, slot, head),
           arrays->codes.row_bytes);
    const uint8_t *row_scale = check_cache_row(cache, side, CHECK_ROW_SCALES, slot, head);
    if (row_scale)
        memcpy(&row->row_scale, row_scale, sizeof(float));
    const uint8_t *block_scales = check_cache_row(cache, side, CHECK_BLOCK_SCALES, slot, head);
    if (block_scales)
        memcpy(row->block_scales, block_scales, arrays->block_scales.row_bytes);
}

static ftj_kv_format format_of(const struct check_cache *cache, enum check_side side)
{
    return side == CHECK_K ? cache->layout.shape.k_format : cache->layout.shape.v_format;
}

void check_cache_encode(struct check_cache *cache, enum check_side side, uint64_t slot,
                        uint32_t head, const float *values)
{
    struct ref_row row = {0};
    ref_row_encode(format_of(cache, side), cache->dtype, values, cache->layout.shape.head_dim,
                   &row);
    check_cache_put(cache, side, slot, head, &row);
}

void check_cache_decode(const struct check_cache *cache, enum check_side side, uint64_t slot,
                        uint32_t head, double *values)
{
    struct ref_row row;
    check_cache_get(cache, side, slot, head, &row);
    ref_row_decode(format_of(cache, side), cache->dtype, &row, cache->layout.shape.head_dim,
                   values);
}

bool check_cache_upload(const struct check_cache *cache, struct check_row *row,
                        struct check_cache_memory *memory)
{
    *memory = (struct check_cache_memory){.view.num_pages = cache->num_pages};
    const bool packed = cache->layout.shape.order == FTJ_KV_PACKED;
    void **const pointers[CHECK_CACHE_ARRAYS] = {
        packed ? &memory->view.packed : &memory->view.k_codes,
        &memory->view.k_row_scales,
        &memory->view.k_block_scales,
        &memory->view.v_codes,
        &memory->view.v_row_scales,
        &memory->view.v_block_scales,
    };
    for (size_t i = 0; i < CHECK_CACHE_ARRAYS; i++) {
        if (!cache->images[i])
            continue;
        if (!check_buffer_init_with(&memory->buffers[i], row,
                                    packed ? "the packed cache" : array_names[i], cache->images[i],
                                    cache->image_bytes[i]))
            return false;
        *pointers[i] = memory->buffers[i].device;
    }
    return true;
}

bool check_cache_download(struct check_cache *cache, struct check_row *row,
                          const struct check_cache_memory *memory)
{
    for (size_t i = 0; i < CHECK_CACHE_ARRAYS; i++) {
        if (cache->images[i] && !check_buffer_read(&memory->buffers[i], row, cache->images[i]))
            return false;
    }
    return true;
}

void check_cache_compare(const struct check_cache *expected, struct check_row *row,
                         const struct check_cache_memory *memory)
{
    for (size_t i = 0; i < CHECK_CACHE_ARRAYS; i++) {
        const size_t bytes = expected->image_bytes[i];
        if (!bytes)
            continue;
        uint8_t *got = check_alloc(bytes);
        if (check_buffer_read(&memory->buffers[i], row, got) &&
            memcmp(got, expected->images[i], bytes) != 0) {
            size_t at = 0;
            while (got[at] == expected->images[i][at])
                at++;
            size_t wrong = 0;
            for (size_t j = at; j < bytes; j++)
                wrong += got[j] != expected->images[i][j];
            check_fail(row, "%s: byte %zu of %zu is %02x, expected %02x (%zu bytes differ)",
                       memory->buffers[i].name, at, bytes, got[at], expected->images[i][at], wrong);
        }
        free(got);
    }
}

void check_cache_memory_finish(struct check_cache_memory *memory, struct check_row *row)
{
    for (size_t i = 0; i < CHECK_CACHE_ARRAYS; i++)
        check_buffer_finish(&memory->buffers[i], row);
    *memory = (struct check_cache_memory){0};
}

static void widen_array(const ftj_kv_shape *shape, ftj_kv_array *array, uint64_t gap)
{
    if (!array->row_bytes)
        return;
    const uint64_t row = array->row_bytes + gap;
    if (shape->order == FTJ_KV_HND) {
        array->slot_stride_bytes = row;
        array->head_stride_bytes = shape->page_size * row + gap;
        array->page_stride_bytes = shape->num_kv_heads * array->head_stride_bytes + gap;
    } else {
        array->head_stride_bytes = row;
        array->slot_stride_bytes = shape->num_kv_heads * row + gap;
        array->page_stride_bytes = shape->page_size * array->slot_stride_bytes + gap;
    }
}

void check_layout_widen(ftj_kv_layout *layout)
{
    const ftj_kv_shape *shape = &layout->shape;
    if (shape->order == FTJ_KV_PACKED)
        return;
    widen_array(shape, &layout->k.codes, 32);
    widen_array(shape, &layout->k.row_scales, 8);
    widen_array(shape, &layout->k.block_scales, 16);
    widen_array(shape, &layout->v.codes, 96);
    widen_array(shape, &layout->v.row_scales, 12);
    widen_array(shape, &layout->v.block_scales, 48);
}
