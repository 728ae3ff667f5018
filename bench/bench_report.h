/* SPDX-License-Identifier: MIT */
/* The rows of a run, as a table for people and as JSON for programs. */
#ifndef FTJ_BENCH_REPORT_H
#define FTJ_BENCH_REPORT_H

#include <cjson/cJSON.h>
#include <stdio.h>

#include "bench/bench_session.h"

/* Column titles, and one line of a row. */
void bench_report_head(FILE *out, const struct bench_session *session);
void bench_report_row(FILE *out, const struct bench_row *row);

/* {"gpu", "driver", "commit", "date", ceilings, "rows": []}. The caller deletes it with
 * cJSON_Delete(); so with the row, until it is part of another. NULL: no memory. */
cJSON *bench_report_json(const struct bench_session *session, const char *commit);
cJSON *bench_report_row_json(const struct bench_row *row);

/* Add a number with six significant digits, or null when it is none. */
void bench_report_number(cJSON *object, const char *name, double value);

#endif
