/* SPDX-License-Identifier: MIT */
#include "base/device.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

/* A compute capability as it is sold. Sizes are of a part often met: T4, A100, A40, Orin, L40S,
 * H100, B200, B300, Thor, RTX 5090, GB10. */
struct part {
    uint32_t number; /* 10 * major + minor */
    const char
        *suffixes; /* target suffixes the compiler knows besides none; "a" is ours if there */
    uint32_t features;
    uint32_t specific; /* features that only a suffixed target has */
    uint32_t num_sms;
    uint32_t smem_bytes;
    uint32_t smem_per_sm_bytes;
};

enum {
    SM75 = FTJ_HAS_MMA_F16,
    SM80 = SM75 | FTJ_HAS_CP_ASYNC | FTJ_HAS_MMA_BF16,
    SM89 = SM80 | FTJ_HAS_FP8_CONVERT,
    SM90 = SM89 | FTJ_HAS_TMA,
};

/* Oldest first. */
/* clang-format off */
static const struct part parts[] = {
    { 75, "",   SM75, 0,                    40,  65536,  65536},
    { 80, "",   SM80, 0,                   108, 166912, 167936},
    { 86, "",   SM80, 0,                    84, 101376, 102400},
    { 87, "",   SM80, 0,                    16, 166912, 167936},
    { 88, "",   SM80, 0,                    16, 101376, 102400},
    { 89, "",   SM89, 0,                   142, 101376, 102400},
    { 90, "a",  SM90, FTJ_HAS_WGMMA,       132, 232448, 233472},
    {100, "af", SM90, FTJ_HAS_FP4_CONVERT, 148, 232448, 233472},
    {103, "af", SM90, FTJ_HAS_FP4_CONVERT, 148, 232448, 233472},
    {110, "af", SM90, FTJ_HAS_FP4_CONVERT,  20, 232448, 233472},
    {120, "af", SM90, FTJ_HAS_FP4_CONVERT, 170, 101376, 102400},
    {121, "af", SM90, FTJ_HAS_FP4_CONVERT,  48, 101376, 102400},
};
/* clang-format on */
#define NUM_PARTS (sizeof(parts) / sizeof(*parts))

static void describe(const struct part *part, bool is_specific, struct ftj_device *device)
{
    const uint32_t features = part->features | (is_specific ? part->specific : 0);
    device->kind = FTJ_DEVICE_CUDA;
    device->features = features;
    device->probed = features;
    device->num_sms = part->num_sms;
    device->smem_bytes = part->smem_bytes;
    device->smem_per_sm_bytes = part->smem_per_sm_bytes;
    device->registers_per_sm = 65536;
}

void ftj_device_from_capability(int major, int minor, struct ftj_device *device)
{
    *device = (struct ftj_device){.capability_major = major, .capability_minor = minor};
    const int number = 10 * major + minor;
    const struct part *nearest = NULL;
    for (size_t i = 0; i < NUM_PARTS && (int)parts[i].number <= number; i++)
        nearest = &parts[i];

    const bool is_known = nearest && (int)nearest->number == number;
    const bool is_specific = is_known && nearest->suffixes[0] == 'a';
    if (nearest)
        describe(nearest, is_specific, device);
    snprintf(device->name, sizeof(device->name), "compute capability %d.%d", major, minor);
    snprintf(device->target, sizeof(device->target), "sm_%d%s", number, is_specific ? "a" : "");
}

/* What the CPU target emulates: the features are what ptx_cpu.cuh has, the limits those of a
 * Hopper, so that what fits there fits here. */
static void describe_cpu(struct ftj_device *device)
{
    *device = (struct ftj_device){
        .kind = FTJ_DEVICE_CPU,
        .name = "CPU",
        .target = "cpu",
        .features = SM90 | FTJ_HAS_WGMMA,
        .probed = SM90 | FTJ_HAS_WGMMA,
        .num_sms = 4,
        .smem_bytes = 232448,
        .smem_per_sm_bytes = 233472,
        .registers_per_sm = 65536,
    };
}

/* The part that `number` (digits, then a suffix or none) names; NULL when it names none. */
static const struct part *find_part(const char *number, const char **suffix)
{
    for (size_t i = 0; i < NUM_PARTS; i++) {
        char digits[16];
        const int size = snprintf(digits, sizeof(digits), "%u", parts[i].number);
        *suffix = number + size;
        if (strncmp(number, digits, (size_t)size) != 0)
            continue;
        const bool is_bare = (*suffix)[0] == '\0';
        if (is_bare || ((*suffix)[1] == '\0' && strchr(parts[i].suffixes, (*suffix)[0])))
            return &parts[i];
    }
    return NULL;
}

static ftj_status refuse_target(const char *target, const struct ftj_log *log)
{
    struct ftj_text known = {0};
    for (size_t i = 0; i < NUM_PARTS; i++) {
        ftj_text_printf(&known, "sm_%u, ", parts[i].number);
        for (const char *suffix = parts[i].suffixes; *suffix; suffix++)
            ftj_text_printf(&known, "sm_%u%c, ", parts[i].number, *suffix);
    }
    const ftj_status status =
        ftj_fail(log, FTJ_E_INVALID, "target \"%s\" is not known; it must be one of %scpu", target,
                 known.data ? known.data : "");
    ftj_text_finish(&known);
    return status;
}

ftj_status ftj_device_of_target(const char *target, const struct ftj_log *log,
                                struct ftj_device *device)
{
    if (strcmp(target, "cpu") == 0) {
        describe_cpu(device);
        return FTJ_OK;
    }
    const char *number = strncmp(target, "sm_", 3) == 0 ? target + 3 : target;
    const char *suffix = NULL;
    const struct part *part = find_part(number, &suffix);
    if (!part)
        return refuse_target(target, log);

    ftj_device_from_capability((int)part->number / 10, (int)part->number % 10, device);
    describe(part, suffix[0] != '\0', device);
    snprintf(device->target, sizeof(device->target), "sm_%u%s", part->number, suffix);
    return FTJ_OK;
}

struct feature_name {
    uint32_t feature;
    const char *name;
};

static const struct feature_name feature_names[] = {
#define FEATURE_ROW(name, bit, text, meaning) {name, text},
    FTJ_FEATURE_MAP(FEATURE_ROW)
#undef FEATURE_ROW
};
#define NUM_FEATURES (sizeof(feature_names) / sizeof(*feature_names))

static uint32_t feature_of_name(const char *name, size_t size)
{
    for (size_t i = 0; i < NUM_FEATURES; i++) {
        if (strlen(feature_names[i].name) == size && !memcmp(feature_names[i].name, name, size))
            return feature_names[i].feature;
    }
    return 0;
}

ftj_status ftj_features_narrow(uint32_t *features, const char *names, const struct ftj_log *log)
{
    if (strcmp(names, "none") == 0) {
        *features = 0;
        return FTJ_OK;
    }
    uint32_t removed = 0;
    for (const char *name = names; *name;) {
        const size_t item_size = strcspn(name, ",");
        const size_t lead = item_size > 0 && name[0] == '-';
        const uint32_t feature = feature_of_name(name + lead, item_size - lead);
        if (!feature) {
            char known[256];
            ftj_features_text(~0u, known, sizeof(known));
            return ftj_fail(
                log, FTJ_E_INVALID,
                "features \"%s\" has \"%.*s\", which is no feature; it must be \"none\" "
                "or, each led by \"-\" or not, of %s",
                names, (int)item_size, name, known);
        }
        removed |= feature;
        name += item_size;
        name += *name == ',';
    }
    *features &= ~removed;
    return FTJ_OK;
}

void ftj_features_text(uint32_t features, char *text, size_t size)
{
    snprintf(text, size, "none");
    size_t used = 0;
    for (size_t i = 0; i < NUM_FEATURES && used < size; i++) {
        if (features & feature_names[i].feature)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? "," : "",
                                     feature_names[i].name);
    }
}
