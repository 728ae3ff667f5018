/* SPDX-License-Identifier: MIT */
/* Check a descriptor once, then cut from it what each kernel depends on, and nothing more, so that
 * layers which differ elsewhere share the kernel. */
#include "codegen/problem.h"

#include <string.h>

#include "codegen/problem_text.h"
#include "codegen/tune.h"

#define MAX_GROUP    64u
#define MAX_SHORT    64u
#define VECTOR_BYTES 16u
/* Bytes: more than a device has, and the most of a tensor map. */
#define MAX_STRIDE ((uint64_t)1 << 39)

static const char *dtype_name(ftj_dtype dtype)
{
    static const char *const names[] = {"default", "bf16", "fp16", "fp32"};
    return (unsigned)dtype < 4 ? names[dtype] : "?";
}

static ftj_status check_dtypes(const ftj_attention_desc *desc, const struct ftj_log *log)
{
    if ((unsigned)desc->dtype > FTJ_DTYPE_FP16)
        return ftj_fail(log, FTJ_E_INVALID, "dtype is %s (%d); allowed: bf16, fp16",
                        dtype_name(desc->dtype), (int)desc->dtype);
    if ((unsigned)desc->store_dtype > FTJ_DTYPE_FP32)
        return ftj_fail(log, FTJ_E_INVALID, "store_dtype is %d; allowed: bf16, fp16, fp32",
                        (int)desc->store_dtype);
    if ((unsigned)desc->generic_dtype > FTJ_DTYPE_FP32)
        return ftj_fail(log, FTJ_E_INVALID, "generic_dtype is %d; allowed: bf16, fp16, fp32",
                        (int)desc->generic_dtype);
    return FTJ_OK;
}

/* A stride that was changed after ftj_kv_layout_init() must keep rows aligned. */
static ftj_status check_array(const char *name, const ftj_kv_array *array, uint32_t alignment,
                              const struct ftj_log *log)
{
    if (!array->row_bytes)
        return FTJ_OK;
    const struct {
        const char *field;
        uint64_t value;
    } fields[] = {
        {"offset_bytes", array->offset_bytes},
        {"page_stride_bytes", array->page_stride_bytes},
        {"head_stride_bytes", array->head_stride_bytes},
        {"slot_stride_bytes", array->slot_stride_bytes},
    };
    for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
        if (fields[i].value % alignment)
            return ftj_fail(log, FTJ_E_INVALID, "kv.%s.%s is %llu; it must be a multiple of %u",
                            name, fields[i].field, (unsigned long long)fields[i].value, alignment);
        if (i > 0 && fields[i].value < array->row_bytes)
            return ftj_fail(log, FTJ_E_INVALID,
                            "kv.%s.%s is %llu; it must be at least a row, %u bytes", name,
                            fields[i].field, (unsigned long long)fields[i].value, array->row_bytes);
        if (fields[i].value > MAX_STRIDE)
            return ftj_fail(log, FTJ_E_INVALID, "kv.%s.%s is %llu; it must be at most 2^39", name,
                            fields[i].field, (unsigned long long)fields[i].value);
    }
    return FTJ_OK;
}

/* ... and apart: whichever of slots, heads and pages lie furthest from each other must do so by all
 * that lies between. How many pages there are is not known here. */
static ftj_status check_apart(const char *name, const ftj_kv_array *array,
                              const ftj_kv_shape *shape, const struct ftj_log *log)
{
    struct level {
        const char *field;
        uint64_t stride;
        uint64_t count; /* 0: not known */
    } levels[] = {
        {"slot_stride_bytes", array->slot_stride_bytes, shape->page_size},
        {"head_stride_bytes", array->head_stride_bytes, shape->num_kv_heads},
        {"page_stride_bytes", array->page_stride_bytes, 0},
    };
    uint64_t span = array->row_bytes; /* of all that is nearer */
    for (int i = 0; i < 3; i++) {
        for (int j = i + 1; j < 3; j++) { /* the nearest of those that are left */
            const struct level level = levels[i];
            if (levels[j].stride >= level.stride)
                continue;
            levels[i] = levels[j];
            levels[j] = level;
        }
        if (levels[i].count == 1 || !array->row_bytes)
            continue;
        if (levels[i].stride < span)
            return ftj_fail(log, FTJ_E_INVALID,
                            "kv.%s.%s is %llu; rows would lie over each other: it must be at least "
                            "%llu",
                            name, levels[i].field, (unsigned long long)levels[i].stride,
                            (unsigned long long)span);
        if (levels[i].count == 0)
            break;
        if (levels[i].count > MAX_STRIDE / levels[i].stride)
            span = MAX_STRIDE + 1;
        else
            span += (levels[i].count - 1) * levels[i].stride;
    }
    return FTJ_OK;
}

static uint32_t gcd(uint32_t a, uint32_t b)
{
    return b ? gcd(b, a % b) : a;
}

/* Bytes of a page and head from the first row on, in which another array cannot have any. */
static uint64_t dense_bytes(const ftj_kv_array *array, const ftj_kv_shape *shape)
{
    const bool is_dense = array->slot_stride_bytes == array->row_bytes;
    return array->row_bytes * (uint64_t)(is_dense ? shape->page_size : 1);
}

/* ... and, in one allocation, not where another array is. */
static ftj_status check_record(const ftj_kv_layout *kv, const struct ftj_log *log)
{
    const struct {
        const char *name;
        const ftj_kv_array *array;
    } arrays[] = {
        {"k.codes", &kv->k.codes},           {"k.row_scales", &kv->k.row_scales},
        {"v.codes", &kv->v.codes},           {"k.block_scales", &kv->k.block_scales},
        {"v.row_scales", &kv->v.row_scales}, {"v.block_scales", &kv->v.block_scales},
    };
    for (size_t i = 0; i < sizeof(arrays) / sizeof(*arrays); i++) {
        for (size_t j = 0; j < i; j++) {
            const ftj_kv_array *a = arrays[i].array, *b = arrays[j].array;
            if (a->row_bytes && b->row_bytes &&
                a->offset_bytes < b->offset_bytes + dense_bytes(b, &kv->shape) &&
                b->offset_bytes < a->offset_bytes + dense_bytes(a, &kv->shape))
                return ftj_fail(log, FTJ_E_INVALID,
                                "kv.%s.offset_bytes is %llu, where rows of kv.%s lie, from %llu "
                                "on: in the packed order they share an allocation",
                                arrays[i].name, (unsigned long long)a->offset_bytes, arrays[j].name,
                                (unsigned long long)b->offset_bytes);
        }
    }
    return FTJ_OK;
}

static ftj_status check_layout(const ftj_kv_layout *kv, const struct ftj_log *log)
{
    ftj_kv_layout fresh;
    ftj_status status = ftj_kv_layout_init(&fresh, &kv->shape);
    if (status)
        return status;
    if (kv->shape.num_kv_heads > FTJ_MAX_KV_HEADS)
        return ftj_fail(log, FTJ_E_INVALID, "num_kv_heads is %u; allowed: 1 to %u",
                        kv->shape.num_kv_heads, FTJ_MAX_KV_HEADS);
    if (kv->shape.page_size > FTJ_MAX_PAGE_TOKENS)
        return ftj_fail(log, FTJ_E_INVALID, "page_size is %u; allowed: 1 to %u",
                        kv->shape.page_size, FTJ_MAX_PAGE_TOKENS);

    const struct {
        const char *name;
        const ftj_kv_array *given;
        const ftj_kv_array *expected;
        uint32_t alignment;
    } arrays[] = {
        {"k.codes", &kv->k.codes, &fresh.k.codes, gcd(16, fresh.k.codes.row_bytes)},
        {"k.row_scales", &kv->k.row_scales, &fresh.k.row_scales, 4},
        {"k.block_scales", &kv->k.block_scales, &fresh.k.block_scales, 1},
        {"v.codes", &kv->v.codes, &fresh.v.codes, gcd(16, fresh.v.codes.row_bytes)},
        {"v.row_scales", &kv->v.row_scales, &fresh.v.row_scales, 4},
        {"v.block_scales", &kv->v.block_scales, &fresh.v.block_scales, 1},
    };
    for (size_t i = 0; i < sizeof(arrays) / sizeof(*arrays); i++) {
        if (arrays[i].given->row_bytes != arrays[i].expected->row_bytes)
            return ftj_fail(log, FTJ_E_INVALID, "kv.%s.row_bytes is %u; the formats make it %u",
                            arrays[i].name, arrays[i].given->row_bytes,
                            arrays[i].expected->row_bytes);
        status = check_array(arrays[i].name, arrays[i].given, arrays[i].alignment, log);
        if (!status)
            status = check_apart(arrays[i].name, arrays[i].given, &kv->shape, log);
        if (status)
            return status;
    }
    return kv->shape.order == FTJ_KV_PACKED ? check_record(kv, log) : FTJ_OK;
}

static ftj_status check_heads(const ftj_attention_desc *desc, const struct ftj_log *log)
{
    const uint32_t kv_heads = desc->kv.shape.num_kv_heads;
    if (!desc->num_q_heads)
        return FTJ_OK;
    if (desc->num_q_heads % kv_heads)
        return ftj_fail(log, FTJ_E_INVALID,
                        "num_q_heads is %u; it must be a multiple of num_kv_heads, %u",
                        desc->num_q_heads, kv_heads);
    if (desc->num_q_heads / kv_heads > MAX_GROUP)
        return ftj_fail(log, FTJ_E_INVALID,
                        "num_q_heads is %u, %u per kv head; allowed: 1 to %u per kv head",
                        desc->num_q_heads, desc->num_q_heads / kv_heads, MAX_GROUP);
    return FTJ_OK;
}

ftj_status ftj_desc_check(const ftj_attention_desc *desc, const struct ftj_log *log)
{
    const uint32_t all_ops =
        FTJ_OP_STORE | FTJ_OP_DECODE | FTJ_OP_MERGE | FTJ_OP_GENERIC | FTJ_OP_EXTEND;
    if (desc->ops & ~all_ops)
        return ftj_fail(log, FTJ_E_INVALID, "ops is 0x%x; allowed: FTJ_OP_* bits, 0x%x", desc->ops,
                        all_ops);
    if ((unsigned)desc->table > FTJ_TABLE_SLOTS)
        return ftj_fail(log, FTJ_E_INVALID,
                        "table is %d; allowed: FTJ_TABLE_BLOCKS, FTJ_TABLE_SLOTS",
                        (int)desc->table);
    /* Kernels multiply by its inverse, too. */
    if (desc->softcap != 0.0f && !(desc->softcap >= 1e-30f && desc->softcap <= 1e30f))
        return ftj_fail(log, FTJ_E_INVALID, "softcap is %g; allowed: 0 (off), or 1e-30 to 1e30",
                        (double)desc->softcap);
    if (!(desc->sm_scale >= -1e30f && desc->sm_scale <= 1e30f))
        return ftj_fail(log, FTJ_E_INVALID, "sm_scale is %g; allowed: -1e30 to 1e30",
                        (double)desc->sm_scale);

    if (desc->short_queries > MAX_SHORT)
        return ftj_fail(log, FTJ_E_INVALID, "short_queries is %u; allowed: 0 to %u",
                        desc->short_queries, MAX_SHORT);

    ftj_status status = check_dtypes(desc, log);
    if (status)
        return status;
    status = check_layout(&desc->kv, log);
    if (status)
        return status;
    return check_heads(desc, log);
}

bool ftj_has_one_stride(const ftj_kv_layout *kv)
{
    if (kv->shape.order != FTJ_KV_PACKED)
        return false;
    const ftj_kv_array *first = &kv->k.codes;
    const ftj_kv_array *others[] = {&kv->k.row_scales, &kv->k.block_scales, &kv->v.codes,
                                    &kv->v.row_scales, &kv->v.block_scales};
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        if (others[i]->row_bytes && (others[i]->page_stride_bytes != first->page_stride_bytes ||
                                     others[i]->head_stride_bytes != first->head_stride_bytes))
            return false;
    }
    return true;
}

static bool is_contiguous(const ftj_kv_side *side)
{
    const ftj_kv_array *arrays[] = {&side->codes, &side->row_scales, &side->block_scales};
    for (size_t i = 0; i < sizeof(arrays) / sizeof(*arrays); i++) {
        const uint64_t starts =
            arrays[i]->offset_bytes | arrays[i]->page_stride_bytes | arrays[i]->head_stride_bytes;
        if (arrays[i]->slot_stride_bytes != arrays[i]->row_bytes || starts % VECTOR_BYTES)
            return false;
    }
    return true;
}

static uint32_t need_of_dtype(ftj_dtype dtype)
{
    switch (dtype) {
    case FTJ_DTYPE_FP16:
        return FTJ_NEED_FP16;
    case FTJ_DTYPE_FP32:
        return FTJ_NEED_FP32;
    default:
        return FTJ_NEED_BF16;
    }
}

static uint32_t need_of_format(ftj_kv_format format)
{
    switch (format) {
    case FTJ_KV_FP8:
        return FTJ_NEED_KV_FP8;
    case FTJ_KV_NVFP4:
        return FTJ_NEED_KV_NVFP4;
    default:
        return FTJ_NEED_KV_16BIT;
    }
}

static ftj_dtype or_default(ftj_dtype dtype, ftj_dtype fallback)
{
    return dtype == FTJ_DTYPE_DEFAULT ? fallback : dtype;
}

/* The cache as kernels that read or write it see it. */
static void init_cache(struct ftj_problem *problem, const ftj_attention_desc *desc)
{
    const ftj_kv_layout *kv = &desc->kv;
    problem->k_format = kv->shape.k_format;
    problem->v_format = kv->shape.v_format;
    problem->page_size = kv->shape.page_size;
    problem->kv = *kv;
    problem->slots_contiguous = is_contiguous(&kv->k) && is_contiguous(&kv->v);
    problem->needs |= need_of_format(problem->k_format) | need_of_format(problem->v_format);
}

static uint32_t group_of(const ftj_attention_desc *desc)
{
    return desc->num_q_heads ? desc->num_q_heads / desc->kv.shape.num_kv_heads : 1;
}

bool ftj_desc_needs(const ftj_attention_desc *desc, enum ftj_kernel_op op)
{
    const bool is_short = op == FTJ_KERNEL_SHORT || op == FTJ_KERNEL_SHORT_COMBINE;
    return desc->ops & ftj_kernel_op_bit(op) &&
           (!is_short || ftj_runs_pay(&desc->kv.shape, group_of(desc), desc->short_queries));
}

void ftj_problem_init(struct ftj_problem *problem, enum ftj_kernel_op op,
                      const ftj_attention_desc *desc)
{
    memset(problem, 0, sizeof(*problem));
    const uint32_t kv_heads = desc->kv.shape.num_kv_heads;
    if (op == FTJ_KERNEL_SHORT || op == FTJ_KERNEL_SHORT_COMBINE) {
        problem->run_queries = desc->short_queries;
        op = op == FTJ_KERNEL_SHORT ? FTJ_KERNEL_DECODE : FTJ_KERNEL_COMBINE;
    }
    problem->op = op;
    problem->dtype = or_default(desc->dtype, FTJ_DTYPE_BF16);
    problem->io_dtype = problem->dtype;
    problem->head_dim = desc->kv.shape.head_dim;

    if (op == FTJ_KERNEL_STORE) {
        problem->num_kv_heads = kv_heads;
        problem->io_dtype = or_default(desc->store_dtype, problem->dtype);
    }
    if (op == FTJ_KERNEL_GENERIC)
        problem->io_dtype = or_default(desc->generic_dtype, problem->dtype);
    if (op == FTJ_KERNEL_DECODE || op == FTJ_KERNEL_COMBINE)
        problem->group = group_of(desc);
    if (op == FTJ_KERNEL_DECODE)
        problem->has_few_keys = desc->window && desc->window < FTJ_FEW_KEYS;
    if (op == FTJ_KERNEL_DECODE || op == FTJ_KERNEL_GENERIC || op == FTJ_KERNEL_EXTEND) {
        problem->table = desc->table;
        problem->has_softcap = desc->softcap > 0.0f;
        if (problem->table == FTJ_TABLE_SLOTS)
            problem->needs |= FTJ_NEED_SLOT_TABLE;
        if (problem->has_softcap)
            problem->needs |= FTJ_NEED_SOFTCAP;
    }
    problem->needs |= need_of_dtype(problem->dtype) | need_of_dtype(problem->io_dtype);
    if (op != FTJ_KERNEL_COMBINE && op != FTJ_KERNEL_MERGE && op != FTJ_KERNEL_EXTEND_COMBINE)
        init_cache(problem, desc);
}
