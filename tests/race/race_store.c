/* SPDX-License-Identifier: MIT */
/*
 * Many processes on one cold cache directory.
 *
 *   race_store [processes [rounds]]
 *
 * In each round the cache is empty; all processes meet at a barrier, then each gets and puts the
 * same keys, from two threads with one store. In every second round one of them also cuts entries
 * short while the others read. Nobody may ever be given wrong bytes; afterwards there is one sound
 * entry per key and no temporary. A plain program, since Criterion's tests must not fork.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache/store.h"
#include "tests/unit/temp_dir.h"

enum { NUM_KEYS = 12, NUM_PASSES = 10, NUM_THREADS = 2, MAX_PROCESSES = 256, CODE_BYTES = 40000 };

static int fail(const char *what, int key, int status)
{
    fprintf(stderr, "race_store: process %ld, key %d: %s (%s)\n", (long)getpid(), key, what,
            ftj_status_name((ftj_status)status));
    return 1;
}

static struct ftj_key key_of(int index)
{
    char source[24];
    snprintf(source, sizeof(source), "kernel %d", index);
    const struct ftj_key_input input = {
        .template_id = "race",
        .source = source,
        .source_bytes = strlen(source),
        .templates = "00",
        .target = "sm_90a",
        .output = "cubin",
        .compiler = "c",
    };
    struct ftj_key key = {0};
    if (ftj_key_init(&key, &input))
        exit(fail("no key", index, FTJ_E_NO_MEMORY));
    return key;
}

static uint8_t byte_of(int key, size_t at)
{
    return (uint8_t)((size_t)key * 131 + at * 7 + at / 251);
}

static bool is_right(int key, const struct ftj_entry *entry)
{
    if (entry->code.size != CODE_BYTES || entry->facts.registers != (uint32_t)key)
        return false;
    for (size_t at = 0; at < CODE_BYTES; at++) {
        if (entry->code.data[at] != byte_of(key, at))
            return false;
    }
    return true;
}

static int put(struct ftj_store *store, int index, const struct ftj_key *key)
{
    struct ftj_entry entry = {.facts = {.registers = (uint32_t)index}};
    uint8_t code[CODE_BYTES];
    for (size_t at = 0; at < CODE_BYTES; at++)
        code[at] = byte_of(index, at);
    entry.code = (struct ftj_bytes){code, CODE_BYTES};
    const ftj_status status = ftj_store_put(store, key, &entry);
    return status ? fail("cannot put", index, status) : 0;
}

/* What the library does for one kernel: get, and on a miss put. */
static int use(struct ftj_store *store, int index, bool damage_is_fine)
{
    struct ftj_key key = key_of(index);
    struct ftj_entry entry = {0};
    int failed = 0;
    const ftj_status status = ftj_store_get(store, &key, &entry);
    if (status == FTJ_OK) {
        if (!is_right(index, &entry))
            failed = fail("wrong bytes", index, status);
    } else if (status == FTJ_E_NOT_FOUND || (status == FTJ_E_DAMAGED && damage_is_fine)) {
        failed = put(store, index, &key);
    } else {
        failed = fail("cannot get", index, status);
    }
    ftj_entry_finish(&entry);
    ftj_key_finish(&key);
    return failed;
}

static void cut_short(const char *dir, int index, int pass)
{
    struct ftj_key key = key_of(index);
    char path[512];
    snprintf(path, sizeof(path), "%s/v1/sm_90a/%.2s/%s-%s.ftk", dir, key.hex, key.hex + 2,
             key.compiler_hex);
    if (truncate(path, (off_t)pass * 997) != 0)
        usleep(100); /* not there yet */
    ftj_key_finish(&key);
}

/* What the threads of one process share. */
struct racer {
    struct ftj_store *store;
    const char *dir;
    bool with_vandal;
    bool is_vandal;
    atomic_int num_failed;
};

static void *run_passes(void *data)
{
    struct racer *racer = data;
    for (int pass = 0; pass < NUM_PASSES; pass++) {
        for (int index = 0; index < NUM_KEYS; index++) {
            if (racer->is_vandal)
                cut_short(racer->dir, index, pass);
            else if (use(racer->store, index, racer->with_vandal))
                atomic_fetch_add(&racer->num_failed, 1);
        }
    }
    return NULL;
}

/* A process of the race: race_store child DIR READY_FD GO_FD WITH_VANDAL IS_VANDAL */
static int run_child(char **argv)
{
    const int ready = atoi(argv[3]);
    const int go = atoi(argv[4]);
    struct racer racer = {.dir = argv[2], .with_vandal = atoi(argv[5]), .is_vandal = atoi(argv[6])};
    if (ftj_store_create(racer.dir, false, NULL, &racer.store))
        return 1;
    char byte = 0;
    if (write(ready, &byte, 1) != 1)
        return fail("no barrier", 0, FTJ_E_IO);
    close(ready);
    while (read(go, &byte, 1) > 0) /* until the parent closes it */
        continue;

    pthread_t threads[NUM_THREADS];
    for (int i = 0; i < NUM_THREADS; i++) {
        if (pthread_create(&threads[i], NULL, run_passes, &racer))
            exit(fail("no thread", i, FTJ_E_NO_MEMORY));
    }
    for (int i = 0; i < NUM_THREADS; i++)
        pthread_join(threads[i], NULL);
    ftj_store_destroy(racer.store);
    return atomic_load(&racer.num_failed) != 0;
}

static pid_t start_child(const char *program, const char *dir, const int ready[2], const int go[2],
                         bool with_vandal, bool is_vandal)
{
    char ready_text[16], go_text[16];
    snprintf(ready_text, sizeof(ready_text), "%d", ready[1]);
    snprintf(go_text, sizeof(go_text), "%d", go[0]);
    const pid_t pid = fork();
    if (pid != 0)
        return pid;
    close(ready[0]);
    close(go[1]);
    execl(program, program, "child", dir, ready_text, go_text, with_vandal ? "1" : "0",
          is_vandal ? "1" : "0", (char *)NULL);
    _exit(127);
}

static int wait_for_all(const pid_t *pids, int num_processes)
{
    int failed = 0;
    for (int i = 0; i < num_processes; i++) {
        int result = 0;
        if (pids[i] < 0 || waitpid(pids[i], &result, 0) != pids[i] || result != 0) {
            fprintf(stderr, "race_store: process %d of %d ended with %d\n", i, num_processes,
                    result);
            failed = 1;
        }
    }
    return failed;
}

/* Start all, let them go at once, and wait. */
static int race(const char *program, const char *dir, int num_processes, bool with_vandal)
{
    int ready[2], go[2];
    pid_t pids[MAX_PROCESSES];
    if (pipe(ready) || pipe(go))
        return fail("no pipe", 0, FTJ_E_IO);
    for (int i = 0; i < num_processes; i++)
        pids[i] = start_child(program, dir, ready, go, with_vandal, with_vandal && i == 0);
    close(ready[1]);
    close(go[0]);
    char byte = 0;
    for (int i = 0; i < num_processes && read(ready[0], &byte, 1) == 1; i++)
        continue;
    close(ready[0]);
    close(go[1]);
    return wait_for_all(pids, num_processes);
}

/* Every key there and right; one file each; nothing temporary. */
static int check_after(const char *dir, bool with_vandal)
{
    int failed = 0;
    struct ftj_store *store = NULL;
    if (ftj_store_create(dir, false, NULL, &store))
        return 1;
    for (int index = 0; index < NUM_KEYS && with_vandal; index++)
        failed |= use(store, index, true); /* what was cut last heals now */
    for (int index = 0; index < NUM_KEYS; index++) {
        struct ftj_key key = key_of(index);
        struct ftj_entry entry = {0};
        const ftj_status status = ftj_store_get(store, &key, &entry);
        if (status || !is_right(index, &entry))
            failed = fail("no sound entry afterwards", index, status);
        ftj_entry_finish(&entry);
        ftj_key_finish(&key);
    }
    ftj_store_destroy(store);

    const size_t num_files = temp_dir_count(dir, "", NULL);
    const size_t num_entries = temp_dir_count(dir, ".ftk", NULL);
    if (num_entries != NUM_KEYS || num_files != NUM_KEYS + 2) { /* and CACHEDIR.TAG, usage */
        fprintf(stderr, "race_store: %zu files of which %zu entries; expected %d and %d\n",
                num_files, num_entries, NUM_KEYS + 2, NUM_KEYS);
        failed = 1;
    }
    return failed;
}

int main(int argc, char **argv)
{
    if (argc == 7 && strcmp(argv[1], "child") == 0)
        return run_child(argv);
    const int num_processes = argc > 1 ? atoi(argv[1]) : 8;
    const int num_rounds = argc > 2 ? atoi(argv[2]) : 20;
    if (num_processes < 2 || num_processes > MAX_PROCESSES || num_rounds < 1) {
        fprintf(stderr, "usage: race_store [processes, 2 to %d [rounds]]\n", MAX_PROCESSES);
        return 2;
    }
    int failed = 0;
    for (int round = 0; round < num_rounds && !failed; round++) {
        char parent[256], dir[300];
        const bool with_vandal = round % 2 == 1;
        temp_dir_init(parent);
        snprintf(dir, sizeof(dir), "%s/cache", parent);
        failed = race("/proc/self/exe", dir, num_processes, with_vandal);
        failed |= check_after(dir, with_vandal);
        temp_dir_finish(parent);
    }
    printf("%d processes, %d rounds, %d keys: %s\n", num_processes, num_rounds, NUM_KEYS,
           failed ? "FAILED" : "ok");
    return failed;
}
