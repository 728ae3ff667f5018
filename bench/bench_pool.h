/* SPDX-License-Identifier: MIT */
/* A paged cache filled with random rows, and the shuffled pages of rotated sets of requests. */
#ifndef FTJ_BENCH_POOL_H
#define FTJ_BENCH_POOL_H

#include "base/log.h"
#include "bench/bench_random.h"
#include "ftjit/ftjit.h"

/* A zeroed one is empty. */
struct bench_pool {
    ftj_context *ctx; /* borrowed */
    ftj_kv_layout layout;
    ftj_kv_cache cache;
    void *arrays[6]; /* owned */
};

FTJ_NODISCARD ftj_status bench_pool_init(struct bench_pool *pool, ftj_context *ctx,
                                         const ftj_kv_layout *layout, uint64_t num_pages);
void bench_pool_finish(struct bench_pool *pool); /* zeroed is fine */

/* Random rows into every slot, through ftj_kv_store(): finite, with scales as real rows have. */
FTJ_NODISCARD ftj_status bench_pool_fill(struct bench_pool *pool, ftj_attention *attn,
                                         ftj_dtype dtype, struct bench_random *random);

/* Every byte of it 0xff: NaN scales, NaN values. */
FTJ_NODISCARD ftj_status bench_pool_poison(struct bench_pool *pool);

/* Device address of a row's part. `array` is one of the pool's own layout. */
const uint8_t *bench_pool_row(const struct bench_pool *pool, const ftj_kv_array *array,
                              uint64_t slot, uint32_t head);

/* Copy of host memory on the device; the caller frees it. */
FTJ_NODISCARD ftj_status bench_upload(ftj_context *ctx, const void *host, size_t bytes, void **out);

#endif
