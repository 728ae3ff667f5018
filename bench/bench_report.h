/* SPDX-License-Identifier: MIT */
/* The rows of a run, as a table for people and as JSON for programs. */
#ifndef FTJ_BENCH_REPORT_H
#define FTJ_BENCH_REPORT_H

#include <cjson/cJSON.h>
#include <stdio.h>

#include "bench/bench_session.h"

/* The device and its ceilings; the column titles of an operation. */
void bench_report_head(FILE *out, const struct bench_session *session);
void bench_report_titles(FILE *out, enum bench_op op);
/* One line for each state that was timed. */
void bench_report_row(FILE *out, const struct bench_row *row, const struct bench_session *session);

/* {"gpu", "driver", "commit", "date", ceilings, "rows": []}. The caller deletes it with
 * cJSON_Delete(). NULL: no memory. */
cJSON *bench_report_json(const struct bench_session *session, const char *commit);
/* Into `rows`, one object for each state. */
void bench_report_add(cJSON *rows, const struct bench_row *row,
                      const struct bench_session *session);

/* Add a number with six significant digits, or null when it is none. */
void bench_report_number(cJSON *object, const char *name, double value);

#endif
