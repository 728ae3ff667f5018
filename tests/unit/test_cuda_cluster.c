/* SPDX-License-Identifier: MIT */
/* Kernels of clusters on the CUDA backend, against a fake driver: how many fit, and what a grid is.
 */
#include <criterion/criterion.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/dynlib.h"
#include "fake_cuda.h"
#include "log_catcher.h"
#include "runtime/backend.h"

static struct log_catcher catcher;
static const struct ftj_log log_to_catcher = {catch_sentence, &catcher, FTJ_LOG_DEBUG};
static struct ftj_backend backend;

static void set_up(void)
{
    const ftj_settings settings = {.driver_path = FAKE_CUDA_PATH};
    cr_assert_eq(ftj_cuda_backend_init(&backend, &settings, &log_to_catcher), FTJ_OK, "%s",
                 catcher.last);
}

static void tear_down(void)
{
    ftj_backend_finish(&backend);
}

TestSuite(cuda_cluster, .init = set_up, .fini = tear_down);

/* Of the library that the backend opened. */
static void look_up(void *function, const char *name)
{
    const char *const names[] = {FAKE_CUDA_PATH, NULL};
    struct ftj_text tried = {0};
    void *address = ftj_dynlib_symbol(ftj_dynlib_open(names, &tried, NULL, 0), name);
    ftj_text_finish(&tried);
    cr_assert_not_null(address, "%s", name);
    memcpy(function, &address, sizeof(address));
}

static ftj_status load(uint32_t cluster_blocks, struct ftj_module *module)
{
    Elf64_Ehdr header = {.e_machine = 190, .e_flags = 90 << 8};
    memcpy(header.e_ident, ELFMAG, SELFMAG);
    const struct ftj_bytes image = {.data = (uint8_t *)&header, .size = sizeof(header)};
    const struct ftj_config config = {.variant = "attn_decode_sm90",
                                      .num_threads = 256,
                                      .smem_bytes = 100000,
                                      .cluster_blocks = cluster_blocks};
    *module = (struct ftj_module){0};
    return backend.ops->module_load(&backend, &image, &config, module);
}

/* A cluster's blocks run together or not at all, so an odd SM is left alone. */
Test(cuda_cluster, grids_are_of_whole_clusters)
{
    static const struct {
        uint32_t num_sms;
        struct ftj_module module;
        uint32_t most_blocks, grid;
    } rows[] = {
        {132, {.blocks_per_sm = 1, .cluster_blocks = 1}, 0, 132},
        {132, {.blocks_per_sm = 2, .cluster_blocks = 1}, 0, 264},
        {131, {.blocks_per_sm = 1, .cluster_blocks = 1}, 200, 131},
        {131, {.blocks_per_sm = 1, .cluster_blocks = 1}, 7, 7},
        {132, {.blocks_per_sm = 1, .cluster_blocks = 2}, 0, 132},
        {131, {.blocks_per_sm = 1, .cluster_blocks = 2}, 0, 130},
        {131, {.blocks_per_sm = 2, .cluster_blocks = 2}, 0, 262},
        {131, {.blocks_per_sm = 1, .cluster_blocks = 2}, 7, 6},
        {131, {.blocks_per_sm = 1, .cluster_blocks = 2}, 1, 2},
        {1, {.blocks_per_sm = 1, .cluster_blocks = 2}, 0, 2},
        {132, {.blocks_per_sm = 1, .cluster_blocks = 2, .num_clusters = 64}, 0, 128},
        {132, {.blocks_per_sm = 1, .cluster_blocks = 2, .num_clusters = 64}, 127, 126},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        backend.device.num_sms = rows[i].num_sms;
        cr_expect_eq(ftj_backend_grid(&backend, &rows[i].module, rows[i].most_blocks), rows[i].grid,
                     "row %zu", i);
    }
}

/* The machine code says it: a launch has nothing to tell the driver. */
Test(cuda_cluster, is_launched_like_anything_else_by_as_many_as_fit)
{
    const struct fake_launch *(*last_launch)(void);
    unsigned int (*calls)(const char *symbol);
    struct ftj_module module;
    const ftj_decode_params params = {0};
    look_up(&last_launch, "fake_cuda_last_launch");
    look_up(&calls, "fake_cuda_calls");
    setenv("FAKE_CUDA_ODD_SMS", "4", 1);
    cr_assert_eq(load(2, &module), FTJ_OK, "%s", catcher.last);
    cr_expect_eq(module.cluster_blocks, 2);
    cr_expect_eq(module.num_clusters, 4 * 128 / 2);
    const uint32_t grid = ftj_backend_grid(&backend, &module, 0);
    cr_expect_eq(grid, 4 * 128);
    cr_expect_eq(backend.ops->launch(&backend, &module, grid, &params, sizeof(params), NULL),
                 FTJ_OK);
    cr_expect_eq(last_launch()->num_blocks, grid);
    cr_expect_eq(calls("cuLaunchKernel"), 1);
    backend.ops->module_unload(&backend, &module);

    cr_assert_eq(load(1, &module), FTJ_OK);
    cr_expect_eq(module.num_clusters, 0);
    cr_expect_eq(calls("cuOccupancyMaxActiveClusters"), 1, "others are not asked about");
    backend.ops->module_unload(&backend, &module);
}

Test(cuda_cluster, that_fits_nowhere_is_refused_when_it_is_loaded)
{
    struct ftj_module module;
    setenv("FAKE_CUDA_ODD_SMS", "132", 1);
    cr_expect_eq(load(2, &module), FTJ_E_LAUNCH);
    cr_expect(strstr(catcher.last, "a cluster of 2 blocks of 256 threads with 100000 bytes"), "%s",
              catcher.last);
    cr_expect_null(module.library);
    setenv("FAKE_CUDA_FAIL", "cuOccupancyMaxActiveClusters", 1);
    cr_expect_eq(load(2, &module), FTJ_E_DRIVER);
    cr_expect_null(module.library);
}
