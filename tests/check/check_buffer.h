/* SPDX-License-Identifier: MIT */
/* Device memory between two bands of poison: what is written outside shows, and so does what is
 * read outside, as NaN. */
#ifndef FTJ_TESTS_CHECK_BUFFER_H
#define FTJ_TESTS_CHECK_BUFFER_H

#include "tests/check/check_row.h"

/* 64 rows of the widest 16-bit head. */
#define CHECK_GUARD_BYTES 65536
/* Every byte of a band, and of a buffer before it is written: NaN in each float type, -1 in each
 * integer. */
#define CHECK_POISON_BYTE 0xff

struct check_buffer {
    void *device; /* what kernels get; NULL when it could not be had */
    size_t bytes;
    const char *name; /* static; for sentences */
    uint8_t *base;    /* owned, through ctx */
    ftj_context *ctx;
};

/* Poisoned all over. On failure the row fails and `device` is NULL. */
bool check_buffer_init(struct check_buffer *buffer, struct check_row *row, const char *name,
                       size_t bytes);
/* The same, then filled from the host. */
bool check_buffer_init_with(struct check_buffer *buffer, struct check_row *row, const char *name,
                            const void *host, size_t bytes);
bool check_buffer_write(struct check_buffer *buffer, struct check_row *row, const void *host);
bool check_buffer_read(const struct check_buffer *buffer, struct check_row *row, void *host);
/* Fails the row when a guard band has changed. */
void check_buffer_check_guards(const struct check_buffer *buffer, struct check_row *row);
/* check_guards(), then free; a zeroed buffer is fine. */
void check_buffer_finish(struct check_buffer *buffer, struct check_row *row);

#endif
