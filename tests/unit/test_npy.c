/* SPDX-License-Identifier: MIT */
/* The .npy reader: what it reads, and that whatever else it is given ends in a sentence. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/ref/ref_npy.h"

/* A file in memory. */
struct image {
    uint8_t bytes[2048];
    size_t size;
};

static struct image image_of(uint8_t version, const char *header, const void *values, size_t size)
{
    struct image image = {.bytes = {0x93, 'N', 'U', 'M', 'P', 'Y', version, 0}, .size = 8};
    const size_t length = strlen(header);
    const size_t length_bytes = version == 1 ? 2 : 4;
    for (size_t i = 0; i < length_bytes; i++)
        image.bytes[image.size++] = (uint8_t)(length >> (8 * i));
    memcpy(image.bytes + image.size, header, length);
    image.size += length;
    memcpy(image.bytes + image.size, values, size);
    image.size += size;
    return image;
}

/* Parse from a block of exactly that size, so that a sanitizer sees any read past it. */
static ftj_status parse(const uint8_t *bytes, size_t size, struct ref_npy *out,
                        char sentence[REF_NPY_SENTENCE])
{
    uint8_t *copy = malloc(size ? size : 1);
    cr_assert(copy != NULL);
    memcpy(copy, bytes, size);
    const ftj_status status = ref_npy_parse("x.npy", copy, size, out, sentence);
    free(copy);
    return status;
}

static void expect_refused(const struct image *image, ftj_status wanted, const char *part)
{
    struct ref_npy array = {.num_values = 77};
    char sentence[REF_NPY_SENTENCE] = "";
    const ftj_status status = parse(image->bytes, image->size, &array, sentence);
    cr_expect(status == wanted, "status %d, not %d: %s", status, wanted, sentence);
    cr_expect(strstr(sentence, part) && strncmp(sentence, "x.npy: ", 7) == 0, "\"%s\" lacks \"%s\"",
              sentence, part);
    cr_expect(array.num_values == 77 && array.values == NULL, "the result was touched");
}

static const uint8_t six_halves[12] = {0x00, 0x3c, 0x00, 0xc0, 0x01, 0x00,
                                       0x00, 0x7c, 0xff, 0x7b, 0x55, 0x35};
static const char plain_header[] =
    "{'descr': '<f2', 'fortran_order': False, 'shape': (2, 3), }    \n";

Test(npy, half_precision_is_read_in_c_order)
{
    for (uint8_t version = 1; version <= 2; version++) {
        const struct image image = image_of(version, plain_header, six_halves, sizeof(six_halves));
        struct ref_npy array = {.values = NULL};
        char sentence[REF_NPY_SENTENCE] = "";
        cr_assert(parse(image.bytes, image.size, &array, sentence) == FTJ_OK, "%s", sentence);
        const float wanted[6] = {1.0f, -2.0f, 0x1p-24f, INFINITY, 65504.0f, 0x1.554p-2f};
        cr_expect(array.num_dims == 2 && array.shape[0] == 2 && array.shape[1] == 3);
        cr_expect(array.num_values == 6 && array.value_bytes == 2);
        cr_expect_arr_eq(array.values, wanted, sizeof(wanted));
        ref_npy_finish(&array);
        cr_expect(array.values == NULL);
    }
}

Test(npy, single_and_double_precision_are_read)
{
    const float singles[2] = {1.5f, -0x1.fffffep127f};
    const double doubles[2] = {1.5, 0x1.0000001p0};
    struct ref_npy array = {.values = NULL};
    char sentence[REF_NPY_SENTENCE] = "";
    struct image image = image_of(1, "{\"shape\":(2,),\"fortran_order\":False,\"descr\":\"<f4\"}",
                                  singles, sizeof(singles));
    cr_assert(parse(image.bytes, image.size, &array, sentence) == FTJ_OK, "%s", sentence);
    cr_expect_arr_eq(array.values, singles, sizeof(singles));
    ref_npy_finish(&array);
    image = image_of(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 2)}", doubles,
                     sizeof(doubles));
    cr_assert(parse(image.bytes, image.size, &array, sentence) == FTJ_OK, "%s", sentence);
    cr_expect(array.values[0] == 1.5f && array.values[1] == 1.0f);
    ref_npy_finish(&array);
}

Test(npy, scalars_and_empty_arrays_are_arrays)
{
    struct ref_npy array = {.values = NULL};
    char sentence[REF_NPY_SENTENCE] = "";
    struct image image =
        image_of(1, "{'descr': '<f2', 'fortran_order': False, 'shape': ()}", six_halves, 2);
    cr_assert(parse(image.bytes, image.size, &array, sentence) == FTJ_OK, "%s", sentence);
    cr_expect(array.num_dims == 0 && array.num_values == 1 && array.values[0] == 1.0f);
    ref_npy_finish(&array);
    image = image_of(1, "{'descr': '<f2', 'fortran_order': False, 'shape': (4, 0)}", "", 0);
    cr_assert(parse(image.bytes, image.size, &array, sentence) == FTJ_OK, "%s", sentence);
    cr_expect(array.num_dims == 2 && array.num_values == 0);
    ref_npy_finish(&array);
}

Test(npy, every_malformed_header_has_its_sentence)
{
    static const struct {
        const char *header;
        ftj_status status;
        const char *part;
    } rows[] = {
        {"", FTJ_E_DAMAGED, "start with '{'"},
        {"{", FTJ_E_DAMAGED, "dictionary of short keys"},
        {"{}", FTJ_E_DAMAGED, "lacks descr"},
        {"{'descr' '<f2'}", FTJ_E_DAMAGED, "dictionary of short keys"},
        {"{'descr': '<f2", FTJ_E_UNSUPPORTED, "not one plain type"},
        {"{'descr': [('a', '<f2')]}", FTJ_E_UNSUPPORTED, "not one plain type"},
        {"{'a_key_longer_than_all': 1}", FTJ_E_DAMAGED, "dictionary of short keys"},
        {"{'color': 1}", FTJ_E_DAMAGED, "unknown key 'color'"},
        {"{'shape': (1,), 'shape': (1,)}", FTJ_E_DAMAGED, "twice the key 'shape'"},
        {"{'shape': 6}", FTJ_E_DAMAGED, "not a tuple"},
        {"{'shape': (2 3)}", FTJ_E_DAMAGED, "not closed"},
        {"{'shape': (2,,)}", FTJ_E_DAMAGED, "dimension 1"},
        {"{'shape': (-2,)}", FTJ_E_DAMAGED, "dimension 0"},
        {"{'shape': (2, 3", FTJ_E_DAMAGED, "not closed"},
        {"{'shape': (18446744073709551616,)}", FTJ_E_DAMAGED, "64 bits"},
        {"{'shape': (1,1,1,1,1,1,1,1,1)}", FTJ_E_UNSUPPORTED, "more than 8"},
        {"{'fortran_order': 0}", FTJ_E_DAMAGED, "neither True nor False"},
        {"{'fortran_order': False 'shape': (6,)}", FTJ_E_DAMAGED, "dictionary is not closed"},
        {"{'descr': '<f2', 'fortran_order': False, 'shape': (6,)} x", FTJ_E_DAMAGED, "follows"},
        {"{'descr': '>f2', 'fortran_order': False, 'shape': (6,)}", FTJ_E_UNSUPPORTED, "'>f2'"},
        {"{'descr': '<i2', 'fortran_order': False, 'shape': (6,)}", FTJ_E_UNSUPPORTED, "'<i2'"},
        {"{'descr': '<f2', 'fortran_order': True, 'shape': (6,)}", FTJ_E_UNSUPPORTED, "Fortran"},
        {"{'descr': '<f2', 'fortran_order': False, 'shape': (7,)}", FTJ_E_DAMAGED, "7 values"},
        {"{'descr': '<f2', 'fortran_order': False, 'shape': (5,)}", FTJ_E_DAMAGED, "5 values"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,)}", FTJ_E_DAMAGED, "of 4 bytes"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct image image = image_of(1, rows[i].header, six_halves, sizeof(six_halves));
        expect_refused(&image, rows[i].status, rows[i].part);
    }
}

Test(npy, sizes_that_overflow_are_refused)
{
    static const char *const shapes[] = {
        "(9223372036854775809,)",               /* times 2 bytes wraps to 2 */
        "(9223372036854775814,)",               /* wraps to the 12 bytes that are there */
        "(4294967296, 4294967296, 4294967296)", /* wraps to 0 values */
        "(18446744073709551615, 3)",
    };
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        char header[256];
        snprintf(header, sizeof(header), "{'descr': '<f2', 'fortran_order': False, 'shape': %s}",
                 shapes[i]);
        const struct image image = image_of(1, header, six_halves, sizeof(six_halves));
        expect_refused(&image, FTJ_E_DAMAGED, "its shape");
    }
}

Test(npy, a_wrong_beginning_is_refused)
{
    struct image image = image_of(1, plain_header, six_halves, sizeof(six_halves));
    image.bytes[0] = 'P';
    expect_refused(&image, FTJ_E_DAMAGED, "no .npy file");
    image = image_of(3, plain_header, six_halves, sizeof(six_halves));
    expect_refused(&image, FTJ_E_UNSUPPORTED, "version is 3.0");
    image = image_of(1, plain_header, six_halves, sizeof(six_halves));
    image.bytes[9] = 0xff;
    expect_refused(&image, FTJ_E_DAMAGED, "should have 653");
    image = image_of(2, plain_header, six_halves, sizeof(six_halves));
    image.bytes[11] = 0xff;
    expect_refused(&image, FTJ_E_DAMAGED, "should have 42781");
}

Test(npy, a_file_cut_short_anywhere_is_refused)
{
    for (uint8_t version = 1; version <= 2; version++) {
        struct image image = image_of(version, plain_header, six_halves, sizeof(six_halves));
        while (image.size-- > 0)
            expect_refused(&image, FTJ_E_DAMAGED, "");
    }
}

Test(npy, any_single_changed_byte_is_read_or_refused)
{
    const struct image sound = image_of(2, plain_header, six_halves, sizeof(six_halves));
    for (size_t at = 0; at < sound.size; at++) {
        for (int value = 0; value < 256; value++) {
            struct image image = sound;
            image.bytes[at] = (uint8_t)value;
            struct ref_npy array = {.values = NULL};
            char sentence[REF_NPY_SENTENCE] = "";
            const ftj_status status = parse(image.bytes, image.size, &array, sentence);
            cr_assert((status == FTJ_OK) == (sentence[0] == '\0'), "byte %zu as %d", at, value);
            ref_npy_finish(&array);
        }
    }
}

Test(npy, files_that_cannot_be_read_say_so)
{
    struct ref_npy array = {.values = NULL};
    char sentence[REF_NPY_SENTENCE] = "";
    cr_expect(ref_npy_read("/nowhere/x.npy", &array, sentence) == FTJ_E_IO);
    cr_expect(strstr(sentence, "/nowhere/x.npy: cannot be opened") != NULL, "%s", sentence);
    cr_expect(ref_npy_read("/", &array, sentence) == FTJ_E_IO);
    cr_expect(strstr(sentence, "not a regular file") != NULL, "%s", sentence);
    cr_expect(array.values == NULL);
}

Test(npy, a_file_is_read_from_disk)
{
    const struct image image = image_of(1, plain_header, six_halves, sizeof(six_halves));
    char path[] = "/tmp/ftjit_test_npy_XXXXXX";
    const int descriptor = mkstemp(path);
    cr_assert(descriptor >= 0);
    cr_assert(write(descriptor, image.bytes, image.size) == (ssize_t)image.size);
    cr_assert(close(descriptor) == 0);
    struct ref_npy array = {.values = NULL};
    char sentence[REF_NPY_SENTENCE] = "";
    const ftj_status status = ref_npy_read(path, &array, sentence);
    unlink(path);
    cr_expect(status == FTJ_OK, "%s", sentence);
    cr_expect(array.num_values == 6 && array.values[1] == -2.0f);
    ref_npy_finish(&array);
}
