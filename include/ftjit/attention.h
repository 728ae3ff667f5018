/* SPDX-License-Identifier: MIT */
/*
 * Attention over a quantised, paged KV cache: store new tokens, decode over what is there.
 *
 * Create once per kind of layer; that builds or loads every kernel. The calls after it never
 * compile, allocate, synchronise or read device memory on the host, so they may be captured in a
 * CUDA graph and replayed at other lengths. All pointers in the argument structs are device
 * pointers, borrowed until the stream has run the call, and aligned to an element where no more is
 * said. Strides are in elements unless named bytes; a stride of 0 means dense, others are head_dim
 * to 2^38, and of rows that are aligned to 16 bytes a multiple of 8. Rows of O may not overlap.
 *
 * Letters: B requests, T tokens, HQ query heads, H kv heads, D head_dim, P page_size.
 */
#ifndef FTJIT_ATTENTION_H
#define FTJIT_ATTENTION_H

#include "ftjit/context.h"
#include "ftjit/kv_layout.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ftj_attention ftj_attention;

typedef enum ftj_dtype {
    FTJ_DTYPE_DEFAULT = 0, ///< what the field's comment says
    FTJ_DTYPE_BF16 = 1,
    FTJ_DTYPE_FP16 = 2,
    FTJ_DTYPE_FP32 = 3,
} ftj_dtype;

/** How a request's tokens are found in the cache. */
typedef enum ftj_kv_table {
    FTJ_TABLE_BLOCKS = 0, ///< block_table [B, width] of page ids, and lengths [B]
    FTJ_TABLE_SLOTS = 1,  ///< indptr [B + 1] and indices [indptr[B]] of slots
} ftj_kv_table;

/** Operations an attention is built for; or them together. */
enum {
    FTJ_OP_STORE = 1 << 0,   ///< ftj_kv_store()
    FTJ_OP_DECODE = 1 << 1,  ///< ftj_attention_decode()
    FTJ_OP_MERGE = 1 << 2,   ///< ftj_state_merge()
    FTJ_OP_GENERIC = 1 << 3, ///< ftj_attention_generic()
    FTJ_OP_EXTEND = 1 << 4,  ///< ftj_attention_extend()
};

/**
 * Everything that decides which kernels are built. Zeroed fields mean their defaults.
 *
 * Equal descriptors share kernels. Sizes that only change the amount of work are call arguments.
 */
typedef struct ftj_attention_desc {
    uint32_t ops;            ///< FTJ_OP_*; 0: store, decode and merge
    ftj_kv_layout kv;        ///< from ftj_kv_layout_init(), strides changed or not; of at most 4096
                             ///< kv heads and 2^30 tokens a page, strides at most 2^39 bytes, no
                             ///< row over another
    ftj_kv_table table;      ///< how requests come
    uint32_t num_q_heads;    ///< HQ, 1 to 64 times num_kv_heads, a multiple of it; 0: num_kv_heads
    ftj_dtype dtype;         ///< of Q, O and a 16-bit cache: BF16 or FP16; default BF16
    ftj_dtype store_dtype;   ///< of the rows ftj_kv_store() is given; default dtype
    ftj_dtype generic_dtype; ///< of Q and O of ftj_attention_generic(); default dtype
    float sm_scale;          ///< multiplies q.k, -1e30 to 1e30; 0: head_dim^-0.5
    float softcap;           ///< c, 1e-30 to 1e30: a score s becomes c * tanh(s / c); 0: off
    uint32_t window;         ///< visible keys, the query's own included, any number; 0: all
    uint32_t max_blocks;     ///< most blocks a decode or an extend may use, to leave room for other
                             ///< work or to force coarser splits; 0: fill the device. Where an
                             ///< extend's blocks work in pairs: whole pairs
    uint32_t short_queries;  ///< of FTJ_OP_EXTEND, 0 to 64: calls whose requests have at most so
                             ///< many queries each (2 to 8 of a speculative decode) run through
                             ///< decode's kernels, at about the cost of a decode; 0 or 1: none do.
                             ///< Without effect where it makes more columns (queries times query
                             ///< heads per kv head) than pay there: see docs/decode.md
} ftj_attention_desc;

/**
 * Build an attention: every kernel it will need comes from memory, from disk, or is compiled.
 *
 * Takes milliseconds with a warm cache, seconds with a cold one: call it before a stream capture,
 * never inside one. Any thread; concurrent calls for one kernel compile it once.
 *
 * @param ctx  Owner; must outlive the attention.
 * @param desc Borrowed for the call.
 * @param out  Receives the attention; the caller frees it with ftj_attention_destroy().
 *             Untouched on failure.
 *
 * @return FTJ_OK, or
 *         FTJ_E_INVALID      a field is out of range; the sentence names it;
 *         FTJ_E_UNSUPPORTED  no kernel covers it on this device; the sentence says why;
 *         FTJ_E_COMPILER     a kernel is not in the cache and no compiler was found;
 *         FTJ_E_COMPILE      the sentence names the file with the source and the log;
 *         FTJ_E_CAPTURE      a kernel is not in memory, and a stream is being captured;
 *         FTJ_E_SEALED       a kernel is in no cache, and the context is sealed;
 *         FTJ_E_DAMAGED      the driver refuses a kernel that was compiled now: it is older than
 *                            the compiler, as the sentence then says;
 *         FTJ_E_LAUNCH       a block of a kernel does not fit an SM of the device;
 *         FTJ_E_IO           the CPU target finds no folder to compile in;
 *         FTJ_E_DRIVER, FTJ_E_NO_MEMORY.
 */
FTJ_API FTJ_NODISCARD ftj_status ftj_attention_create(ftj_context *ctx,
                                                      const ftj_attention_desc *desc,
                                                      ftj_attention **out);

/** Free an attention. NULL is fine. Its kernels stay with the context. */
FTJ_API void ftj_attention_destroy(ftj_attention *attn);

/** New rows into the cache. */
typedef struct ftj_store_args {
    ftj_kv_cache cache;
    const void *k;          ///< [T, H, D] store_dtype, unit stride in D, aligned to an element
    const void *v;          ///< likewise, with strides of its own
    int64_t k_token_stride; ///< elements; 0: H * D
    int64_t k_head_stride;  ///< elements; 0: D
    int64_t v_token_stride;
    int64_t v_head_stride;
    const void *slots; ///< [T] int32 or int64, dense; a negative slot skips its token
    bool slots_are_int64;
    uint64_t num_tokens;    ///< T, at most 2^40; 0 launches nothing
    uint32_t *num_rejected; ///< optional, one counter: tokens whose slot is past the last page are
                            ///< not written and counted here (added to what it holds)
} ftj_store_args;

/**
 * Quantise and scatter K and V rows, in one launch.
 *
 * Rows are encoded exactly as docs/formats.md says, the same bytes on every device. Two tokens
 * with one slot in one call: the slot ends as one of the two.
 *
 * @return FTJ_OK, or
 *         FTJ_E_INVALID  before any launch: the operation is not one of desc.ops, or an argument is
 *                        NULL, out of range, misaligned, host memory or another device's; the
 *                        sentence says which;
 *         FTJ_E_LAUNCH   the driver refused the launch, or (on the CPU) the kernel failed;
 *         FTJ_E_DRIVER, FTJ_E_NO_MEMORY.
 */
FTJ_API FTJ_NODISCARD ftj_status ftj_kv_store(ftj_attention *attn, const ftj_store_args *args,
                                              struct CUstream_st *stream);

/**
 * Requests: how many, how long, and where their tokens are.
 *
 * The keys of a decode, summed over its requests and multiplied by the kv heads and by the group
 * in blocks of 8 heads, must stay below 2^34: work is counted on the device, in 32 bits and tiles
 * of 16 keys or more.
 *
 * While the kernel before it in the stream still runs, a decode on sm_90 (and an extend through
 * decode's kernels) may look at lengths and block_table, and ask the L2 for tiles of any page of
 * the cache: all of it must be allocated by then. What counts is what it holds when that kernel has
 * ended.
 */
typedef struct ftj_requests {
    uint32_t batch;             ///< B; 0 launches nothing
    const int32_t *lengths;     ///< TABLE_BLOCKS: [B] keys of each request, 0 or more
    const int32_t *block_table; ///< TABLE_BLOCKS: [B, width] page ids; those past a length, or
                                ///< wholly before the window, count for nothing
    int64_t block_table_stride; ///< elements from a request to the next (the width), 1 to 2^31 - 1;
                                ///< required
    const int32_t *indptr;      ///< TABLE_SLOTS: [B + 1]
    const int32_t *indices;     ///< TABLE_SLOTS: slots; token j of request r: indices[indptr[r]+j]
} ftj_requests;

/** One query per request, standing at its last key. */
typedef struct ftj_decode_args {
    ftj_kv_cache cache;
    ftj_requests requests;
    const void *q;          ///< [B, HQ, D] dtype, unit stride in D, rows aligned to 16 bytes
    int64_t q_batch_stride; ///< elements; 0: HQ * D
    int64_t q_head_stride;  ///< elements; 0: D
    void *o;                ///< [B, HQ, D] dtype, aligned alike; every row is written
    int64_t o_batch_stride;
    int64_t o_head_stride;
    float *lse;         ///< [B, HQ] natural log of the softmax denominator; NULL: not wanted
    const float *sinks; ///< [HQ] one extra logit a head, not multiplied by sm_scale; or NULL
    void *workspace;    ///< ftj_attention_workspace_bytes() bytes, aligned to 256; not shared
                        ///< by calls that may run at the same time; need not survive a call
    size_t workspace_bytes;
} ftj_decode_args;

/** Workspace of any decode and any extend, whatever the batch. Any thread. */
FTJ_API size_t ftj_attention_workspace_bytes(const ftj_attention *attn);

/**
 * O = softmax(sm_scale * q K^T) V over each request's visible keys.
 *
 * A request that sees no key gets O = 0 and LSE = -inf (with a sink: LSE = the sink).
 *
 * @return as ftj_kv_store().
 */
FTJ_API FTJ_NODISCARD ftj_status ftj_attention_decode(ftj_attention *attn,
                                                      const ftj_decode_args *args,
                                                      struct CUstream_st *stream);

/**
 * Runs of queries: of each request, the queries of its last so many tokens.
 *
 * Query i of a request of q queries and n keys stands at position n - q + i and sees the keys up to
 * and with it. A query before key 0 (q > n) sees none.
 */
typedef struct ftj_extend_args {
    ftj_kv_cache cache;
    ftj_requests requests;    ///< lengths count the new tokens too
    const int32_t *qo_indptr; ///< [B + 1], ascending: queries qo_indptr[r] up to, and without,
                              ///< qo_indptr[r + 1] are request r's
    uint32_t num_queries;     ///< TQ, at least qo_indptr[B]; rows past that are left as they are;
                              ///< 0 launches nothing; at most 2^30 / (HQ / H)
    uint32_t max_queries;     ///< the most queries that a request of this call, or of its replays,
                              ///< has; 0: not known. It says whether blocks of an extend can work
                              ///< in pairs; not known, they can if TQ queries of one request could.
                              ///< With desc.short_queries it chooses the kernels: decode's up to
                              ///< that many, extend's above it; not known, decode's if
                              ///< TQ <= B * short_queries. Wrong, it costs time, no result
    const void *q;            ///< [TQ, HQ, D] dtype, unit stride in D, rows aligned to 16 bytes
    int64_t q_token_stride;   ///< elements; 0: HQ * D
    int64_t q_head_stride;    ///< elements; 0: D
    void *o;                  ///< [TQ, HQ, D] dtype, aligned alike
    int64_t o_token_stride;
    int64_t o_head_stride;
    float *lse;         ///< [TQ, HQ] natural log of the softmax denominator; NULL: not wanted
    const float *sinks; ///< [HQ] or NULL, as in ftj_decode_args
    const void *k_new;  ///< [TQ, H, D] dtype, rows aligned to 16 bytes: keys of the queries'
                        ///< own tokens, then read from here and not from the cache, in 16
                        ///< bits whatever its format; NULL (and v_new): all from the cache
    const void *v_new;
    int64_t k_new_token_stride; ///< elements; 0: H * D
    int64_t k_new_head_stride;  ///< elements; 0: D
    int64_t v_new_token_stride;
    int64_t v_new_head_stride;
    void *workspace; ///< as in ftj_decode_args
    size_t workspace_bytes;
} ftj_extend_args;

/**
 * O = softmax(sm_scale * q K^T) V, causal, over what each query sees.
 *
 * A query that sees no key gets O = 0 and LSE = -inf (with a sink: LSE = the sink). Lengths and
 * qo_indptr are read on the device, so a captured call may be replayed with others, up to TQ.
 *
 * @return as ftj_kv_store().
 */
FTJ_API FTJ_NODISCARD ftj_status ftj_attention_extend(ftj_attention *attn,
                                                      const ftj_extend_args *args,
                                                      struct CUstream_st *stream);

/** Any queries at any positions, in fp32 without tensor cores: the oracle, not the fast path. */
typedef struct ftj_generic_args {
    ftj_kv_cache cache;
    ftj_requests requests;
    const void *q;              ///< [TQ, HQ, D] generic_dtype, dense
    void *o;                    ///< [TQ, HQ, D] generic_dtype, dense
    float *lse;                 ///< [TQ, HQ] or NULL
    const float *sinks;         ///< [HQ] or NULL
    uint32_t num_queries;       ///< TQ; 0 launches nothing
    const int32_t *q_requests;  ///< [TQ] request of each query; NULL: query i is request i. One
                                ///< that is not below B has no keys
    const int32_t *q_positions; ///< [TQ] position; sees keys j <= position; NULL: the last key
} ftj_generic_args;

/**
 * The same O and LSE as a decode or an extend, each query by itself and all of it in fp32.
 *
 * For tests and for shapes that nothing else serves; slow. @return as ftj_kv_store().
 */
FTJ_API FTJ_NODISCARD ftj_status ftj_attention_generic(ftj_attention *attn,
                                                       const ftj_generic_args *args,
                                                       struct CUstream_st *stream);

/** Two attention states over disjoint keys, to be merged into the state over both. */
typedef struct ftj_merge_args {
    const void *o_a;    ///< [rows, D] dtype, dense, aligned to 4 bytes, as o_b and o are
    const float *lse_a; ///< [rows] natural log
    const void *o_b;
    const float *lse_b;
    void *o;       ///< [rows, D] dtype; may be o_a or o_b
    float *lse;    ///< [rows] or NULL; may be lse_a or lse_b
    uint64_t rows; ///< B * HQ, say, at most 2^40; 0 launches nothing
} ftj_merge_args;

/** Merge states: (0, -inf) is neutral; two of them give (0, -inf). @return as ftj_kv_store(). */
FTJ_API FTJ_NODISCARD ftj_status ftj_state_merge(ftj_attention *attn, const ftj_merge_args *args,
                                                 struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
