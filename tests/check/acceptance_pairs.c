/* SPDX-License-Identifier: MIT */
/* Units that the two blocks of a cluster get side by side, and widen codes for together
 * (block/peer_tiles.cuh): requests of so many queries that few blocks deal them in rounds. */
#include <math.h>

#include "tests/check/acceptance.h"
#include "tests/check/check_extend.h"

#define TILE_QUERIES 24u /* of a query tile, by a group of 8 */

static const struct {
    ftj_kv_format k, v;
} formats[3] = {{FTJ_KV_FP8, FTJ_KV_FP8}, {FTJ_KV_NVFP4, FTJ_KV_NVFP4}, {FTJ_KV_FP8, FTJ_KV_NVFP4}};

/* One block of a pair has logits past every sum, for which it does its unit again, alone; and some
 * V with it that fp16 does not hold. */
static void fill_uneven(struct extend_case *c, struct check_row *row)
{
    const struct attention_shape *shape = &c->shape.attention;
    float k[REF_MAX_HEAD_DIM], v[REF_MAX_HEAD_DIM];
    extend_case_fill_random(c, &row->random);
    for (uint32_t r = 0; r < shape->batch; r++) {
        for (uint32_t t = extend_case_first(c, r); t < shape->lengths[r]; t++) {
            attention_random_row(&row->random, shape->head_dim, -1, 1, v);
            for (uint32_t d = 0; d < shape->head_dim; d++) {
                k[d] = 5.0f * (float)t / (float)shape->lengths[r];
                v[d] = t / 64 % 3 == 1 ? ldexpf(v[d], t % 2 ? 50 : -10) : v[d];
            }
            for (uint32_t head = 0; head < shape->num_kv_heads; head++)
                extend_case_put(c, r, t, head, k, v);
        }
    }
    const size_t row_values = (size_t)c->attention.num_q_heads * shape->head_dim;
    for (uint32_t r = 0; r < shape->batch; r++) {
        const size_t first = (size_t)c->qo_indptr[r];
        for (size_t q = 0; q < c->shape.q_lens[r]; q++) {
            const bool is_large = q / TILE_QUERIES % 3 == 1;
            for (size_t i = (first + q) * row_values; i < (first + q + 1) * row_values; i++)
                c->q[i] = ref_bf16_narrow(is_large ? 1.0f : 0.001f);
        }
    }
}

/* In pairs of blocks, and by blocks alone: who says that runs are short gets these, at any length.
 */
static bool check_both(struct extend_case *c, struct check_row *row, struct extend_device *device)
{
    device->args.max_queries = 0;
    if (!extend_case_check(c, row, device))
        return false;
    device->args.max_queries = 1;
    return extend_case_check(c, row, device);
}

static void check_pairs(struct check_row *row, const struct extend_shape *shape, bool is_uneven)
{
    struct extend_case c = {0};
    struct extend_device device = {0};
    if (extend_case_init(&c, row, shape)) {
        if (is_uneven)
            fill_uneven(&c, row);
        else
            extend_case_fill_random(&c, &row->random);
        extend_case_solve(&c);
        if (extend_device_init(&device, row, &c) && check_both(&c, row, &device) && !is_uneven &&
            shape->attention.window == 0) {
            /* Then with fewer queries, at last too few for any pair. */
            for (uint32_t part = 2; part < 20; part *= 5) {
                const uint32_t q_lens[3] = {shape->q_lens[0] * 4 / 3 / part, 1,
                                            shape->q_lens[2] * 2 / part};
                const uint32_t lengths[3] = {shape->attention.lengths[0] / 2, 70,
                                             shape->attention.lengths[2] - shape->q_lens[2] +
                                                 q_lens[2]};
                if (!extend_case_change(&c, row, &device, lengths, q_lens) ||
                    !check_both(&c, row, &device))
                    break;
            }
        }
    }
    extend_device_finish(&device, row);
    extend_case_finish(&c);
}

static struct extend_shape shape_of(int format)
{
    struct extend_shape shape = {.attention = acceptance_small_shape(formats[format].k, 500),
                                 .q_lens = {200, 3, 130}};
    shape.attention.v_format = formats[format].v;
    shape.attention.head_dim = 128;
    shape.attention.num_kv_heads = 2;
    shape.attention.group = 8;
    shape.attention.page_size = 64;
    shape.attention.batch = 3;
    shape.attention.lengths[1] = 200;
    shape.attention.lengths[2] = 330;
    shape.attention.max_blocks = 4;
    return shape;
}

void acceptance_extend_of_pairs(struct check_row *row)
{
    for (int i = 0; i < 9; i++) {
        struct extend_shape shape = shape_of(i % 3);
        shape.has_new = i / 3 == 1;
        shape.attention.window = i / 3 == 2 ? 130 : 0;
        shape.attention.max_blocks = i % 2 ? 2 : 4;
        check_pairs(row, &shape, false);
    }
}

void acceptance_extend_of_uneven_pairs(struct check_row *row)
{
    for (int i = 0; i < 6; i++) {
        struct extend_shape shape = shape_of(i % 3);
        shape.has_new = i >= 3;
        shape.attention.sm_scale = 5;
        shape.attention.max_blocks = i % 2 ? 4 : 2;
        check_pairs(row, &shape, true);
    }
}
