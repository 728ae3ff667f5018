/* SPDX-License-Identifier: MIT */
/* Life of a context. */
#include "runtime/context_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/environment.h"
#include "runtime/kernel.h"

static ftj_status open_backend(struct ftj_context *ctx, const ftj_settings *settings)
{
    switch (settings->kind) {
    case FTJ_DEVICE_CUDA:
        return ftj_cuda_backend_init(&ctx->backend, settings, &ctx->log);
    case FTJ_DEVICE_CPU:
        return ftj_cpu_backend_init(&ctx->backend, settings, &ctx->log);
    }
    return ftj_fail(&ctx->log, FTJ_E_INVALID,
                    "settings.kind is %d; allowed: FTJ_DEVICE_CUDA, FTJ_DEVICE_CPU",
                    (int)settings->kind);
}

static ftj_status find_compiler(struct ftj_context *ctx, const ftj_settings *settings)
{
    if ((unsigned)settings->compile_mode > FTJ_COMPILE_PROCESS)
        return ftj_fail(&ctx->log, FTJ_E_INVALID,
                        "settings.compile_mode is %d; allowed: FTJ_COMPILE_DEFAULT, "
                        "FTJ_COMPILE_THREAD, FTJ_COMPILE_PROCESS",
                        (int)settings->compile_mode);
    if (settings->kind == FTJ_DEVICE_CPU)
        return ftj_host_compiler_find(&ctx->compiler, settings->compiler_path, &ctx->log);
    const ftj_status status = ftj_nvrtc_find(&ctx->compiler, settings->compiler_path, &ctx->log);
    if (status == FTJ_OK && settings->compile_mode != FTJ_COMPILE_DEFAULT)
        ctx->compiler.mode = settings->compile_mode;
    return status;
}

/* FTJIT_NO_COMPILE and FTJIT_SEALED. */
static ftj_status read_seal(const struct ftj_log *log, enum ftj_seal *seal)
{
    const char *no_compile = ftj_variable("FTJIT_NO_COMPILE");
    const char *sealed = ftj_variable("FTJIT_SEALED");
    if (sealed && strcmp(sealed, "count") != 0 && strcmp(sealed, "error") != 0)
        return ftj_fail(log, FTJ_E_INVALID, "FTJIT_SEALED is \"%s\"; allowed: count, error",
                        sealed);
    if (no_compile && strcmp(no_compile, "0") != 0)
        *seal = FTJ_SEAL_NOTHING;
    else if (sealed)
        *seal = *sealed == 'e' ? FTJ_SEAL_ERROR : FTJ_SEAL_COUNT;
    else
        *seal = FTJ_SEAL_NONE;
    return FTJ_OK;
}

static ftj_status open_store(struct ftj_context *ctx, const ftj_settings *settings)
{
    const ftj_status status =
        ftj_store_create(settings->cache_dir, settings->no_cache, &ctx->log, &ctx->store);
    if (status)
        return status;
    return ftj_store_configure(ctx->store, &(struct ftj_store_options){
                                               .path = settings->cache_path,
                                               .bundle_digest = settings->bundle_digest,
                                               .owners = settings->cache_owners,
                                               .match = settings->compiler_match,
                                               .has_compiler = ctx->compiler.id[0] != '\0',
                                               .max_bytes = settings->cache_max_bytes,
                                           });
}

ftj_status ftj_context_create(const ftj_settings *settings, ftj_context **out)
{
    const ftj_settings defaults = {0};
    if (!out)
        return ftj_fail(NULL, FTJ_E_INVALID, "out is NULL");
    if (!settings)
        settings = &defaults;
    struct ftj_context *ctx = calloc(1, sizeof(*ctx));
    if (!ctx)
        return ftj_fail(NULL, FTJ_E_NO_MEMORY, "no memory for a context");
    ctx->log = (struct ftj_log){settings->log, settings->log_data, settings->log_level};
    ftj_fork_watch();
    ctx->fork_generation = ftj_fork_generation();

    enum ftj_seal seal = FTJ_SEAL_NONE;
    ftj_status status = read_seal(&ctx->log, &seal);
    if (status)
        goto cleanup;
    atomic_store(&ctx->seal, (int)seal);
    status = open_backend(ctx, settings);
    if (status)
        goto cleanup;
    status = find_compiler(ctx, settings);
    if (status)
        goto cleanup;
    ctx->backend.compiler = ctx->compiler.id;
    status = open_store(ctx, settings);
    if (status)
        goto cleanup;
    status = ftj_telemetry_init(&ctx->telemetry, settings);
    if (status)
        goto cleanup;
    status = ftj_locks_create(&ctx->log, &ctx->locks);
    if (status)
        goto cleanup;
    status = ftj_memo_create(ftj_kernel_destroy, ctx, &ctx->memo);
    if (status)
        goto cleanup;
    *out = ctx;
    return FTJ_OK;

cleanup:
    ftj_context_destroy(ctx);
    return status;
}

void ftj_context_destroy(ftj_context *ctx)
{
    if (!ctx || !ftj_context_is_ours(ctx))
        return;
    if (ctx->telemetry.stats_path) {
        ftj_stats stats;
        ftj_context_stats(ctx, &stats);
        ftj_telemetry_stats(&ctx->telemetry, &ctx->log, &ctx->backend.device, &stats);
    }
    ftj_telemetry_finish(&ctx->telemetry);
    ftj_kernel_map_finish(&ctx->map);
    ftj_memo_destroy(ctx->memo);
    ftj_locks_destroy(ctx->locks);
    ftj_store_destroy(ctx->store);
    ftj_compiler_finish(&ctx->compiler);
    ftj_backend_finish(&ctx->backend);
    free(ctx);
}

ftj_status ftj_context_check(const struct ftj_context *ctx)
{
    if (!ctx)
        return ftj_fail(NULL, FTJ_E_INVALID, "ctx is NULL");
    if (ftj_context_is_ours(ctx))
        return FTJ_OK;
    return ftj_fail(&ctx->log, FTJ_E_INVALID,
                    "the context was created before this process was forked, and neither the "
                    "driver nor threads survive a fork; create one in the child, or start it with "
                    "posix_spawn or exec");
}

/* A seal is only ever made tighter: FTJIT_NO_COMPILE stays what it is. */
void ftj_context_seal(ftj_context *ctx, bool strict)
{
    const int wanted = strict ? FTJ_SEAL_ERROR : FTJ_SEAL_COUNT;
    int seal = atomic_load(&ctx->seal);
    while (seal < wanted && !atomic_compare_exchange_weak(&ctx->seal, &seal, wanted))
        continue;
}

void ftj_context_info(const ftj_context *ctx, ftj_device_info *info)
{
    const struct ftj_device *device = &ctx->backend.device;
    memset(info, 0, sizeof(*info));
    info->kind = device->kind;
    info->ordinal = device->ordinal;
    info->capability_major = device->capability_major;
    info->capability_minor = device->capability_minor;
    info->driver_version = device->driver_version;
    info->num_sms = device->num_sms;
    info->smem_bytes = device->smem_bytes;
    info->l2_bytes = device->l2_bytes;
    info->memory_bytes = device->memory_bytes;
    snprintf(info->name, sizeof(info->name), "%s", device->name);
    snprintf(info->target, sizeof(info->target), "%s", device->target);
    ftj_features_text(device->features, info->features, sizeof(info->features));
    ftj_features_text(device->probed, info->probed, sizeof(info->probed));
    if (device->kind == FTJ_DEVICE_CUDA)
        snprintf(info->driver_path, sizeof(info->driver_path), "%s",
                 ftj_cuda_backend_driver_path(&ctx->backend));
    snprintf(info->compiler, sizeof(info->compiler), "%s", ctx->compiler.id);
    snprintf(info->compiler_path, sizeof(info->compiler_path), "%s", ctx->compiler.path);
    snprintf(info->cache_dir, sizeof(info->cache_dir), "%s", ftj_store_dir(ctx->store));
}

void ftj_context_stats(const ftj_context *ctx, ftj_stats *stats)
{
    struct ftj_store_counts counts;
    ftj_store_count(ctx->store, &counts);
    *stats = (ftj_stats){
        .memory_hits = atomic_load(&ctx->stats.memory_hits),
        .disk_hits = atomic_load(&ctx->stats.disk_hits),
        .compiles = atomic_load(&ctx->stats.compiles),
        .compile_us = atomic_load(&ctx->stats.compile_us),
        .damaged_entries = atomic_load(&ctx->stats.damaged_entries) + counts.passed_over,
        .dropped_writes = atomic_load(&ctx->stats.dropped_writes),
        .waits = atomic_load(&ctx->stats.waits),
        .sealed_misses = atomic_load(&ctx->stats.sealed_misses),
        .shared_hits = counts.shared_hits,
        .bundle_hits = counts.bundle_hits,
        .evictions = counts.evictions,
    };
}
