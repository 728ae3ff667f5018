/* SPDX-License-Identifier: MIT */
/*
 * Many threads on one memo: a kernel is built once while the others wait, and a failure reaches all
 * who waited for it, with its sentence.
 *
 *   race_memo [threads [rounds]]
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache/memo.h"

enum { NUM_KEYS = 6, MAX_THREADS = 128, FAILING_KEY = NUM_KEYS - 1 };

/* A key, and what was built for it. The last one never builds. */
struct kernel {
    struct ftj_key key;
    atomic_int num_builds;
    int value;
};

struct round {
    struct ftj_memo *memo;
    pthread_barrier_t barrier;
    struct kernel kernels[NUM_KEYS];
    atomic_int num_freed;
    atomic_int num_failures; /* answers of the failing key */
    atomic_int num_wrong;
};

static ftj_status build(void *data, void **value)
{
    struct kernel *kernel = data;
    const int build = atomic_fetch_add(&kernel->num_builds, 1);
    usleep(2000); /* long enough for the others to arrive */
    if (kernel->value == FAILING_KEY)
        return ftj_fail(NULL, FTJ_E_COMPILE, "build %d was refused", build);
    *value = &kernel->value;
    return FTJ_OK;
}

static void count_free(void *value, void *data)
{
    struct round *round = data;
    (void)value;
    atomic_fetch_add(&round->num_freed, 1);
}

static bool is_right(struct round *round, int index, ftj_status status, void *value)
{
    if (index != FAILING_KEY)
        return status == FTJ_OK && value == &round->kernels[index].value;
    atomic_fetch_add(&round->num_failures, 1);
    return status == FTJ_E_COMPILE && !value && strstr(ftj_last_error(), "was refused");
}

static void *run_thread(void *data)
{
    struct round *round = data;
    pthread_barrier_wait(&round->barrier);
    for (int i = 0; i < 2 * NUM_KEYS; i++) {
        const int index = i % NUM_KEYS;
        struct kernel *kernel = &round->kernels[index];
        void *value = NULL;
        const ftj_status status = ftj_memo_get(round->memo, &kernel->key, build, kernel, &value);
        if (!is_right(round, index, status, value))
            atomic_fetch_add(&round->num_wrong, 1);
    }
    return NULL;
}

static int init_round(struct round *round, int num_threads)
{
    if (ftj_memo_create(count_free, round, &round->memo) ||
        pthread_barrier_init(&round->barrier, NULL, (unsigned)num_threads))
        return 1;
    for (int i = 0; i < NUM_KEYS; i++) {
        char source[24];
        snprintf(source, sizeof(source), "kernel %d", i);
        const struct ftj_key_input input = {
            .template_id = "race",
            .source = source,
            .source_bytes = strlen(source),
            .templates = "00",
            .target = "cpu",
            .output = "so",
            .compiler = "c",
        };
        round->kernels[i].value = i;
        if (ftj_key_init(&round->kernels[i].key, &input))
            return 1;
    }
    return 0;
}

/* Each kernel once; the failing one at least twice (a failure is not remembered: each thread asks
 * two times), and less often than it was asked for (those who wait share one). */
static int check_round(struct round *round, int num_threads)
{
    int failed = atomic_load(&round->num_wrong) != 0;
    for (int i = 0; i < NUM_KEYS; i++) {
        const int num_builds = atomic_load(&round->kernels[i].num_builds);
        const bool fine =
            i == FAILING_KEY ? num_builds >= 2 && num_builds < 2 * num_threads : num_builds == 1;
        if (!fine) {
            fprintf(stderr, "race_memo: kernel %d was built %d times\n", i, num_builds);
            failed = 1;
        }
    }
    if (atomic_load(&round->num_failures) != 2 * num_threads)
        failed = 1;
    return failed;
}

static int run_round(int num_threads)
{
    struct round round = {0};
    pthread_t threads[MAX_THREADS];
    if (init_round(&round, num_threads))
        return 1;
    for (int i = 0; i < num_threads; i++) {
        if (pthread_create(&threads[i], NULL, run_thread, &round)) {
            fprintf(stderr, "race_memo: no thread %d\n", i);
            exit(1); /* the others stand at the barrier for ever */
        }
    }
    for (int i = 0; i < num_threads; i++)
        pthread_join(threads[i], NULL);

    int failed = check_round(&round, num_threads);
    ftj_memo_destroy(round.memo);
    if (atomic_load(&round.num_freed) != NUM_KEYS - 1) {
        fprintf(stderr, "race_memo: %d values were freed\n", atomic_load(&round.num_freed));
        failed = 1;
    }
    pthread_barrier_destroy(&round.barrier);
    for (int i = 0; i < NUM_KEYS; i++)
        ftj_key_finish(&round.kernels[i].key);
    return failed;
}

int main(int argc, char **argv)
{
    const int num_threads = argc > 1 ? atoi(argv[1]) : 16;
    const int num_rounds = argc > 2 ? atoi(argv[2]) : 20;
    if (num_threads < 2 || num_threads > MAX_THREADS || num_rounds < 1) {
        fprintf(stderr, "usage: race_memo [threads, 2 to %d [rounds]]\n", MAX_THREADS);
        return 2;
    }
    int failed = 0;
    for (int i = 0; i < num_rounds && !failed; i++)
        failed = run_round(num_threads);
    printf("%d threads, %d rounds, %d kernels: %s\n", num_threads, num_rounds, NUM_KEYS,
           failed ? "FAILED" : "ok");
    return failed;
}
