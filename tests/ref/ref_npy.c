/* SPDX-License-Identifier: MIT */
/* A cursor over the file's bytes: magic, version, header length, the header's dictionary, values.
 */
#include "tests/ref/ref_npy.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/ref/ref_codec.h"

static const char magic[6] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};

struct reader {
    const char *name;
    char *sentence;
    const char *at; /* the header's text */
    const char *end;
};

/* What the header's dictionary says. */
struct header {
    char descr[16];
    bool has_descr;
    bool has_order;
    bool has_shape;
    bool fortran_order;
    uint64_t shape[REF_NPY_MAX_DIMS];
    uint32_t num_dims;
};

__attribute__((format(printf, 3, 4))) static ftj_status
refuse(const struct reader *reader, ftj_status status, const char *format, ...)
{
    const int used = snprintf(reader->sentence, REF_NPY_SENTENCE, "%s: ", reader->name);
    if (used > 0 && used < REF_NPY_SENTENCE) {
        va_list args;
        va_start(args, format);
        vsnprintf(reader->sentence + used, REF_NPY_SENTENCE - (size_t)used, format, args);
        va_end(args);
    }
    return status;
}

static void skip_blanks(struct reader *reader)
{
    while (reader->at < reader->end && (*reader->at == ' ' || *reader->at == '\n'))
        reader->at++;
}

/* Take `c`, blanks before it skipped; false, and nothing taken, when something else stands there.
 */
static bool take(struct reader *reader, char c)
{
    skip_blanks(reader);
    if (reader->at == reader->end || *reader->at != c)
        return false;
    reader->at++;
    return true;
}

/* 'text' or "text", at most size - 1 characters, without escapes. */
static bool take_string(struct reader *reader, char *text, size_t size)
{
    const char quote = take(reader, '\'') ? '\'' : take(reader, '"') ? '"' : '\0';
    if (quote == '\0')
        return false;
    const char *close = memchr(reader->at, quote, (size_t)(reader->end - reader->at));
    if (!close || (size_t)(close - reader->at) >= size)
        return false;
    memcpy(text, reader->at, (size_t)(close - reader->at));
    text[close - reader->at] = '\0';
    reader->at = close + 1;
    return true;
}

static bool take_word(struct reader *reader, const char *word)
{
    skip_blanks(reader);
    const size_t size = strlen(word);
    if ((size_t)(reader->end - reader->at) < size || memcmp(reader->at, word, size) != 0)
        return false;
    reader->at += size;
    return true;
}

static bool take_number(struct reader *reader, uint64_t *number)
{
    skip_blanks(reader);
    const char *begin = reader->at;
    uint64_t value = 0;
    for (; reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9'; reader->at++) {
        const uint64_t digit = (uint64_t)(*reader->at - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *number = value;
    return reader->at != begin;
}

/* "()", "(3,)", "(3, 4)". */
static ftj_status parse_shape(struct reader *reader, struct header *header)
{
    if (!take(reader, '('))
        return refuse(reader, FTJ_E_DAMAGED, "the header's shape is not a tuple");
    while (!take(reader, ')')) {
        if (header->num_dims == REF_NPY_MAX_DIMS)
            return refuse(reader, FTJ_E_UNSUPPORTED, "the shape has more than %d dimensions",
                          REF_NPY_MAX_DIMS);
        if (!take_number(reader, &header->shape[header->num_dims]))
            return refuse(reader, FTJ_E_DAMAGED,
                          "dimension %u of the header's shape is not a number of 64 bits",
                          header->num_dims);
        header->num_dims++;
        if (take(reader, ','))
            continue;
        if (!take(reader, ')'))
            return refuse(reader, FTJ_E_DAMAGED, "the header's shape is not closed");
        break;
    }
    return FTJ_OK;
}

static ftj_status parse_pair(struct reader *reader, struct header *header)
{
    char key[16];
    if (!take_string(reader, key, sizeof(key)) || !take(reader, ':'))
        return refuse(reader, FTJ_E_DAMAGED, "the header is not a dictionary of short keys");

    bool *seen = strcmp(key, "descr") == 0           ? &header->has_descr
                 : strcmp(key, "fortran_order") == 0 ? &header->has_order
                 : strcmp(key, "shape") == 0         ? &header->has_shape
                                                     : NULL;
    if (!seen || *seen)
        return refuse(reader, FTJ_E_DAMAGED, "the header has %s key '%s'",
                      seen ? "twice the" : "an unknown", key);
    *seen = true;
    if (seen == &header->has_shape)
        return parse_shape(reader, header);
    if (seen == &header->has_descr) {
        if (!take_string(reader, header->descr, sizeof(header->descr)))
            return refuse(reader, FTJ_E_UNSUPPORTED, "the header's descr is not one plain type");
        return FTJ_OK;
    }
    header->fortran_order = take_word(reader, "True");
    if (!header->fortran_order && !take_word(reader, "False"))
        return refuse(reader, FTJ_E_DAMAGED, "fortran_order is neither True nor False");
    return FTJ_OK;
}

static ftj_status parse_header(struct reader *reader, struct header *header)
{
    if (!take(reader, '{'))
        return refuse(reader, FTJ_E_DAMAGED, "the header does not start with '{'");
    while (!take(reader, '}')) {
        const ftj_status status = parse_pair(reader, header);
        if (status)
            return status;
        if (take(reader, ','))
            continue;
        if (!take(reader, '}'))
            return refuse(reader, FTJ_E_DAMAGED, "the header's dictionary is not closed");
        break;
    }
    skip_blanks(reader);
    if (reader->at != reader->end)
        return refuse(reader, FTJ_E_DAMAGED, "something follows the header's dictionary");
    if (!header->has_descr || !header->has_order || !header->has_shape)
        return refuse(reader, FTJ_E_DAMAGED, "the header lacks descr, fortran_order or shape");
    return FTJ_OK;
}

/* Where the values begin; `reader` is left on the header's text. */
static ftj_status find_header(struct reader *reader, const uint8_t *file, size_t size,
                              size_t *values_at)
{
    if (size < 10 || memcmp(file, magic, sizeof(magic)) != 0)
        return refuse(reader, FTJ_E_DAMAGED, "this is no .npy file (its first bytes are others)");
    const unsigned version = file[6];
    if (version != 1 && version != 2)
        return refuse(reader, FTJ_E_UNSUPPORTED, "its version is %u.%u; 1.0 and 2.0 are read",
                      version, file[7]);
    const size_t prefix = version == 1 ? 10 : 12;
    if (size < prefix)
        return refuse(reader, FTJ_E_DAMAGED, "the file ends inside its first %zu bytes", prefix);
    size_t length = (size_t)file[8] | (size_t)file[9] << 8;
    if (version == 2)
        length |= (size_t)file[10] << 16 | (size_t)file[11] << 24;
    if (length > size - prefix)
        return refuse(reader, FTJ_E_DAMAGED, "its header should have %zu bytes, %zu are there",
                      length, size - prefix);
    reader->at = (const char *)file + prefix;
    reader->end = reader->at + length;
    *values_at = prefix + length;
    return FTJ_OK;
}

/* Check what the header says against what this reader knows and against the bytes that are there.
 */
static ftj_status check_header(const struct reader *reader, const struct header *header,
                               uint64_t bytes_there, struct ref_npy *array)
{
    if (strcmp(header->descr, "<f2") != 0 && strcmp(header->descr, "<f4") != 0 &&
        strcmp(header->descr, "<f8") != 0)
        return refuse(reader, FTJ_E_UNSUPPORTED, "its type is '%s'; <f2, <f4 and <f8 are read",
                      header->descr);
    if (header->fortran_order)
        return refuse(reader, FTJ_E_UNSUPPORTED, "it is in Fortran order; C order is read");

    array->value_bytes = (uint32_t)(header->descr[2] - '0');
    array->num_dims = header->num_dims;
    memcpy(array->shape, header->shape, sizeof(array->shape));
    array->num_values = 1;
    for (uint32_t i = 0; i < header->num_dims; i++) {
        if (header->shape[i] != 0 && array->num_values > UINT64_MAX / header->shape[i])
            return refuse(reader, FTJ_E_DAMAGED, "its shape has more values than 64 bits count");
        array->num_values *= header->shape[i];
    }
    if (array->num_values > UINT64_MAX / array->value_bytes ||
        array->num_values * array->value_bytes != bytes_there)
        return refuse(reader, FTJ_E_DAMAGED,
                      "its shape asks for %llu values of %u bytes, %llu bytes are there",
                      (unsigned long long)array->num_values, array->value_bytes,
                      (unsigned long long)bytes_there);
    return FTJ_OK;
}

static float value_at(const uint8_t *bytes, uint32_t value_bytes)
{
    uint64_t bits = 0;
    for (uint32_t i = 0; i < value_bytes; i++)
        bits |= (uint64_t)bytes[i] << (8 * i);
    if (value_bytes == 2)
        return ref_fp16_widen((uint16_t)bits);
    if (value_bytes == 4)
        return ref_float_of_bits((uint32_t)bits);
    double value;
    memcpy(&value, &bits, sizeof(value));
    return (float)value;
}

ftj_status ref_npy_parse(const char *name, const void *file, size_t size, struct ref_npy *out,
                         char sentence[REF_NPY_SENTENCE])
{
    struct reader reader = {.name = name, .sentence = sentence};
    struct header header = {.num_dims = 0};
    struct ref_npy array = {.values = NULL};
    size_t values_at = 0;
    ftj_status status = find_header(&reader, file, size, &values_at);
    if (!status)
        status = parse_header(&reader, &header);
    if (!status)
        status = check_header(&reader, &header, size - values_at, &array);
    if (status)
        return status;

    if (array.num_values <= SIZE_MAX / sizeof(*array.values))
        array.values = malloc(array.num_values ? array.num_values * sizeof(*array.values) : 1);
    if (!array.values)
        return refuse(&reader, FTJ_E_NO_MEMORY, "no memory for %llu values",
                      (unsigned long long)array.num_values);
    const uint8_t *bytes = (const uint8_t *)file + values_at;
    for (uint64_t i = 0; i < array.num_values; i++)
        array.values[i] = value_at(bytes + i * array.value_bytes, array.value_bytes);
    *out = array;
    return FTJ_OK;
}

ftj_status ref_npy_read(const char *path, struct ref_npy *out, char sentence[REF_NPY_SENTENCE])
{
    const struct reader reader = {.name = path, .sentence = sentence};
    ftj_status status = FTJ_OK;
    struct stat info;
    uint8_t *bytes = NULL;
    size_t size = 0;
    FILE *file = fopen(path, "rb");
    if (!file || fstat(fileno(file), &info) != 0) {
        status = refuse(&reader, FTJ_E_IO, "cannot be opened: %s", strerror(errno));
        goto cleanup;
    }
    if (!S_ISREG(info.st_mode)) {
        status = refuse(&reader, FTJ_E_IO, "is not a regular file");
        goto cleanup;
    }
    size = (size_t)info.st_size;
    bytes = malloc(size ? size : 1);
    if (!bytes) {
        status = refuse(&reader, FTJ_E_NO_MEMORY, "no memory for its %zu bytes", size);
        goto cleanup;
    }
    if (fread(bytes, 1, size, file) != size) {
        status = refuse(&reader, FTJ_E_IO, "cannot be read to its end");
        goto cleanup;
    }
    status = ref_npy_parse(path, bytes, size, out, sentence);

cleanup:
    free(bytes);
    if (file)
        fclose(file);
    return status;
}

void ref_npy_finish(struct ref_npy *array)
{
    free(array->values);
    *array = (struct ref_npy){.values = NULL};
}
