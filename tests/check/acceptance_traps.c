/* SPDX-License-Identifier: MIT */
/* Traps of the formats' specification that are about decoding. */
#include <string.h>

#include "tests/check/acceptance.h"

static const ftj_kv_format formats[3] = {FTJ_KV_16BIT, FTJ_KV_FP8, FTJ_KV_NVFP4};

static float value_j_plus_1(uint32_t request, uint32_t kv_head, uint32_t j)
{
    (void)request;
    (void)kv_head;
    return (float)(j + 1);
}

void acceptance_t13_k_scale_once(struct check_row *row)
{
    static const float q[2] = {1, 0};
    static const float k[2][2] = {{1, 0}, {2, 0}};
    static const float v[2] = {0, 1};
    for (int f = 0; f < 3; f++) {
        struct attention_shape shape = acceptance_small_shape(formats[f], 2);
        shape.sm_scale = 1;
        acceptance_expect_pair(row, &shape, q, k, v, 0.731059, 2.313262, 1e-3);
    }
}

void acceptance_t14_denominator_unscaled(struct check_row *row)
{
    const double o[3] = {34, 63.5, 0.5};
    const double lse[3] = {4.204693, 2.079442, 0.693147};
    for (int f = 0; f < 3; f++) {
        struct attention_shape shape = acceptance_small_shape(formats[f], 67);
        acceptance_expect_mean(row, &shape, value_j_plus_1, &o[0], &lse[0]);
        shape.window = 8;
        acceptance_expect_mean(row, &shape, value_j_plus_1, &o[1], &lse[1]);
        shape = acceptance_small_shape(formats[f], 1);
        shape.has_sinks = true; /* born 0 */
        acceptance_expect_mean(row, &shape, value_j_plus_1, &o[2], &lse[2]);
    }
}

void acceptance_t21_unwritten_slots(struct check_row *row)
{
    const double o = 0, lse = 3.688879; /* ln 40 */
    for (int f = 0; f < 3; f++) {
        const struct attention_shape shape = acceptance_small_shape(formats[f], 40);
        struct attention_case c = {0};
        if (attention_case_init(&c, row, &shape)) {
            for (size_t i = 0; i < CHECK_CACHE_ARRAYS; i++) {
                if (c.cache.images[i])
                    memset(c.cache.images[i], 0, c.cache.image_bytes[i]);
            }
            for (uint32_t d = 0; d < shape.head_dim; d++)
                c.q[d] = ref_bf16_narrow(3);
            acceptance_expect(row, &c, &o, &lse, 1e-3);
        }
        attention_case_finish(&c);
    }
}

void acceptance_t33_group_of_24(struct check_row *row)
{
    for (int f = 0; f < 3; f++) {
        struct attention_shape shape = acceptance_small_shape(formats[f], 77);
        shape.num_kv_heads = 2;
        shape.group = 24;
        acceptance_decode_random(row, &shape);
    }
}
