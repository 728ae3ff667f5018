/* SPDX-License-Identifier: MIT */
/* Life of a context. */
#include "runtime/context_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    if (settings->kind == FTJ_DEVICE_CPU)
        return ftj_host_compiler_find(&ctx->compiler, settings->compiler_path, &ctx->log);
    return ftj_nvrtc_find(&ctx->compiler, settings->compiler_path, &ctx->log);
}

ftj_status ftj_context_create(const ftj_settings *settings, ftj_context **out)
{
    const ftj_settings defaults = {0};
    if (!settings)
        settings = &defaults;
    struct ftj_context *ctx = calloc(1, sizeof(*ctx));
    if (!ctx)
        return ftj_fail(NULL, FTJ_E_NO_MEMORY, "no memory for a context");
    ctx->log = (struct ftj_log){settings->log, settings->log_data, settings->log_level};

    ftj_status status = open_backend(ctx, settings);
    if (status)
        goto cleanup;
    status = find_compiler(ctx, settings);
    if (status)
        goto cleanup;
    ctx->backend.compiler = ctx->compiler.id;
    status = ftj_store_create(settings->cache_dir, settings->no_cache, &ctx->log, &ctx->store);
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
    if (!ctx)
        return;
    ftj_memo_destroy(ctx->memo);
    ftj_store_destroy(ctx->store);
    ftj_compiler_finish(&ctx->compiler);
    ftj_backend_finish(&ctx->backend);
    free(ctx);
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
    *stats = (ftj_stats){
        .memory_hits = atomic_load(&ctx->stats.memory_hits),
        .disk_hits = atomic_load(&ctx->stats.disk_hits),
        .compiles = atomic_load(&ctx->stats.compiles),
        .compile_us = atomic_load(&ctx->stats.compile_us),
        .damaged_entries = atomic_load(&ctx->stats.damaged_entries),
        .dropped_writes = atomic_load(&ctx->stats.dropped_writes),
    };
}
