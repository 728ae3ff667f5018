/* SPDX-License-Identifier: MIT */
#include "cache/key.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/little_endian.h"

static void append_u32(struct ftj_text *text, uint32_t value)
{
    uint8_t bytes[4];
    ftj_put_u32(bytes, value);
    ftj_text_append(text, bytes, sizeof(bytes));
}

/* The length first, so that no two lists of fields give the same bytes. */
static void append_field(struct ftj_text *text, const char *data, size_t size)
{
    append_u32(text, (uint32_t)size);
    ftj_text_append(text, data, size);
}

static void append_string(struct ftj_text *text, const char *string)
{
    append_field(text, string, strlen(string));
}

/* All but the compiler, which comes last. */
static void write_stem(struct ftj_text *text, const struct ftj_key_input *input)
{
    append_u32(text, FTJ_KEY_SCHEMA);
    append_string(text, input->template_id);
    append_string(text, input->templates);
    append_string(text, input->target);
    append_string(text, input->output);
    append_u32(text, (uint32_t)input->num_options);
    for (size_t i = 0; i < input->num_options; i++)
        append_string(text, input->options[i]);
    append_field(text, input->source, input->source_bytes);
}

/* The target becomes a folder beside tmp/: nothing that could lead elsewhere. */
static ftj_status check_input(const struct ftj_key_input *input)
{
    const size_t size = strspn(input->target, "abcdefghijklmnopqrstuvwxyz0123456789_");
    const size_t max_size = sizeof(((struct ftj_key *)0)->target) - 1;
    if (size == 0 || input->target[size] != '\0' || size > max_size ||
        strcmp(input->target, "tmp") == 0)
        return ftj_fail(NULL, FTJ_E_INVALID,
                        "target \"%s\" cannot name a folder of the cache; it must be 1 to %zu of "
                        "a-z, 0-9 and _, and not \"tmp\"",
                        input->target, max_size);
    if (input->source_bytes > UINT32_MAX)
        return ftj_fail(NULL, FTJ_E_INVALID, "source has %zu bytes; it must be below 4 GiB",
                        input->source_bytes);
    return FTJ_OK;
}

ftj_status ftj_key_init(struct ftj_key *key, const struct ftj_key_input *input)
{
    const ftj_status status = check_input(input);
    if (status)
        return status;

    struct ftj_text manifest = {0};
    write_stem(&manifest, input);
    const size_t stem_bytes = manifest.size;
    append_string(&manifest, input->compiler);
    if (manifest.failed) {
        ftj_text_finish(&manifest);
        return ftj_fail(NULL, FTJ_E_NO_MEMORY, "no memory for the key of a source of %zu bytes",
                        input->source_bytes);
    }
    const XXH128_hash_t hash = XXH3_128bits(manifest.data, stem_bytes);
    snprintf(key->hex, sizeof(key->hex), "%016llx%016llx", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
    snprintf(key->compiler_hex, sizeof(key->compiler_hex), "%016llx",
             (unsigned long long)XXH3_64bits(input->compiler, strlen(input->compiler)));
    memset(key->target, 0, sizeof(key->target)); /* all of it is compared and stored */
    memcpy(key->target, input->target, strlen(input->target));
    key->manifest = (struct ftj_bytes){.data = (uint8_t *)manifest.data, .size = manifest.size};
    key->stem_bytes = stem_bytes;
    return FTJ_OK;
}

void ftj_key_finish(struct ftj_key *key)
{
    ftj_bytes_finish(&key->manifest);
    *key = (struct ftj_key){0};
}
