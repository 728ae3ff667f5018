/* SPDX-License-Identifier: MIT */
/* The reader of .npy files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz_target.h"
#include "tests/ref/ref_npy.h"

static volatile float sink;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ref_npy array = {0};
    char sentence[REF_NPY_SENTENCE] = "";
    const ftj_status status = ref_npy_parse("fuzz.npy", data, size, &array, sentence);
    if (status && !sentence[0])
        abort();
    if (!status) {
        uint64_t product = 1;
        for (uint32_t i = 0; i < array.num_dims; i++)
            product *= array.shape[i];
        if (product != array.num_values || product * array.value_bytes > size)
            abort();
        for (uint64_t i = 0; i < array.num_values; i++)
            sink = array.values[i];
    }
    ref_npy_finish(&array);
    return 0;
}

size_t fuzz_seed(int index, uint8_t *data, size_t max)
{
    static const char *const types[] = {"<f2", "<f4", "<f8"};
    static const char *const shapes[] = {"(6,)", "(2, 3)", "()", "(0, 7)", "(1, 2, 3)"};
    if (index >= 15 || max < 256)
        return 0;
    char header[120];
    const int used =
        snprintf(header, sizeof(header), "{'descr': '%s', 'fortran_order': False, 'shape': %s, }",
                 types[index % 3], shapes[index % 5]);
    memset(header + used, ' ', sizeof(header) - (size_t)used);
    header[sizeof(header) - 1] = '\n';
    const size_t lead = index < 8 ? 10 : 12; /* version 1 or 2 */
    memcpy(data, index < 8 ? "\x93NUMPY\1\0\x78\0" : "\x93NUMPY\2\0\x78\0\0\0", lead);
    memcpy(data + lead, header, sizeof(header));
    size_t size = lead + sizeof(header);
    const size_t values[] = {6, 6, 1, 0, 6};
    for (size_t i = 0; i < values[index % 5] * (size_t)(2 << index % 3); i++)
        data[size++] = (uint8_t)(i * 37);
    return size;
}
