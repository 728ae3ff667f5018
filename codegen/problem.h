/* SPDX-License-Identifier: MIT */
/* What the caller asks of one kernel, checked: the part of a descriptor that kernels depend on. */
#ifndef FTJ_CODEGEN_PROBLEM_H
#define FTJ_CODEGEN_PROBLEM_H

#include "base/device.h"
#include "ftjit/attention.h"

/* Kernels, as opposed to the public FTJ_OP_* bits: a decode is two of them, an extend too, and two
 * more where it has short runs of queries. Those are the decode's, for runs: the op of their
 * problems is the decode's. */
enum ftj_kernel_op {
    FTJ_KERNEL_STORE,
    FTJ_KERNEL_DECODE,
    FTJ_KERNEL_COMBINE,
    FTJ_KERNEL_MERGE,
    FTJ_KERNEL_GENERIC,
    FTJ_KERNEL_EXTEND,
    FTJ_KERNEL_EXTEND_COMBINE,
    FTJ_KERNEL_SHORT,
    FTJ_KERNEL_SHORT_COMBINE,
};
#define FTJ_NUM_KERNEL_OPS 9

/* Needs a variant must cover. */
enum ftj_need {
    FTJ_NEED_BF16 = 1u << 0,
    FTJ_NEED_FP16 = 1u << 1,
    FTJ_NEED_FP32 = 1u << 2, /* of the rows in (store) or of Q (generic) */
    FTJ_NEED_KV_16BIT = 1u << 3,
    FTJ_NEED_KV_FP8 = 1u << 4,
    FTJ_NEED_KV_NVFP4 = 1u << 5,
    FTJ_NEED_SLOT_TABLE = 1u << 6,
    FTJ_NEED_SOFTCAP = 1u << 7,
};

/* What a kernel, or a line of a record, can count. */
#define FTJ_MAX_KV_HEADS    4096u
#define FTJ_MAX_PAGE_TOKENS (1u << 30)

/* Keys of a window under which a decode is dealt for latency: a tile or two for every warp. */
#define FTJ_FEW_KEYS 512u

struct ftj_problem {
    enum ftj_kernel_op op;
    ftj_dtype dtype;    /* of Q, O, a 16-bit cache; never DEFAULT */
    ftj_dtype io_dtype; /* store: of the rows in; generic: of Q and O; else dtype */
    ftj_kv_format k_format;
    ftj_kv_format v_format;
    uint32_t head_dim;
    uint32_t group;        /* query heads per kv head */
    uint32_t run_queries;  /* decode: the most queries of a request, when above 1; else 0 */
    uint32_t num_kv_heads; /* store only */
    uint32_t page_size;
    ftj_kv_table table;
    bool has_softcap;
    bool has_few_keys;     /* decode: the window leaves a query less than FTJ_FEW_KEYS */
    bool slots_contiguous; /* rows of one (page, head) follow each other without a gap, from a
                              16-byte boundary: they can be copied as one span */
    ftj_kv_layout kv;      /* for alignments */
    uint32_t needs;
};

/* Check a whole descriptor; the sentence names the field, its value and what is allowed. */
FTJ_NODISCARD ftj_status ftj_desc_check(const ftj_attention_desc *desc, const struct ftj_log *log);

/* True when a checked descriptor's operations need this kernel. Its ops are named, not 0. */
bool ftj_desc_needs(const ftj_attention_desc *desc, enum ftj_kernel_op op);

/* True when all arrays of a packed cache step alike from page to page and from head to head, so
 * that one address serves them all. */
bool ftj_has_one_stride(const ftj_kv_layout *kv);

/* The problem of one kernel of a checked descriptor. */
void ftj_problem_init(struct ftj_problem *problem, enum ftj_kernel_op op,
                      const ftj_attention_desc *desc);

#endif
