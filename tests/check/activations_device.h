/* SPDX-License-Identifier: MIT */
/* The device's half of activations.h: what it answers for one layer in one pair of formats. */
#ifndef FTJ_TESTS_ACTIVATIONS_DEVICE_H
#define FTJ_TESTS_ACTIVATIONS_DEVICE_H

#include "tests/check/activations_data.h"

/* A zeroed one is empty. */
struct activations_device {
    uint64_t token_bytes;
    struct activations_state outputs; /* of ftj_attention_decode() */
    struct activations_rows decoded;  /* the cache's bytes, decoded by the reference */
    uint64_t wrong_rows;              /* rows whose bytes are not the reference's */
};

/* Any failure of the library (ftj_last_error() has the sentence), or FTJ_E_NO_MEMORY. The caller
 * finishes `device` either way. */
FTJ_NODISCARD ftj_status activations_device_run(ftj_context *ctx,
                                                const struct activations_layer *layer,
                                                const struct activations_pair *pair,
                                                struct activations_device *device);
void activations_device_finish(struct activations_device *device);

#endif
