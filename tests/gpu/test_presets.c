/* SPDX-License-Identifier: MIT */
/* Every layer of every model that is known, in every format that `ftjit warm` compiles it for:
 * store, decode, merge and extend are there, and decode and extend give what they should.
 *
 * With FTJIT_CACHE_PATH=BUNDLE, an empty FTJIT_CACHE_DIR, FTJIT_SEALED=error and
 * FTJIT_NVRTC=/nowhere it proves that a bundle of `ftjit warm --preset all` serves them all: a
 * kernel that is not in it is an error then. */
#include <stdio.h>
#include <string.h>

#include "codegen/preset.h"
#include "tests/check/check_extend.h"
#include "tests/gpu/gpu_driver.h"

/* A decode's query is the last of the request's run. */
static void share_queries(struct extend_case *c)
{
    struct attention_case *decode = &c->attention;
    for (uint32_t r = 0; r < decode->shape.batch; r++)
        memcpy(attention_case_q(decode, r, 0),
               c->q + (c->qo_indptr[r + 1] - 1) * decode->q_batch_stride,
               decode->q_bytes / decode->shape.batch);
}

static bool call_decode(struct check_row *row, struct extend_device *device,
                        const struct extend_case *c)
{
    struct attention_result result = {0};
    const bool done = attention_decode(&device->attention, row, &c->attention, &result);
    if (done)
        attention_check(&c->attention, row, &result);
    attention_result_finish(&result);
    return done;
}

static void run_layer(struct check_row *row, const struct ftj_preset_layer *layer,
                      const struct ftj_preset_format *format)
{
    const struct extend_shape shape = {
        .attention = {.k_format = format->k,
                      .v_format = format->v,
                      .order = FTJ_KV_NHD,
                      .table = FTJ_TABLE_SLOTS,
                      .dtype = FTJ_DTYPE_BF16,
                      .head_dim = layer->head_dim,
                      .num_kv_heads = layer->num_kv_heads,
                      .group = layer->num_q_heads / layer->num_kv_heads,
                      .page_size = layer->page_size,
                      .window = layer->window,
                      .batch = 2,
                      .lengths = {150, 37}},
        .q_lens = {5, 1},
    };
    struct extend_case c = {0};
    struct extend_device device = {0};
    if (extend_case_init(&c, row, &shape)) {
        c.attention.desc.ops = FTJ_OP_STORE | FTJ_OP_DECODE | FTJ_OP_MERGE | FTJ_OP_EXTEND;
        extend_case_fill_random(&c, &row->random);
        share_queries(&c);
        extend_case_solve(&c);
        attention_case_solve(&c.attention);
        if (extend_device_init(&device, row, &c) && extend_case_check(&c, row, &device))
            (void)call_decode(row, &device, &c);
    }
    extend_device_finish(&device, row);
    extend_case_finish(&c);
}

/* All of them, whatever becomes of one: so the kernels of all are asked for. */
static void all_layers(struct check_row *row, const struct gpu_driver *driver)
{
    (void)driver;
    for (size_t i = 0; i < ftj_num_preset_layers; i++) {
        const struct ftj_preset_layer *layer = &ftj_preset_layers[i];
        for (size_t f = 0; !layer->skip && f < ftj_num_preset_formats; f++) {
            struct check_row own = *row;
            own.outcome = CHECK_PASSED;
            run_layer(&own, layer, &ftj_preset_formats[f]);
            row->random = own.random;
            if (own.outcome == CHECK_FAILED)
                check_fail(row, "%s, %s, %s: %s", layer->model, layer->kind,
                           ftj_preset_formats[f].name, own.message);
        }
    }
}

int main(void)
{
    static const struct gpu_test tests[] = {
        {"every layer of every model, in every format", all_layers},
    };
    return gpu_run(tests, sizeof(tests) / sizeof(*tests));
}
