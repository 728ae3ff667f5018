/* SPDX-License-Identifier: MIT */
#include "runtime/probe.h"

#include "base/environment.h"

/* Numbers the driver is asked for, read in one loop so that each failure names its attribute. */
struct answers {
    int major;
    int minor;
    int num_sms;
    int smem_bytes;
    int smem_per_sm_bytes;
    int registers_per_sm;
    int l2_bytes;
};

static ftj_status ask(const struct ftj_driver *driver, int device, const struct ftj_log *log,
                      struct answers *answers)
{
    const struct {
        int attribute;
        int *value;
        const char *call;
    } questions[] = {
        {FTJ_CU_DEVICE_CAPABILITY_MAJOR, &answers->major, "cuDeviceGetAttribute(capability)"},
        {FTJ_CU_DEVICE_CAPABILITY_MINOR, &answers->minor, "cuDeviceGetAttribute(capability)"},
        {FTJ_CU_DEVICE_NUM_SMS, &answers->num_sms, "cuDeviceGetAttribute(SMs)"},
        {FTJ_CU_DEVICE_SMEM_PER_BLOCK_OPTIN, &answers->smem_bytes,
         "cuDeviceGetAttribute(shared memory per block)"},
        {FTJ_CU_DEVICE_SMEM_PER_SM, &answers->smem_per_sm_bytes,
         "cuDeviceGetAttribute(shared memory per SM)"},
        {FTJ_CU_DEVICE_REGISTERS_PER_SM, &answers->registers_per_sm,
         "cuDeviceGetAttribute(registers per SM)"},
        {FTJ_CU_DEVICE_L2_BYTES, &answers->l2_bytes, "cuDeviceGetAttribute(L2)"},
    };
    for (size_t i = 0; i < sizeof(questions) / sizeof(*questions); i++) {
        const int result =
            driver->cuDeviceGetAttribute(questions[i].value, questions[i].attribute, device);
        if (result)
            return ftj_driver_fail(driver, log, FTJ_E_DRIVER, result, questions[i].call);
    }
    return FTJ_OK;
}

static ftj_status find_device(const struct ftj_driver *driver, int ordinal,
                              const struct ftj_log *log, int *device)
{
    int count = 0;
    int result = driver->cuDeviceGetCount(&count);
    if (result)
        return ftj_driver_fail(driver, log, FTJ_E_DRIVER, result, "cuDeviceGetCount");
    if (count == 0)
        return ftj_driver_fail(driver, log, FTJ_E_DRIVER, FTJ_CU_ERROR_NO_DEVICE,
                               "cuDeviceGetCount");
    if (ordinal < 0 || ordinal >= count)
        return ftj_fail(log, FTJ_E_INVALID, "device is %d; this process sees devices 0 to %d",
                        ordinal, count - 1);
    result = driver->cuDeviceGet(device, ordinal);
    if (result)
        return ftj_driver_fail(driver, log, FTJ_E_DRIVER, result, "cuDeviceGet");
    return FTJ_OK;
}

ftj_status ftj_probe(const struct ftj_driver *driver, int ordinal, const char *features,
                     const struct ftj_log *log, struct ftj_device *device)
{
    int handle = 0;
    ftj_status status = find_device(driver, ordinal, log, &handle);
    if (status)
        return status;
    struct answers answers = {0};
    status = ask(driver, handle, log, &answers);
    if (status)
        return status;

    if (answers.major * 10 + answers.minor < 75)
        return ftj_fail(log, FTJ_E_UNSUPPORTED,
                        "device %d has compute capability %d.%d; kernels need 7.5 or newer",
                        ordinal, answers.major, answers.minor);

    struct ftj_device found = {0};
    ftj_device_from_capability(answers.major, answers.minor, &found);
    found.kind = FTJ_DEVICE_CUDA;
    found.ordinal = ordinal;
    found.driver_version = driver->version;
    found.num_sms = (uint32_t)answers.num_sms;
    found.smem_bytes = (uint32_t)answers.smem_bytes;
    found.smem_per_sm_bytes = (uint32_t)answers.smem_per_sm_bytes;
    found.registers_per_sm = (uint32_t)answers.registers_per_sm;
    found.l2_bytes = (uint64_t)answers.l2_bytes;

    int result = driver->cuDeviceGetName(found.name, (int)sizeof(found.name), handle);
    if (result)
        return ftj_driver_fail(driver, log, FTJ_E_DRIVER, result, "cuDeviceGetName");
    size_t memory_bytes = 0;
    result = driver->cuDeviceTotalMem_v2(&memory_bytes, handle);
    if (result)
        return ftj_driver_fail(driver, log, FTJ_E_DRIVER, result, "cuDeviceTotalMem");
    found.memory_bytes = memory_bytes;

    const char *narrowing = features ? features : ftj_variable("FTJIT_FEATURES");
    found.probed = found.features;
    if (narrowing)
        status = ftj_features_narrow(&found.features, narrowing, log);
    if (status)
        return status;
    *device = found;
    return FTJ_OK;
}
