/* SPDX-License-Identifier: MIT */
/*
 * The pipeline, as one short function: ftj_kernel_get().
 *
 *   problem -> kernel it had before?
 *           -> variant, config -> source -> key -> memory? disk? (miss: compiler) -> module
 */
#include "runtime/kernel.h"

#include <stdio.h>
#include <stdlib.h>

#include "codegen/template_set.h"
#include "runtime/report.h"

#define MAX_OPTIONS 16

/* A lookup under way: what build() needs once memory had nothing. */
struct lookup {
    struct ftj_context *ctx;
    const struct ftj_problem *problem;
    const struct ftj_variant *variant;
    struct ftj_config config;
    struct ftj_source source;
    struct ftj_key key;
    bool built;
    ftj_kernel_tier tier; /* what served it */
    ftj_miss_cause cause;
    bool has_waited;
    uint32_t compile_us; /* of a compile that was needed */
};

static ftj_status select_variant(const struct ftj_problem *problem, const struct ftj_device *device,
                                 const struct ftj_log *log, const struct ftj_variant **variant,
                                 struct ftj_config *config)
{
    *variant = ftj_variant_select(problem, device, config);
    if (*variant)
        return FTJ_OK;

    char why[256];
    struct ftj_text reasons = {0};
    for (size_t i = 0; i < ftj_num_variants; i++) {
        if (ftj_variants[i].op != problem->op)
            continue;
        ftj_variant_explain(&ftj_variants[i], problem, device, why, sizeof(why));
        ftj_text_printf(&reasons, "%s%s %s", reasons.size ? "; " : "", ftj_variants[i].name, why);
    }
    const ftj_status status =
        ftj_fail(log, FTJ_E_UNSUPPORTED, "no kernel for head_dim %u, K %s, V %s on %s: %s",
                 problem->head_dim, ftj_kv_format_name(problem->k_format),
                 ftj_kv_format_name(problem->v_format), device->target,
                 reasons.data ? reasons.data : "there is no variant of this operation");
    ftj_text_finish(&reasons);
    return status;
}

static ftj_status init_key(struct ftj_key *key, const struct ftj_source *source,
                           const struct ftj_compiler *compiler)
{
    const char *options[MAX_OPTIONS];
    char storage[64];
    const size_t num_options = compiler->options(compiler, source, options, MAX_OPTIONS, storage);
    return ftj_key_init(key, &(struct ftj_key_input){
                                 .template_id = source->template_id,
                                 .source = source->text.data,
                                 .source_bytes = source->text.size,
                                 .templates = ftj_templates_digest,
                                 .options = options,
                                 .num_options = num_options,
                                 .target = source->target,
                                 .output = compiler->output,
                                 .compiler = compiler->id,
                             });
}

ftj_status ftj_kernel_describe(const struct ftj_problem *problem, const struct ftj_device *device,
                               const struct ftj_compiler *compiler, struct ftj_source *source,
                               struct ftj_key *key, const struct ftj_log *log)
{
    const struct ftj_variant *variant;
    struct ftj_config config;
    ftj_status status = select_variant(problem, device, log, &variant, &config);
    if (status)
        return status;
    status = ftj_source_init(source, variant, problem, &config, device);
    if (status)
        return status;
    status = init_key(key, source, compiler);
    if (status)
        ftj_source_finish(source);
    return status;
}

/* Whether a miss may be compiled at all. */
static ftj_status check_seal(struct lookup *lookup)
{
    struct ftj_context *ctx = lookup->ctx;
    const char *name = lookup->source.template_id;
    const char *target = lookup->source.target;
    switch ((enum ftj_seal)atomic_load(&ctx->seal)) {
    case FTJ_SEAL_NONE:
        return FTJ_OK;
    case FTJ_SEAL_COUNT:
        atomic_fetch_add(&ctx->stats.sealed_misses, 1);
        ftj_say(&ctx->log, FTJ_LOG_WARNING,
                "%s for %s (%s) is in no cache although the context is sealed; it is compiled now",
                name, target, lookup->key.hex);
        return FTJ_OK;
    case FTJ_SEAL_ERROR:
        atomic_fetch_add(&ctx->stats.sealed_misses, 1);
        return ftj_fail(&ctx->log, FTJ_E_SEALED,
                        "%s for %s (%s) is in no cache, and the context is sealed: create the "
                        "attention before ftj_context_seal(), or fill the cache with `ftjit warm`",
                        name, target, lookup->key.hex);
    case FTJ_SEAL_NOTHING:
        break;
    }
    return ftj_fail(&ctx->log, FTJ_E_SEALED,
                    "%s for %s (%s) is in no cache, and FTJIT_NO_COMPILE forbids to compile it: "
                    "fill the cache with `ftjit warm`",
                    name, target, lookup->key.hex);
}

static ftj_status compile(struct lookup *lookup, struct ftj_entry *entry)
{
    struct ftj_context *ctx = lookup->ctx;
    struct ftj_binary binary = {0};
    ftj_status status = ctx->compiler.compile(&ctx->compiler, &lookup->source, &binary);
    if (status == FTJ_E_COMPILE)
        ftj_report_compile(&ctx->log, &lookup->key, &lookup->source, &binary);
    if (status) {
        ftj_binary_finish(&binary);
        return status;
    }
    atomic_fetch_add(&ctx->stats.compiles, 1);
    atomic_fetch_add(&ctx->stats.compile_us, binary.compile_us);
    lookup->compile_us = binary.compile_us;
    ftj_say(&ctx->log, FTJ_LOG_INFO, "compiled %s for %s in %u ms: %s (%s)",
            lookup->source.template_id, lookup->source.target, binary.compile_us / 1000,
            ftj_telemetry_cause(lookup->cause), lookup->key.hex);
    *entry = (struct ftj_entry){.code = binary.code,
                                .log = binary.log,
                                .facts = {.registers = binary.registers,
                                          .smem_bytes = binary.smem_bytes,
                                          .spill_bytes = binary.spill_bytes,
                                          .compile_us = binary.compile_us}};
    return FTJ_OK;
}

/* Compile, load, and then save for the next process: what the driver refuses is never kept. A cache
 * that cannot be written costs time, never correctness: the store has said so. */
static ftj_status compile_and_load(struct lookup *lookup, struct ftj_module *module)
{
    struct ftj_context *ctx = lookup->ctx;
    struct ftj_entry entry = {0};
    ftj_status status = compile(lookup, &entry);
    if (status)
        return status;
    status = ctx->backend.ops->module_load(&ctx->backend, &entry.code, &lookup->config, module);
    lookup->tier = FTJ_TIER_COMPILER;
    if (status == FTJ_OK && ftj_store_put(ctx->store, &lookup->key, &entry))
        atomic_fetch_add(&ctx->stats.dropped_writes, 1);
    ftj_entry_finish(&entry);
    return status;
}

/* Load from disk. FTJ_E_NOT_FOUND and FTJ_E_DAMAGED: it has to be compiled; an entry that the
 * driver refuses is dropped first. */
static ftj_status load_from_disk(struct lookup *lookup, struct ftj_module *module)
{
    struct ftj_context *ctx = lookup->ctx;
    struct ftj_entry entry = {0};
    ftj_status status = ftj_store_get_from(ctx->store, &lookup->key, &entry, &lookup->tier);
    if (status == FTJ_OK) {
        status = ctx->backend.ops->module_load(&ctx->backend, &entry.code, &lookup->config, module);
        if (status == FTJ_E_DAMAGED)
            ftj_store_drop(ctx->store, &lookup->key);
    }
    ftj_entry_finish(&entry);
    if (status == FTJ_OK)
        atomic_fetch_add(&ctx->stats.disk_hits, 1);
    if (status == FTJ_E_NOT_FOUND && lookup->cause == FTJ_MISS_NONE)
        lookup->cause = FTJ_MISS_ABSENT;
    if (status == FTJ_E_DAMAGED) {
        atomic_fetch_add(&ctx->stats.damaged_entries, 1);
        lookup->cause = FTJ_MISS_DAMAGED;
    }
    return status;
}

struct loading {
    struct lookup *lookup;
    struct ftj_module *module;
};

/* Asked while another process may be compiling this kernel. What was damaged is said once, and not
 * looked at again: it may be there to stay. */
static ftj_status look_again(void *data)
{
    struct loading *loading = data;
    if (loading->lookup->cause == FTJ_MISS_DAMAGED)
        return FTJ_E_NOT_FOUND;
    const ftj_status status = load_from_disk(loading->lookup, loading->module);
    return status == FTJ_E_DAMAGED ? FTJ_E_NOT_FOUND : status;
}

/* On a miss, one process of the node compiles and the others wait for what it publishes. Without a
 * cache there is nothing to wait for, only a turn to take. */
static ftj_status compile_or_wait(struct lookup *lookup, struct ftj_module *module)
{
    struct ftj_context *ctx = lookup->ctx;
    ftj_telemetry_miss(&ctx->telemetry, &ctx->log, lookup->problem, &ctx->backend.device);
    ftj_status status = check_seal(lookup);
    if (status)
        return status;
    struct ftj_flight flight = {0};
    struct loading loading = {lookup, module};
    const struct ftj_key *key = *ftj_store_dir(ctx->store) ? &lookup->key : NULL;
    status = ftj_flight_begin(ctx->locks, key, look_again, &loading, &flight);
    lookup->has_waited = flight.has_waited;
    if (flight.has_waited)
        atomic_fetch_add(&ctx->stats.waits, 1);
    if (status == FTJ_E_NOT_FOUND)
        status = compile_and_load(lookup, module);
    ftj_flight_end(&flight, &lookup->key, lookup->compile_us);
    return status;
}

/* Called by the memo when it has no such kernel. */
static ftj_status build(void *data, void **value)
{
    struct lookup *lookup = data;
    lookup->built = true;
    struct ftj_context *ctx = lookup->ctx;
    if (ctx->backend.ops->is_capturing(&ctx->backend))
        return ftj_fail(&ctx->log, FTJ_E_CAPTURE,
                        "%s would have to be loaded or compiled inside a stream capture; create "
                        "the attention before the capture",
                        lookup->source.template_id);
    struct ftj_kernel *kernel = calloc(1, sizeof(*kernel));
    if (!kernel)
        return ftj_fail(&ctx->log, FTJ_E_NO_MEMORY, "no memory for a kernel");
    kernel->variant = lookup->variant;
    kernel->config = lookup->config;

    ftj_status status = load_from_disk(lookup, &kernel->module);
    if (status == FTJ_E_NOT_FOUND || status == FTJ_E_DAMAGED)
        status = compile_or_wait(lookup, &kernel->module);
    if (status) {
        free(kernel);
        return status;
    }
    *value = kernel;
    return FTJ_OK;
}

void ftj_kernel_destroy(void *kernel, void *context)
{
    struct ftj_context *ctx = context;
    struct ftj_kernel *owned = kernel;
    ctx->backend.ops->module_unload(&ctx->backend, &owned->module);
    free(owned);
}

static void tell(const struct lookup *lookup, ftj_status status)
{
    const ftj_kernel_event event = {
        .kernel = lookup->source.template_id,
        .target = lookup->source.target,
        .key = lookup->key.hex,
        .status = status,
        .tier = status ? FTJ_TIER_NONE : lookup->tier,
        .cause = lookup->cause,
        .has_waited = lookup->has_waited,
        .compile_us = lookup->compile_us,
    };
    ftj_telemetry_event(&lookup->ctx->telemetry, &event);
}

ftj_status ftj_kernel_get(struct ftj_context *ctx, const struct ftj_problem *problem,
                          const struct ftj_kernel **out)
{
    const struct ftj_kernel *known = ftj_kernel_map_get(&ctx->map, problem);
    if (known) {
        *out = known;
        atomic_fetch_add_explicit(&ctx->stats.memory_hits, 1, memory_order_relaxed);
        return FTJ_OK;
    }
    struct lookup lookup = {.ctx = ctx, .problem = problem};
    const struct ftj_device *device = &ctx->backend.device;
    void *kernel = NULL;

    ftj_status status = select_variant(problem, device, &ctx->log, &lookup.variant, &lookup.config);
    if (status)
        return status;
    status = ftj_source_init(&lookup.source, lookup.variant, problem, &lookup.config, device);
    if (status)
        goto cleanup;
    status = init_key(&lookup.key, &lookup.source, &ctx->compiler);
    if (status)
        goto cleanup;
    status = ftj_memo_get(ctx->memo, &lookup.key, build, &lookup, &kernel);
    if (!status) {
        if (!lookup.built)
            atomic_fetch_add(&ctx->stats.memory_hits, 1);
        ftj_kernel_map_put(&ctx->map, problem, kernel);
        *out = kernel;
    }
    if (lookup.built)
        tell(&lookup, status);

cleanup:
    ftj_key_finish(&lookup.key);
    ftj_source_finish(&lookup.source);
    return status;
}
