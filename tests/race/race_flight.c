/* SPDX-License-Identifier: MIT */
/*
 * Single flight: many processes on a cold cache, with a fake driver and a fake compiler.
 *
 *   race_flight CUDA NVRTC [processes [rounds [nolock]]]
 *
 * In each round the cache is empty; all processes meet at a barrier, and then each creates an
 * attention with every kernel, from two threads. Afterwards each kernel must have been compiled
 * once, by the compiler's own record, and there is one entry per kernel and no temporary. With
 * `nolock` no lock can be had: every answer is right all the same, and compiles may be more.
 *
 * The same herd then runs on the warm cache, and one process alone on a cold one. What the cold
 * herd costs more than those two is the waiting; with a real libnvrtc, and 32 processes or more, it
 * may be 0.3 of them. (These processes do nothing else: 64 of them cost 0.1 s of CPU on a warm
 * cache.)
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ftjit/attention.h"
#include "tests/unit/temp_dir.h"

enum { NUM_KERNELS = 5, NUM_THREADS = 2, MAX_PROCESSES = 256, FULL_RUN = 32 };

static int fail(const char *what, const char *sentence)
{
    fprintf(stderr, "race_flight: process %ld: %s: %s\n", (long)getpid(), what, sentence);
    return 1;
}

/* ---- one process of the herd ------------------------------------------------------------------
 */

static void *create_attention(void *data)
{
    ftj_attention *attn = NULL;
    const ftj_kv_shape shape = {.k_format = FTJ_KV_FP8,
                                .v_format = FTJ_KV_NVFP4,
                                .num_kv_heads = 2,
                                .head_dim = 128,
                                .page_size = 16};
    ftj_attention_desc desc = {.ops = FTJ_OP_STORE | FTJ_OP_DECODE | FTJ_OP_MERGE | FTJ_OP_GENERIC,
                               .num_q_heads = 8};
    ftj_status status = ftj_kv_layout_init(&desc.kv, &shape);
    if (!status)
        status = ftj_attention_create(data, &desc, &attn);
    ftj_attention_destroy(attn);
    static char failed;
    return status ? (fail("no attention", ftj_last_error()), &failed) : NULL;
}

static int create_on_threads(ftj_context *ctx)
{
    pthread_t threads[NUM_THREADS];
    int failed = 0;
    for (int i = 0; i < NUM_THREADS; i++) {
        if (pthread_create(&threads[i], NULL, create_attention, ctx))
            exit(fail("no thread", ""));
    }
    for (int i = 0; i < NUM_THREADS; i++) {
        void *result = NULL;
        pthread_join(threads[i], &result);
        failed |= result != NULL;
    }
    return failed;
}

static double cpu_s(int who)
{
    struct rusage usage;
    getrusage(who, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* What a process of the herd reports. */
struct result {
    ftj_stats stats;
    double cpu_s;
};

/* The events of a process, from all its threads. */
struct events {
    atomic_uint by_tier[FTJ_TIER_COMPILER + 1];
    atomic_uint waits;
};

static void count_event(void *data, const ftj_kernel_event *event)
{
    struct events *events = data;
    atomic_fetch_add(&events->by_tier[event->tier], 1);
    atomic_fetch_add(&events->waits, event->has_waited);
}

/* race_flight child CUDA NVRTC READY_FD GO_FD RESULT_FD */
static int run_child(char **argv)
{
    const int ready = atoi(argv[4]);
    const int go = atoi(argv[5]);
    const int report = atoi(argv[6]);
    char byte = 0;
    ftj_context *ctx = NULL;
    struct result result;
    struct events events = {0};
    const ftj_settings settings = {.driver_path = argv[2],
                                   .compiler_path = argv[3],
                                   .on_kernel = count_event,
                                   .on_kernel_data = &events};
    if (ftj_context_create(&settings, &ctx))
        return fail("no context", ftj_last_error());
    if (write(ready, &byte, 1) != 1)
        return fail("no barrier", "");
    close(ready);
    while (read(go, &byte, 1) > 0) /* until the parent closes it */
        continue;
    int failed = create_on_threads(ctx);
    ftj_context_stats(ctx, &result.stats);
    result.cpu_s = cpu_s(RUSAGE_SELF);
    if (result.stats.compiles + result.stats.disk_hits != NUM_KERNELS ||
        result.stats.damaged_entries)
        failed = fail("kernels are missing or were built twice", "");
    if (atomic_load(&events.by_tier[FTJ_TIER_COMPILER]) != result.stats.compiles ||
        atomic_load(&events.by_tier[FTJ_TIER_ROOT]) != result.stats.disk_hits ||
        atomic_load(&events.waits) != result.stats.waits)
        failed = fail("the events are not what was counted", "");
    if (write(report, &result, sizeof(result)) != (ssize_t)sizeof(result))
        failed = fail("no result", "");
    ftj_context_destroy(ctx);
    return failed;
}

/* ---- the herd ---------------------------------------------------------------------------------
 */

struct outcome {
    int failed;
    uint64_t compiles;
    uint64_t waits;
    uint64_t compilers; /* processes that compiled at all */
    uint64_t served;    /* those that did not */
    double served_cpu_s;
    double cpu_s;
};

struct pipes {
    int ready[2], go[2], result[2];
};

static pid_t start_child(char **libraries, const struct pipes *pipes)
{
    char ready[16], go[16], result[16];
    snprintf(ready, sizeof(ready), "%d", pipes->ready[1]);
    snprintf(go, sizeof(go), "%d", pipes->go[0]);
    snprintf(result, sizeof(result), "%d", pipes->result[1]);
    const pid_t pid = fork();
    if (pid != 0)
        return pid;
    close(pipes->ready[0]);
    close(pipes->go[1]);
    close(pipes->result[0]);
    execl("/proc/self/exe", "race_flight", "child", libraries[0], libraries[1], ready, go, result,
          (char *)NULL);
    _exit(127);
}

/* Start all, let them go at once, gather what they did, and wait. */
static struct outcome run_herd(char **libraries, int num_processes)
{
    struct outcome outcome = {.cpu_s = -cpu_s(RUSAGE_CHILDREN)};
    struct pipes pipes;
    pid_t pids[MAX_PROCESSES];
    char byte = 0;
    if (pipe(pipes.ready) || pipe(pipes.go) || pipe(pipes.result))
        exit(fail("no pipe", ""));
    for (int i = 0; i < num_processes; i++)
        pids[i] = start_child(libraries, &pipes);
    close(pipes.ready[1]);
    close(pipes.go[0]);
    close(pipes.result[1]);
    for (int i = 0; i < num_processes && read(pipes.ready[0], &byte, 1) == 1; i++)
        continue;
    close(pipes.ready[0]);
    close(pipes.go[1]);

    struct result result;
    while (read(pipes.result[0], &result, sizeof(result)) == (ssize_t)sizeof(result)) {
        outcome.compiles += result.stats.compiles;
        outcome.waits += result.stats.waits;
        outcome.compilers += result.stats.compiles > 0;
        outcome.served += result.stats.compiles == 0;
        outcome.served_cpu_s += result.stats.compiles == 0 ? result.cpu_s : 0;
    }
    close(pipes.result[0]);
    for (int i = 0; i < num_processes; i++) {
        int fate = 0;
        if (pids[i] < 0 || waitpid(pids[i], &fate, 0) != pids[i] || fate != 0)
            outcome.failed = fail("a process failed", "");
    }
    outcome.cpu_s += cpu_s(RUSAGE_CHILDREN);
    return outcome;
}

/* ---- what must hold ---------------------------------------------------------------------------
 */

/* The fake compiler's own record: a line per compile. How many there are, and how many differ. */
static size_t read_record(const char *path, size_t *num_distinct)
{
    char lines[4096][20];
    size_t count = 0;
    *num_distinct = 0;
    FILE *file = fopen(path, "r");
    while (file && count < sizeof(lines) / sizeof(*lines) &&
           fgets(lines[count], sizeof(*lines), file)) {
        size_t same = 0;
        while (same < count && strcmp(lines[same], lines[count]) != 0)
            same++;
        *num_distinct += same == count;
        count++;
    }
    if (file)
        fclose(file);
    return count;
}

static int check_files(const char *cache)
{
    const size_t num_files = temp_dir_count(cache, "", NULL);
    const size_t num_entries = temp_dir_count(cache, ".ftk", NULL);
    if (num_entries == NUM_KERNELS && temp_dir_count(cache, ".tmp", NULL) == 0)
        return 0;
    fprintf(stderr, "race_flight: %zu files of which %zu entries\n", num_files, num_entries);
    return 1;
}

static int check_compiles(const struct outcome *cold, const char *record, bool has_locks,
                          bool is_fake)
{
    size_t num_distinct = 0;
    const size_t count = read_record(record, &num_distinct);
    const bool is_once = cold->compiles == NUM_KERNELS && (!is_fake || count == NUM_KERNELS);
    const bool is_all = cold->compiles >= NUM_KERNELS && (!is_fake || num_distinct == NUM_KERNELS);
    if (has_locks ? is_once && is_all : is_all)
        return 0;
    fprintf(stderr, "race_flight: %llu compiles, %zu recorded, of %zu kernels; expected %d\n",
            (unsigned long long)cold->compiles, count, num_distinct, NUM_KERNELS);
    return 1;
}

struct race {
    char **libraries;
    int num_processes;
    bool has_locks;
    struct outcome cold, warm, one; /* sums over the rounds */
};

static void add(struct outcome *sum, const struct outcome *outcome)
{
    sum->failed |= outcome->failed;
    sum->compiles += outcome->compiles;
    sum->waits += outcome->waits;
    sum->compilers += outcome->compilers;
    sum->served += outcome->served;
    sum->served_cpu_s += outcome->served_cpu_s;
    sum->cpu_s += outcome->cpu_s;
}

static int run_round(struct race *race)
{
    char dir[256], cache[300], alone[300], locks[300], record[300];
    temp_dir_init(dir);
    snprintf(cache, sizeof(cache), "%s/cache", dir);
    snprintf(alone, sizeof(alone), "%s/alone", dir);
    snprintf(locks, sizeof(locks), "%s/locks", dir);
    snprintf(record, sizeof(record), "%s/record", dir);
    setenv("FTJIT_LOCK_DIR", race->has_locks ? locks : "/dev/null", 1);
    setenv("FTJIT_CACHE_DIR", cache, 1);
    setenv("FAKE_NVRTC_RECORD", record, 1);

    const struct outcome cold = run_herd(race->libraries, race->num_processes);
    const bool is_fake = strstr(race->libraries[1], "fake") != NULL;
    int failed = cold.failed | check_compiles(&cold, record, race->has_locks, is_fake);
    failed |= check_files(cache);
    const struct outcome warm = run_herd(race->libraries, race->num_processes);
    if (warm.compiles)
        failed = fail("the warm herd compiled", "");
    setenv("FTJIT_CACHE_DIR", alone, 1);
    const struct outcome one = run_herd(race->libraries, 1);
    add(&race->cold, &cold);
    add(&race->warm, &warm);
    add(&race->one, &one);
    temp_dir_finish(dir);
    return failed | warm.failed | one.failed;
}

static double served_cpu_ms(const struct outcome *outcome)
{
    return outcome->served ? 1e3 * outcome->served_cpu_s / (double)outcome->served : 0;
}

int main(int argc, char **argv)
{
    if (argc == 7 && strcmp(argv[1], "child") == 0)
        return run_child(argv);
    const int num_processes = argc > 3 ? atoi(argv[3]) : 16;
    const int num_rounds = argc > 4 ? atoi(argv[4]) : 4;
    if (argc < 3 || num_processes < 2 || num_processes > MAX_PROCESSES || num_rounds < 1) {
        fprintf(stderr, "usage: race_flight CUDA NVRTC [processes, 2 to %d [rounds [nolock]]]\n",
                MAX_PROCESSES);
        return 2;
    }
    setenv("FAKE_CUDA_ARCH", "90", 1);
    setenv("FAKE_NVRTC_DELAY_MS", "40", 0);
    struct race race = {argv + 1, num_processes, argc <= 5, {0}, {0}, {0}};
    int failed = 0;
    for (int round = 0; round < num_rounds && !failed; round++)
        failed = run_round(&race);

    const double bar = 1.3 * (race.warm.cpu_s + race.one.cpu_s);
    const bool is_fake = strstr(argv[2], "fake") != NULL;
    if (race.has_locks && !is_fake && num_processes >= FULL_RUN && race.cold.cpu_s > bar)
        failed = fail("the cold herd costs more than 1.3 times the warm one and one compile", "");
    printf("%d processes, %d rounds, %d kernels: %llu compiles by %llu processes, %llu waits; CPU "
           "cold %.2f s, warm %.2f s, one alone %.2f s; a process that compiles nothing: cold %.2f "
           "ms, warm %.2f ms: %s\n",
           num_processes, num_rounds, NUM_KERNELS, (unsigned long long)race.cold.compiles,
           (unsigned long long)race.cold.compilers, (unsigned long long)race.cold.waits,
           race.cold.cpu_s, race.warm.cpu_s, race.one.cpu_s, served_cpu_ms(&race.cold),
           served_cpu_ms(&race.warm), failed ? "FAILED" : "ok");
    return failed;
}
