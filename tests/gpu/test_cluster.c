/* SPDX-License-Identifier: MIT */
/* Clusters of two blocks: a launch says so, one that overlaps the kernel before, too, and a graph
 * that it was captured in. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ftjit/memory.h"
#include "runtime/context_state.h"
#include "tests/check/check_buffer.h"
#include "tests/compile/ring_kernel.h"
#include "tests/gpu/gpu_driver.h"

#define CAPTURE_THREAD_LOCAL 1

struct ring {
    struct ftj_module module;
    struct ftj_grid grid;
    struct check_buffer out;
    struct CUstream_st *stream;
    uint32_t *words; /* owned: what was read */
};

static ftj_status load(struct ftj_context *ctx, bool overlaps, struct ftj_module *module)
{
    const struct ftj_config config = {.variant = "ring",
                                      .num_threads = RING_THREADS,
                                      .smem_bytes = RING_SMEM_BYTES,
                                      .cluster_blocks = 2,
                                      .overlaps_previous = overlaps};
    struct ftj_source source = {.template_id = "ring", .allow_fma = true};
    struct ftj_binary binary = {0};
    snprintf(source.target, sizeof(source.target), "%s", ctx->backend.device.target);
    ftj_text_printf(&source.text, "%s", RING_UNIT);
    ftj_status status = ctx->compiler.compile(&ctx->compiler, &source, &binary);
    if (!status)
        status = ctx->backend.ops->module_load(&ctx->backend, &binary.code, &config, module);
    ftj_binary_finish(&binary);
    ftj_text_finish(&source.text);
    return status;
}

static bool ring_init(struct ring *ring, struct check_row *row, bool overlaps)
{
    *ring = (struct ring){0};
    if (!(row->ctx->backend.device.features & FTJ_HAS_TMA)) {
        check_skip(row, "%s has no clusters", row->ctx->backend.device.target);
        return false;
    }
    if (!check_ok(row, load(row->ctx, overlaps, &ring->module), "the kernel"))
        return false;
    ring->grid = ftj_backend_clusters(&row->ctx->backend, &ring->module, 0);
    const size_t bytes = (size_t)ring->grid.num_blocks * RING_THREADS * sizeof(uint32_t);
    ring->words = malloc(bytes);
    return ring->words && check_buffer_init(&ring->out, row, "out", bytes) &&
           check_ok(row, ftj_stream_create(row->ctx, &ring->stream), "ftj_stream_create");
}

static void ring_finish(struct ring *ring, struct check_row *row)
{
    ftj_stream_destroy(row->ctx, ring->stream);
    check_buffer_finish(&ring->out, row);
    row->ctx->backend.ops->module_unload(&row->ctx->backend, &ring->module);
    free(ring->words);
}

static bool ring_launch(struct ring *ring, struct check_row *row)
{
    const uint64_t out = (uintptr_t)ring->out.device;
    return check_ok(row,
                    row->ctx->backend.ops->launch(&row->ctx->backend, &ring->module, ring->grid,
                                                  &out, sizeof(out), ring->stream),
                    "launch");
}

/* What the launch before has left; poison is there for the next. */
static void ring_check(struct ring *ring, struct check_row *row, const char *launch)
{
    if (!check_ok(row, ftj_stream_synchronize(row->ctx, ring->stream), launch) ||
        !check_buffer_read(&ring->out, row, ring->words))
        return;
    for (uint32_t i = 0; i < ring->grid.num_blocks * RING_THREADS; i++) {
        const uint32_t block = i / RING_THREADS;
        const uint32_t right = ring_expected(block, i % RING_THREADS);
        if (ring->words[i] != right)
            check_fail(row, "%s: block %u, thread %u: %u, not %u", launch, block, i % RING_THREADS,
                       ring->words[i], right);
    }
    memset(ring->words, CHECK_POISON_BYTE, ring->out.bytes);
    check_buffer_write(&ring->out, row, ring->words);
}

static void check_launches(struct check_row *row, bool overlaps)
{
    struct ring ring;
    if (ring_init(&ring, row, overlaps)) {
        for (int i = 0; i < 3 && ring_launch(&ring, row); i++)
            ring_check(&ring, row, "a launch");
    }
    ring_finish(&ring, row);
}

static void a_launch_is_one_of_clusters(struct check_row *row, const struct gpu_driver *driver)
{
    (void)driver;
    check_launches(row, false);
}

static void so_is_one_that_overlaps(struct check_row *row, const struct gpu_driver *driver)
{
    (void)driver;
    check_launches(row, true);
}

static void so_is_a_graphs(struct check_row *row, const struct gpu_driver *driver)
{
    struct ring ring;
    struct CUgraph_st *graph = NULL;
    struct CUgraphExec_st *exec = NULL;
    if (!ring_init(&ring, row, true) ||
        !gpu_ok(row, driver->begin_capture(ring.stream, CAPTURE_THREAD_LOCAL), "begin capture"))
        goto cleanup;
    const bool launched = ring_launch(&ring, row) && ring_launch(&ring, row);
    if (gpu_ok(row, driver->end_capture(ring.stream, &graph), "end capture") && launched &&
        gpu_ok(row, driver->graph_instantiate(&exec, graph, 0), "cuGraphInstantiateWithFlags")) {
        for (int i = 0; i < 3 && gpu_ok(row, driver->graph_launch(exec, ring.stream), "replay");
             i++)
            ring_check(&ring, row, "a replay");
    }

cleanup:
    if (exec)
        driver->exec_destroy(exec);
    if (graph)
        driver->graph_destroy(graph);
    ring_finish(&ring, row);
}

static void half_a_cluster_is_refused(struct check_row *row, const struct gpu_driver *driver)
{
    struct ring ring;
    (void)driver;
    if (ring_init(&ring, row, false)) {
        const uint64_t out = (uintptr_t)ring.out.device;
        const struct ftj_backend_ops *ops = row->ctx->backend.ops;
        const struct ftj_grid odd = {3, 2};
        check_refused(
            row, ops->launch(&row->ctx->backend, &ring.module, odd, &out, sizeof(out), ring.stream),
            FTJ_E_LAUNCH, "3 blocks");
        if (ring_launch(&ring, row))
            ring_check(&ring, row, "the launch after");
    }
    ring_finish(&ring, row);
}

int main(void)
{
    static const struct gpu_test tests[] = {
        {"a launch is one of clusters", a_launch_is_one_of_clusters},
        {"so is one that overlaps the kernel before", so_is_one_that_overlaps},
        {"so is a graph's", so_is_a_graphs},
        {"half a cluster is refused", half_a_cluster_is_refused},
    };
    return gpu_run(tests, sizeof(tests) / sizeof(*tests));
}
