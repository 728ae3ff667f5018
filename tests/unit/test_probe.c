/* SPDX-License-Identifier: MIT */
/* What the probe makes of a device's answers, with a fake driver. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "log_catcher.h"
#include "runtime/probe.h"

static struct log_catcher catcher;
static const struct ftj_log log_to_catcher = {catch_sentence, &catcher, FTJ_LOG_DEBUG};
static struct ftj_driver driver;

static void open_driver(void)
{
    cr_assert_eq(ftj_driver_init(&driver, FAKE_CUDA_PATH, NULL), FTJ_OK);
}

static void close_driver(void)
{
    ftj_driver_finish(&driver);
}

TestSuite(probe, .init = open_driver, .fini = close_driver);

static ftj_status probe(int ordinal, const char *features, struct ftj_device *device)
{
    return ftj_probe(&driver, ordinal, features, &log_to_catcher, device);
}

Test(probe, chooses_the_exact_target_of_each_capability)
{
    static const struct {
        const char *arch;
        const char *target;
        uint32_t has;
        uint32_t has_not;
    } rows[] = {
        {"75", "sm_75", FTJ_HAS_MMA_F16, FTJ_HAS_CP_ASYNC},
        {"80", "sm_80", FTJ_HAS_CP_ASYNC | FTJ_HAS_MMA_BF16, FTJ_HAS_FP8_CONVERT},
        {"89", "sm_89", FTJ_HAS_FP8_CONVERT, FTJ_HAS_TMA},
        {"90", "sm_90a", FTJ_HAS_TMA | FTJ_HAS_WGMMA, FTJ_HAS_FP4_CONVERT},
        {"100", "sm_100a", FTJ_HAS_TMA | FTJ_HAS_FP4_CONVERT, FTJ_HAS_WGMMA},
        {"120", "sm_120a", FTJ_HAS_TMA | FTJ_HAS_FP4_CONVERT, FTJ_HAS_WGMMA},
        {"121", "sm_121a", FTJ_HAS_FP4_CONVERT, FTJ_HAS_WGMMA},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct ftj_device device = {0};
        setenv("FAKE_CUDA_ARCH", rows[i].arch, 1);
        cr_assert_eq(probe(0, NULL, &device), FTJ_OK, "%s", rows[i].arch);
        cr_expect_str_eq(device.target, rows[i].target);
        cr_expect_eq(device.features & rows[i].has, rows[i].has, "%s", rows[i].arch);
        cr_expect_eq(device.features & rows[i].has_not, 0, "%s", rows[i].arch);
    }
}

Test(probe, fills_in_what_the_device_answers)
{
    struct ftj_device device = {0};
    cr_assert_eq(probe(1, NULL, &device), FTJ_OK);
    cr_expect_eq(device.kind, FTJ_DEVICE_CUDA);
    cr_expect_eq(device.ordinal, 1);
    cr_expect_str_eq(device.name, "Fake GPU 1");
    cr_expect_eq(device.capability_major, 9);
    cr_expect_eq(device.capability_minor, 0);
    cr_expect_eq(device.driver_version, 13000);
    cr_expect_eq(device.num_sms, 132);
    cr_expect_eq(device.smem_bytes, 227u << 10);
    cr_expect_eq(device.smem_per_sm_bytes, 228u << 10);
    cr_expect_eq(device.registers_per_sm, 65536);
    cr_expect_eq(device.l2_bytes, 50u << 20);
    cr_expect_eq(device.memory_bytes, (uint64_t)80 << 30);
    cr_expect_eq(device.probed, device.features);
}

Test(probe, narrows_by_the_setting_or_else_by_the_environment)
{
    struct ftj_device device = {0};
    setenv("FTJIT_FEATURES", "-cp_async", 1);
    cr_assert_eq(probe(0, NULL, &device), FTJ_OK);
    cr_expect_eq(device.features, device.probed & ~(uint32_t)FTJ_HAS_CP_ASYNC);
    cr_assert_eq(probe(0, "-fp8_convert", &device), FTJ_OK);
    cr_expect_eq(device.features, device.probed & ~(uint32_t)FTJ_HAS_FP8_CONVERT);
    cr_assert_eq(probe(0, "none", &device), FTJ_OK);
    cr_expect_eq(device.features, 0);
    cr_expect_neq(device.probed, 0);
}

Test(probe, refuses_what_it_cannot_serve)
{
    struct ftj_device device = {.ordinal = 77};
    cr_expect_eq(probe(2, NULL, &device), FTJ_E_INVALID);
    cr_expect(strstr(catcher.last, "device is 2; this process sees devices 0 to 1"), "%s",
              catcher.last);
    cr_expect_eq(probe(-1, NULL, &device), FTJ_E_INVALID);
    cr_expect_eq(probe(0, "-warp_drive", &device), FTJ_E_INVALID);
    cr_expect(strstr(catcher.last, "warp_drive"), "%s", catcher.last);
    setenv("FAKE_CUDA_ARCH", "70", 1);
    cr_expect_eq(probe(0, NULL, &device), FTJ_E_UNSUPPORTED);
    cr_expect(strstr(catcher.last, "capability 7.0"), "%s", catcher.last);
    setenv("FAKE_CUDA_DEVICES", "0", 1);
    cr_expect_eq(probe(0, NULL, &device), FTJ_E_DRIVER);
    cr_expect_eq(catcher.num_sentences, 5);
    cr_expect_eq(device.ordinal, 77, "untouched on failure");
}

Test(probe, names_the_call_that_failed)
{
    static const char *const calls[] = {"cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetAttribute",
                                        "cuDeviceGetName", "cuDeviceTotalMem_v2"};
    for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
        struct ftj_device device = {.ordinal = 77};
        setenv("FAKE_CUDA_FAIL", calls[i], 1);
        cr_expect_eq(probe(0, NULL, &device), FTJ_E_DRIVER, "%s", calls[i]);
        char name[64];
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(calls[i], "_"), calls[i]);
        cr_expect(strstr(catcher.last, name), "%s: %s", name, catcher.last);
        cr_expect_eq(device.ordinal, 77);
    }
}
