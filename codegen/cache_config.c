/* SPDX-License-Identifier: MIT */
#include "codegen/cache_config.h"

static const char *e4m3_name(const struct ftj_device *device)
{
    return device->features & FTJ_HAS_FP8_CONVERT ? "ftj::E4m3Hardware" : "ftj::E4m3Software";
}

void ftj_write_codec(struct ftj_text *text, const char *name, ftj_kv_format format,
                     const struct ftj_device *device)
{
    const char *e4m3 = e4m3_name(device);
    switch (format) {
    case FTJ_KV_FP8:
        ftj_text_printf(text, "    using %s = ftj::CodecFp8<%s>;\n", name, e4m3);
        break;
    case FTJ_KV_NVFP4:
        ftj_text_printf(text, "    using %s = ftj::CodecNvfp4<%s>;\n", name, e4m3);
        break;
    default:
        ftj_text_printf(text, "    using %s = ftj::Codec16Bit<Element>;\n", name);
        break;
    }
}

void ftj_write_widen(struct ftj_text *text, const char *name, ftj_kv_format format,
                     const struct ftj_device *device)
{
    switch (format) {
    case FTJ_KV_FP8:
        ftj_text_printf(text, "    using %s = ftj::WidenFp8<%s>;\n", name, e4m3_name(device));
        break;
    case FTJ_KV_NVFP4:
        ftj_text_printf(text, "    using %s = ftj::WidenNvfp4<%s>;\n", name, e4m3_name(device));
        break;
    default:
        ftj_text_printf(text, "    using %s = ftj::Rows16Bit;\n", name);
        break;
    }
}

uint32_t ftj_copy_chunk(const ftj_kv_array *array)
{
    const uint64_t bits = array->row_bytes | array->offset_bytes | array->page_stride_bytes |
                          array->head_stride_bytes | array->slot_stride_bytes | 16;
    return (uint32_t)(bits & (~bits + 1));
}
