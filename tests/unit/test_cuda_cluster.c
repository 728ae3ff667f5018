/* SPDX-License-Identifier: MIT */
/* Clusters on the CUDA backend, against a fake driver: how many fit, and how they are launched. */
#include <criterion/criterion.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "fake_cuda.h"
#include "fake_gpu.h"
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
        uint32_t most_blocks, alone, in_clusters;
    } rows[] = {
        {132, {.blocks_per_sm = 1, .cluster_blocks = 1}, 0, 132, 0},
        {132, {.blocks_per_sm = 2, .cluster_blocks = 1}, 0, 264, 0},
        {131, {.blocks_per_sm = 1, .cluster_blocks = 1}, 200, 131, 0},
        {131, {.blocks_per_sm = 1, .cluster_blocks = 1}, 7, 7, 0},
        {132, {.blocks_per_sm = 1, .cluster_blocks = 2, .num_clusters = 66}, 0, 132, 132},
        {131, {.blocks_per_sm = 1, .cluster_blocks = 2, .num_clusters = 64}, 0, 131, 128},
        {131, {.blocks_per_sm = 2, .cluster_blocks = 2, .num_clusters = 140}, 0, 262, 262},
        {132, {.blocks_per_sm = 1, .cluster_blocks = 2, .num_clusters = 64}, 127, 127, 126},
        {132, {.blocks_per_sm = 1, .cluster_blocks = 2, .num_clusters = 64}, 7, 7, 6},
        {132, {.blocks_per_sm = 1, .cluster_blocks = 2, .num_clusters = 64}, 1, 1, 0},
        {7, {.blocks_per_sm = 1, .cluster_blocks = 2, .num_clusters = 0}, 0, 7, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const struct ftj_module *module = &rows[i].module;
        backend.device.num_sms = rows[i].num_sms;
        cr_expect_eq(ftj_backend_grid(&backend, module, rows[i].most_blocks), rows[i].alone,
                     "row %zu", i);
        const struct ftj_grid grid = ftj_backend_clusters(&backend, module, rows[i].most_blocks);
        cr_expect_eq(grid.num_blocks, rows[i].in_clusters, "row %zu: %u", i, grid.num_blocks);
    }
}

/* The same machine code either way: a launch tells the driver. */
Test(cuda_cluster, is_what_a_launch_says)
{
    const struct fake_launch *(*last_launch)(void);
    unsigned int (*calls)(const char *symbol);
    struct ftj_module module;
    const ftj_decode_params params = {0};
    fake_gpu_find(FAKE_CUDA_PATH, "fake_cuda_last_launch", &last_launch);
    fake_gpu_find(FAKE_CUDA_PATH, "fake_cuda_calls", &calls);
    setenv("FAKE_CUDA_ODD_SMS", "4", 1);
    cr_assert_eq(load(2, &module), FTJ_OK, "%s", catcher.last);
    cr_expect_eq(module.cluster_blocks, 2);
    cr_expect_eq(module.num_clusters, 4 * 128 / 2);
    const struct ftj_grid grids[] = {ftj_backend_clusters(&backend, &module, 0), {131, 1}, {9, 0}};
    cr_expect_eq(grids[0].num_blocks, 4 * 128);
    for (size_t i = 0; i < sizeof(grids) / sizeof(*grids); i++) {
        cr_expect_eq(
            backend.ops->launch(&backend, &module, grids[i], &params, sizeof(params), NULL),
            FTJ_OK);
        cr_expect_eq(last_launch()->num_blocks, grids[i].num_blocks);
        cr_expect_eq(last_launch()->cluster_blocks, i == 0 ? 2 : 1);
    }
    cr_expect_eq(calls("cuLaunchKernelEx"), 1, "others have nothing to say");
    backend.ops->module_unload(&backend, &module);

    cr_assert_eq(load(1, &module), FTJ_OK);
    cr_expect_eq(module.num_clusters, 0);
    cr_expect_eq(calls("cuOccupancyMaxActiveClusters"), 1, "others are not asked about");
    backend.ops->module_unload(&backend, &module);
}

Test(cuda_cluster, that_fits_nowhere_is_never_launched)
{
    struct ftj_module module;
    setenv("FAKE_CUDA_ODD_SMS", "132", 1);
    cr_assert_eq(load(2, &module), FTJ_OK, "%s", catcher.last);
    cr_expect_eq(module.num_clusters, 0);
    cr_expect_eq(ftj_backend_clusters(&backend, &module, 0).num_blocks, 0);
    backend.ops->module_unload(&backend, &module);
    setenv("FAKE_CUDA_FAIL", "cuOccupancyMaxActiveClusters", 1);
    cr_expect_eq(load(2, &module), FTJ_E_DRIVER);
    cr_expect_null(module.library);
}
