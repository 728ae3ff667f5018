/* SPDX-License-Identifier: MIT */
/* Owned bytes, and text that grows. */
#ifndef FTJ_BASE_BYTES_H
#define FTJ_BASE_BYTES_H

#include <stddef.h>
#include <stdint.h>

#include "base/log.h"

/* A zeroed one is empty. Owned by whoever holds the struct. */
struct ftj_bytes {
    uint8_t *data;
    size_t size;
};

/* Copy; FTJ_E_NO_MEMORY leaves `bytes` untouched. */
FTJ_NODISCARD ftj_status ftj_bytes_copy(struct ftj_bytes *bytes, const void *data, size_t size);
void ftj_bytes_finish(struct ftj_bytes *bytes);

/* Text being written. Appending past memory sets `failed` and changes nothing else, so that a
 * writer checks once, at the end. `data` is NULL until the first append (of nothing, even) and
 * always terminated from then on. */
struct ftj_text {
    char *data;
    size_t size; /* without the terminator */
    size_t capacity;
    int failed;
};

void ftj_text_append(struct ftj_text *text, const void *data, size_t size);
void ftj_text_printf(struct ftj_text *text, const char *format, ...) FTJ_PRINTF(2, 3);
void ftj_text_finish(struct ftj_text *text);

#endif
