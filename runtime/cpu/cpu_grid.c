/* SPDX-License-Identifier: MIT */
#include "runtime/cpu/cpu_grid.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/cpu/cpu_worker.h"

#define MAX_WORKERS 64 /* per launch */

struct ftj_cpu_pool {
    pthread_mutex_t mutex;
    struct ftj_cpu_worker *idle[MAX_WORKERS];
    uint32_t num_idle;
    uint32_t num_cores;
};

/* A launch under way. */
struct run {
    struct ftj_cpu_pool *pool;
    const struct ftj_cpu_grid *grid;
    pthread_mutex_t mutex; /* of what follows */
    uint32_t next_block;
    uint32_t num_done;
    uint32_t failed_block;
    ftj_status status;
    char failure[384];
};

struct ftj_cpu_pool *ftj_cpu_pool_create(void)
{
    struct ftj_cpu_pool *pool = calloc(1, sizeof(*pool));
    if (!pool)
        return NULL;
    if (pthread_mutex_init(&pool->mutex, NULL)) {
        free(pool);
        return NULL;
    }
    const long num_cores = sysconf(_SC_NPROCESSORS_ONLN);
    pool->num_cores = num_cores < 1             ? 1
                      : num_cores > MAX_WORKERS ? MAX_WORKERS
                                                : (uint32_t)num_cores;
    return pool;
}

void ftj_cpu_pool_destroy(struct ftj_cpu_pool *pool)
{
    if (!pool)
        return;
    for (uint32_t i = 0; i < pool->num_idle; i++)
        ftj_cpu_worker_destroy(pool->idle[i]);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}

static struct ftj_cpu_worker *take_worker(struct ftj_cpu_pool *pool)
{
    struct ftj_cpu_worker *worker = NULL;
    pthread_mutex_lock(&pool->mutex);
    if (pool->num_idle > 0)
        worker = pool->idle[--pool->num_idle];
    pthread_mutex_unlock(&pool->mutex);
    return worker ? worker : ftj_cpu_worker_create();
}

static void give_worker_back(struct ftj_cpu_pool *pool, struct ftj_cpu_worker *worker)
{
    pthread_mutex_lock(&pool->mutex);
    if (pool->num_idle < pool->num_cores) {
        pool->idle[pool->num_idle++] = worker;
        worker = NULL;
    }
    pthread_mutex_unlock(&pool->mutex);
    ftj_cpu_worker_destroy(worker);
}

/* False: none is left, or a block has failed. */
static bool next_block(struct run *run, uint32_t *block)
{
    pthread_mutex_lock(&run->mutex);
    const bool is_more = !run->status && run->next_block < run->grid->num_blocks;
    if (is_more) {
        *block = run->next_block;
        run->next_block += run->grid->cluster_blocks;
    }
    pthread_mutex_unlock(&run->mutex);
    return is_more;
}

/* The first failure is the one that is told. */
static void note_failure(struct run *run, uint32_t block, const char *failure)
{
    pthread_mutex_lock(&run->mutex);
    if (!run->status) {
        run->status = FTJ_E_LAUNCH;
        run->failed_block = block;
        snprintf(run->failure, sizeof(run->failure), "%s", failure);
    }
    pthread_mutex_unlock(&run->mutex);
}

/* Run blocks, or clusters of them, until there are none; a worker that cannot be had leaves them to
 * the others. */
static void *work(void *argument)
{
    struct run *run = argument;
    const struct ftj_cpu_grid *grid = run->grid;

    struct ftj_cpu_worker *worker = take_worker(run->pool);
    if (!worker)
        return NULL;
    if (ftj_cpu_worker_prepare(worker, grid->entry, grid->params, grid->num_threads,
                               grid->smem_bytes, grid->cluster_blocks)) {
        ftj_cpu_worker_destroy(worker);
        return NULL;
    }
    uint32_t block = 0;
    uint32_t num_done = 0;
    while (next_block(run, &block)) {
        if (!ftj_cpu_worker_run(worker, block, grid->num_blocks)) {
            const char *failure = ftj_cpu_worker_failure(worker, &block);
            note_failure(run, block, failure);
            ftj_cpu_worker_destroy(worker);
            return NULL;
        }
        num_done += grid->cluster_blocks;
    }
    give_worker_back(run->pool, worker);

    pthread_mutex_lock(&run->mutex);
    run->num_done += num_done;
    pthread_mutex_unlock(&run->mutex);
    return NULL;
}

ftj_status ftj_cpu_grid_run(struct ftj_cpu_pool *pool, const struct ftj_cpu_grid *grid,
                            const struct ftj_log *log)
{
    struct run run = {.pool = pool, .grid = grid};
    if (pthread_mutex_init(&run.mutex, NULL))
        return ftj_fail(log, FTJ_E_NO_MEMORY, "no memory for a launch");

    /* The calling thread works as well; threads that cannot be had are done without. */
    pthread_t threads[MAX_WORKERS];
    uint32_t num_threads = 0;
    while (num_threads + 1 < pool->num_cores && num_threads + 1 < grid->num_blocks &&
           !pthread_create(&threads[num_threads], NULL, work, &run))
        num_threads++;
    work(&run);
    for (uint32_t i = 0; i < num_threads; i++)
        pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&run.mutex);

    if (run.status) {
        return ftj_fail(log, run.status, "the kernel failed in block %u of %u: %s",
                        run.failed_block, grid->num_blocks, run.failure);
    }
    if (run.num_done < grid->num_blocks) {
        return ftj_fail(log, FTJ_E_NO_MEMORY,
                        "no memory to run blocks of %u threads and %u bytes of shared memory",
                        grid->num_threads, grid->smem_bytes);
    }
    return FTJ_OK;
}
