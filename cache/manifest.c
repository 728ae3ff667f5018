/* SPDX-License-Identifier: MIT */
#include "cache/manifest.h"

#include <stdlib.h>
#include <string.h>

#include "base/little_endian.h"

struct cursor {
    const uint8_t *at;
    size_t left;
    bool failed;
};

static uint32_t take_u32(struct cursor *cursor)
{
    if (cursor->left < 4) {
        cursor->failed = true;
        return 0;
    }
    const uint32_t value = ftj_get_u32(cursor->at);
    cursor->at += 4;
    cursor->left -= 4;
    return value;
}

static struct ftj_slice take_field(struct cursor *cursor)
{
    const uint32_t size = take_u32(cursor);
    if (cursor->failed || size > cursor->left) {
        cursor->failed = true;
        return (struct ftj_slice){"", 0};
    }
    const struct ftj_slice slice = {(const char *)cursor->at, size};
    cursor->at += size;
    cursor->left -= size;
    return slice;
}

ftj_status ftj_manifest_parse(struct ftj_manifest *manifest, const void *data, size_t size)
{
    struct cursor cursor = {.at = data, .left = size};
    struct ftj_manifest parsed = {.schema = take_u32(&cursor)};
    if (parsed.schema != FTJ_KEY_SCHEMA)
        return FTJ_E_DAMAGED;
    parsed.template_id = take_field(&cursor);
    parsed.templates = take_field(&cursor);
    parsed.target = take_field(&cursor);
    parsed.output = take_field(&cursor);
    parsed.num_options = take_u32(&cursor);
    if (parsed.num_options > FTJ_MANIFEST_MAX_OPTIONS)
        return FTJ_E_DAMAGED;
    for (size_t i = 0; i < parsed.num_options; i++)
        parsed.options[i] = take_field(&cursor);
    parsed.source = take_field(&cursor);
    parsed.compiler = take_field(&cursor);
    if (cursor.failed || cursor.left > 0)
        return FTJ_E_DAMAGED;
    *manifest = parsed;
    return FTJ_OK;
}

/* Fields that are texts for the key, each with a terminator, one after the other in `storage`. */
static const char *terminate(const struct ftj_slice *slice, char **storage)
{
    char *text = *storage;
    if (slice->size > 0)
        memcpy(text, slice->data, slice->size);
    text[slice->size] = '\0';
    *storage += slice->size + 1;
    return text;
}

static bool has_terminator(const struct ftj_slice *slice)
{
    return slice->size > 0 && memchr(slice->data, '\0', slice->size);
}

/* Only what ftj_key_init() could have written has a key. */
static bool is_text(const struct ftj_manifest *manifest)
{
    const struct ftj_slice *const slices[] = {&manifest->template_id, &manifest->templates,
                                              &manifest->target, &manifest->output,
                                              &manifest->compiler};
    for (size_t i = 0; i < sizeof(slices) / sizeof(*slices); i++) {
        if (has_terminator(slices[i]))
            return false;
    }
    for (size_t i = 0; i < manifest->num_options; i++) {
        if (has_terminator(&manifest->options[i]))
            return false;
    }
    return true;
}

ftj_status ftj_manifest_key(const void *data, size_t size, struct ftj_key *key)
{
    struct ftj_manifest manifest;
    ftj_status status = ftj_manifest_parse(&manifest, data, size);
    if (status)
        return status;
    if (!is_text(&manifest))
        return FTJ_E_DAMAGED;
    /* A field's terminator takes less room than the length that stood before it. */
    char *storage = malloc(size);
    if (!storage)
        return ftj_fail(NULL, FTJ_E_NO_MEMORY, "no memory for a manifest of %zu bytes", size);

    char *at = storage;
    const char *options[FTJ_MANIFEST_MAX_OPTIONS];
    for (size_t i = 0; i < manifest.num_options; i++)
        options[i] = terminate(&manifest.options[i], &at);
    const struct ftj_key_input input = {
        .template_id = terminate(&manifest.template_id, &at),
        .templates = terminate(&manifest.templates, &at),
        .target = terminate(&manifest.target, &at),
        .output = terminate(&manifest.output, &at),
        .compiler = terminate(&manifest.compiler, &at),
        .options = options,
        .num_options = manifest.num_options,
        .source = manifest.source.data,
        .source_bytes = manifest.source.size,
    };
    status = ftj_key_init(key, &input);
    free(storage);
    return status == FTJ_E_INVALID ? FTJ_E_DAMAGED : status;
}

bool ftj_slice_is(const struct ftj_slice *slice, const char *text)
{
    return slice->size == strlen(text) && memcmp(slice->data, text, slice->size) == 0;
}
