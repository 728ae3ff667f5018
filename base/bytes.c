/* SPDX-License-Identifier: MIT */
#include "base/bytes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ftj_status ftj_bytes_copy(struct ftj_bytes *bytes, const void *data, size_t size)
{
    uint8_t *copy = NULL;
    if (size > 0) {
        copy = malloc(size);
        if (!copy)
            return ftj_fail(NULL, FTJ_E_NO_MEMORY, "no memory for %zu bytes", size);
        memcpy(copy, data, size);
    }
    ftj_bytes_finish(bytes);
    *bytes = (struct ftj_bytes){.data = copy, .size = size};
    return FTJ_OK;
}

void ftj_bytes_finish(struct ftj_bytes *bytes)
{
    free(bytes->data);
    *bytes = (struct ftj_bytes){0};
}

/* Make room for `size` more bytes and the terminator. */
static bool reserve(struct ftj_text *text, size_t size)
{
    if (text->failed)
        return false;
    if (text->data && size < text->capacity - text->size)
        return true;

    const size_t smallest = 128;
    const size_t wanted = text->size + size + 1;
    size_t capacity = text->capacity < smallest ? smallest : text->capacity;
    while (capacity < wanted && capacity <= SIZE_MAX / 2)
        capacity *= 2;
    char *grown =
        size < SIZE_MAX - text->size && capacity >= wanted ? realloc(text->data, capacity) : NULL;
    if (!grown) {
        text->failed = 1;
        return false;
    }
    text->data = grown;
    text->capacity = capacity;
    return true;
}

void ftj_text_append(struct ftj_text *text, const void *data, size_t size)
{
    if (!reserve(text, size))
        return;
    if (size > 0)
        memcpy(text->data + text->size, data, size);
    text->size += size;
    text->data[text->size] = '\0';
}

void ftj_text_printf(struct ftj_text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    va_list measured;
    va_copy(measured, args);
    const int size = vsnprintf(NULL, 0, format, measured);
    va_end(measured);

    if (size < 0)
        text->failed = 1;
    else if (reserve(text, (size_t)size)) {
        vsnprintf(text->data + text->size, (size_t)size + 1, format, args);
        text->size += (size_t)size;
    }
    va_end(args);
}

void ftj_text_finish(struct ftj_text *text)
{
    free(text->data);
    *text = (struct ftj_text){0};
}
