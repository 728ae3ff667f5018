/* SPDX-License-Identifier: MIT */
#include "tests/check/check_buffer.h"

#include <stdlib.h>
#include <string.h>

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

void check_buffer_check_guards(const struct check_buffer *buffer, struct check_row *row)
{
    if (!buffer->device)
        return;
    /* A read waits for the device: of a small buffer both bands come with all that is between. */
    const bool is_small = buffer->bytes <= CHECK_GUARD_BYTES;
    const size_t second = CHECK_GUARD_BYTES + buffer->bytes;
    const size_t whole = is_small ? second + CHECK_GUARD_BYTES : 2 * (size_t)CHECK_GUARD_BYTES;
    uint8_t *bands = check_alloc(whole);
    uint8_t *after = bands + whole - CHECK_GUARD_BYTES;
    if (is_small ? check_ok(row, ftj_memory_read(row->ctx, bands, buffer->base, whole),
                            "ftj_memory_read")
                 : check_ok(row, ftj_memory_read(row->ctx, bands, buffer->base, CHECK_GUARD_BYTES),
                            "ftj_memory_read") &&
                       check_ok(row,
                                ftj_memory_read(row->ctx, after, buffer->base + second,
                                                CHECK_GUARD_BYTES),
                                "ftj_memory_read")) {
        check_band(buffer, row, bands, "before");
        check_band(buffer, row, after, "after");
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
