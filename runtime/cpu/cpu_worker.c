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
    return &worker->fibres[worker->running];
}

struct member *ftj_cpu_running_member(struct ftj_cpu_worker *worker)
{
    return &worker->members[worker->block.cluster_rank];
}

/* What the kernel is handed becomes that block of the cluster. */
static void enter_member(struct ftj_cpu_worker *worker, uint32_t rank)
{
    ftj_cpu_block *block = &worker->block;
    block->cluster_rank = rank;
    block->block_index = worker->first_block + rank;
    block->shared = worker->members[rank].shared;
    block->shared_origin = (uintptr_t)block->shared - FTJ_CPU_SHARED_BASE(rank);
    block->first_group = rank * ((worker->num_threads + GROUP - 1) / GROUP);
}

/* Where to go on: the fibre that became ready last, or the scheduler when there is none. */
static struct ftj_cpu_context *next_context(struct ftj_cpu_worker *worker)
{
    if (worker->num_ready == 0)
        return &worker->scheduler;
    worker->running = worker->ready[--worker->num_ready];
    struct fibre *fibre = ftj_cpu_running_fibre(worker);
    worker->block.thread_index = fibre->thread_index;
    if (fibre->rank != worker->block.cluster_rank)
        enter_member(worker, fibre->rank);
    return &fibre->context;
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
        if (i != worker->running)
            worker->ready[worker->num_ready++] = i;
    }
}

void ftj_cpu_wake_from(struct ftj_cpu_worker *worker, const struct member *member, uint32_t barrier)
{
    const uint32_t first = (uint32_t)(member - worker->members) * worker->num_threads;
    for (uint32_t i = first + worker->num_threads; i-- > first;) {
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
    if (worker->cluster_blocks > 1)
        ftj_cpu_cluster_left(worker);
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
    for (uint32_t rank = 0; rank < FTJ_CPU_MAX_CLUSTER; rank++) {
        ftj_cpu_copies_finish(&worker->members[rank].bulk_copies);
        free(worker->members[rank].shared);
    }
    munmap(worker->stacks, FTJ_CPU_MAX_THREADS * STACK_BYTES);
    free(worker);
}

/* Give fibres their stacks, and their places. The lowest page of each stack must not be touched: a
 * fibre that overflows faults there. */
static bool prepare_fibres(struct ftj_cpu_worker *worker)
{
    const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    for (uint32_t i = 0; i < worker->num_threads * worker->cluster_blocks; i++) {
        struct fibre *fibre = &worker->fibres[i];
        fibre->thread_index = i % worker->num_threads;
        fibre->rank = i / worker->num_threads;
        if (fibre->stack)
            continue;
        char *stack = worker->stacks + i * STACK_BYTES;
        if (mprotect(stack, page_bytes, PROT_NONE))
            return false;
        fibre->worker = worker;
        fibre->stack = stack + page_bytes;
        fibre->stack_bytes = STACK_BYTES - page_bytes;
    }
    return true;
}

/* Exactly as large as the kernel said, for AddressSanitizer's sake. */
static bool prepare_shared(struct ftj_cpu_worker *worker, uint32_t smem_bytes)
{
    for (uint32_t rank = 0; rank < FTJ_CPU_MAX_CLUSTER; rank++) {
        void *shared = NULL;
        if (rank < worker->cluster_blocks && smem_bytes > 0 &&
            posix_memalign(&shared, SHARED_ALIGN, smem_bytes))
            return false;
        free(worker->members[rank].shared);
        worker->members[rank].shared = shared;
    }
    return true;
}

ftj_status ftj_cpu_worker_prepare(struct ftj_cpu_worker *worker, const ftj_cpu_entry *entry,
                                  const void *params, uint32_t num_threads, uint32_t smem_bytes,
                                  uint32_t cluster_blocks)
{
    worker->entry = entry;
    worker->params = params;
    worker->num_threads = num_threads;
    worker->cluster_blocks = cluster_blocks;
    worker->block = (ftj_cpu_block){.calls = &ftj_cpu_worker_calls,
                                    .shared_bytes = smem_bytes,
                                    .cluster_blocks = cluster_blocks};
    /* The host thread may be another one than last time. */
    worker->scheduler = (struct ftj_cpu_context){0};
    return prepare_shared(worker, smem_bytes) && prepare_fibres(worker) ? FTJ_OK : FTJ_E_NO_MEMORY;
}

static void start_member(struct ftj_cpu_worker *worker, struct member *member)
{
    member->num_left = 0;
    member->num_at_barrier = 0;
    memset(member->num_at_named, 0, sizeof(member->num_at_named));
    member->num_peer_arrivals = 0;
    ftj_cpu_copies_clear(&member->bulk_copies);
    /* A kernel that reads what it did not write reads NaN, or an index far out of range. */
    if (member->shared)
        memset(member->shared, 0xff, worker->block.shared_bytes);
}

static void start_fibre(struct ftj_cpu_worker *worker, uint32_t i)
{
    struct fibre *fibre = &worker->fibres[i];
    fibre->waits_at = NULL;
    ftj_cpu_copies_clear(&fibre->copies);
    ftj_cpu_context_init(&fibre->context, fibre->stack, fibre->stack_bytes, run_thread, fibre);
    worker->ready[worker->num_ready++] = i;
}

/* Nobody can run, and not everybody has left. */
static void explain_stall(struct ftj_cpu_worker *worker)
{
    const uint32_t num_fibres = worker->num_threads * worker->cluster_blocks;
    uint32_t first = 0;
    while (!worker->fibres[first].waits_at)
        first++;
    const struct fibre *fibre = &worker->fibres[first];
    uint32_t num_waiting = 0;
    for (uint32_t i = first; i < num_fibres; i++)
        num_waiting += worker->fibres[i].waits_at != NULL;

    enter_member(worker, fibre->rank);
    snprintf(worker->failure, sizeof(worker->failure),
             "thread %u waits at %s for others that never come there: of %u threads %u wait and %u "
             "have left the kernel",
             fibre->thread_index, fibre->waits_at, num_fibres, num_waiting, worker->num_left);
}

static void explain_copies(struct ftj_cpu_worker *worker, uint32_t rank)
{
    enter_member(worker, rank);
    snprintf(worker->failure, sizeof(worker->failure),
             "a block has ended before %zu of its bulk copies were waited for",
             worker->members[rank].bulk_copies.num_issued);
}

bool ftj_cpu_worker_run(struct ftj_cpu_worker *worker, uint32_t first_block, uint32_t num_blocks)
{
    const uint32_t num_fibres = worker->num_threads * worker->cluster_blocks;
    worker->block.num_blocks = num_blocks;
    worker->first_block = first_block;
    worker->num_left = 0;
    worker->num_at_cluster = 0;
    worker->has_met = false;
    for (uint32_t rank = 0; rank < worker->cluster_blocks; rank++)
        start_member(worker, &worker->members[rank]);
    enter_member(worker, 0);
    for (uint32_t i = num_fibres; i-- > 0;)
        start_fibre(worker, i);
    ftj_cpu_context_switch(&worker->scheduler, next_context(worker));

    if (!worker->failure[0] && worker->num_left < num_fibres)
        explain_stall(worker);
    for (uint32_t rank = 0; !worker->failure[0] && rank < worker->cluster_blocks; rank++) {
        if (worker->members[rank].bulk_copies.num_issued > 0)
            explain_copies(worker, rank);
    }
    return !worker->failure[0];
}

const char *ftj_cpu_worker_failure(const struct ftj_cpu_worker *worker, uint32_t *block)
{
    *block = worker->block.block_index;
    return worker->failure;
}
