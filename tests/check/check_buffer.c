/* SPDX-License-Identifier: MIT */
#include "tests/check/check_buffer.h"

#include <stdlib.h>
#include <string.h>

#include "ftjit/memory.h"

/* A call waits for the device, and a read or a write of less than this takes no longer than of one
 * byte: of a small buffer the bands come and go with what is between them. */
#define SMALL_BYTES CHECK_GUARD_BYTES

static size_t whole_bytes(const struct check_buffer *buffer)
{
    return buffer->bytes + 2 * (size_t)CHECK_GUARD_BYTES;
}

/* `device` stays NULL until all is poison. */
static bool allocate(struct check_buffer *buffer, struct check_row *row, const char *name,
                     size_t bytes)
{
    *buffer = (struct check_buffer){.bytes = bytes, .name = name, .ctx = row->ctx};
    void *base = NULL;
    if (!check_ok(row, ftj_memory_alloc(row->ctx, whole_bytes(buffer), &base), "ftj_memory_alloc"))
        return false;
    buffer->base = base;
    return true;
}

bool check_buffer_init(struct check_buffer *buffer, struct check_row *row, const char *name,
                       size_t bytes)
{
    if (!allocate(buffer, row, name, bytes) ||
        !check_ok(row,
                  ftj_memory_fill(row->ctx, buffer->base, CHECK_POISON_BYTE, whole_bytes(buffer)),
                  "ftj_memory_fill"))
        return false;
    buffer->device = buffer->base + CHECK_GUARD_BYTES;
    return true;
}

bool check_buffer_init_with(struct check_buffer *buffer, struct check_row *row, const char *name,
                            const void *host, size_t bytes)
{
    if (bytes > SMALL_BYTES || bytes == 0)
        return check_buffer_init(buffer, row, name, bytes) && check_buffer_write(buffer, row, host);
    if (!allocate(buffer, row, name, bytes))
        return false;
    uint8_t *image = check_alloc(whole_bytes(buffer));
    memset(image, CHECK_POISON_BYTE, whole_bytes(buffer));
    memcpy(image + CHECK_GUARD_BYTES, host, bytes);
    const bool written =
        check_ok(row, ftj_memory_write(row->ctx, buffer->base, image, whole_bytes(buffer)),
                 "ftj_memory_write");
    free(image);
    if (written)
        buffer->device = buffer->base + CHECK_GUARD_BYTES;
    return written;
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

static void check_band(const struct check_buffer *buffer, struct check_row *row,
                       const uint8_t *band, const char *side)
{
    size_t i = 0;
    if (band[0] == CHECK_POISON_BYTE && memcmp(band, band + 1, CHECK_GUARD_BYTES - 1) == 0)
        return;
    while (band[i] == CHECK_POISON_BYTE)
        i++;
    check_fail(row, "guard band %s %s: byte %zu was written (0x%02x)", side, buffer->name, i,
               band[i]);
}

/* The band before comes first, and that after last. */
static bool read_bands(const struct check_buffer *buffer, struct check_row *row, uint8_t *bands)
{
    const uint8_t *after = buffer->base + CHECK_GUARD_BYTES + buffer->bytes;
    if (buffer->bytes <= SMALL_BYTES)
        return check_ok(row, ftj_memory_read(row->ctx, bands, buffer->base, whole_bytes(buffer)),
                        "ftj_memory_read");
    return check_ok(row, ftj_memory_read(row->ctx, bands, buffer->base, CHECK_GUARD_BYTES),
                    "ftj_memory_read") &&
           check_ok(row,
                    ftj_memory_read(row->ctx, bands + CHECK_GUARD_BYTES, after, CHECK_GUARD_BYTES),
                    "ftj_memory_read");
}

void check_buffer_check_guards(const struct check_buffer *buffer, struct check_row *row)
{
    if (!buffer->device)
        return;
    const size_t between = buffer->bytes <= SMALL_BYTES ? buffer->bytes : 0;
    uint8_t *bands = check_alloc(between + 2 * (size_t)CHECK_GUARD_BYTES);
    if (read_bands(buffer, row, bands)) {
        check_band(buffer, row, bands, "before");
        check_band(buffer, row, bands + CHECK_GUARD_BYTES + between, "after");
    }
    free(bands);
}

void check_buffer_finish(struct check_buffer *buffer, struct check_row *row)
{
    if (!buffer->base)
        return;
    check_buffer_check_guards(buffer, row);
    ftj_memory_free(buffer->ctx, buffer->base);
    *buffer = (struct check_buffer){0};
}
