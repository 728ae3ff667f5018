/* SPDX-License-Identifier: MIT */
#include "cli/warm_run.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "runtime/report.h"

#define MAX_THREADS 256

struct run {
    struct warm_list *list;
    struct ftj_store *store;
    struct ftj_locks *locks;
    bool keeps_entries;
    atomic_uint_least64_t compile_us;
    pthread_mutex_t mutex; /* over the rest */
    size_t num_taken;      /* of the list's longest_first, which are put in front */
    uint32_t num_in_flight[FTJ_NUM_KEY_LOCKS]; /* by the lock of their key */
    struct cli_progress progress;
};

static ftj_status compile(struct run *run, struct warm_item *item, struct ftj_entry *entry)
{
    struct ftj_binary binary = {0};
    ftj_status status = item->compiler->compile(item->compiler, &item->source, &binary);
    if (status == FTJ_E_COMPILE)
        ftj_report_compile(NULL, &item->key, &item->source, &binary);
    if (status) {
        ftj_binary_finish(&binary);
        return status;
    }
    atomic_fetch_add(&run->compile_us, binary.compile_us);
    *entry = (struct ftj_entry){.code = binary.code,
                                .log = binary.log,
                                .facts = {.registers = binary.registers,
                                          .smem_bytes = binary.smem_bytes,
                                          .spill_bytes = binary.spill_bytes,
                                          .compile_us = binary.compile_us}};
    status = ftj_store_put(run->store, &item->key, entry);
    if (status)
        status = ftj_fail(NULL, status, "it was compiled and could not be saved");
    return status;
}

struct looking {
    struct run *run;
    struct warm_item *item;
    struct ftj_entry *entry;
    bool is_damaged;
};

/* A damaged entry is said once, and built again like one that is missing. */
static ftj_status look(void *data)
{
    struct looking *looking = data;
    if (looking->is_damaged)
        return FTJ_E_NOT_FOUND;
    const ftj_status status =
        ftj_store_get(looking->run->store, &looking->item->key, looking->entry);
    looking->is_damaged = status == FTJ_E_DAMAGED;
    return looking->is_damaged ? FTJ_E_NOT_FOUND : status;
}

/* A kernel that another process of the node is compiling is waited for. */
static ftj_status see_to(struct run *run, struct warm_item *item)
{
    struct ftj_entry entry = {0};
    struct looking looking = {run, item, &entry, false};
    struct ftj_flight flight = {0};
    ftj_status status = look(&looking);
    if (status == FTJ_E_NOT_FOUND)
        status = ftj_flight_begin(run->locks, &item->key, look, &looking, &flight);
    item->outcome = WARM_HIT;
    if (status == FTJ_E_NOT_FOUND) {
        item->outcome = WARM_COMPILED;
        status = compile(run, item, &entry);
    }
    ftj_flight_end(&flight, &item->key, entry.facts.compile_us);
    if (status)
        item->outcome = WARM_FAILED;
    if (run->keeps_entries && !status)
        item->entry = entry;
    else
        ftj_entry_finish(&entry);
    return status;
}

/* The longest of those that are left and that no other thread would make wait: kernels that share a
 * lock are compiled one after the other. NULL: all are taken. */
static struct warm_item *take_next(struct run *run)
{
    struct warm_item **items = run->list->longest_first;
    const size_t first = run->num_taken;
    size_t chosen = first;
    if (first == run->list->count)
        return NULL;
    while (chosen < run->list->count &&
           run->num_in_flight[ftj_lock_of_key(&items[chosen]->key)] > 0)
        chosen++;
    if (chosen == run->list->count)
        chosen = first;
    struct warm_item *item = items[chosen];
    memmove(&items[first + 1], &items[first], (chosen - first) * sizeof(*items));
    items[first] = item;
    run->num_taken++;
    run->num_in_flight[ftj_lock_of_key(&item->key)]++;
    return item;
}

static void show(struct run *run, const struct warm_item *item, ftj_status status)
{
    char what[64];
    snprintf(what, sizeof(what), "%s %s", item->source.template_id, item->key.target);
    if (status) {
        cli_progress_clear(&run->progress);
        fprintf(stderr, "ftjit warm: %s (%s): %s\n", what, item->label, ftj_last_error());
    }
    cli_progress_step(&run->progress, what);
}

static void *work(void *data)
{
    struct run *run = data;
    struct warm_item *item;
    pthread_mutex_lock(&run->mutex);
    while ((item = take_next(run)) != NULL) {
        pthread_mutex_unlock(&run->mutex);
        const ftj_status status = see_to(run, item);
        pthread_mutex_lock(&run->mutex);
        run->num_in_flight[ftj_lock_of_key(&item->key)]--;
        show(run, item, status);
    }
    pthread_mutex_unlock(&run->mutex);
    return NULL;
}

static void sum_up(const struct run *run, struct warm_result *result)
{
    *result = (struct warm_result){
        .compile_us = atomic_load(&run->compile_us),
        .seconds = cli_progress_seconds(&run->progress),
    };
    for (size_t i = 0; i < run->list->count; i++) {
        const enum warm_outcome outcome = run->list->items[i].outcome;
        result->num_hit += outcome == WARM_HIT;
        result->num_compiled += outcome == WARM_COMPILED;
        result->num_failed += outcome == WARM_FAILED;
    }
}

void warm_run(struct warm_list *list, struct ftj_store *store, struct ftj_locks *locks,
              uint32_t num_threads, bool keeps_entries, struct warm_result *result)
{
    struct run run = {.list = list, .store = store, .locks = locks, .keeps_entries = keeps_entries};
    pthread_t threads[MAX_THREADS];
    uint32_t num_started = 0;
    pthread_mutex_init(&run.mutex, NULL); /* cannot fail without attributes */
    cli_progress_init(&run.progress, list->count);
    while (num_started + 1 < num_threads && num_started < MAX_THREADS &&
           num_started + 1 < list->count &&
           !pthread_create(&threads[num_started], NULL, work, &run))
        num_started++;
    work(&run);
    for (uint32_t i = 0; i < num_started; i++)
        pthread_join(threads[i], NULL);
    cli_progress_clear(&run.progress);
    pthread_mutex_destroy(&run.mutex);
    sum_up(&run, result);
}
