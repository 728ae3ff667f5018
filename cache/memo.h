/* SPDX-License-Identifier: MIT */
/* Kernels of this process by manifest. The library's one mutex lives here. */
#ifndef FTJ_CACHE_MEMO_H
#define FTJ_CACHE_MEMO_H

#include "cache/key.h"

struct ftj_memo; /* opaque */

FTJ_NODISCARD ftj_status ftj_memo_create(void (*free_value)(void *value, void *data), void *data,
                                         struct ftj_memo **out);
void ftj_memo_destroy(struct ftj_memo *memo); /* frees every value; NULL is fine */

/* Get the value of a key, building it if there is none: one thread builds, the others wait for it
 * and get the same value or the same failure; a failure is not remembered. `value` is borrowed. */
FTJ_NODISCARD ftj_status ftj_memo_get(struct ftj_memo *memo, const struct ftj_key *key,
                                      ftj_status (*build)(void *data, void **value), void *data,
                                      void **value);

#endif
