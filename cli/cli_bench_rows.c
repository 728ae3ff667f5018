/* SPDX-License-Identifier: MIT */
/* `ftjit bench decode` and `store`: the rows, one after the other. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench_report.h"
#include "cli/cli_bench.h"

/* Rows to run, with the shapes as they were overridden. A zeroed one is empty. */
struct plan {
    struct planned {
        enum bench_op op;
        struct bench_case run;
        struct bench_shape shape;
    } * rows; /* owned */
    size_t num_rows;
    size_t capacity;
};

static void plan_finish(struct plan *plan)
{
    free(plan->rows);
    *plan = (struct plan){0};
}

static bool plan_add(struct plan *plan, const struct planned *row)
{
    if (plan->num_rows == plan->capacity) {
        const size_t capacity = plan->capacity ? 2 * plan->capacity : 64;
        struct planned *rows = realloc(plan->rows, capacity * sizeof(*rows));
        if (!rows)
            return false;
        plan->rows = rows;
        plan->capacity = capacity;
    }
    plan->rows[plan->num_rows++] = *row;
    return true;
}

static struct bench_shape override(const struct bench_shape *shape,
                                   const struct cli_bench_options *options)
{
    struct bench_shape changed = *shape;
    if (options->page)
        changed.page = (uint32_t)options->page;
    if (options->head_dim)
        changed.head_dim = (uint32_t)options->head_dim;
    if (options->batch)
        changed.batch = (uint32_t)options->batch;
    if (options->context && shape->context)
        changed.context = (uint32_t)options->context;
    return changed;
}

/* Every format and order of one shape. */
static bool plan_shape(struct plan *plan, const struct cli_bench_options *options, enum bench_op op,
                       const struct bench_shape *shape)
{
    struct planned row = {.op = op, .shape = override(shape, options)};
    row.run.page = row.shape.page;
    for (int order = FTJ_KV_PACKED; order <= FTJ_KV_NHD; order++) {
        for (size_t i = 0; i < options->num_formats && options->orders[order]; i++) {
            row.run.order = (ftj_kv_order)order;
            row.run.format = options->formats[i];
            if (!plan_add(plan, &row))
                return false;
        }
    }
    return true;
}

static ftj_status plan_init(struct plan *plan, const struct cli_bench_options *options,
                            unsigned ops)
{
    const bool on_cpu = options->device.settings.kind == FTJ_DEVICE_CPU;
    const char *workloads = options->workloads ? options->workloads : on_cpu ? "cpu" : "main";
    for (int op = BENCH_DECODE; op <= BENCH_STORE; op++) {
        size_t count;
        const struct bench_shape *shapes = bench_shapes((enum bench_op)op, &count);
        bool has_one = false;
        for (size_t i = 0; i < count && ops & 1u << op; i++) {
            if (!cli_bench_wants(workloads, &shapes[i]) || (options->is_quick && has_one))
                continue;
            has_one = true;
            if (!plan_shape(plan, options, (enum bench_op)op, &shapes[i]))
                return ftj_fail(NULL, FTJ_E_NO_MEMORY, "no memory for the list of rows");
        }
    }
    return FTJ_OK;
}

/* Every layout, before a device is opened: a shape that no cache can have is refused at once. */
static ftj_status plan_check(struct plan *plan)
{
    for (size_t i = 0; i < plan->num_rows; i++) {
        ftj_kv_layout layout;
        plan->rows[i].run.shape = &plan->rows[i].shape;
        const ftj_status status = bench_case_layout(&plan->rows[i].run, &layout);
        if (status)
            return status;
    }
    return FTJ_OK;
}

/* Run all; rows that fail are reported and remembered in the code. */
static int run_plan(const struct plan *plan, struct bench_session *session, FILE *table,
                    cJSON *rows)
{
    int code = CLI_OK;
    for (size_t i = 0; i < plan->num_rows; i++) {
        const struct planned *planned = &plan->rows[i];
        struct bench_row row = {0};
        const ftj_status status = planned->op == BENCH_STORE
                                      ? bench_store_run(session, &planned->run, &row)
                                      : bench_decode_run(session, &planned->run, &row);
        if (status) {
            fprintf(stderr, "ftjit bench: %s %s %s: %s\n", bench_op_name(planned->op),
                    planned->shape.name, planned->run.format.name, ftj_last_error());
            code = CLI_FAILED;
            continue;
        }
        if (table) {
            bench_report_row(table, &row);
            fflush(table);
        }
        cJSON_AddItemToArray(rows, bench_report_row_json(&row));
        if (!row.check_ok) {
            fprintf(stderr, "ftjit bench: %s %s %s: the check failed, its time means nothing\n",
                    bench_op_name(planned->op), planned->shape.name, planned->run.format.name);
            code = CLI_FAILED;
        }
    }
    return code;
}

/* `json` is deleted; `file`, which may be NULL, is closed. */
static int write_report(const struct cli_bench_options *options, cJSON *json, FILE *file)
{
    int code = CLI_OK;
    if (file) {
        code = cli_print_json("bench", cJSON_Duplicate(json, true), file);
        if (fclose(file) && !code) {
            fprintf(stderr, "ftjit bench: --out %s: %s\n", options->out, strerror(errno));
            code = CLI_FAILED;
        }
    }
    if (!options->device.is_json) {
        cJSON_Delete(json);
        return code;
    }
    const int printed = cli_print_json("bench", json, stdout);
    return code ? code : printed;
}

static int run_on(ftj_context *ctx, const struct cli_bench_options *options,
                  const struct plan *plan, FILE *file)
{
    struct bench_session session = {0};
    FILE *table = options->device.is_json ? NULL : stdout;
    const ftj_status status = bench_session_init(&session, ctx, options->seed);
    if (status) {
        if (file)
            fclose(file);
        return cli_failure("bench", status);
    }

    if (table)
        bench_report_head(table, &session);
    cJSON *json = bench_report_json(&session, options->commit);
    const int code = run_plan(plan, &session, table, cJSON_GetObjectItem(json, "rows"));
    bench_session_finish(&session);
    const int written = write_report(options, json, file);
    return code ? code : written;
}

/* The file is opened before anything is measured: a minute's run must not end at a typing error. */
static int open_and_run(const struct cli_bench_options *options, const struct plan *plan)
{
    int code = CLI_OK;
    FILE *file = NULL;
    ftj_context *ctx = cli_device_open(&options->device, "bench", &code);
    if (!ctx)
        return code;
    if (options->out)
        file = fopen(options->out, "w");
    if (options->out && !file) {
        fprintf(stderr, "ftjit bench: --out %s: %s\n", options->out, strerror(errno));
        code = CLI_FAILED;
    } else {
        code = run_on(ctx, options, plan, file);
    }
    ftj_context_destroy(ctx);
    return code;
}

int cli_bench_rows(const struct cli_bench_options *options, unsigned ops)
{
    struct plan plan = {0};
    ftj_status status = plan_init(&plan, options, ops);
    if (!status)
        status = plan_check(&plan);
    const int code = status ? cli_failure("bench", status) : open_and_run(options, &plan);
    plan_finish(&plan);
    return code;
}
