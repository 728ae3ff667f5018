/* SPDX-License-Identifier: MIT */
/*
 * Collections while others read and write: no reader ever sees damage, and the limit holds.
 *
 *   race_gc [processes [rounds]]
 *
 * Each process has threads that get and put on one root, with a bundle below it, and one that
 * collects without mercy for the young.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache/bundle.h"
#include "cache/gc.h"
#include "cache/store.h"
#include "tests/unit/temp_dir.h"

#define NUM_KEYS      24
#define NUM_BUNDLED   6
#define NUM_THREADS   3
#define MAX_PROCESSES 64
#define CODE_BYTES    3000
#define MAX_BYTES     40000

struct racer {
    struct ftj_store *store;
    struct ftj_cache_dir *dir;
    unsigned seed;
    int rounds;
    atomic_int *num_failed;
    atomic_int *num_running; /* of those that get and put */
};

static struct ftj_key key_of(int index)
{
    char source[24];
    struct ftj_key key = {0};
    snprintf(source, sizeof(source), "kernel %d", index);
    if (ftj_key_init(&key, &(struct ftj_key_input){.template_id = "t",
                                                   .source = source,
                                                   .source_bytes = strlen(source),
                                                   .templates = "00",
                                                   .target = index % 2 ? "sm_80" : "sm_90a",
                                                   .output = "cubin",
                                                   .compiler = "c"}))
        abort();
    return key;
}

static void fill_code(int index, uint8_t code[CODE_BYTES])
{
    for (int i = 0; i < CODE_BYTES; i++)
        code[i] = (uint8_t)(index * 31 + i);
}

static int fail(const char *what, int index)
{
    fprintf(stderr, "race_gc: kernel %d: %s (%s)\n", index, what, ftj_last_error());
    return 1;
}

static int use(struct ftj_store *store, int index)
{
    uint8_t code[CODE_BYTES];
    struct ftj_entry entry = {0};
    struct ftj_key key = key_of(index);
    fill_code(index, code);
    int failed = 0;
    const ftj_status status = ftj_store_get(store, &key, &entry);
    if (status == FTJ_OK) {
        if (entry.code.size != sizeof(code) || memcmp(entry.code.data, code, sizeof(code)) != 0)
            failed = fail("wrong bytes", index);
    } else if (status != FTJ_E_NOT_FOUND) {
        failed = fail("damaged", index);
    } else if (index < NUM_BUNDLED) {
        failed = fail("not even in the bundle", index);
    } else {
        const struct ftj_entry made = {.code = {code, sizeof(code)}};
        if (ftj_store_put(store, &key, &made))
            failed = fail("cannot be put", index);
    }
    ftj_entry_finish(&entry);
    ftj_key_finish(&key);
    return failed;
}

static void *get_and_put(void *data)
{
    struct racer *racer = data;
    for (int i = 0; i < racer->rounds * NUM_KEYS; i++) {
        racer->seed = racer->seed * 1103515245u + 12345u;
        if (use(racer->store, (int)(racer->seed >> 16) % NUM_KEYS))
            atomic_fetch_add(racer->num_failed, 1);
    }
    atomic_fetch_sub(racer->num_running, 1);
    return NULL;
}

static void *collect(void *data)
{
    struct racer *racer = data;
    while (atomic_load(racer->num_running) > 0) {
        struct ftj_gc_result result;
        struct ftj_reason reason = {""};
        const ftj_status status = ftj_gc_run(racer->dir, MAX_BYTES, 0, &result, &reason);
        const bool is_busy = status == FTJ_E_IO && strstr(reason.text, "lock");
        if (status && status != FTJ_E_NOT_FOUND && !is_busy) {
            fprintf(stderr, "race_gc: collecting: %s\n", reason.text);
            atomic_fetch_add(racer->num_failed, 1);
        }
    }
    return NULL;
}

static int run_process(const char *root, const char *bundle, unsigned seed, int rounds)
{
    struct ftj_reason reason;
    struct ftj_cache_dir dir = {0};
    struct ftj_store *store = NULL;
    atomic_int num_failed = 0;
    atomic_int num_running = NUM_THREADS;
    struct racer racers[NUM_THREADS + 1];
    pthread_t threads[NUM_THREADS + 1];
    const struct ftj_store_options options = {
        .path = bundle, .has_compiler = true, .max_bytes = MAX_BYTES};
    if (ftj_cache_dir_init(&dir, root, &reason) || ftj_store_create(root, false, NULL, &store) ||
        ftj_store_configure(store, &options))
        return fail("no store", -1);
    for (unsigned i = 0; i <= NUM_THREADS; i++) {
        racers[i] = (struct racer){store, &dir, seed * 100 + i, rounds, &num_failed, &num_running};
        if (pthread_create(&threads[i], NULL, i < NUM_THREADS ? get_and_put : collect, &racers[i]))
            abort();
    }
    for (int i = 0; i <= NUM_THREADS; i++)
        pthread_join(threads[i], NULL);
    ftj_store_destroy(store);
    ftj_cache_dir_finish(&dir);
    return atomic_load(&num_failed) > 0;
}

static int make_bundle(const char *path)
{
    char digest[65];
    struct ftj_bundle_writer *writer = NULL;
    if (ftj_bundle_writer_create(&writer))
        return 1;
    for (int i = 0; i < NUM_BUNDLED; i++) {
        uint8_t code[CODE_BYTES];
        struct ftj_key key = key_of(i);
        fill_code(i, code);
        if (ftj_bundle_writer_put(writer, &key, &(struct ftj_entry){.code = {code, sizeof(code)}}))
            abort();
        ftj_key_finish(&key);
    }
    const ftj_status status = ftj_bundle_writer_save(writer, path, digest);
    ftj_bundle_writer_destroy(writer);
    return status != FTJ_OK;
}

/* Nobody is left: the limit holds, and only entries are there. */
static int check_end(const char *root)
{
    struct ftj_reason reason = {""};
    struct ftj_gc_result result = {0};
    struct ftj_cache_dir dir = {0};
    if (ftj_cache_dir_init(&dir, root, &reason) || ftj_gc_run(&dir, MAX_BYTES, 0, &result, &reason))
        return fail(reason.text, -1);
    ftj_cache_dir_finish(&dir);
    if (result.bytes_after <= MAX_BYTES && temp_dir_count(root, ".tmp", NULL) == 0 &&
        temp_dir_count(root, ".ftk", NULL) == result.num_entries)
        return 0;
    fprintf(stderr, "race_gc: %llu bytes and %zu temporaries are left\n",
            (unsigned long long)result.bytes_after, temp_dir_count(root, ".tmp", NULL));
    return 1;
}

int main(int argc, char **argv)
{
    const int num_processes = argc > 1 ? atoi(argv[1]) : 4;
    const int rounds = argc > 2 ? atoi(argv[2]) : 6;
    char dir[256], root[300], bundle[300];
    pid_t children[MAX_PROCESSES];
    if (num_processes < 1 || num_processes > MAX_PROCESSES || rounds < 1) {
        fprintf(stderr, "usage: race_gc [processes, 1 to %d [rounds]]\n", MAX_PROCESSES);
        return 2;
    }
    temp_dir_init(dir);
    snprintf(root, sizeof(root), "%s/cache", dir);
    snprintf(bundle, sizeof(bundle), "%s/kernels.ftb", dir);
    int failed = make_bundle(bundle);
    for (int i = 0; i < num_processes; i++) {
        children[i] = fork();
        if (children[i] == 0)
            _exit(run_process(root, bundle, (unsigned)i + 1, rounds));
    }
    for (int i = 0; i < num_processes; i++) {
        int status = 1;
        while (waitpid(children[i], &status, 0) < 0 && errno == EINTR)
            continue;
        failed |= status != 0;
    }
    failed |= check_end(root);
    temp_dir_finish(dir);
    printf("%d processes, %d rounds: %s\n", num_processes, rounds, failed ? "FAILED" : "ok");
    return failed;
}
