/* SPDX-License-Identifier: MIT */
#include "tests/check/check_buffer.h"

#include <stdlib.h>

#include "ftjit/memory.h"

bool check_buffer_init(struct check_buffer *buffer, struct check_row *row, const char *name,
                       size_t bytes)
{
    *buffer = (struct check_buffer){.bytes = bytes, .name = name, .ctx = row->ctx};
    const size_t whole = bytes + 2 * (size_t)CHECK_GUARD_BYTES;
    void *base = NULL;
    if (!check_ok(row, ftj_memory_alloc(row->ctx, whole, &base), "ftj_memory_alloc"))
        return false;
    buffer->base = base;
    if (!check_ok(row, ftj_memory_fill(row->ctx, base, CHECK_POISON_BYTE, whole),
                  "ftj_memory_fill"))
        return false;
    buffer->device = buffer->base + CHECK_GUARD_BYTES;
    return true;
}

bool check_buffer_init_with(struct check_buffer *buffer, struct check_row *row, const char *name,
                            const void *host, size_t bytes)
{
    return check_buffer_init(buffer, row, name, bytes) && check_buffer_write(buffer, row, host);
}

bool check_buffer_write(struct check_buffer *buffer, struct check_row *row, const void *host)
{
    return buffer->bytes == 0 ||
           check_ok(row, ftj_memory_write(row->ctx, buffer->device, host, buffer->bytes),
                    "ftj_memory_write");
}

bool check_buffer_read(const struct check_buffer *buffer, struct check_row *row, void *host)
{
    return buffer->bytes == 0 ||
           check_ok(row, ftj_memory_read(row->ctx, host, buffer->device, buffer->bytes),
                    "ftj_memory_read");
}

static void check_band(const struct check_buffer *buffer, struct check_row *row, size_t offset,
                       const char *side)
{
    uint8_t *band = check_alloc(CHECK_GUARD_BYTES);
    if (check_ok(row, ftj_memory_read(row->ctx, band, buffer->base + offset, CHECK_GUARD_BYTES),
                 "ftj_memory_read")) {
        for (size_t i = 0; i < CHECK_GUARD_BYTES; i++) {
            if (band[i] != CHECK_POISON_BYTE) {
                check_fail(row, "guard band %s %s: byte %zu was written (0x%02x)", side,
                           buffer->name, i, band[i]);
                break;
            }
        }
    }
    free(band);
}

void check_buffer_check_guards(const struct check_buffer *buffer, struct check_row *row)
{
    if (!buffer->device)
        return;
    check_band(buffer, row, 0, "before");
    check_band(buffer, row, CHECK_GUARD_BYTES + buffer->bytes, "after");
}

void check_buffer_finish(struct check_buffer *buffer, struct check_row *row)
{
    if (!buffer->base)
        return;
    check_buffer_check_guards(buffer, row);
    ftj_memory_free(buffer->ctx, buffer->base);
    *buffer = (struct check_buffer){0};
}
