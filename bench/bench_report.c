/* SPDX-License-Identifier: MIT */
/* Table and JSON of the rows. */
#include "bench/bench_report.h"

#include <math.h>
#include <string.h>
#include <time.h>

void bench_report_head(FILE *out, const struct bench_session *session)
{
    fprintf(out, "%s: read ceiling %.0f GB/s, copy ceiling %.0f GB/s (%.2f GiB, this run)\n",
            session->info.name, session->ceiling.read_gbs, session->ceiling.copy_gbs,
            (double)session->ceiling.bytes / (double)(1ull << 30));
}

void bench_report_titles(FILE *out, enum bench_op op)
{
    fprintf(out, "%-6s %-21s %-11s %-6s %5s %9s %-9s %10s %15s ", "op", "workload", "format",
            "order", "page", "bytes/row", "state", "us", "quartiles");
    if (op == BENCH_EXTEND)
        fprintf(out, "%8s %6s ", "TFLOP/s", "keys");
    else
        fprintf(out, "%8s %6s %8s ", "GB/s", "share", "same B");
    fprintf(out, "%5s  %s\n", "MHz", "check");
}

/* Units of a thousandth of a microsecond make gigas. */
static double gbs_of(const struct bench_row *row, enum bench_state state)
{
    return 1e-3 * (double)row->bytes / row->timings[state].us.median;
}

static double share_of(const struct bench_row *row, enum bench_state state,
                       const struct bench_session *session)
{
    return gbs_of(row, state) /
           (row->run.op == BENCH_STORE ? session->ceiling.copy_gbs : session->ceiling.read_gbs);
}

static double tflops_of(const struct bench_row *row, enum bench_state state)
{
    return 1e-6 * row->flops / row->timings[state].us.median;
}

static void format_row_bytes(const struct bench_row *row, char text[24])
{
    if (row->row_bytes_k == row->row_bytes_v)
        snprintf(text, 24, "%u", (unsigned)row->row_bytes_k);
    else
        snprintf(text, 24, "%u+%u", (unsigned)row->row_bytes_k, (unsigned)row->row_bytes_v);
}

static void format_check(const struct bench_row *row, char text[64])
{
    if (row->run.op == BENCH_STORE)
        snprintf(text, 64, "%s, %.0f wrong bytes", row->check_ok ? "ok" : "FAILED",
                 row->check_error);
    else
        snprintf(text, 64, "%s, error %.1e (at most %.0e)", row->check_ok ? "ok" : "FAILED",
                 row->check_error, row->check_bound);
}

static const char *keys_name(const struct bench_row *row)
{
    return row->run.is_fresh_beside ? "beside" : "cache";
}

static void print_speed(FILE *out, const struct bench_row *row, enum bench_state state,
                        const struct bench_session *session)
{
    char same[24] = "-";
    char share[24];
    if (row->run.op == BENCH_EXTEND) {
        const double tflops = tflops_of(row, state);
        fprintf(out, "%8.*f %6s ", tflops < 1 ? 5 : 1, tflops, keys_name(row));
        return;
    }
    const double gbs = gbs_of(row, state);
    const double ceiling_share = share_of(row, state, session);
    snprintf(share, sizeof(share), ceiling_share < 0.01 ? "%.0e" : "%.3f", ceiling_share);
    if (row->same_size_gbs > 0)
        snprintf(same, sizeof(same), "%.0f", row->same_size_gbs);
    fprintf(out, "%8.*f %6s %8s ", gbs < 10 ? 3 : 0, gbs, share, same);
}

void bench_report_row(FILE *out, const struct bench_row *row, const struct bench_session *session)
{
    char row_bytes[24];
    char check[64];
    format_row_bytes(row, row_bytes);
    format_check(row, check);
    for (int state = 0; state < BENCH_NUM_STATES; state++) {
        const struct bench_timing *timing = &row->timings[state];
        char quartiles[40];
        char mhz[16] = "-";
        if (!timing->us.count)
            continue;
        snprintf(quartiles, sizeof(quartiles), "%.1f-%.1f", timing->us.low, timing->us.high);
        if (timing->mhz)
            snprintf(mhz, sizeof(mhz), "%u", timing->mhz);
        fprintf(out, "%-6s %-21s %-11s %-6s %5u %9s %-9s %10.1f %15s ", bench_op_name(row->run.op),
                row->run.shape->name, row->run.format.name, ftj_kv_order_name(row->run.order),
                (unsigned)row->run.page, row_bytes, bench_state_name((enum bench_state)state),
                timing->us.median, quartiles);
        print_speed(out, row, (enum bench_state)state, session);
        fprintf(out, "%5s  %s\n", mhz, check);
    }
}

void bench_report_number(cJSON *object, const char *name, double value)
{
    char text[32];
    snprintf(text, sizeof(text), "%.6g", value);
    if (isfinite(value))
        cJSON_AddRawToObject(object, name, text);
    else
        cJSON_AddNullToObject(object, name);
}

/* "580.159 (CUDA 13.0)", as far as it is known. */
static void format_driver(const struct bench_session *session, char text[112])
{
    const int version = session->info.driver_version;
    const char *release = session->timer.driver_release;
    if (!version)
        snprintf(text, 112, "none");
    else if (!release[0])
        snprintf(text, 112, "CUDA %d.%d", version / 1000, version % 1000 / 10);
    else
        snprintf(text, 112, "%s (CUDA %d.%d)", release, version / 1000, version % 1000 / 10);
}

cJSON *bench_report_json(const struct bench_session *session, const char *commit)
{
    char date[32] = "";
    char driver[112];
    const time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc))
        strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", &utc);
    format_driver(session, driver);

    cJSON *report = cJSON_CreateObject();
    cJSON_AddStringToObject(report, "gpu", session->info.name);
    cJSON_AddStringToObject(report, "driver", driver);
    cJSON_AddStringToObject(report, "commit", commit);
    cJSON_AddStringToObject(report, "date", date);
    bench_report_number(report, "read_ceiling_gbs", session->ceiling.read_gbs);
    bench_report_number(report, "copy_ceiling_gbs", session->ceiling.copy_gbs);
    cJSON_AddArrayToObject(report, "rows");
    return report;
}

/* "requests": how many, their keys and their queries, where not all are alike. */
static void add_requests(cJSON *json, const struct bench_shape *shape)
{
    const uint32_t firsts[] = {0, shape->batch};
    const uint32_t counts[] = {shape->batch, shape->more_batch};
    cJSON *groups = cJSON_AddArrayToObject(json, "requests");
    for (int i = 0; i < 2; i++) {
        const uint32_t fresh = bench_shape_fresh(shape, firsts[i]);
        const int group[] = {(int)counts[i], (int)bench_shape_context(shape, firsts[i]),
                             fresh ? (int)fresh : 1};
        cJSON_AddItemToArray(groups, cJSON_CreateIntArray(group, 3));
    }
}

static void add_shape(cJSON *json, const struct bench_row *row)
{
    const struct bench_shape *shape = row->run.shape;
    cJSON_AddStringToObject(json, "op", bench_op_name(row->run.op));
    cJSON_AddStringToObject(json, "shape", shape->name);
    cJSON_AddStringToObject(json, "format", row->run.format.name);
    cJSON_AddNumberToObject(json, "head_dim", shape->head_dim);
    cJSON_AddNumberToObject(json, "q_heads", shape->q_heads);
    cJSON_AddNumberToObject(json, "kv_heads", shape->kv_heads);
    cJSON_AddNumberToObject(json, "batch", bench_shape_batch(shape));
    cJSON_AddNumberToObject(json, "context", shape->context);
    if (shape->fresh)
        cJSON_AddNumberToObject(json, "new", shape->fresh);
    if (row->run.op == BENCH_EXTEND)
        cJSON_AddStringToObject(json, "keys", keys_name(row));
    if (shape->more_batch)
        add_requests(json, shape);
    if (shape->pool_sets)
        cJSON_AddNumberToObject(json, "pool_sets", shape->pool_sets);
    if (shape->chunk)
        cJSON_AddNumberToObject(json, "chunk", shape->chunk);
    if (shape->window)
        cJSON_AddNumberToObject(json, "window", shape->window);
    cJSON_AddNumberToObject(json, "page", row->run.page);
    cJSON_AddStringToObject(json, "order", ftj_kv_order_name(row->run.order));
}

static void add_state(cJSON *rows, const struct bench_row *row, enum bench_state state,
                      const struct bench_session *session)
{
    const struct bench_timing *timing = &row->timings[state];
    cJSON *json = cJSON_CreateObject();
    add_shape(json, row);
    cJSON_AddStringToObject(json, "state", bench_state_name(state));
    bench_report_number(json, "us", timing->us.median);
    if (row->run.op == BENCH_EXTEND) {
        bench_report_number(json, "tflops", tflops_of(row, state));
    } else {
        bench_report_number(json, "gbs", gbs_of(row, state));
        bench_report_number(json, "ceiling_share", share_of(row, state, session));
    }
    if (timing->mhz)
        cJSON_AddNumberToObject(json, "clock_mhz", timing->mhz);
    else
        cJSON_AddNullToObject(json, "clock_mhz");
    cJSON_AddStringToObject(json, "variant", row->variant);
    if (strcmp(session->info.features, session->info.probed))
        cJSON_AddStringToObject(json, "features", session->info.features);

    cJSON *check = cJSON_AddObjectToObject(json, "check");
    cJSON_AddBoolToObject(check, "ok", row->check_ok);
    bench_report_number(check, "error", row->check_error);
    bench_report_number(check, "bound", row->check_bound);
    cJSON_AddItemToArray(rows, json);
}

void bench_report_add(cJSON *rows, const struct bench_row *row, const struct bench_session *session)
{
    for (int state = 0; state < BENCH_NUM_STATES; state++) {
        if (row->timings[state].us.count)
            add_state(rows, row, (enum bench_state)state, session);
    }
}
