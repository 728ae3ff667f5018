/* SPDX-License-Identifier: MIT */
/* Table and JSON of the decode and store benches. */
#include "bench/bench_report.h"

#include <math.h>
#include <time.h>

void bench_report_head(FILE *out, const struct bench_session *session)
{
    fprintf(out, "%s: read ceiling %.0f GB/s, copy ceiling %.0f GB/s (%.2f GiB, this run)\n",
            session->info.name, session->ceiling.read_gbs, session->ceiling.copy_gbs,
            (double)session->ceiling.bytes / (double)(1ull << 30));
    fprintf(out, "%-6s %-21s %-11s %-6s %5s %9s %10s %15s %8s %6s %8s %5s  %s\n", "op", "workload",
            "format", "order", "page", "bytes/row", "us", "quartiles", "GB/s", "share", "same B",
            "MHz", "check");
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
    if (row->op == BENCH_STORE)
        snprintf(text, 64, "%s, %.0f wrong bytes", row->check_ok ? "ok" : "FAILED",
                 row->check_error);
    else
        snprintf(text, 64, "%s, error %.1e (at most %.0e)", row->check_ok ? "ok" : "FAILED",
                 row->check_error, row->check_bound);
}

void bench_report_row(FILE *out, const struct bench_row *row)
{
    char row_bytes[24];
    char quartiles[40];
    char same[24] = "-";
    char mhz[16] = "-";
    char gbs[24];
    char share[24];
    char check[64];
    format_row_bytes(row, row_bytes);
    format_check(row, check);
    snprintf(quartiles, sizeof(quartiles), "%.1f-%.1f", row->us.low, row->us.high);
    snprintf(gbs, sizeof(gbs), "%.*f", row->gbs < 10 ? 3 : 0, row->gbs);
    snprintf(share, sizeof(share), row->ceiling_share < 0.01 ? "%.0e" : "%.3f", row->ceiling_share);
    if (row->same_size_gbs > 0)
        snprintf(same, sizeof(same), "%.0f", row->same_size_gbs);
    if (row->mhz)
        snprintf(mhz, sizeof(mhz), "%u", row->mhz);
    fprintf(out, "%-6s %-21s %-11s %-6s %5u %9s %10.1f %15s %8s %6s %8s %5s  %s\n",
            bench_op_name(row->op), row->run.shape->name, row->run.format.name,
            ftj_kv_order_name(row->run.order), (unsigned)row->run.page, row_bytes, row->us.median,
            quartiles, gbs, share, same, mhz, check);
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

cJSON *bench_report_row_json(const struct bench_row *row)
{
    const struct bench_shape *shape = row->run.shape;
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "op", bench_op_name(row->op));
    cJSON_AddStringToObject(json, "format", row->run.format.name);
    cJSON_AddNumberToObject(json, "head_dim", shape->head_dim);
    cJSON_AddNumberToObject(json, "q_heads", shape->q_heads);
    cJSON_AddNumberToObject(json, "kv_heads", shape->kv_heads);
    cJSON_AddNumberToObject(json, "batch", shape->batch);
    cJSON_AddNumberToObject(json, "context", shape->context);
    cJSON_AddNumberToObject(json, "page", row->run.page);
    cJSON_AddStringToObject(json, "order", ftj_kv_order_name(row->run.order));
    bench_report_number(json, "us", row->us.median);
    bench_report_number(json, "gbs", row->gbs);
    bench_report_number(json, "ceiling_share", row->ceiling_share);

    cJSON *check = cJSON_AddObjectToObject(json, "check");
    cJSON_AddBoolToObject(check, "ok", row->check_ok);
    bench_report_number(check, "error", row->check_error);
    bench_report_number(check, "bound", row->check_bound);
    return json;
}
