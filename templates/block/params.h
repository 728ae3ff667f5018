/* SPDX-License-Identifier: MIT */
/*
 * What the host passes to a kernel, by value: plain C, read by both compilers.
 * Addresses and strides are 64-bit; strides of cache arrays are in bytes, others in elements.
 */
#ifndef FTJ_PARAMS_H
#define FTJ_PARAMS_H

#if defined(__CUDACC_RTC__)
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#else
#include <stdint.h>
#endif
#if defined(__cplusplus)
#define FTJ_ALIGNED_128 alignas(128)
#else
#define FTJ_ALIGNED_128 _Alignas(128)
#endif

/* One array of cache rows. Row (page, head, offset) is at
 * base + page * page_stride + head * head_stride + offset * slot_stride. */
typedef struct ftj_array_params {
    uint64_t base;
    uint64_t page_stride;
    uint64_t head_stride;
    uint64_t slot_stride;
} ftj_array_params;

typedef struct ftj_side_params {
    ftj_array_params codes;
    ftj_array_params row_scales;   /* fp32 */
    ftj_array_params block_scales; /* E4M3, one per 16 values */
} ftj_side_params;

typedef struct ftj_cache_params {
    ftj_side_params k;
    ftj_side_params v;
} ftj_cache_params;

/* Rows of 16-bit values, for tensor copies: row (page, head, slot) is at base + page * strides[2] +
 * head * strides[1] + slot * strides[0]. */
typedef struct ftj_tensor {
    uint64_t base;
    uint64_t strides[3]; /* bytes */
    uint32_t dims;       /* of a row */
    uint32_t slots;
    uint32_t heads;
    uint32_t pages;
    uint32_t box_dims; /* that a copy brings, of */
    uint32_t box_slots;
} ftj_tensor;

/* The same as the copy engine takes it, which only the driver can write. The CPU target's is the
 * ftj_tensor. */
typedef struct ftj_tensor_map {
    FTJ_ALIGNED_128 uint64_t words[16];
} ftj_tensor_map;

typedef struct ftj_requests_params {
    uint64_t lengths;     /* int32 [batch], or 0: from indptr */
    uint64_t table;       /* int32: page ids [batch, table_stride], or slots */
    uint64_t indptr;      /* int32 [batch + 1], or 0 */
    int64_t table_stride; /* elements */
    uint32_t batch;
    uint32_t window; /* visible keys; 0: all */
} ftj_requests_params;

typedef struct ftj_store_params {
    ftj_cache_params cache;
    uint64_t k; /* Source [num_tokens, num_kv_heads, head_dim] */
    uint64_t v;
    int64_t k_token_stride;
    int64_t k_head_stride;
    int64_t v_token_stride;
    int64_t v_head_stride;
    uint64_t slots; /* int32 or int64 [num_tokens] */
    uint64_t num_tokens;
    uint64_t num_slots;    /* slots at or past it do not exist */
    uint64_t num_rejected; /* uint32 counter, or 0 */
    uint32_t num_kv_heads;
    uint32_t slots_are_int64;
} ftj_store_params;

typedef struct ftj_decode_params {
    ftj_cache_params cache;
    ftj_requests_params requests;
    uint64_t qo_indptr; /* int32 [batch + 1]: rows of a request's run of queries; 0: row r is the
                           one of request r */
    uint64_t q;         /* Element [rows, q_heads, head_dim] */
    uint64_t o;         /* Element [rows, q_heads, head_dim] */
    uint64_t lse;       /* float [rows, q_heads], or 0 */
    uint64_t sinks;     /* float [q_heads], or 0 */
    int64_t q_row_stride;
    int64_t q_head_stride;
    int64_t o_row_stride;
    int64_t o_head_stride;
    uint64_t partial_out;   /* float [2 * blocks][unit_heads][columns of a unit][head_dim] */
    uint64_t partial_state; /* float2 [2 * blocks][unit_heads][columns]: max (log2), sum */
    uint32_t num_kv_heads;
    uint32_t unit_heads;       /* kv heads of a unit, side by side, */
    uint32_t head_sets;        /* and how many times so many there are */
    uint32_t group;            /* query heads per kv head */
    uint32_t head_blocks;      /* units a kv head's group is cut into, with one query a request */
    uint32_t blocks;           /* the decode's grid, */
    uint32_t tile_shift;       /* log2 of the tokens of its tiles, */
    uint32_t min_shift;        /* log2 of how many of them a block has at least, */
    uint32_t unit_cost;        /* how many it costs to start a unit, */
    uint32_t most_idle;        /* blocks that may be left with nothing to do, to cut units whole, */
    uint32_t slack;            /* and how many tiles longer it may take, */
    uint32_t unit_pieces;      /* pieces to a unit of a full batch that the grid has room for, */
    uint32_t block_units;      /* and whole units to a block, where there are more than blocks */
    uint32_t combine_units;    /* that the combine's grid has at a time, */
    uint32_t combine_chunks;   /* blocks of it to a unit, */
    uint32_t combine_rows;     /* and rows to a block, */
    uint32_t combine_few_rows; /* or so many of a unit of few parts: the first blocks have all */
    uint32_t combine_by_chunk; /* the first blocks of all units come first */
    uint32_t num_pages;        /* of the cache */
    float score_scale;         /* sm_scale * log2(e), or sm_scale with a softcap */
    float softcap;             /* 0: off */
} ftj_decode_params;

typedef struct ftj_extend_params {
    ftj_tensor_map k_tensor; /* of 16-bit rows in the cache, where tensor copies bring them, */
    ftj_tensor_map v_tensor;
    ftj_tensor_map k_new_tensor; /* and of those beside it */
    ftj_tensor_map v_new_tensor;
    ftj_cache_params cache;
    ftj_requests_params requests;
    uint64_t q;         /* Element [num_queries, q_heads, head_dim] */
    uint64_t o;         /* Element [num_queries, q_heads, head_dim] */
    uint64_t lse;       /* float [num_queries, q_heads], or 0 */
    uint64_t sinks;     /* float [q_heads], or 0 */
    uint64_t qo_indptr; /* int32 [batch + 1] */
    uint64_t k_new;     /* Element [num_queries, num_kv_heads, head_dim], or 0: every key
                           is in the cache */
    uint64_t v_new;
    int64_t q_token_stride;
    int64_t q_head_stride;
    int64_t o_token_stride;
    int64_t o_head_stride;
    int64_t k_new_token_stride;
    int64_t k_new_head_stride;
    int64_t v_new_token_stride;
    int64_t v_new_head_stride;
    uint64_t partial_out;   /* float [2 * blocks][block_rows][head_dim] */
    uint64_t partial_state; /* float2 [2 * blocks][block_rows]: max (log2), sum */
    uint64_t splits;        /* uint32 [blocks][8]: see block/query_tile.cuh */
    uint32_t num_kv_heads;
    uint32_t group;         /* query heads per kv head */
    uint32_t heads_inverse; /* (2^32 - 1) / num_kv_heads: see block/divisor.cuh */
    uint32_t group_inverse;
    uint32_t block_rows; /* of a query tile */
    float score_scale;   /* sm_scale * log2(e), or sm_scale with a softcap */
    float softcap;       /* 0: off */
} ftj_extend_params;

typedef struct ftj_generic_params {
    ftj_cache_params cache;
    ftj_requests_params requests;
    uint64_t q; /* Element [num_queries, q_heads, head_dim] */
    uint64_t o;
    uint64_t lse;         /* float [num_queries, q_heads], or 0 */
    uint64_t sinks;       /* float [q_heads], or 0 */
    uint64_t q_requests;  /* int32 [num_queries], or 0: query i is request i */
    uint64_t q_positions; /* int32 [num_queries], or 0: the last key */
    uint32_t num_queries;
    uint32_t num_kv_heads;
    uint32_t group;
    float sm_scale;
    float softcap;
} ftj_generic_params;

typedef struct ftj_merge_params {
    uint64_t o_a;   /* Element [rows, head_dim] */
    uint64_t lse_a; /* float [rows] */
    uint64_t o_b;
    uint64_t lse_b;
    uint64_t o;
    uint64_t lse; /* or 0 */
    uint64_t rows;
} ftj_merge_params;

#endif
