/* SPDX-License-Identifier: MIT */
/*
 * Forks while other threads are inside the compiler: no child may hang in a compile of its own.
 *
 *   race_fork NVRTC FTJIT_CC [children]
 *
 * Two threads compile without a pause; meanwhile children are forked, each of which compiles once
 * with a compiler it finds itself, and has 30 seconds for it. With a real libnvrtc in the children
 * themselves (no FTJIT_CC) 18 of 20 hung or failed.
 *
 * Not under ThreadSanitizer or AddressSanitizer: GCC 12's have allocators of their own, whose locks
 * a fork does not hold, so that a child may wait for ever for one that a thread of its parent had
 * (1 in 200 on a busy machine, seen in the child's stack). The C library's allocator is safe there.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "codegen/compile.h"

enum { NUM_THREADS = 2, MAX_CHILDREN = 200, MOST_SECONDS = 30 };

static ftj_status compile_once(struct ftj_compiler *compiler)
{
    char text[] = "extern \"C\" __global__ void ftj_race() {}\n";
    struct ftj_binary binary = {0};
    const struct ftj_source source = {.template_id = "race",
                                      .text = {.data = text, .size = sizeof(text) - 1},
                                      .target = "sm_90a",
                                      .allow_fma = true};
    const ftj_status status = compiler->compile(compiler, &source, &binary);
    ftj_binary_finish(&binary);
    return status;
}

struct work {
    struct ftj_compiler *compiler;
    atomic_bool is_over;
    atomic_int num_compiles;
    atomic_int num_failed;
};

static void *compile_on(void *data)
{
    struct work *work = data;
    while (!atomic_load(&work->is_over)) {
        if (compile_once(work->compiler))
            atomic_fetch_add(&work->num_failed, 1);
        atomic_fetch_add(&work->num_compiles, 1);
    }
    return NULL;
}

/* Ends the child. */
static void compile_in_child(const char *nvrtc)
{
    struct ftj_compiler compiler = {0};
    alarm(MOST_SECONDS);
    if (ftj_nvrtc_find(&compiler, nvrtc, NULL) || compile_once(&compiler)) {
        fprintf(stderr, "race_fork: child %ld: %s\n", (long)getpid(), ftj_last_error());
        _exit(1);
    }
    _exit(0);
}

static int fork_children(const char *nvrtc, int num_children)
{
    pid_t pids[MAX_CHILDREN];
    int num_wrong = 0;
    for (int i = 0; i < num_children; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            compile_in_child(nvrtc);
        usleep(3000); /* another moment of the compiles under way */
    }
    for (int i = 0; i < num_children; i++) {
        int fate = 0;
        num_wrong += pids[i] < 0 || waitpid(pids[i], &fate, 0) != pids[i] || fate != 0;
        if (WIFSIGNALED(fate))
            fprintf(stderr, "race_fork: child %ld: ended by signal %d%s\n", (long)pids[i],
                    WTERMSIG(fate), WTERMSIG(fate) == SIGALRM ? ", it hung" : "");
    }
    return num_wrong;
}

int main(int argc, char **argv)
{
    const int num_children = argc > 3 ? atoi(argv[3]) : 20;
    if (argc < 3 || num_children < 1 || num_children > MAX_CHILDREN) {
        fprintf(stderr, "usage: race_fork NVRTC FTJIT_CC [children, 1 to %d]\n", MAX_CHILDREN);
        return 2;
    }
    setenv("FTJIT_CC", argv[2], 1);
    setenv("FTJIT_COMPILE", "thread", 1);
    setenv("FAKE_NVRTC_DELAY_MS", "2", 0);
    struct ftj_compiler compiler = {0};
    struct work work = {.compiler = &compiler};
    pthread_t threads[NUM_THREADS];
    if (ftj_nvrtc_find(&compiler, argv[1], NULL))
        return 1;
    for (int i = 0; i < NUM_THREADS; i++) {
        if (pthread_create(&threads[i], NULL, compile_on, &work))
            return 1;
    }
    const int num_wrong = fork_children(argv[1], num_children);
    atomic_store(&work.is_over, true);
    for (int i = 0; i < NUM_THREADS; i++)
        pthread_join(threads[i], NULL);
    ftj_compiler_finish(&compiler);

    const bool failed = num_wrong || work.num_failed || !work.num_compiles;
    printf("%d children forked during %d compiles, %d went wrong: %s\n", num_children,
           atomic_load(&work.num_compiles), num_wrong, failed ? "FAILED" : "ok");
    return failed;
}
