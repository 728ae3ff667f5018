/* SPDX-License-Identifier: MIT */
#include "ftjit/kv_layout.h"

#include <stdbool.h>

#include "base/log.h"

enum { ROW_SCALE_BYTES = 4, VALUES_PER_BLOCK = 16, RECORD_ALIGNMENT = 16 };

const char *ftj_kv_format_name(ftj_kv_format format)
{
    switch (format) {
    case FTJ_KV_16BIT:
        return "16bit";
    case FTJ_KV_FP8:
        return "fp8";
    case FTJ_KV_NVFP4:
        return "nvfp4";
    }
    return "?";
}

const char *ftj_kv_order_name(ftj_kv_order order)
{
    switch (order) {
    case FTJ_KV_PACKED:
        return "packed";
    case FTJ_KV_HND:
        return "hnd";
    case FTJ_KV_NHD:
        return "nhd";
    }
    return "?";
}

static ftj_status check_format(const char *field, ftj_kv_format format)
{
    if ((unsigned)format <= FTJ_KV_NVFP4)
        return FTJ_OK;
    return ftj_fail(NULL, FTJ_E_INVALID, "%s is %d; it must be 0 (16bit), 1 (fp8) or 2 (nvfp4)",
                    field, (int)format);
}

static ftj_status check_shape(const ftj_kv_shape *shape)
{
    ftj_status status = check_format("k_format", shape->k_format);
    if (!status)
        status = check_format("v_format", shape->v_format);
    if (status)
        return status;
    if ((unsigned)shape->order > FTJ_KV_NHD)
        return ftj_fail(NULL, FTJ_E_INVALID,
                        "order is %d; it must be 0 (packed), 1 (hnd) or 2 (nhd)",
                        (int)shape->order);
    if (shape->head_dim % 16 != 0 || shape->head_dim < 32 || shape->head_dim > 512)
        return ftj_fail(NULL, FTJ_E_INVALID,
                        "head_dim is %u; it must be a multiple of 16 from 32 to 512",
                        shape->head_dim);
    if (shape->num_kv_heads == 0)
        return ftj_fail(NULL, FTJ_E_INVALID, "num_kv_heads is 0; it must be 1 or more");
    if (shape->page_size == 0)
        return ftj_fail(NULL, FTJ_E_INVALID, "page_size is 0; it must be 1 or more");
    return FTJ_OK;
}

static void init_rows(ftj_kv_side *side, ftj_kv_format format, uint32_t head_dim)
{
    switch (format) {
    case FTJ_KV_16BIT:
        side->codes.row_bytes = 2 * head_dim;
        break;
    case FTJ_KV_FP8:
        side->codes.row_bytes = head_dim;
        side->row_scales.row_bytes = ROW_SCALE_BYTES;
        break;
    case FTJ_KV_NVFP4:
        side->codes.row_bytes = head_dim / 2;
        side->row_scales.row_bytes = ROW_SCALE_BYTES;
        side->block_scales.row_bytes = head_dim / VALUES_PER_BLOCK;
        break;
    }
    side->row_bytes =
        side->codes.row_bytes + side->row_scales.row_bytes + side->block_scales.row_bytes;
}

static uint64_t align_up(uint64_t offset, uint64_t alignment)
{
    return (offset + alignment - 1) / alignment * alignment;
}

/* gcd(16, bytes): the lowest set bit, up to 16. */
static uint64_t natural_alignment(uint32_t bytes)
{
    const uint32_t lowest = bytes & (~bytes + 1);
    return lowest < RECORD_ALIGNMENT ? lowest : RECORD_ALIGNMENT;
}

/* Append the rows of a page to the record; returns the record's new end. */
static uint64_t place_in_record(ftj_kv_array *array, uint64_t end, uint32_t page_size)
{
    if (array->row_bytes == 0)
        return end;
    array->offset_bytes = align_up(end, natural_alignment(array->row_bytes));
    array->slot_stride_bytes = array->row_bytes;
    return array->offset_bytes + (uint64_t)page_size * array->row_bytes;
}

static uint64_t place_side_in_record(ftj_kv_side *side, uint64_t end, uint32_t page_size)
{
    end = align_up(end, RECORD_ALIGNMENT);
    end = place_in_record(&side->codes, end, page_size);
    end = place_in_record(&side->row_scales, end, page_size);
    return place_in_record(&side->block_scales, end, page_size);
}

static void place_alone(ftj_kv_array *array, const ftj_kv_shape *shape)
{
    const uint64_t row_bytes = array->row_bytes;
    const bool heads_first = shape->order == FTJ_KV_HND;
    array->head_stride_bytes = row_bytes * (heads_first ? shape->page_size : 1);
    array->slot_stride_bytes = row_bytes * (heads_first ? 1 : shape->num_kv_heads);
    array->page_stride_bytes = row_bytes * shape->page_size * shape->num_kv_heads;
}

static void place(ftj_kv_layout *layout)
{
    const ftj_kv_shape *shape = &layout->shape;
    ftj_kv_array *arrays[] = {
        &layout->k.codes, &layout->k.row_scales, &layout->k.block_scales,
        &layout->v.codes, &layout->v.row_scales, &layout->v.block_scales,
    };
    const size_t num_arrays = sizeof(arrays) / sizeof(*arrays);

    layout->page_bytes = layout->token_bytes * shape->page_size;
    if (shape->order != FTJ_KV_PACKED) {
        for (size_t i = 0; i < num_arrays; i++)
            place_alone(arrays[i], shape);
        return;
    }
    uint64_t record_bytes = place_side_in_record(&layout->k, 0, shape->page_size);
    record_bytes = place_side_in_record(&layout->v, record_bytes, shape->page_size);
    record_bytes = align_up(record_bytes, RECORD_ALIGNMENT);

    layout->page_bytes = record_bytes * shape->num_kv_heads;
    for (size_t i = 0; i < num_arrays; i++) {
        if (arrays[i]->row_bytes > 0) {
            arrays[i]->head_stride_bytes = record_bytes;
            arrays[i]->page_stride_bytes = layout->page_bytes;
        }
    }
}

ftj_status ftj_kv_layout_init(ftj_kv_layout *layout, const ftj_kv_shape *shape)
{
    if (!layout || !shape)
        return ftj_fail(NULL, FTJ_E_INVALID, "%s is NULL", layout ? "shape" : "layout");
    const ftj_status status = check_shape(shape);
    if (status)
        return status;

    ftj_kv_layout filled = {.shape = *shape};
    init_rows(&filled.k, shape->k_format, shape->head_dim);
    init_rows(&filled.v, shape->v_format, shape->head_dim);
    filled.token_bytes = (uint64_t)shape->num_kv_heads * (filled.k.row_bytes + filled.v.row_bytes);

    /* A row of 32 bits times 32 bits fits 64; with page_size it may not. The slack covers padding:
     * less than two times RECORD_ALIGNMENT and two scale alignments a head. */
    const uint64_t slack = 4 * (uint64_t)RECORD_ALIGNMENT * shape->num_kv_heads;
    if (filled.token_bytes > (UINT64_MAX - slack) / shape->page_size)
        return ftj_fail(
            NULL, FTJ_E_INVALID,
            "a page of page_size %u with num_kv_heads %u and head_dim %u is larger than "
            "64 bits can count; page_size or num_kv_heads must be smaller",
            shape->page_size, shape->num_kv_heads, shape->head_dim);
    place(&filled);
    *layout = filled;
    return FTJ_OK;
}
