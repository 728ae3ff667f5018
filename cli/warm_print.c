/* SPDX-License-Identifier: MIT */
#include "cli/warm_print.h"

#include <string.h>
#include <sys/resource.h>

#include "cli/cli.h"

int warm_print_models(void)
{
    for (size_t i = 0; i < ftj_num_preset_layers; i++) {
        const struct ftj_preset_layer *layer = &ftj_preset_layers[i];
        printf("%-20s %-7s", layer->model, layer->kind);
        if (layer->skip)
            printf(" skipped: %s\n", layer->skip);
        else
            printf(" %3u over %2u heads of %3u, page %u%s%s\n", layer->num_q_heads,
                   layer->num_kv_heads, layer->head_dim, layer->page_size,
                   layer->window ? ", window" : "",
                   layer->is_assumed ? " (query heads and window assumed)" : "");
    }
    return CLI_OK;
}

static void print_skipped(const struct warm_list *list, FILE *out)
{
    for (const char *at = list->skipped.data; at && *at;) {
        const size_t size = strcspn(at, "\n");
        fprintf(out, "skipped %.*s\n", (int)size, at);
        at += size + 1;
    }
}

int warm_print_kernels(const struct warm_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct warm_item *item = &list->items[i];
        printf("%s %-8s %-22s %s\n", item->key.hex, item->key.target, item->source.template_id,
               item->label);
    }
    print_skipped(list, stdout);
    return CLI_OK;
}

static double cpu_seconds(void)
{
    double seconds = 0;
    const int who[] = {RUSAGE_SELF, RUSAGE_CHILDREN};
    for (size_t i = 0; i < 2; i++) {
        struct rusage usage;
        if (!getrusage(who[i], &usage))
            seconds += (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                       1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    }
    return seconds;
}

static int print_json(const struct warm_list *list, const struct warm_result *result,
                      const struct warm_bundle *bundle)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddNumberToObject(json, "kernels", (double)list->count);
    cJSON_AddNumberToObject(json, "compiled", (double)result->num_compiled);
    cJSON_AddNumberToObject(json, "hit", (double)result->num_hit);
    cJSON_AddNumberToObject(json, "failed", (double)result->num_failed);
    cJSON_AddNumberToObject(json, "seconds", result->seconds);
    cJSON_AddNumberToObject(json, "cpu_seconds", cpu_seconds());
    cJSON_AddNumberToObject(json, "compile_seconds", 1e-6 * (double)result->compile_us);
    if (bundle->count > 0) {
        cJSON *object = cJSON_AddObjectToObject(json, "bundle");
        cJSON_AddStringToObject(object, "path", bundle->path);
        cJSON_AddStringToObject(object, "sha256", bundle->digest);
        cJSON_AddNumberToObject(object, "entries", (double)bundle->count);
    }
    cJSON *skipped = cJSON_AddArrayToObject(json, "skipped");
    for (const char *at = list->skipped.data; at && *at;) {
        char line[512];
        const size_t size = strcspn(at, "\n");
        snprintf(line, sizeof(line), "%.*s", (int)size, at);
        cJSON_AddItemToArray(skipped, cJSON_CreateString(line));
        at += size + 1;
    }
    return cli_print_json("warm", json, stdout);
}

int warm_print_result(const struct warm_list *list, const struct warm_result *result,
                      const struct warm_bundle *bundle, bool is_json)
{
    if (is_json)
        return print_json(list, result, bundle);
    print_skipped(list, stdout);
    printf("%zu kernels: %zu compiled, %zu hit, %zu failed in %.1f s (%.1f s of CPU)\n",
           list->count, result->num_compiled, result->num_hit, result->num_failed, result->seconds,
           cpu_seconds());
    if (bundle->count > 0)
        printf("bundle %s: %zu entries, sha256 %s\n", bundle->path, bundle->count, bundle->digest);
    return CLI_OK;
}
