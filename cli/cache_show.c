/* SPDX-License-Identifier: MIT */
/* `ftjit cache ls` and `ftjit cache show`. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/cache_items.h"
#include "cli/cli.h"

static void format_time(time_t used, char text[32])
{
    struct tm parts;
    snprintf(text, 32, "-");
    if (used && gmtime_r(&used, &parts))
        strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &parts);
}

static int width(const struct ftj_slice *slice)
{
    return slice->size < 200 ? (int)slice->size : 200;
}

static cJSON *add_slice(cJSON *json, const char *name, const struct ftj_slice *slice)
{
    char text[512];
    snprintf(text, sizeof(text), "%.*s", width(slice), slice->data);
    return cJSON_AddStringToObject(json, name, text);
}

static cJSON *item_json(const struct cache_item *item)
{
    char used[32];
    cJSON *json = cJSON_CreateObject();
    format_time(item->used, used);
    cJSON_AddStringToObject(json, "path", item->path);
    cJSON_AddNumberToObject(json, "bytes", (double)item->bytes);
    cJSON_AddStringToObject(json, "used", used);
    cJSON_AddStringToObject(json, "fault", item->fault ? item->fault : "");
    if (item->fault)
        return json;
    cJSON_AddStringToObject(json, "key", item->key.hex);
    cJSON_AddStringToObject(json, "target", item->key.target);
    add_slice(json, "kernel", &item->manifest.template_id);
    add_slice(json, "output", &item->manifest.output);
    add_slice(json, "compiler", &item->manifest.compiler);
    cJSON_AddNumberToObject(json, "code_bytes", (double)item->view.code_bytes);
    cJSON_AddNumberToObject(json, "registers", item->view.facts.registers);
    cJSON_AddNumberToObject(json, "smem_bytes", item->view.facts.smem_bytes);
    cJSON_AddNumberToObject(json, "spill_bytes", item->view.facts.spill_bytes);
    cJSON_AddNumberToObject(json, "compile_us", item->view.facts.compile_us);
    return json;
}

/* ---- ls ---- */

struct listing {
    cJSON *entries; /* NULL: text */
    size_t count;
    size_t num_damaged;
    uint64_t bytes;
};

static ftj_status list_item(void *data, const struct cache_item *item)
{
    struct listing *listing = data;
    char used[32];
    listing->count++;
    listing->bytes += item->bytes;
    listing->num_damaged += item->fault != NULL;
    format_time(item->used, used);
    if (listing->entries)
        cJSON_AddItemToArray(listing->entries, item_json(item));
    else if (item->fault)
        printf("%s %s\n", item->path, item->fault);
    else
        printf("%s  %-8s %-22.*s %8llu  %3u registers  %-20s  %.*s\n", item->key.hex,
               item->key.target, width(&item->manifest.template_id),
               item->manifest.template_id.data, (unsigned long long)item->bytes,
               item->view.facts.registers, used, width(&item->manifest.compiler),
               item->manifest.compiler.data);
    return FTJ_OK;
}

int cache_run_ls(struct cache_request *request)
{
    cJSON *json = request->is_json ? cJSON_CreateObject() : NULL;
    struct listing listing = {.entries = json ? cJSON_AddArrayToObject(json, "entries") : NULL};
    const bool is_read = cache_each_item(request, request->bundle, list_item, &listing);
    if (json) {
        cJSON_AddNumberToObject(json, "bytes", (double)listing.bytes);
        const int code = cli_print_json("cache", json, stdout);
        return is_read ? code : CLI_FAILED;
    }
    printf("%zu entries, %llu bytes", listing.count, (unsigned long long)listing.bytes);
    if (listing.num_damaged > 0)
        printf("; %zu cannot be used", listing.num_damaged);
    putchar('\n');
    return is_read ? CLI_OK : CLI_FAILED;
}

/* ---- show ---- */

struct search {
    const struct cache_request *request;
    const char *prefix;
    size_t num_found;
    int code;
    cJSON *entries; /* NULL: text */
};

static void print_item(const struct cache_item *item)
{
    const struct ftj_manifest *manifest = &item->manifest;
    char used[32];
    format_time(item->used, used);
    printf("key        %s\nfile       %s\n", item->key.hex, item->path);
    printf("kernel     %.*s\ntarget     %s\n", width(&manifest->template_id),
           manifest->template_id.data, item->key.target);
    printf("compiler   %.*s\noptions   ", width(&manifest->compiler), manifest->compiler.data);
    for (size_t i = 0; i < manifest->num_options; i++)
        printf(" %.*s", width(&manifest->options[i]), manifest->options[i].data);
    printf("\ntemplates  %.*s\n", width(&manifest->templates), manifest->templates.data);
    printf("code       %zu bytes, %u registers, %u bytes of shared memory, %u spilled\n",
           item->view.code_bytes, item->view.facts.registers, item->view.facts.smem_bytes,
           item->view.facts.spill_bytes);
    printf("compiled   in %u ms\nused       %s\n", item->view.facts.compile_us / 1000, used);
}

static int write_code(const char *path, const struct cache_item *item)
{
    FILE *file = fopen(path, "wbe");
    const bool written =
        file && fwrite(item->view.code, 1, item->view.code_bytes, file) == item->view.code_bytes;
    if ((!file || fclose(file) == 0) && written)
        return CLI_OK;
    fprintf(stderr, "ftjit cache: %s cannot be written: %s\n", path, strerror(errno));
    return CLI_FAILED;
}

static ftj_status show_item(void *data, const struct cache_item *item)
{
    struct search *search = data;
    const struct cache_request *request = search->request;
    if (item->fault || strncmp(item->key.hex, search->prefix, strlen(search->prefix)) != 0)
        return FTJ_OK;
    search->num_found++;
    if (request->code_path)
        search->code = write_code(request->code_path, item);
    else if (request->show_source)
        fwrite(item->manifest.source.data, 1, item->manifest.source.size, stdout);
    else if (request->show_log)
        fwrite(item->view.log, 1, item->view.log_bytes, stdout);
    else if (search->entries)
        cJSON_AddItemToArray(search->entries, item_json(item));
    else
        print_item(item);
    return FTJ_OK;
}

int cache_run_show(struct cache_request *request)
{
    cJSON *json = request->is_json ? cJSON_CreateObject() : NULL;
    struct search search = {
        .request = request,
        .prefix = request->arguments[0],
        .entries = json ? cJSON_AddArrayToObject(json, "entries") : NULL,
    };
    if (!cache_each_item(request, request->bundle, show_item, &search))
        search.code = CLI_FAILED;
    if (search.num_found == 0 && search.code == CLI_OK) {
        fprintf(stderr, "ftjit cache: no entry's key begins with %s\n", search.prefix);
        search.code = CLI_FAILED;
    }
    if (json) {
        const int code = cli_print_json("cache", json, stdout);
        search.code = search.code ? search.code : code;
    }
    return search.code;
}
