/* SPDX-License-Identifier: MIT */
#include "cli/warm_list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/problem_text.h"
#include "runtime/kernel.h"

#define MAX_FILE_BYTES (64u << 20)

static void item_finish(struct warm_item *item)
{
    ftj_source_finish(&item->source);
    ftj_key_finish(&item->key);
    ftj_entry_finish(&item->entry);
}

void warm_list_finish(struct warm_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        item_finish(&list->items[i]);
    free(list->items);
    free(list->longest_first);
    ftj_text_finish(&list->skipped);
    ftj_compiler_finish(&list->nvrtc);
    ftj_compiler_finish(&list->host);
    *list = (struct warm_list){0};
}

/* Found once, whatever the number of targets. */
static ftj_status compiler_for(struct warm_list *list, const struct ftj_device *device,
                               struct ftj_compiler **out)
{
    ftj_status status = FTJ_OK;
    if (device->kind == FTJ_DEVICE_CPU) {
        if (!list->has_host)
            status = ftj_host_compiler_find(&list->host, NULL, NULL);
        list->has_host = !status;
        *out = &list->host;
        return status;
    }
    if (!list->has_nvrtc)
        status = ftj_nvrtc_find(&list->nvrtc, NULL, NULL);
    list->has_nvrtc = !status;
    *out = &list->nvrtc;
    return status;
}

ftj_status warm_list_add_targets(struct warm_list *list, const char *names)
{
    for (const char *at = names; *at;) {
        char name[16];
        const size_t size = strcspn(at, ",");
        if (list->num_targets == WARM_MAX_TARGETS)
            return ftj_fail(NULL, FTJ_E_INVALID, "there are more than %d targets",
                            WARM_MAX_TARGETS);
        snprintf(name, sizeof(name), "%.*s", (int)(size < 15 ? size : 15), at);
        struct warm_target *target = &list->targets[list->num_targets];
        ftj_status status = ftj_device_of_target(name, NULL, &target->device);
        if (!status)
            status = compiler_for(list, &target->device, &target->compiler);
        if (status)
            return status;
        list->num_targets++;
        at += size + (at[size] == ',');
    }
    return FTJ_OK;
}

static ftj_status grow(struct warm_list *list)
{
    if (list->count < list->capacity)
        return FTJ_OK;
    const size_t capacity = list->capacity ? 2 * list->capacity : 256;
    struct warm_item *grown = realloc(list->items, capacity * sizeof(*grown));
    if (!grown)
        return ftj_fail(NULL, FTJ_E_NO_MEMORY, "no memory for a list of %zu kernels", capacity);
    list->items = grown;
    list->capacity = capacity;
    return FTJ_OK;
}

static void skip(struct warm_list *list, const char *label, const char *reason)
{
    ftj_text_printf(&list->skipped, "%s: %s\n", label, reason);
    list->num_skipped++;
}

/* As measured with NVRTC 13.0 for sm_90a: good enough to say what to begin with, and for the last
 * ones to end together. */
static uint32_t cost_of(const struct ftj_problem *problem)
{
    const bool is_coded = problem->k_format != FTJ_KV_16BIT || problem->v_format != FTJ_KV_16BIT;
    switch (problem->op) {
    case FTJ_KERNEL_EXTEND:
        return 500 + (is_coded ? 2 : 1) * problem->head_dim;
    case FTJ_KERNEL_DECODE:
    case FTJ_KERNEL_SHORT:
        return 250 + (is_coded ? 50 : 0) + problem->head_dim;
    case FTJ_KERNEL_COMBINE:
    case FTJ_KERNEL_SHORT_COMBINE:
        return 150;
    case FTJ_KERNEL_STORE:
        return is_coded ? 100 : 50;
    case FTJ_KERNEL_MERGE:
        return 40;
    default:
        return 90;
    }
}

/* What no variant covers is listed as skipped: a model may be wanted on a card that cannot run it.
 */
static ftj_status add_problem(struct warm_list *list, const struct ftj_problem *problem,
                              const struct ftj_device *device, struct ftj_compiler *compiler,
                              const char *label)
{
    ftj_status status = grow(list);
    if (status)
        return status;
    struct warm_item *item = &list->items[list->count];
    *item = (struct warm_item){.compiler = compiler, .cost_ms = cost_of(problem)};
    snprintf(item->label, sizeof(item->label), "%s", label);
    status = ftj_kernel_describe(problem, device, compiler, &item->source, &item->key, NULL);
    if (status == FTJ_E_UNSUPPORTED) {
        char whole[160];
        snprintf(whole, sizeof(whole), "%s %s on %s", label, ftj_kernel_op_name(problem->op),
                 device->target);
        skip(list, whole, ftj_last_error());
        return FTJ_OK;
    }
    if (!status)
        list->count++;
    return status;
}

static ftj_status add_desc(struct warm_list *list, const ftj_attention_desc *desc,
                           const char *label)
{
    for (size_t t = 0; t < list->num_targets; t++) {
        for (int op = 0; op < FTJ_NUM_KERNEL_OPS; op++) {
            struct ftj_problem problem;
            if (!ftj_desc_needs(desc, (enum ftj_kernel_op)op))
                continue;
            ftj_problem_init(&problem, (enum ftj_kernel_op)op, desc);
            const ftj_status status = add_problem(list, &problem, &list->targets[t].device,
                                                  list->targets[t].compiler, label);
            if (status)
                return status;
        }
    }
    return FTJ_OK;
}

static ftj_status add_layer(struct warm_list *list, const struct ftj_preset_layer *layer,
                            const struct ftj_preset_format *format, uint32_t ops,
                            const struct ftj_preset_choice *choice)
{
    char label[80];
    ftj_attention_desc desc = {0};
    snprintf(label, sizeof(label), "%s %s %s", layer->model, layer->kind, format->name);
    ftj_status status = ftj_preset_desc(layer, format, choice, &desc);
    desc.ops = ops;
    if (!status)
        status = ftj_desc_check(&desc, NULL);
    if (status == FTJ_E_UNSUPPORTED) {
        skip(list, label, ftj_last_error());
        return FTJ_OK;
    }
    return status ? status : add_desc(list, &desc, label);
}

static ftj_status refuse(const char *what, const char *name)
{
    struct ftj_text known = {0};
    const bool is_model = !strcmp(what, "model");
    const size_t count = is_model ? ftj_num_preset_layers : ftj_num_preset_formats;
    for (size_t i = 0; i < count; i++) {
        const char *next = is_model ? ftj_preset_layers[i].model : ftj_preset_formats[i].name;
        if (!is_model || i == 0 || strcmp(next, ftj_preset_layers[i - 1].model) != 0)
            ftj_text_printf(&known, "%s%s", known.size ? ", " : "", next);
    }
    const ftj_status status =
        ftj_fail(NULL, FTJ_E_INVALID, "%s \"%s\" is not known; it is one of %s", what, name,
                 known.data ? known.data : "");
    ftj_text_finish(&known);
    return status;
}

ftj_status warm_list_add_model(struct warm_list *list, const char *model, const char *format,
                               uint32_t ops, const struct ftj_preset_choice *choice)
{
    bool has_model = false;
    bool has_format = false;
    for (size_t i = 0; i < ftj_num_preset_layers; i++) {
        const struct ftj_preset_layer *layer = &ftj_preset_layers[i];
        if (strcmp(model, "all") != 0 && strcmp(model, layer->model) != 0)
            continue;
        has_model = true;
        if (layer->skip) {
            char label[80];
            snprintf(label, sizeof(label), "%s %s", layer->model, layer->kind);
            skip(list, label, layer->skip);
        }
        for (size_t f = 0; f < ftj_num_preset_formats; f++) {
            if (format && strcmp(format, ftj_preset_formats[f].name) != 0)
                continue;
            has_format = true;
            const ftj_status status =
                layer->skip ? FTJ_OK : add_layer(list, layer, &ftj_preset_formats[f], ops, choice);
            if (status)
                return status;
        }
    }
    if (!has_model)
        return refuse("model", model);
    return has_format ? FTJ_OK : refuse("format", format);
}

/* ---- files ---- */

static ftj_status add_line(struct warm_list *list, const char *line, size_t size, const char *label)
{
    struct ftj_problem problem;
    struct ftj_device device;
    struct ftj_compiler *compiler = NULL;
    ftj_status status = ftj_problem_parse(line, size, &problem, &device);
    for (size_t t = 0; t < list->num_targets && !status; t++)
        status =
            add_problem(list, &problem, &list->targets[t].device, list->targets[t].compiler, label);
    if (status || list->num_targets > 0)
        return status;
    status = compiler_for(list, &device, &compiler);
    return status ? status : add_problem(list, &problem, &device, compiler, label);
}

static ftj_status add_lines(struct warm_list *list, const char *path, const char *text, size_t size)
{
    const char *end = text + size;
    size_t number = 1;
    for (const char *line = text; line < end; number++) {
        char label[80];
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const size_t length = (size_t)((newline ? newline : end) - line);
        snprintf(label, sizeof(label), "%.60s:%zu", path, number);
        const ftj_status status =
            length == 0 || line[0] == '#' ? FTJ_OK : add_line(list, line, length, label);
        if (status == FTJ_E_INVALID) {
            char why[512];
            snprintf(why, sizeof(why), "%s", ftj_last_error());
            return ftj_fail(NULL, FTJ_E_INVALID, "%s, line %zu: %s", path, number, why);
        }
        if (status)
            return status;
        line += length + 1;
    }
    return FTJ_OK;
}

ftj_status warm_list_add_file(struct warm_list *list, const char *path)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return ftj_fail(NULL, FTJ_E_IO, "%s cannot be read: %s", path, strerror(errno));
    struct ftj_text text = {0};
    char block[1 << 14];
    for (size_t got;
         (got = fread(block, 1, sizeof(block), file)) > 0 && text.size < MAX_FILE_BYTES;)
        ftj_text_append(&text, block, got);
    ftj_status status = FTJ_OK;
    if (ferror(file))
        status = ftj_fail(NULL, FTJ_E_IO, "%s cannot be read to its end", path);
    else if (text.failed || text.size >= MAX_FILE_BYTES)
        status = ftj_fail(NULL, FTJ_E_INVALID, "%s has %zu bytes or more; allowed: below %u", path,
                          text.size, MAX_FILE_BYTES);
    else if (text.data)
        status = add_lines(list, path, text.data, text.size);
    ftj_text_finish(&text);
    fclose(file);
    return status;
}

/* ---- order ---- */

static int compare_items(const void *a, const void *b)
{
    const struct warm_item *one = a;
    const struct warm_item *two = b;
    const int targets = strcmp(one->key.target, two->key.target);
    const int keys = targets ? targets : strcmp(one->key.hex, two->key.hex);
    return keys ? keys : strcmp(one->label, two->label);
}

static int compare_costs(const void *a, const void *b)
{
    const struct warm_item *const *one = a;
    const struct warm_item *const *two = b;
    if ((*one)->cost_ms != (*two)->cost_ms)
        return (*one)->cost_ms < (*two)->cost_ms ? 1 : -1;
    return *one < *two ? -1 : *one > *two;
}

/* So that no core is left with a long compile when the others have finished. */
static ftj_status order_by_cost(struct warm_list *list)
{
    list->longest_first = calloc(list->count, sizeof(struct warm_item *));
    if (!list->longest_first)
        return ftj_fail(NULL, FTJ_E_NO_MEMORY, "no memory for a list of %zu kernels", list->count);
    for (size_t i = 0; i < list->count; i++)
        list->longest_first[i] = &list->items[i];
    qsort(list->longest_first, list->count, sizeof(struct warm_item *), compare_costs);
    return FTJ_OK;
}

ftj_status warm_list_settle(struct warm_list *list, uint32_t shard, uint32_t num_shards)
{
    size_t kept = 0;
    size_t num_different = 0;
    struct warm_item last = {0};
    if (list->count == 0)
        return FTJ_OK;
    qsort(list->items, list->count, sizeof(*list->items), compare_items);
    for (size_t i = 0; i < list->count; i++) {
        struct warm_item item = list->items[i];
        const bool is_new = i == 0 || strcmp(last.key.target, item.key.target) != 0 ||
                            strcmp(last.key.hex, item.key.hex) != 0;
        memcpy(last.key.target, item.key.target, sizeof(last.key.target));
        memcpy(last.key.hex, item.key.hex, sizeof(last.key.hex));
        num_different += is_new;
        if (is_new && (num_different - 1) % num_shards == shard)
            list->items[kept++] = item;
        else
            item_finish(&item);
    }
    list->count = kept;
    return kept > 0 ? order_by_cost(list) : FTJ_OK;
}
