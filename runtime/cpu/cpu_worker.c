/* SPDX-License-Identifier: MIT */
/*
 * Fibres take turns: one runs until it has to wait for others at a collective, then the fibre that
 * became ready last goes on, so that a warp runs as far as it can on its own and the others are far
 * behind: a barrier that a kernel forgot shows. All of it happens on one host thread.
 */
#include "runtime/cpu/cpu_worker.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/cpu/cpu_fibre.h"

#define SHARED_ALIGN 1024

/* Address space, not memory: a page is only taken when a fibre's frames reach it. */
#define STACK_BYTES ((size_t)256 << 10)

struct fibre *ftj_cpu_running_fibre(struct ftj_cpu_worker *worker)
{
    return &worker->fibres[worker->block.thread_index];
}

/* Where to go on: the fibre that became ready last, or the scheduler when there is none. */
static struct ftj_cpu_context *next_context(struct ftj_cpu_worker *worker)
{
    if (worker->num_ready == 0)
        return &worker->scheduler;
    worker->block.thread_index = worker->ready[--worker->num_ready];
    return &ftj_cpu_running_fibre(worker)->context;
}

void ftj_cpu_wait(struct ftj_cpu_worker *worker, const char *name, uint32_t barrier)
{
    struct fibre *fibre = ftj_cpu_running_fibre(worker);
    fibre->waits_at = name;
    fibre->waits_for = barrier;
    ftj_cpu_context_switch(&fibre->context, next_context(worker));
}

void ftj_cpu_wake(struct ftj_cpu_worker *worker, uint32_t first, uint32_t end)
{
    for (uint32_t i = end; i-- > first;) {
        worker->fibres[i].waits_at = NULL;
        if (i != worker->block.thread_index)
            worker->ready[worker->num_ready++] = i;
    }
}

void ftj_cpu_wake_from(struct ftj_cpu_worker *worker, uint32_t barrier)
{
    for (uint32_t i = worker->num_threads; i-- > 0;) {
        if (worker->fibres[i].waits_at && worker->fibres[i].waits_for == barrier)
            ftj_cpu_wake(worker, i, i + 1);
    }
}

_Noreturn FTJ_PRINTF(2, 3) void ftj_cpu_fail(struct ftj_cpu_worker *worker, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(worker->failure, sizeof(worker->failure), format, args);
    va_end(args);
    ftj_cpu_context_leave(&ftj_cpu_running_fibre(worker)->context, &worker->scheduler);
}

static void run_thread(void *argument)
{
    struct fibre *fibre = argument;
    struct ftj_cpu_worker *worker = fibre->worker;

    worker->entry->run(&worker->block, worker->params);
    worker->num_left++;
    ftj_cpu_context_leave(&fibre->context, next_context(worker));
}

struct ftj_cpu_worker *ftj_cpu_worker_create(void)
{
    struct ftj_cpu_worker *worker = calloc(1, sizeof(*worker));
    if (!worker)
        return NULL;
    void *stacks = mmap(NULL, FTJ_CPU_MAX_THREADS * STACK_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED) {
        free(worker);
        return NULL;
    }
    worker->stacks = stacks;
    return worker;
}

void ftj_cpu_worker_destroy(struct ftj_cpu_worker *worker)
{
    if (!worker)
        return;
    for (uint32_t i = 0; i < FTJ_CPU_MAX_THREADS; i++) {
        ftj_cpu_copies_finish(&worker->fibres[i].copies);
        ftj_cpu_context_finish(&worker->fibres[i].context);
    }
    ftj_cpu_copies_finish(&worker->bulk_copies);
    munmap(worker->stacks, FTJ_CPU_MAX_THREADS * STACK_BYTES);
    free(worker->block.shared);
    free(worker);
}

/* Give the first `num_threads` fibres their stacks. The lowest page of each must not be touched: a
 * fibre that overflows faults there. */
static bool prepare_fibres(struct ftj_cpu_worker *worker, uint32_t num_threads)
{
    const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    for (uint32_t i = 0; i < num_threads; i++) {
        struct fibre *fibre = &worker->fibres[i];
        if (fibre->stack)
            continue;
        char *stack = worker->stacks + i * STACK_BYTES;
        if (mprotect(stack, page_bytes, PROT_NONE))
            return false;
        fibre->worker = worker;
        fibre->thread_index = i;
        fibre->stack = stack + page_bytes;
        fibre->stack_bytes = STACK_BYTES - page_bytes;
    }
    return true;
}

ftj_status ftj_cpu_worker_prepare(struct ftj_cpu_worker *worker, const ftj_cpu_entry *entry,
                                  const void *params, uint32_t num_threads, uint32_t smem_bytes)
{
    /* Exactly as large as the kernel said, for AddressSanitizer's sake. */
    void *shared = NULL;
    if (smem_bytes > 0 && posix_memalign(&shared, SHARED_ALIGN, smem_bytes))
        return FTJ_E_NO_MEMORY;
    free(worker->block.shared);
    worker->block = (ftj_cpu_block){
        .calls = &ftj_cpu_worker_calls, .shared = shared, .shared_bytes = smem_bytes};

    if (!prepare_fibres(worker, num_threads))
        return FTJ_E_NO_MEMORY;
    worker->entry = entry;
    worker->params = params;
    worker->num_threads = num_threads;
    /* The host thread may be another one than last time. */
    worker->scheduler = (struct ftj_cpu_context){0};
    return FTJ_OK;
}

/* Nobody can run, and not everybody has left. */
static void explain_stall(struct ftj_cpu_worker *worker)
{
    uint32_t first = 0;
    while (!worker->fibres[first].waits_at)
        first++;
    const char *name = worker->fibres[first].waits_at;
    uint32_t num_waiting = 0;
    for (uint32_t i = first; i < worker->num_threads; i++)
        num_waiting += worker->fibres[i].waits_at != NULL;

    snprintf(worker->failure, sizeof(worker->failure),
             "thread %u waits at %s for others that never come there: of %u threads %u wait and %u "
             "have left the kernel",
             first, name, worker->num_threads, num_waiting, worker->num_left);
}

bool ftj_cpu_worker_run(struct ftj_cpu_worker *worker, uint32_t block_index, uint32_t num_blocks)
{
    worker->block.block_index = block_index;
    worker->block.num_blocks = num_blocks;
    worker->num_left = 0;
    worker->num_at_barrier = 0;
    memset(worker->num_at_named, 0, sizeof(worker->num_at_named));
    ftj_cpu_copies_clear(&worker->bulk_copies);
    /* A kernel that reads what it did not write reads NaN, or an index far out of range. */
    if (worker->block.shared)
        memset(worker->block.shared, 0xff, worker->block.shared_bytes);

    for (uint32_t i = worker->num_threads; i-- > 0;) {
        struct fibre *fibre = &worker->fibres[i];
        fibre->waits_at = NULL;
        ftj_cpu_copies_clear(&fibre->copies);
        ftj_cpu_context_init(&fibre->context, fibre->stack, fibre->stack_bytes, run_thread, fibre);
        worker->ready[worker->num_ready++] = i;
    }
    ftj_cpu_context_switch(&worker->scheduler, next_context(worker));

    if (!worker->failure[0] && worker->num_left < worker->num_threads)
        explain_stall(worker);
    if (!worker->failure[0] && worker->bulk_copies.num_issued > 0)
        snprintf(worker->failure, sizeof(worker->failure),
                 "a block has ended before %zu of its bulk copies were waited for",
                 worker->bulk_copies.num_issued);
    return !worker->failure[0];
}

const char *ftj_cpu_worker_failure(const struct ftj_cpu_worker *worker)
{
    return worker->failure;
}
