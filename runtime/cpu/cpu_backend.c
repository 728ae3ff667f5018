/* SPDX-License-Identifier: MIT */
/* The host as a device: memory is malloc's, streams are always idle, a launch returns when the
 * kernel has ended. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/environment.h"
#include "runtime/backend.h"
#include "runtime/cpu/cpu_grid.h"
#include "runtime/cpu/cpu_module.h"
#include "runtime/cpu/cpu_worker.h"

#define MEMORY_ALIGN 256 /* as the driver's */

static ftj_status module_load(struct ftj_backend *backend, const struct ftj_bytes *code,
                              const struct ftj_config *config, struct ftj_module *module)
{
    if (config->num_threads == 0 || config->num_threads > FTJ_CPU_MAX_THREADS ||
        config->num_threads % FTJ_CPU_WARP_LANES) {
        return ftj_fail(backend->log, FTJ_E_INVALID,
                        "num_threads is %u; it must be a multiple of %d up to %d",
                        config->num_threads, FTJ_CPU_WARP_LANES, FTJ_CPU_MAX_THREADS);
    }
    const uint32_t cluster_blocks = config->cluster_blocks ? config->cluster_blocks : 1;
    if (cluster_blocks > FTJ_CPU_MAX_CLUSTER ||
        cluster_blocks * config->num_threads > FTJ_CPU_MAX_THREADS) {
        return ftj_fail(backend->log, FTJ_E_INVALID,
                        "a cluster is of %u blocks of %u threads; it may be of %d, and of %d "
                        "threads in all",
                        cluster_blocks, config->num_threads, FTJ_CPU_MAX_CLUSTER,
                        FTJ_CPU_MAX_THREADS);
    }
    struct ftj_cpu_module *library = NULL;
    const ftj_status status = ftj_cpu_module_create(code, backend->log, &library);
    if (status)
        return status;
    *module = (struct ftj_module){
        .library = library,
        .function = (void *)(uintptr_t)ftj_cpu_module_entry(library),
        .num_threads = config->num_threads,
        .smem_bytes = config->smem_bytes,
        .blocks_per_sm = 1,
        .cluster_blocks = cluster_blocks,
        .num_clusters = cluster_blocks > 1 ? backend->device.num_sms / cluster_blocks : 0,
    };
    return FTJ_OK;
}

static void module_unload(struct ftj_backend *backend, struct ftj_module *module)
{
    (void)backend;
    ftj_cpu_module_destroy(module->library);
    *module = (struct ftj_module){0};
}

static ftj_status launch(struct ftj_backend *backend, const struct ftj_module *module,
                         struct ftj_grid grid, const void *params, size_t params_bytes,
                         struct CUstream_st *stream)
{
    (void)stream;
    const ftj_cpu_entry *entry = module->function;
    if (params_bytes != entry->params_bytes) {
        return ftj_fail(backend->log, FTJ_E_LAUNCH,
                        "params_bytes is %zu; the kernel was compiled for %u", params_bytes,
                        entry->params_bytes);
    }
    const uint32_t cluster_blocks = grid.cluster_blocks ? grid.cluster_blocks : 1;
    if (grid.num_blocks % cluster_blocks) {
        return ftj_fail(backend->log, FTJ_E_LAUNCH,
                        "%u blocks are no whole clusters of %u, which the kernel is launched in",
                        grid.num_blocks, cluster_blocks);
    }
    const struct ftj_cpu_grid run = {
        .entry = entry,
        .params = params,
        .num_blocks = grid.num_blocks,
        .num_threads = module->num_threads,
        .smem_bytes = module->smem_bytes,
        .cluster_blocks = cluster_blocks,
    };
    return ftj_cpu_grid_run(backend->state, &run, backend->log);
}

static ftj_status tensor_encode(struct ftj_backend *backend, const ftj_tensor *tensor,
                                ftj_tensor_map *map)
{
    (void)backend;
    memcpy(map, tensor, sizeof(*tensor));
    return FTJ_OK;
}

/* Kernels reach all that the process reaches; a bad address is for AddressSanitizer to find. */
static ftj_status check_pointer(struct ftj_backend *backend, const char *argument,
                                const void *pointer)
{
    (void)backend;
    (void)argument;
    (void)pointer;
    return FTJ_OK;
}

/* All streams of a context are one, named by an address that no other context has. */
static struct CUstream_st *own_stream(const struct ftj_backend *backend)
{
    return backend->state;
}

static ftj_status check_stream(struct ftj_backend *backend, struct CUstream_st *stream)
{
    if (stream && stream != own_stream(backend))
        return ftj_fail(backend->log, FTJ_E_INVALID,
                        "stream is %p, which is no stream of this context", (void *)stream);
    return FTJ_OK;
}

static bool is_capturing(struct ftj_backend *backend)
{
    (void)backend;
    return false;
}

static ftj_status memory_alloc(struct ftj_backend *backend, size_t bytes, void **out)
{
    void *memory = NULL;
    if (posix_memalign(&memory, MEMORY_ALIGN, bytes ? bytes : 1))
        return ftj_fail(backend->log, FTJ_E_NO_MEMORY, "no memory for %zu bytes", bytes);
    /* As bad as what a GPU's memory holds at first, and the same every time. */
    memset(memory, 0xff, bytes);
    *out = memory;
    return FTJ_OK;
}

static void memory_free(struct ftj_backend *backend, void *memory)
{
    (void)backend;
    free(memory);
}

static ftj_status memory_write(struct ftj_backend *backend, void *device, const void *host,
                               size_t bytes)
{
    (void)backend;
    if (bytes > 0)
        memcpy(device, host, bytes);
    return FTJ_OK;
}

static ftj_status memory_read(struct ftj_backend *backend, void *host, const void *device,
                              size_t bytes)
{
    return memory_write(backend, host, device, bytes);
}

static ftj_status memory_fill(struct ftj_backend *backend, void *device, uint8_t value,
                              size_t bytes)
{
    (void)backend;
    if (bytes > 0)
        memset(device, value, bytes);
    return FTJ_OK;
}

static ftj_status stream_create(struct ftj_backend *backend, struct CUstream_st **out)
{
    *out = own_stream(backend);
    return FTJ_OK;
}

static void stream_destroy(struct ftj_backend *backend, struct CUstream_st *stream)
{
    (void)backend;
    (void)stream;
}

static ftj_status stream_synchronize(struct ftj_backend *backend, struct CUstream_st *stream)
{
    return check_stream(backend, stream);
}

static void finish(struct ftj_backend *backend)
{
    ftj_cpu_pool_destroy(backend->state);
    backend->state = NULL;
}

static const struct ftj_backend_ops cpu_ops = {
    .module_load = module_load,
    .module_unload = module_unload,
    .launch = launch,
    .tensor_encode = tensor_encode,
    .check_pointer = check_pointer,
    .check_stream = check_stream,
    .is_capturing = is_capturing,
    .memory_alloc = memory_alloc,
    .memory_free = memory_free,
    .memory_write = memory_write,
    .memory_read = memory_read,
    .memory_fill = memory_fill,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_synchronize = stream_synchronize,
    .finish = finish,
};

/* The processor's name where the kernel tells it, as on x86; else the kind of machine. */
static void read_name(char *name, size_t size)
{
    struct utsname host;
    snprintf(name, size, "%s", uname(&host) ? "CPU" : host.machine);

    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[256];
    while (file && fgets(line, sizeof(line), file)) {
        const char *value = strchr(line, ':');
        if (strncmp(line, "model name", strlen("model name")) || !value)
            continue;
        value += 1 + strspn(value + 1, " \t");
        snprintf(name, size, "%.*s", (int)strcspn(value, "\n"), value);
        break;
    }
    if (file)
        fclose(file);
}

/* The target, as base/device.c has it, on this host. */
static ftj_status describe(const struct ftj_log *log, struct ftj_device *device)
{
    const ftj_status status = ftj_device_of_target("cpu", log, device);
    if (status)
        return status;
    const long pages = sysconf(_SC_PHYS_PAGES);
    const long page_bytes = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page_bytes > 0)
        device->memory_bytes = (uint64_t)pages * (uint64_t)page_bytes;
    read_name(device->name, sizeof(device->name));
    return FTJ_OK;
}

ftj_status ftj_cpu_backend_init(struct ftj_backend *backend, const ftj_settings *settings,
                                const struct ftj_log *log)
{
    if (settings->device != 0)
        return ftj_fail(log, FTJ_E_INVALID, "device is %d; the CPU is device 0 and the only one",
                        settings->device);

    struct ftj_backend opened = {.ops = &cpu_ops, .log = log};
    ftj_status status = describe(log, &opened.device);
    if (status)
        return status;
    const char *names = settings->features ? settings->features : ftj_variable("FTJIT_FEATURES");
    if (names)
        status = ftj_features_narrow(&opened.device.features, names, log);
    if (status)
        return status;
    opened.state = ftj_cpu_pool_create();
    if (!opened.state)
        return ftj_fail(log, FTJ_E_NO_MEMORY, "no memory for the CPU device");
    *backend = opened;
    return FTJ_OK;
}
