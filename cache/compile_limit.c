/* SPDX-License-Identifier: MIT */
/*
 * Limits of a container are not where the number of processors is asked for: they are files of its
 * cgroups. Every level from the process's own group up to the root of the mount counts. Where the
 * mount shows only a part of the tree (a container without a namespace for cgroups), the path of
 * /proc/self/cgroup is not below it, and the mount's own root holds the limit.
 */
#define _GNU_SOURCE /* sched_getaffinity */
#include "cache/compile_limit.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES_PER_COMPILE 200000000u

struct limits {
    uint64_t cores;
    uint64_t memory_bytes;
};

static bool read_line(const char *folder, const char *name, char *line, size_t size)
{
    char path[PATH_MAX];
    const int length = snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = length < (int)sizeof(path) ? fopen(path, "re") : NULL;
    if (!file)
        return false;
    const bool has_line = fgets(line, (int)size, file) != NULL;
    fclose(file);
    return has_line;
}

/* A number; false for "max", "-1" and what is no number. */
static bool parse(const char *text, uint64_t *number)
{
    char *end = NULL;
    if (*text < '0' || *text > '9')
        return false;
    *number = strtoull(text, &end, 10);
    return end != text;
}

static void keep_lesser(uint64_t *limit, uint64_t other)
{
    if (other > 0 && other < *limit)
        *limit = other;
}

static void limit_cores(struct limits *limits, uint64_t quota_us, uint64_t period_us)
{
    if (period_us > 0)
        keep_lesser(&limits->cores, (quota_us + period_us - 1) / period_us);
}

/* The files of one group, by the names of both versions: only those of its own are there. */
static void read_group(const char *folder, struct limits *limits)
{
    char line[64];
    uint64_t number = 0;
    uint64_t period = 0;
    if (read_line(folder, "memory.max", line, sizeof(line)) && parse(line, &number))
        keep_lesser(&limits->memory_bytes, number);
    if (read_line(folder, "memory.limit_in_bytes", line, sizeof(line)) && parse(line, &number))
        keep_lesser(&limits->memory_bytes, number);

    if (read_line(folder, "cpu.max", line, sizeof(line)) && parse(line, &number) &&
        parse(line + strcspn(line, " ") + (strchr(line, ' ') != NULL), &period))
        limit_cores(limits, number, period);
    if (read_line(folder, "cpu.cfs_quota_us", line, sizeof(line)) && parse(line, &number) &&
        read_line(folder, "cpu.cfs_period_us", line, sizeof(line)) && parse(line, &period))
        limit_cores(limits, number, period);
}

/* A group and all those above it, up to the mount. */
static void read_groups(const char *mount, const char *group, struct limits *limits)
{
    char folder[PATH_MAX];
    const size_t mount_length = strlen(mount);
    const int length = snprintf(folder, sizeof(folder), "%s%s", mount, group);
    if (length >= (int)sizeof(folder))
        return;
    for (;;) {
        read_group(folder, limits);
        char *slash = strrchr(folder, '/');
        if (!slash || slash < folder + mount_length)
            return;
        *slash = '\0';
    }
}

/* A line of /proc/self/cgroup: "0::/path" (v2) or "4:cpu,cpuacct:/path" (v1), whose folder may bear
 * the whole list or one name of it. Most lines of v1 are of controllers that limit neither. */
static void read_controller(const char *root, char *line, struct limits *limits)
{
    char mount[PATH_MAX];
    char *names = strchr(line, ':');
    char *group = names ? strchr(names + 1, ':') : NULL;
    if (!group)
        return;
    *group++ = '\0';
    names++;
    group[strcspn(group, "\n")] = '\0';
    if (!*names) {
        snprintf(mount, sizeof(mount), "%s/sys/fs/cgroup", root);
        read_groups(mount, group, limits);
        return;
    }
    char list[64];
    snprintf(list, sizeof(list), "%s", names);
    char *rest = NULL;
    for (char *name = strtok_r(names, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
        if (strcmp(name, "cpu") != 0 && strcmp(name, "memory") != 0)
            continue;
        snprintf(mount, sizeof(mount), "%s/sys/fs/cgroup/%s", root, name);
        read_groups(mount, group, limits);
        if (strcmp(name, list) == 0)
            continue;
        snprintf(mount, sizeof(mount), "%s/sys/fs/cgroup/%s", root, list);
        read_groups(mount, group, limits);
    }
}

static uint32_t keep_between(uint64_t number, uint64_t most)
{
    if (number > most)
        number = most;
    if (number < 1)
        return 1;
    return number < FTJ_MAX_COMPILES ? (uint32_t)number : FTJ_MAX_COMPILES;
}

struct ftj_compile_limit ftj_compile_limit_below(const char *root, uint32_t cores,
                                                 uint64_t memory_bytes)
{
    struct limits limits = {.cores = cores ? cores : 1, .memory_bytes = memory_bytes};
    char path[PATH_MAX];
    char line[PATH_MAX];
    snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file))
        read_controller(root, line, &limits);
    if (file)
        fclose(file);

    const uint64_t most = limits.memory_bytes / BYTES_PER_COMPILE;
    return (struct ftj_compile_limit){.beside = keep_between((limits.cores + 1) / 2, most),
                                      .alone = keep_between(limits.cores, most)};
}

struct ftj_compile_limit ftj_compile_limit(void)
{
    /* A machine with more processors than the set holds answers EINVAL. */
    cpu_set_t allowed;
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t cores = online > 0 ? (uint32_t)online : 1;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0)
        cores = (uint32_t)CPU_COUNT(&allowed);

    const long pages = sysconf(_SC_PHYS_PAGES);
    const long page_bytes = sysconf(_SC_PAGESIZE);
    const uint64_t memory_bytes =
        pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes : UINT64_MAX;
    return ftj_compile_limit_below("", cores, memory_bytes);
}
