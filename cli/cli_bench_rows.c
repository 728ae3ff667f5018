/* SPDX-License-Identifier: MIT */
/* `ftjit bench decode`, `store` and `extend`: the rows, one after the other. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench_prepare.h"
#include "bench/bench_report.h"
#include "cli/cli_bench.h"

/* Rows to run, with the shapes as they were overridden. A zeroed one is empty. */
struct plan {
    struct planned {
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
    if (changed.fresh > changed.context)
        changed.fresh = changed.context;
    return changed;
}

/* Both states of the shapes by which kernels are judged, of others the first. */
static unsigned states_of(const struct bench_shape *shape, const struct cli_bench_options *options)
{
    if (options->states)
        return options->states;
    return bench_shape_matches(shape, "main") ? 1u << BENCH_RESTED | 1u << BENCH_SUSTAINED
                                              : 1u << BENCH_RESTED;
}

/* Every format of a shape in one order and with its new keys in one place. */
static bool plan_formats(struct plan *plan, const struct cli_bench_options *options,
                         struct planned *row)
{
    for (size_t i = 0; i < options->num_formats; i++) {
        row->run.format = options->formats[i];
        if (!plan_add(plan, row))
            return false;
    }
    return true;
}

static bool plan_shape(struct plan *plan, const struct cli_bench_options *options, enum bench_op op,
                       const struct bench_shape *shape)
{
    const bool *orders = options->orders;
    const bool has_order = orders[0] || orders[1] || orders[2];
    struct planned row = {
        .run = {.op = op, .states = states_of(shape, options)},
        .shape = override(shape, options),
    };
    row.run.page = row.shape.page;
    for (int order = FTJ_KV_PACKED; order <= FTJ_KV_NHD; order++) {
        row.run.order = (ftj_kv_order)order;
        for (int beside = 0; beside < (op == BENCH_EXTEND ? 2 : 1); beside++) {
            row.run.is_fresh_beside = beside;
            const bool is_wanted = (has_order ? orders[order] : row.run.order == shape->order) &&
                                   (op != BENCH_EXTEND || options->keys[beside]);
            if (is_wanted && !plan_formats(plan, options, &row))
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
    for (int op = 0; op < BENCH_NUM_OPS; op++) {
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
        ftj_attention_desc desc;
        plan->rows[i].run.shape = &plan->rows[i].shape;
        const ftj_status status = bench_case_desc(&plan->rows[i].run, &desc);
        if (status)
            return status;
    }
    return FTJ_OK;
}

/* Kernels of all rows at once, where there is more than one. */
static void prepare_plan(const struct plan *plan, ftj_context *ctx)
{
    const struct bench_case **cases = malloc(plan->num_rows * sizeof(struct bench_case *));
    for (size_t i = 0; i < plan->num_rows && cases; i++)
        cases[i] = &plan->rows[i].run;
    if (cases && plan->num_rows > 1)
        bench_prepare(ctx, cases, plan->num_rows);
    free(cases);
}

/* One row into the table (may be NULL) and the document. */
static int run_row(const struct bench_case *run, struct bench_session *session, FILE *table,
                   cJSON *rows)
{
    const char *op = bench_op_name(run->op);
    struct bench_row row = {0};
    if (bench_case_run(session, run, &row)) {
        fprintf(stderr, "ftjit bench: %s %s %s: %s\n", op, run->shape->name, run->format.name,
                ftj_last_error());
        return CLI_FAILED;
    }
    if (table) {
        bench_report_row(table, &row, session);
        fflush(table);
    }
    bench_report_add(rows, &row, session);
    if (row.check_ok)
        return CLI_OK;
    fprintf(stderr, "ftjit bench: %s %s %s: the check failed, its time means nothing\n", op,
            run->shape->name, run->format.name);
    return CLI_FAILED;
}

/* Run all; rows that fail are reported and remembered in the code. */
static int run_plan(const struct plan *plan, struct bench_session *session, FILE *table,
                    cJSON *rows)
{
    int code = CLI_OK;
    for (size_t i = 0; i < plan->num_rows; i++) {
        const struct bench_case *run = &plan->rows[i].run;
        if (table && (i == 0 || plan->rows[i - 1].run.op != run->op))
            bench_report_titles(table, run->op);
        if (run_row(run, session, table, rows))
            code = CLI_FAILED;
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
    prepare_plan(plan, ctx);
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
