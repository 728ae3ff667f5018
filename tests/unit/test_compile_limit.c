/* SPDX-License-Identifier: MIT */
/* How many compiles a node has room for, from the files of both versions of cgroups. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <sys/stat.h>

#include "cache/compile_limit.h"
#include "temp_dir.h"

#define GB (1000u * 1000 * 1000ull)

static char root[256];

static void set_up(void)
{
    temp_dir_init(root);
}

static void tear_down(void)
{
    temp_dir_finish(root);
}

TestSuite(compile_limit, .init = set_up, .fini = tear_down);

/* Beside other work. */
static uint32_t beside(uint32_t cores, uint64_t memory_bytes)
{
    return ftj_compile_limit_below(root, cores, memory_bytes).beside;
}

static uint32_t alone(uint32_t cores, uint64_t memory_bytes)
{
    return ftj_compile_limit_below(root, cores, memory_bytes).alone;
}

/* Write a file below the root, with the folders it needs. */
static void put(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof(path), "%s%s", root, name);
    for (char *at = path + 1; *at; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        mkdir(path, 0700);
        *at = '/';
    }
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file, "%s", path);
    cr_assert(fputs(text, file) >= 0);
    cr_assert_eq(fclose(file), 0);
}

Test(compile_limit, is_half_the_cores_rounded_up_where_nothing_else_limits)
{
    cr_expect_eq(beside(1, 64 * GB), 1);
    cr_expect_eq(beside(2, 64 * GB), 1);
    cr_expect_eq(beside(3, 64 * GB), 2);
    cr_expect_eq(beside(16, 64 * GB), 8);
    cr_expect_eq(beside(0, 64 * GB), 1);
    cr_expect_eq(beside(4096, 1024 * GB), FTJ_MAX_COMPILES);
}

Test(compile_limit, is_every_core_for_who_has_no_other_work)
{
    cr_expect_eq(alone(1, 64 * GB), 1);
    cr_expect_eq(alone(2, 64 * GB), 2);
    cr_expect_eq(alone(16, GB), 5, "memory is no larger for it");
    cr_expect_eq(alone(16, GB / 10), 1);
    cr_expect_eq(alone(4096, 1024 * GB), FTJ_MAX_COMPILES);
    put("/proc/self/cgroup", "0::/pods/one\n");
    put("/sys/fs/cgroup/pods/one/cpu.max", "250000 100000\n");
    cr_expect_eq(alone(16, 64 * GB), 3);
}

Test(compile_limit, is_one_for_every_200_mb)
{
    cr_expect_eq(beside(64, GB), 5);
    cr_expect_eq(beside(64, GB / 10), 1, "there is always one");
}

Test(compile_limit, follows_version_2)
{
    put("/proc/self/cgroup", "0::/pods/one\n");
    put("/sys/fs/cgroup/pods/one/cpu.max", "max 100000\n");
    put("/sys/fs/cgroup/pods/one/memory.max", "max\n");
    cr_expect_eq(beside(64, 64 * GB), 32);
    put("/sys/fs/cgroup/pods/one/cpu.max", "650000 100000\n"); /* 6.5 cores */
    cr_expect_eq(beside(64, 64 * GB), 4);
    put("/sys/fs/cgroup/pods/one/memory.max", "600000000\n");
    cr_expect_eq(beside(64, 64 * GB), 3);
}

Test(compile_limit, follows_the_groups_above)
{
    put("/proc/self/cgroup", "0::/pods/one\n");
    put("/sys/fs/cgroup/pods/one/cpu.max", "1600000 100000\n");
    put("/sys/fs/cgroup/pods/cpu.max", "400000 100000\n");
    cr_expect_eq(beside(64, 64 * GB), 2);
    put("/sys/fs/cgroup/memory.max", "200000000\n");
    cr_expect_eq(beside(64, 64 * GB), 1);
}

Test(compile_limit, follows_the_mount_where_the_path_is_not_below_it)
{
    put("/proc/self/cgroup", "0::/docker/0123\n");
    put("/sys/fs/cgroup/cpu.max", "400000 100000\n");
    cr_expect_eq(beside(64, 64 * GB), 2);
}

Test(compile_limit, follows_version_1)
{
    put("/proc/self/cgroup", "11:memory:/pods/one\n4:cpu,cpuacct:/pods/one\n1:name=systemd:/\n");
    put("/sys/fs/cgroup/cpu,cpuacct/pods/one/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu,cpuacct/pods/one/cpu.cfs_period_us", "100000\n");
    put("/sys/fs/cgroup/memory/pods/one/memory.limit_in_bytes", "9223372036854771712\n");
    cr_expect_eq(beside(64, 64 * GB), 32);
    put("/sys/fs/cgroup/cpu,cpuacct/pods/one/cpu.cfs_quota_us", "800000\n");
    cr_expect_eq(beside(64, 64 * GB), 4);
    put("/sys/fs/cgroup/memory/pods/one/memory.limit_in_bytes", "400000000\n");
    cr_expect_eq(beside(64, 64 * GB), 2);
}

Test(compile_limit, follows_version_1_under_one_name_of_the_list)
{
    put("/proc/self/cgroup", "4:cpu,cpuacct:/\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "400000\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    cr_expect_eq(beside(64, 64 * GB), 2);
}

Test(compile_limit, does_not_look_at_controllers_that_limit_nothing_here)
{
    put("/proc/self/cgroup", "9:pids:/one\n8:cpuset:/one\n");
    put("/sys/fs/cgroup/pids/one/memory.limit_in_bytes", "200000000\n");
    put("/sys/fs/cgroup/cpuset/one/cpu.cfs_quota_us", "100000\n");
    put("/sys/fs/cgroup/cpuset/one/cpu.cfs_period_us", "100000\n");
    cr_expect_eq(beside(64, 64 * GB), 32);
}

Test(compile_limit, ignores_what_it_cannot_read)
{
    put("/proc/self/cgroup", "nonsense\n0:\n0::\n\n5:cpu\n0::/x\n");
    put("/sys/fs/cgroup/x/cpu.max", "many 100000\n");
    put("/sys/fs/cgroup/x/memory.max", "");
    put("/sys/fs/cgroup/cpu.max", "100000 0\n");
    cr_expect_eq(beside(64, 64 * GB), 32);
}

Test(compile_limit, of_this_machine_is_one_at_least)
{
    const struct ftj_compile_limit limit = ftj_compile_limit();
    cr_expect_geq(limit.beside, 1);
    cr_expect_geq(limit.alone, limit.beside);
    cr_expect_leq(limit.alone, FTJ_MAX_COMPILES);
}
