/* SPDX-License-Identifier: MIT */
/* Arrays of NumPy's .npy files: version 1 and 2, little-endian float16, float32 and float64,
 * C order. Nothing in the file is trusted. */
#ifndef FTJ_TESTS_REF_NPY_H
#define FTJ_TESTS_REF_NPY_H

#include <stddef.h>
#include <stdint.h>

#include "ftjit/status.h"

#define REF_NPY_MAX_DIMS 8

/* A zeroed one is empty. */
struct ref_npy {
    float *values; /* [num_values], C order; owned */
    uint64_t num_values;
    uint64_t shape[REF_NPY_MAX_DIMS];
    uint32_t num_dims;
    uint32_t value_bytes; /* in the file: 2, 4 or 8 */
};

/* Room enough for any sentence below. */
#define REF_NPY_SENTENCE 512

/* Read a file, or one that is already in memory (`name` is for the sentence).
 *
 * FTJ_OK, or with one sentence in `sentence` and `out` untouched: FTJ_E_IO (cannot be opened or
 * read), FTJ_E_DAMAGED (not such a file, or its parts contradict each other), FTJ_E_UNSUPPORTED
 * (sound, but of another version, type or order), FTJ_E_NO_MEMORY. */
FTJ_NODISCARD ftj_status ref_npy_read(const char *path, struct ref_npy *out,
                                      char sentence[REF_NPY_SENTENCE]);
FTJ_NODISCARD ftj_status ref_npy_parse(const char *name, const void *file, size_t size,
                                       struct ref_npy *out, char sentence[REF_NPY_SENTENCE]);
void ref_npy_finish(struct ref_npy *array);

#endif
