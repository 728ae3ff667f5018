/* SPDX-License-Identifier: MIT */
/* `ftjit cache verify`: every entry against its checksum, its name, and what compiles to it now. */
#include <stdio.h>
#include <string.h>

#include "cli/cache_items.h"
#include "cli/cli.h"
#include "codegen/compile.h"
#include "codegen/template_set.h"
#include "runtime/backend.h"

#define MAX_OPTIONS 16

struct verification {
    bool recompiles;
    struct ftj_compiler nvrtc; /* both when it recompiles */
    struct ftj_compiler host;
    size_t num_sound;
    size_t num_damaged;
    size_t num_recompiled;
    size_t num_different;
    size_t num_not_recompiled; /* made by another compiler, or from other templates */
    cJSON *faults;             /* NULL: text */
};

static void say_fault(struct verification *verification, const struct cache_item *item,
                      const char *fault)
{
    if (!verification->faults) {
        printf("%s %s\n", item->path, fault);
        return;
    }
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "path", item->path);
    cJSON_AddStringToObject(json, "fault", fault);
    cJSON_AddItemToArray(verification->faults, json);
}

/* The source of an entry, to be finished; `storage` holds its texts. */
static ftj_status source_of(const struct cache_item *item, char template_id[64],
                            struct ftj_source *source)
{
    const struct ftj_slice *id = &item->manifest.template_id;
    snprintf(template_id, 64, "%.*s", id->size < 63 ? (int)id->size : 63, id->data);
    *source = (struct ftj_source){.template_id = template_id, .allow_fma = true};
    snprintf(source->target, sizeof(source->target), "%s", item->key.target);
    for (size_t i = 0; i < item->manifest.num_options; i++) {
        if (ftj_slice_is(&item->manifest.options[i], "--fmad=false"))
            source->allow_fma = false;
    }
    ftj_text_append(&source->text, item->manifest.source.data, item->manifest.source.size);
    return source->text.failed ? FTJ_E_NO_MEMORY : FTJ_OK;
}

/* Whether a compile here would be one of the same inputs. */
static bool is_repeatable(const struct cache_item *item, const struct ftj_compiler *compiler,
                          const struct ftj_source *source)
{
    const char *options[MAX_OPTIONS];
    char storage[64];
    const size_t count = compiler->options(compiler, source, options, MAX_OPTIONS, storage);
    if (!ftj_slice_is(&item->manifest.compiler, compiler->id) ||
        !ftj_slice_is(&item->manifest.templates, ftj_templates_digest) ||
        count != item->manifest.num_options)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (!ftj_slice_is(&item->manifest.options[i], options[i]))
            return false;
    }
    return true;
}

static ftj_status recompile(struct verification *verification, const struct cache_item *item)
{
    char template_id[64];
    struct ftj_source source = {0};
    struct ftj_binary binary = {0};
    struct ftj_compiler *compiler =
        !strcmp(item->key.target, "cpu") ? &verification->host : &verification->nvrtc;
    ftj_status status = source_of(item, template_id, &source);
    if (status)
        goto cleanup;
    if (!is_repeatable(item, compiler, &source)) {
        verification->num_not_recompiled++;
        goto cleanup;
    }
    status = compiler->compile(compiler, &source, &binary);
    const bool is_same = !status && binary.code.size == item->view.code_bytes &&
                         !memcmp(binary.code.data, item->view.code, binary.code.size);
    if (is_same) {
        verification->num_recompiled++;
    } else {
        verification->num_different++;
        say_fault(verification, item,
                  status ? "does not compile again" : "compiles to other bytes");
    }
    if (status != FTJ_E_NO_MEMORY)
        status = FTJ_OK;

cleanup:
    ftj_binary_finish(&binary);
    ftj_source_finish(&source);
    return status;
}

static ftj_status verify_item(void *data, const struct cache_item *item)
{
    struct verification *verification = data;
    if (item->fault) {
        verification->num_damaged++;
        say_fault(verification, item, item->fault);
        return FTJ_OK;
    }
    verification->num_sound++;
    return verification->recompiles ? recompile(verification, item) : FTJ_OK;
}

static int print_result(const struct verification *verification, cJSON *json)
{
    if (json) {
        cJSON_AddNumberToObject(json, "sound", (double)verification->num_sound);
        cJSON_AddNumberToObject(json, "damaged", (double)verification->num_damaged);
        cJSON_AddNumberToObject(json, "recompiled", (double)verification->num_recompiled);
        cJSON_AddNumberToObject(json, "different", (double)verification->num_different);
        cJSON_AddNumberToObject(json, "not_recompiled", (double)verification->num_not_recompiled);
        return cli_print_json("cache", json, stdout);
    }
    printf("%zu entries are sound, %zu are not", verification->num_sound,
           verification->num_damaged);
    if (verification->recompiles)
        printf("; %zu compiled again to the same bytes, %zu did not, %zu are of another compiler "
               "or version",
               verification->num_recompiled, verification->num_different,
               verification->num_not_recompiled);
    putchar('\n');
    return CLI_OK;
}

int cache_run_verify(struct cache_request *request)
{
    cJSON *json = request->is_json ? cJSON_CreateObject() : NULL;
    struct verification verification = {
        .recompiles = request->recompiles,
        .faults = json ? cJSON_AddArrayToObject(json, "faults") : NULL,
    };
    ftj_status status = FTJ_OK;
    if (request->recompiles)
        status = ftj_nvrtc_find(&verification.nvrtc, NULL, NULL);
    if (request->recompiles && !status)
        status = ftj_host_compiler_find(&verification.host, NULL, NULL);
    bool is_read = !status;
    if (status)
        cli_failure("cache", status);
    else if (request->num_arguments == 0)
        is_read = cache_each_item(request, request->bundle, verify_item, &verification);
    for (int i = 0; i < request->num_arguments && !status; i++)
        is_read &= cache_each_item(request, request->arguments[i], verify_item, &verification);

    const int printed = print_result(&verification, json);
    ftj_compiler_finish(&verification.nvrtc);
    ftj_compiler_finish(&verification.host);
    if (!is_read || verification.num_damaged > 0 || verification.num_different > 0)
        return CLI_FAILED;
    return printed;
}
