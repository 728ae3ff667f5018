/* SPDX-License-Identifier: MIT */
#include "runtime/telemetry.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/environment.h"
#include "cache/trust.h"
#include "codegen/problem_text.h"

static ftj_status choose(const char *setting, const char *variable, char **path)
{
    const char *chosen = setting && setting[0] ? setting : ftj_variable(variable);
    if (!chosen)
        return FTJ_OK;
    *path = strdup(chosen);
    return *path ? FTJ_OK
                 : ftj_fail(NULL, FTJ_E_NO_MEMORY, "no memory for the path of %s", variable);
}

ftj_status ftj_telemetry_init(struct ftj_telemetry *telemetry, const ftj_settings *settings)
{
    struct ftj_telemetry chosen = {.on_kernel = settings->on_kernel,
                                   .on_kernel_data = settings->on_kernel_data};
    ftj_status status = choose(settings->record_path, "FTJIT_RECORD", &chosen.record_path);
    if (!status)
        status = choose(settings->stats_path, "FTJIT_STATS", &chosen.stats_path);
    if (status)
        ftj_telemetry_finish(&chosen);
    else
        *telemetry = chosen;
    return status;
}

void ftj_telemetry_finish(struct ftj_telemetry *telemetry)
{
    free(telemetry->record_path);
    free(telemetry->stats_path);
    *telemetry = (struct ftj_telemetry){0};
}

/* One write at the end of the file, so that lines of many processes do not mix. A link is not
 * followed: the file may be in a folder where others can make one. 0, or errno's number. */
static int append_line(const char *path, const struct ftj_text *line)
{
    if (line->failed || !line->data)
        return ENOMEM;
    const int fd =
        open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
    if (fd < 0)
        return errno;
    const ssize_t written = write(fd, line->data, line->size);
    const int error = written < 0 ? errno : (size_t)written < line->size ? ENOSPC : 0;
    close(fd);
    return error;
}

static void append(const char *path, const char *what, const struct ftj_log *log,
                   const struct ftj_text *line)
{
    const int error = append_line(path, line);
    struct ftj_reason reason;
    if (!error)
        return;
    ftj_reason_set(&reason, error, "%s", path);
    ftj_say(log, FTJ_LOG_WARNING, "%s cannot be written: %s", what, reason.text);
}

void ftj_telemetry_miss(const struct ftj_telemetry *telemetry, const struct ftj_log *log,
                        const struct ftj_problem *problem, const struct ftj_device *device)
{
    if (!telemetry->record_path)
        return;
    struct ftj_text line = {0};
    ftj_problem_write(&line, problem, device);
    append(telemetry->record_path, "the record of misses", log, &line);
    ftj_text_finish(&line);
}

void ftj_telemetry_event(const struct ftj_telemetry *telemetry, const ftj_kernel_event *event)
{
    if (telemetry->on_kernel)
        telemetry->on_kernel(telemetry->on_kernel_data, event);
}

const char *ftj_telemetry_cause(ftj_miss_cause cause)
{
    return cause == FTJ_MISS_DAMAGED ? "its entry in the cache was damaged" : "not in the cache";
}

const char *ftj_kernel_tier_name(ftj_kernel_tier tier)
{
    static const char *const names[] = {"none", "root", "shared", "bundle", "compiler"};
    return (unsigned)tier < sizeof(names) / sizeof(*names) ? names[tier] : "unknown";
}

void ftj_telemetry_stats(const struct ftj_telemetry *telemetry, const struct ftj_log *log,
                         const struct ftj_device *device, const ftj_stats *stats)
{
    if (!telemetry->stats_path)
        return;
    const struct {
        const char *name;
        uint64_t value;
    } counters[] = {
        {"memory_hits", stats->memory_hits},
        {"disk_hits", stats->disk_hits},
        {"shared_hits", stats->shared_hits},
        {"bundle_hits", stats->bundle_hits},
        {"compiles", stats->compiles},
        {"compile_us", stats->compile_us},
        {"waits", stats->waits},
        {"sealed_misses", stats->sealed_misses},
        {"damaged_entries", stats->damaged_entries},
        {"dropped_writes", stats->dropped_writes},
        {"evictions", stats->evictions},
    };
    struct ftj_text line = {0};
    ftj_text_printf(&line, "{\"time\":%lld,\"pid\":%ld,\"version\":\"%s\",\"target\":\"%s\"",
                    (long long)time(NULL), (long)getpid(), ftj_version(), device->target);
    for (size_t i = 0; i < sizeof(counters) / sizeof(*counters); i++)
        ftj_text_printf(&line, ",\"%s\":%llu", counters[i].name,
                        (unsigned long long)counters[i].value);
    ftj_text_printf(&line, "}\n");
    append(telemetry->stats_path, "the statistics", log, &line);
    ftj_text_finish(&line);
}
