/* SPDX-License-Identifier: MIT */
/* Stream capture: one graph serves every length and every slot (O20, T31), and nothing is compiled
 * inside a capture (T34). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ftjit/memory.h"
#include "tests/check/acceptance.h"
#include "tests/check/check_extend.h"
#include "tests/gpu/gpu_driver.h"

#define CAPTURE_THREAD_LOCAL 1
#define NUM_STEPS            4
#define SLOT_ELEMENTS        (2 * 64) /* kv heads * head_dim */

/* Store of one token per request, then the decode over it. */
struct layer {
    struct attention_case c;
    struct attention_device device;
    struct check_buffer k, v, slots;
    ftj_store_args store;
    struct CUstream_st *stream;
};

static const struct step {
    int32_t lengths[2];
    double o[2];
    double lse[2];
} steps[NUM_STEPS] = {
    {{17, 1}, {24.0 / 17, 0}, {2.833213, 0}},
    {{4097, 900}, {1.499634, 1.5}, {8.318010, 6.802395}},
    {{0, 1}, {0, 0}, {-INFINITY, 0}},
    {{17, 1}, {24.0 / 17, 0}, {2.833213, 0}},
};

static float value_mod_4(uint32_t request, uint32_t kv_head, uint32_t j)
{
    (void)request;
    (void)kv_head;
    return (float)(j % 4);
}

static bool layer_init(struct layer *layer, struct check_row *row)
{
    const struct attention_shape shape = {
        .k_format = FTJ_KV_FP8,
        .v_format = FTJ_KV_FP8,
        .dtype = FTJ_DTYPE_BF16,
        .head_dim = 64,
        .num_kv_heads = 2,
        .group = 4,
        .page_size = 16,
        .batch = 2,
        .lengths = {4097, 900},
    };
    *layer = (struct layer){0};
    if (!attention_case_init(&layer->c, row, &shape))
        return false;
    acceptance_fill_mean(&layer->c, value_mod_4);
    layer->c.desc.ops = FTJ_OP_STORE | FTJ_OP_DECODE;
    const size_t bytes = 2 * SLOT_ELEMENTS * sizeof(uint16_t);
    if (!attention_device_init(&layer->device, row, &layer->c) ||
        !check_buffer_init(&layer->k, row, "k", bytes) ||
        !check_buffer_init(&layer->v, row, "v", bytes) ||
        !check_buffer_init(&layer->slots, row, "slots", 2 * sizeof(int32_t)) ||
        !check_ok(row, ftj_stream_create(row->ctx, &layer->stream), "ftj_stream_create"))
        return false;
    layer->store = (ftj_store_args){.cache = layer->device.cache.view,
                                    .k = layer->k.device,
                                    .v = layer->v.device,
                                    .slots = layer->slots.device,
                                    .num_tokens = 2};
    return true;
}

static void layer_finish(struct layer *layer, struct check_row *row)
{
    ftj_stream_destroy(row->ctx, layer->stream);
    check_buffer_finish(&layer->k, row);
    check_buffer_finish(&layer->v, row);
    check_buffer_finish(&layer->slots, row);
    attention_device_finish(&layer->device, row);
    attention_case_finish(&layer->c);
}

/* What a step changes, all of it in place: lengths, slots, new rows. The slot's old content is
 * poison, so a decode that runs before the store, or without it, shows. */
static bool layer_update(struct layer *layer, struct check_row *row, const struct step *step)
{
    int32_t slots[2];
    uint16_t rows[2 * SLOT_ELEMENTS];
    struct check_cache poison = {0};
    check_cache_copy(&poison, &layer->c.cache);
    for (uint32_t r = 0; r < 2; r++) {
        const int32_t last = step->lengths[r] - 1;
        slots[r] = last < 0 ? -1 : (int32_t)attention_case_slot(&layer->c, r, (uint32_t)last);
        for (int i = 0; i < SLOT_ELEMENTS; i++)
            rows[r * SLOT_ELEMENTS + i] = ref_bf16_narrow((float)(last < 0 ? 0 : last % 4));
        for (uint32_t h = 0; last >= 0 && h < 2; h++) {
            struct ref_row nan = {.row_scale = NAN};
            memset(nan.codes, 0x7f, sizeof(nan.codes));
            check_cache_put(&poison, CHECK_K, (uint64_t)slots[r], h, &nan);
            check_cache_put(&poison, CHECK_V, (uint64_t)slots[r], h, &nan);
        }
    }
    const bool done = check_buffer_write(&layer->device.cache.buffers[0], row, poison.images[0]) &&
                      check_buffer_write(&layer->device.lengths, row, step->lengths) &&
                      check_buffer_write(&layer->slots, row, slots) &&
                      check_buffer_write(&layer->k, row, rows) &&
                      check_buffer_write(&layer->v, row, rows);
    check_cache_finish(&poison);
    return done;
}

static bool layer_launch(struct layer *layer, struct check_row *row)
{
    return check_ok(row, ftj_kv_store(layer->device.attn, &layer->store, layer->stream),
                    "ftj_kv_store") &&
           check_ok(row,
                    ftj_attention_decode(layer->device.attn, &layer->device.args, layer->stream),
                    "ftj_attention_decode");
}

struct graph {
    struct CUgraph_st *graph;
    struct CUgraphExec_st *exec;
};

static void graph_finish(struct graph *graph, const struct gpu_driver *driver)
{
    if (graph->exec)
        driver->exec_destroy(graph->exec);
    if (graph->graph)
        driver->graph_destroy(graph->graph);
}

static bool graph_end(struct graph *graph, struct check_row *row, const struct gpu_driver *driver,
                      struct CUstream_st *stream)
{
    return gpu_ok(row, driver->end_capture(stream, &graph->graph), "cuStreamEndCapture") &&
           gpu_ok(row, driver->graph_instantiate(&graph->exec, graph->graph, 0),
                  "cuGraphInstantiateWithFlags");
}

static bool replay(struct graph *graph, struct check_row *row, const struct gpu_driver *driver,
                   struct CUstream_st *stream)
{
    return gpu_ok(row, driver->graph_launch(graph->exec, stream), "cuGraphLaunch") &&
           check_ok(row, ftj_stream_synchronize(row->ctx, stream), "ftj_stream_synchronize");
}

/* One step, replayed and eager: the sheet's numbers, and each other's bits. */
static void check_step(struct layer *layer, struct graph *graph, struct check_row *row,
                       const struct gpu_driver *driver, const struct step *step)
{
    struct attention_result replayed = {0};
    struct attention_result eager = {0};
    double o[16], lse[16];
    for (int i = 0; i < 16; i++) {
        o[i] = step->o[i / 8];
        lse[i] = step->lse[i / 8];
    }
    if (!layer_update(layer, row, step) || !attention_poison(&layer->device, row) ||
        !replay(graph, row, driver, layer->stream) ||
        !attention_read(&layer->device, row, &layer->c, &replayed))
        goto cleanup;
    acceptance_compare(row, &layer->c, &replayed, o, lse, 1e-3);
    if (!layer_update(layer, row, step) || !attention_poison(&layer->device, row) ||
        !layer_launch(layer, row) ||
        !check_ok(row, ftj_stream_synchronize(row->ctx, layer->stream), "the eager call") ||
        !attention_read(&layer->device, row, &layer->c, &eager))
        goto cleanup;
    attention_check_equal(&layer->c, row, &eager, &replayed, "replayed against eager");

cleanup:
    attention_result_finish(&replayed);
    attention_result_finish(&eager);
}

static void o20_one_graph_serves_every_length(struct check_row *row,
                                              const struct gpu_driver *driver)
{
    struct layer layer;
    struct graph graph = {0};
    if (!layer_init(&layer, row) || !layer_update(&layer, row, &steps[0]))
        goto cleanup;
    if (!gpu_ok(row, driver->begin_capture(layer.stream, CAPTURE_THREAD_LOCAL),
                "cuStreamBeginCapture"))
        goto cleanup;
    const bool launched = layer_launch(&layer, row);
    if (!graph_end(&graph, row, driver, layer.stream) || !launched)
        goto cleanup;
    for (int i = 0; i < NUM_STEPS; i++)
        check_step(&layer, &graph, row, driver, &steps[i]);

cleanup:
    graph_finish(&graph, driver);
    layer_finish(&layer, row);
}

/* ---- runs of queries: of a speculative decode, and longer ones ---- */

#define NUM_RUNS      3
#define NUM_RUN_STEPS 4
#define SHORT_QUERIES 8

struct run_step {
    uint32_t lengths[NUM_RUNS];
    uint32_t q_lens[NUM_RUNS];
};
static const struct run_step short_steps[NUM_RUN_STEPS] = {
    {{4000, 300, 70}, {8, 8, 8}},
    {{3999, 1, 64}, {1, 1, 8}},
    {{0, 299, 2}, {2, 0, 3}},
    {{4000, 300, 70}, {8, 8, 8}},
};
/* Some of them are long enough for pairs of blocks, of which there are two; at last none. */
static const struct run_step long_steps[NUM_RUN_STEPS] = {
    {{2000, 200, 330}, {250, 3, 130}},
    {{500, 70, 210}, {260, 1, 40}},
    {{1990, 200, 330}, {250, 3, 130}},
    {{1900, 3, 12}, {20, 2, 12}},
};

static void check_runs(struct extend_case *c, struct extend_device *device, struct graph *graph,
                       struct check_row *row, const struct gpu_driver *driver,
                       struct CUstream_st *stream, const struct run_step *step)
{
    const size_t values =
        (size_t)c->num_queries * c->attention.num_q_heads * c->shape.attention.head_dim;
    struct extend_result replayed = {0};
    struct extend_result eager = {0};
    if (extend_case_change(c, row, device, step->lengths, step->q_lens) &&
        extend_poison(device, row) && replay(graph, row, driver, stream) &&
        extend_read(device, row, c, &replayed) && extend_run(device, row, c, &eager)) {
        extend_check(c, row, &replayed);
        if (memcmp(replayed.o, eager.o, values * sizeof(*eager.o)) != 0)
            check_fail(row, "replayed and eager differ");
    }
    extend_result_finish(&replayed);
    extend_result_finish(&eager);
}

/* Captured at the first step, replayed at all of them. */
static void replay_runs(struct check_row *row, const struct gpu_driver *driver,
                        const struct run_step *run_steps, uint32_t max_queries)
{
    const bool are_short = max_queries == SHORT_QUERIES;
    struct extend_shape shape = {
        .attention = {.k_format = FTJ_KV_NVFP4,
                      .v_format = FTJ_KV_NVFP4,
                      .dtype = FTJ_DTYPE_BF16,
                      .head_dim = 128,
                      .num_kv_heads = 2,
                      .group = 4,
                      .page_size = 64,
                      .batch = NUM_RUNS,
                      .max_blocks = are_short ? 0 : 4},
        .short_queries = are_short ? max_queries : 0,
    };
    memcpy(shape.attention.lengths, run_steps[0].lengths, sizeof(run_steps[0].lengths));
    memcpy(shape.q_lens, run_steps[0].q_lens, sizeof(run_steps[0].q_lens));
    struct extend_case c = {0};
    struct extend_device device = {0};
    struct graph graph = {0};
    struct CUstream_st *stream = NULL;
    if (!extend_case_init(&c, row, &shape))
        goto cleanup;
    extend_case_fill_random(&c, &row->random);
    if (!extend_device_init(&device, row, &c) ||
        !check_ok(row, ftj_stream_create(row->ctx, &stream), "ftj_stream_create") ||
        !gpu_ok(row, driver->begin_capture(stream, CAPTURE_THREAD_LOCAL), "cuStreamBeginCapture"))
        goto cleanup;
    device.args.max_queries = max_queries;
    const bool launched =
        check_ok(row, ftj_attention_extend(device.attention.attn, &device.args, stream),
                 "ftj_attention_extend");
    if (!graph_end(&graph, row, driver, stream) || !launched)
        goto cleanup;
    for (int i = 0; i < NUM_RUN_STEPS; i++)
        check_runs(&c, &device, &graph, row, driver, stream, &run_steps[i]);

cleanup:
    graph_finish(&graph, driver);
    ftj_stream_destroy(row->ctx, stream);
    extend_device_finish(&device, row);
    extend_case_finish(&c);
}

static void o20_one_graph_serves_every_run(struct check_row *row, const struct gpu_driver *driver)
{
    replay_runs(row, driver, short_steps, SHORT_QUERIES);
}

/* In pairs of blocks; and alone, by the word of who says that no run is long. */
static void o20_one_graph_serves_long_runs(struct check_row *row, const struct gpu_driver *driver)
{
    replay_runs(row, driver, long_steps, 0);
    replay_runs(row, driver, long_steps, 1);
}

/* The store alone: captured with slots of one step, replayed with those of another. */
static void t31_a_store_follows_its_slots(struct check_row *row, const struct gpu_driver *driver)
{
    static const int32_t captured[2] = {1, 2};
    static const int32_t replayed[2] = {4, 9};
    struct layer layer;
    struct graph graph = {0};
    struct check_cache expected = {0};
    float ones[REF_MAX_HEAD_DIM];
    uint16_t rows[2 * SLOT_ELEMENTS];
    acceptance_constant_row(1, ones);
    for (int i = 0; i < 2 * SLOT_ELEMENTS; i++)
        rows[i] = ref_bf16_narrow(1);
    if (!layer_init(&layer, row) || !check_buffer_write(&layer.slots, row, captured) ||
        !check_buffer_write(&layer.k, row, rows) || !check_buffer_write(&layer.v, row, rows) ||
        !gpu_ok(row, driver->begin_capture(layer.stream, CAPTURE_THREAD_LOCAL),
                "cuStreamBeginCapture"))
        goto cleanup;
    const bool launched =
        check_ok(row, ftj_kv_store(layer.device.attn, &layer.store, layer.stream), "ftj_kv_store");
    if (!graph_end(&graph, row, driver, layer.stream) || !launched ||
        !check_buffer_write(&layer.slots, row, replayed) ||
        !replay(&graph, row, driver, layer.stream))
        goto cleanup;
    check_cache_copy(&expected, &layer.c.cache);
    for (uint32_t h = 0; h < 2; h++) {
        for (int i = 0; i < 2; i++) {
            check_cache_encode(&expected, CHECK_K, (uint64_t)replayed[i], h, ones);
            check_cache_encode(&expected, CHECK_V, (uint64_t)replayed[i], h, ones);
        }
    }
    check_cache_compare(&expected, row, &layer.device.cache);

cleanup:
    check_cache_finish(&expected);
    graph_finish(&graph, driver);
    layer_finish(&layer, row);
}

/* A kernel that is not there yet is refused inside a capture, or loaded; the capture lives on. */
static void create_in_capture(struct check_row *row, const struct gpu_driver *driver, int mode,
                              uint32_t head_dim)
{
    struct layer layer;
    struct graph graph = {0};
    ftj_attention *other = NULL;
    ftj_attention_desc desc = {.ops = FTJ_OP_DECODE, .num_q_heads = 5};
    const ftj_kv_shape shape = {.num_kv_heads = 1, .head_dim = head_dim, .page_size = 11};
    if (!check_ok(row, ftj_kv_layout_init(&desc.kv, &shape), "ftj_kv_layout_init") ||
        !layer_init(&layer, row) || !layer_update(&layer, row, &steps[0]) ||
        !gpu_ok(row, driver->begin_capture(layer.stream, mode), "cuStreamBeginCapture"))
        goto cleanup;
    const ftj_status status = ftj_attention_create(row->ctx, &desc, &other);
    if (status != FTJ_OK && status != FTJ_E_CAPTURE)
        check_fail(row, "creating an attention in a capture: %s (%s)", ftj_status_name(status),
                   ftj_last_error());
    const bool launched = layer_launch(&layer, row);
    if (graph_end(&graph, row, driver, layer.stream) && launched)
        check_step(&layer, &graph, row, driver, &steps[1]);

cleanup:
    ftj_attention_destroy(other);
    graph_finish(&graph, driver);
    layer_finish(&layer, row);
}

/* In each mode: global, of the thread, relaxed. Each time the kernel is a new one. */
static void t34_nothing_is_compiled_in_a_capture(struct check_row *row,
                                                 const struct gpu_driver *driver)
{
    static const uint32_t head_dims[] = {48, 80, 112};
    for (int mode = 0; mode < 3; mode++)
        create_in_capture(row, driver, mode, head_dims[mode]);
}

int main(void)
{
    static const struct gpu_test tests[] = {
        {"O20 one graph serves every length", o20_one_graph_serves_every_length},
        {"O20 one graph serves every run of queries", o20_one_graph_serves_every_run},
        {"O20 one graph serves long runs, by pairs of blocks or not",
         o20_one_graph_serves_long_runs},
        {"T31 a captured store follows its slots", t31_a_store_follows_its_slots},
        {"T34 a capture survives an attention that is not built",
         t34_nothing_is_compiled_in_a_capture},
    };
    return gpu_run(tests, sizeof(tests) / sizeof(*tests));
}
