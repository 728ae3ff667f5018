/* SPDX-License-Identifier: MIT */
/* Threads that create and destroy one attention after the other. Compiling them one at a time takes
 * several times as long as all the measuring. */
#include "bench/bench_prepare.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define MAX_THREADS 16

struct prepare {
    ftj_context *ctx;
    const struct bench_case *const *cases;
    size_t count;
    atomic_size_t next;
};

static void *build_cases(void *data)
{
    struct prepare *prepare = data;
    for (size_t i; (i = atomic_fetch_add(&prepare->next, 1)) < prepare->count;) {
        ftj_attention *attn = NULL;
        ftj_attention_desc desc;
        if (bench_case_desc(prepare->cases[i], &desc) == FTJ_OK &&
            ftj_attention_create(prepare->ctx, &desc, &attn) == FTJ_OK)
            ftj_attention_destroy(attn);
    }
    return NULL;
}

void bench_prepare(ftj_context *ctx, const struct bench_case *const *cases, size_t count)
{
    struct prepare prepare = {.ctx = ctx, .cases = cases, .count = count};
    pthread_t threads[MAX_THREADS];
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int started = 0;
    while (started < MAX_THREADS && started + 1 < cores && (size_t)started + 1 < count &&
           pthread_create(&threads[started], NULL, build_cases, &prepare) == 0)
        started++;
    build_cases(&prepare);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}
