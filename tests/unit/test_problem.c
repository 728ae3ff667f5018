/* SPDX-License-Identifier: MIT */
/* Descriptors: what is refused and in which words, and what a kernel's problem is cut from one. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "codegen/problem.h"
#include "log_catcher.h"

static struct log_catcher catcher;
static const struct ftj_log log_to_catcher = {catch_sentence, &catcher, FTJ_LOG_DEBUG};

static ftj_attention_desc desc_of(ftj_kv_format k, ftj_kv_format v, ftj_kv_order order)
{
    ftj_attention_desc desc = {.num_q_heads = 32};
    const ftj_kv_shape shape = {.k_format = k,
                                .v_format = v,
                                .order = order,
                                .num_kv_heads = 8,
                                .head_dim = 128,
                                .page_size = 64};
    cr_assert_eq(ftj_kv_layout_init(&desc.kv, &shape), FTJ_OK);
    return desc;
}

static struct ftj_problem problem_of(enum ftj_kernel_op op, const ftj_attention_desc *desc)
{
    struct ftj_problem problem;
    cr_assert_eq(ftj_desc_check(desc, &log_to_catcher), FTJ_OK, "%s", catcher.last);
    ftj_problem_init(&problem, op, desc);
    return problem;
}

/* What a row of `refusals` spoils. */
enum spoiled {
    OPS,
    TABLE,
    SOFTCAP,
    SM_SCALE,
    DTYPE,
    STORE_DTYPE,
    GENERIC_DTYPE,
    NUM_Q_HEADS,
    HEAD_DIM,
    KV_HEADS,
    PAGE_SIZE,
    ROW_BYTES,
    OFFSET,
    PAGE_STRIDE,
    HEAD_STRIDE,
    SLOT_STRIDE,
    SCALE_STRIDE,
};

static void spoil(ftj_attention_desc *desc, enum spoiled field, double value)
{
    switch (field) {
    case OPS:
        desc->ops = (uint32_t)value;
        break;
    case TABLE:
        desc->table = (ftj_kv_table)(int)value;
        break;
    case SOFTCAP:
        desc->softcap = (float)value;
        break;
    case SM_SCALE:
        desc->sm_scale = (float)value;
        break;
    case DTYPE:
        desc->dtype = (ftj_dtype)(int)value;
        break;
    case STORE_DTYPE:
        desc->store_dtype = (ftj_dtype)(int)value;
        break;
    case GENERIC_DTYPE:
        desc->generic_dtype = (ftj_dtype)(int)value;
        break;
    case NUM_Q_HEADS:
        desc->num_q_heads = (uint32_t)value;
        break;
    case HEAD_DIM:
        desc->kv.shape.head_dim = (uint32_t)value;
        break;
    case KV_HEADS:
        desc->kv.shape.num_kv_heads = (uint32_t)value;
        break;
    case PAGE_SIZE:
        desc->kv.shape.page_size = (uint32_t)value;
        break;
    case ROW_BYTES:
        desc->kv.v.codes.row_bytes = (uint32_t)value;
        break;
    case OFFSET:
        desc->kv.k.codes.offset_bytes = (uint64_t)value;
        break;
    case PAGE_STRIDE:
        desc->kv.k.codes.page_stride_bytes = (uint64_t)value;
        break;
    case HEAD_STRIDE:
        desc->kv.v.codes.head_stride_bytes = (uint64_t)value;
        break;
    case SLOT_STRIDE:
        desc->kv.k.codes.slot_stride_bytes = (uint64_t)value;
        break;
    case SCALE_STRIDE:
        desc->kv.v.row_scales.slot_stride_bytes = (uint64_t)value;
        break;
    }
}

Test(problem, refusals_name_the_field_its_value_and_what_is_allowed)
{
    static const struct {
        enum spoiled field;
        double value;
        const char *sentence;
    } rows[] = {
        {OPS, 0x100, "ops is 0x100; allowed: FTJ_OP_* bits, 0x1f"},
        {TABLE, 2, "table is 2; allowed: FTJ_TABLE_BLOCKS, FTJ_TABLE_SLOTS"},
        {SOFTCAP, -1, "softcap is -1; allowed: 0 (off), or 1e-30 to 1e30"},
        {SOFTCAP, INFINITY, "softcap is inf; allowed: 0 (off), or 1e-30 to 1e30"},
        {SOFTCAP, NAN, "softcap is nan; allowed: 0 (off), or 1e-30 to 1e30"},
        {SOFTCAP, 1e-40, "softcap is 9.99995e-41; allowed: 0 (off), or 1e-30 to 1e30"},
        {SM_SCALE, INFINITY, "sm_scale is inf; allowed: -1e30 to 1e30"},
        {SM_SCALE, NAN, "sm_scale is nan; allowed: -1e30 to 1e30"},
        {DTYPE, FTJ_DTYPE_FP32, "dtype is fp32 (3); allowed: bf16, fp16"},
        {DTYPE, 9, "dtype is ? (9); allowed: bf16, fp16"},
        {STORE_DTYPE, 4, "store_dtype is 4; allowed: bf16, fp16, fp32"},
        {GENERIC_DTYPE, 4, "generic_dtype is 4; allowed: bf16, fp16, fp32"},
        {KV_HEADS, 4097, "num_kv_heads is 4097; allowed: 1 to 4096"},
        {PAGE_SIZE, (1u << 30) + 1, "page_size is 1073741825; allowed: 1 to 1073741824"},
        {NUM_Q_HEADS, 12, "num_q_heads is 12; it must be a multiple of num_kv_heads, 8"},
        {NUM_Q_HEADS, 520, "num_q_heads is 520, 65 per kv head; allowed: 1 to 64 per kv head"},
        {ROW_BYTES, 72, "kv.v.codes.row_bytes is 72; the formats make it 64"},
        {OFFSET, 8, "kv.k.codes.offset_bytes is 8; it must be a multiple of 16"},
        {PAGE_STRIDE, 8200, "kv.k.codes.page_stride_bytes is 8200; it must be a multiple of 16"},
        {PAGE_STRIDE, 0, "kv.k.codes.page_stride_bytes is 0; it must be at least a row, 128 bytes"},
        {HEAD_STRIDE, 48,
         "kv.v.codes.head_stride_bytes is 48; it must be at least a row, 64 bytes"},
        {SLOT_STRIDE, 120, "kv.k.codes.slot_stride_bytes is 120; it must be a multiple of 16"},
        {SCALE_STRIDE, 6, "kv.v.row_scales.slot_stride_bytes is 6; it must be a multiple of 4"},
        {PAGE_STRIDE, 0x1p40,
         "kv.k.codes.page_stride_bytes is 1099511627776; it must be at most 2^39"},
        {PAGE_STRIDE, 8192, /* a head's: of eight */
         "kv.k.codes.page_stride_bytes is 8192; rows would lie over each other: it must be at "
         "least 65536"},
        {HEAD_STRIDE, 64, /* a slot's, of 64 */
         "kv.v.codes.head_stride_bytes is 64; rows would lie over each other: it must be at least "
         "4096"},
        {SLOT_STRIDE, 144, /* a gap that heads and pages do not know of */
         "kv.k.codes.head_stride_bytes is 8192; rows would lie over each other: it must be at "
         "least 9200"},
        {PAGE_SIZE, 128, /* and strides of another one */
         "kv.k.codes.head_stride_bytes is 8192; rows would lie over each other: it must be at "
         "least 16384"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        ftj_attention_desc desc = desc_of(FTJ_KV_FP8, FTJ_KV_NVFP4, FTJ_KV_HND);
        spoil(&desc, rows[i].field, rows[i].value);
        catcher.num_sentences = 0;
        cr_expect_eq(ftj_desc_check(&desc, &log_to_catcher), FTJ_E_INVALID, "%s", rows[i].sentence);
        cr_expect_str_eq(catcher.last, rows[i].sentence);
        cr_expect_str_eq(ftj_last_error(), rows[i].sentence);
        cr_expect_eq(catcher.num_sentences, 1, "%s", rows[i].sentence);
    }
}

Test(problem, arrays_of_a_record_are_apart)
{
    ftj_attention_desc desc = desc_of(FTJ_KV_FP8, FTJ_KV_NVFP4, FTJ_KV_PACKED);
    cr_expect_eq(ftj_desc_check(&desc, &log_to_catcher), FTJ_OK);
    desc.kv.v.codes.offset_bytes = 4096; /* of K codes that end at 8192 */
    cr_expect_eq(ftj_desc_check(&desc, &log_to_catcher), FTJ_E_INVALID);
    cr_expect_str_eq(ftj_last_error(), "kv.v.codes.offset_bytes is 4096, where rows of kv.k.codes "
                                       "lie, from 0 on: in the packed order they share an "
                                       "allocation");
    /* Slot by slot: K, then V, and their scales behind. */
    desc = desc_of(FTJ_KV_16BIT, FTJ_KV_16BIT, FTJ_KV_PACKED);
    desc.kv.k.codes.slot_stride_bytes = desc.kv.v.codes.slot_stride_bytes = 512;
    desc.kv.v.codes.offset_bytes = 256;
    cr_expect_eq(ftj_desc_check(&desc, &log_to_catcher), FTJ_OK, "%s", ftj_last_error());
}

Test(problem, heads_and_pages_may_lie_in_any_order)
{
    ftj_attention_desc desc = desc_of(FTJ_KV_16BIT, FTJ_KV_16BIT, FTJ_KV_HND);
    ftj_kv_array *codes = &desc.kv.k.codes;
    codes->page_stride_bytes = codes->head_stride_bytes; /* pages within a head */
    codes->head_stride_bytes = 1000 * codes->page_stride_bytes;
    cr_expect_eq(ftj_desc_check(&desc, &log_to_catcher), FTJ_OK, "%s", ftj_last_error());
    codes->page_stride_bytes = codes->slot_stride_bytes; /* and within a slot */
    codes->slot_stride_bytes = 1000 * codes->page_stride_bytes;
    codes->head_stride_bytes = 64 * codes->slot_stride_bytes;
    cr_expect_eq(ftj_desc_check(&desc, &log_to_catcher), FTJ_OK, "%s", ftj_last_error());
}

Test(problem, a_shape_that_no_cache_has_is_refused_in_the_layouts_words)
{
    ftj_attention_desc desc = desc_of(FTJ_KV_FP8, FTJ_KV_FP8, FTJ_KV_PACKED);
    spoil(&desc, HEAD_DIM, 72);
    cr_expect_eq(ftj_desc_check(&desc, &log_to_catcher), FTJ_E_INVALID);
    cr_expect(strstr(ftj_last_error(), "head_dim is 72") && strstr(ftj_last_error(), "16"), "%s",
              ftj_last_error());
}

Test(problem, the_ends_of_every_range_are_allowed)
{
    ftj_attention_desc desc = desc_of(FTJ_KV_16BIT, FTJ_KV_NVFP4, FTJ_KV_NHD);
    desc.num_q_heads = 8 * 64;
    desc.softcap = 1e29f;
    desc.sm_scale = -1e29f;
    desc.ops = FTJ_OP_STORE | FTJ_OP_DECODE | FTJ_OP_MERGE | FTJ_OP_GENERIC | FTJ_OP_EXTEND;
    desc.kv.k.codes.offset_bytes = 16;
    cr_expect_eq(ftj_desc_check(&desc, &log_to_catcher), FTJ_OK, "%s", catcher.last);
    desc.num_q_heads = 0;
    cr_expect_eq(problem_of(FTJ_KERNEL_DECODE, &desc).group, 1u);
}

Test(problem, each_kernel_depends_on_no_more_than_it_uses)
{
    const ftj_attention_desc plain = desc_of(FTJ_KV_FP8, FTJ_KV_NVFP4, FTJ_KV_PACKED);
    ftj_attention_desc other = plain;
    other.store_dtype = FTJ_DTYPE_FP32;
    other.generic_dtype = FTJ_DTYPE_FP32;
    other.sm_scale = 3;
    other.window = FTJ_FEW_KEYS;
    other.max_blocks = 7;
    static const struct {
        enum ftj_kernel_op op;
        bool same;
    } rows[] = {
        {FTJ_KERNEL_STORE, false},         {FTJ_KERNEL_DECODE, true},
        {FTJ_KERNEL_COMBINE, true},        {FTJ_KERNEL_MERGE, true},
        {FTJ_KERNEL_GENERIC, false},       {FTJ_KERNEL_EXTEND, true},
        {FTJ_KERNEL_EXTEND_COMBINE, true}, {FTJ_KERNEL_SHORT, true},
        {FTJ_KERNEL_SHORT_COMBINE, true},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const struct ftj_problem a = problem_of(rows[i].op, &plain);
        const struct ftj_problem b = problem_of(rows[i].op, &other);
        cr_expect_eq(memcmp(&a, &b, sizeof(a)) == 0, rows[i].same, "kernel %d", (int)rows[i].op);
    }
    other = plain;
    other.softcap = 30;
    cr_expect(problem_of(FTJ_KERNEL_DECODE, &other).needs & FTJ_NEED_SOFTCAP);
    const struct ftj_problem a = problem_of(FTJ_KERNEL_COMBINE, &plain);
    const struct ftj_problem b = problem_of(FTJ_KERNEL_COMBINE, &other);
    cr_expect_eq(memcmp(&a, &b, sizeof(a)), 0, "a combine has no scores");
}

Test(problem, a_small_window_leaves_a_decode_few_keys)
{
    static const struct {
        uint32_t window;
        bool has_few_keys;
    } rows[] = {{0, false}, {1, true}, {FTJ_FEW_KEYS - 1, true}, {FTJ_FEW_KEYS, false}};
    ftj_attention_desc desc = desc_of(FTJ_KV_FP8, FTJ_KV_NVFP4, FTJ_KV_PACKED);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        desc.window = rows[i].window;
        cr_expect_eq(problem_of(FTJ_KERNEL_DECODE, &desc).has_few_keys, rows[i].has_few_keys);
        cr_expect_eq(problem_of(FTJ_KERNEL_SHORT, &desc).has_few_keys, rows[i].has_few_keys);
        cr_expect_not(problem_of(FTJ_KERNEL_COMBINE, &desc).has_few_keys);
    }
}

Test(problem, needs_are_those_of_types_formats_and_tables)
{
    ftj_attention_desc desc = desc_of(FTJ_KV_16BIT, FTJ_KV_NVFP4, FTJ_KV_NHD);
    desc.dtype = FTJ_DTYPE_FP16;
    desc.store_dtype = FTJ_DTYPE_FP32;
    desc.table = FTJ_TABLE_SLOTS;
    const uint32_t formats = FTJ_NEED_KV_16BIT | FTJ_NEED_KV_NVFP4;
    cr_expect_eq(problem_of(FTJ_KERNEL_STORE, &desc).needs,
                 FTJ_NEED_FP16 | FTJ_NEED_FP32 | formats);
    cr_expect_eq(problem_of(FTJ_KERNEL_DECODE, &desc).needs,
                 FTJ_NEED_FP16 | FTJ_NEED_SLOT_TABLE | formats);
    cr_expect_eq(problem_of(FTJ_KERNEL_MERGE, &desc).needs, (uint32_t)FTJ_NEED_FP16);
    cr_expect_eq(problem_of(FTJ_KERNEL_DECODE, &desc).group, 4u);
}

Test(problem, slots_are_contiguous_where_every_array_is)
{
    static const struct {
        ftj_kv_order order;
        bool contiguous;
    } rows[] = {{FTJ_KV_PACKED, true}, {FTJ_KV_HND, true}, {FTJ_KV_NHD, false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const ftj_attention_desc desc = desc_of(FTJ_KV_FP8, FTJ_KV_NVFP4, rows[i].order);
        cr_expect_eq(problem_of(FTJ_KERNEL_DECODE, &desc).slots_contiguous, rows[i].contiguous,
                     "%s", ftj_kv_order_name(rows[i].order));
    }
    ftj_attention_desc padded = desc_of(FTJ_KV_FP8, FTJ_KV_NVFP4, FTJ_KV_HND);
    padded.kv.v.row_scales.slot_stride_bytes = 8;
    padded.kv.v.row_scales.head_stride_bytes *= 2;
    padded.kv.v.row_scales.page_stride_bytes *= 2;
    cr_expect_not(problem_of(FTJ_KERNEL_DECODE, &padded).slots_contiguous);
}
