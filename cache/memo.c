/* SPDX-License-Identifier: MIT */
#include "cache/memo.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* A kernel that is there, or that a thread is building. A failed one leaves the table at once, so
 * that the next call tries again; the last of those who waited for it frees it. */
struct slot {
    struct slot *next; /* in its bucket */
    struct ftj_bytes manifest;
    void *value;
    ftj_status status; /* of the build, once is_done */
    bool is_done;
    uint32_t num_waiting;
    struct ftj_text sentence; /* behind a failure: waiting threads have a last error of their own */
};

/* By the first two digits of the key's hex, as the folders on disk. */
enum { NUM_BUCKETS = 256 };

struct ftj_memo {
    pthread_mutex_t mutex; /* over everything below; never held while something is built */
    pthread_cond_t done;   /* some build has ended */
    struct slot *buckets[NUM_BUCKETS];
    void (*free_value)(void *value, void *data);
    void *data;
};

ftj_status ftj_memo_create(void (*free_value)(void *value, void *data), void *data,
                           struct ftj_memo **out)
{
    struct ftj_memo *memo = calloc(1, sizeof(*memo));
    if (!memo)
        return ftj_fail(NULL, FTJ_E_NO_MEMORY, "no memory for the table of kernels");
    memo->free_value = free_value;
    memo->data = data;
    pthread_mutex_init(&memo->mutex, NULL); /* cannot fail without attributes */
    pthread_cond_init(&memo->done, NULL);
    *out = memo;
    return FTJ_OK;
}

static void free_slot(struct slot *slot)
{
    ftj_bytes_finish(&slot->manifest);
    ftj_text_finish(&slot->sentence);
    free(slot);
}

void ftj_memo_destroy(struct ftj_memo *memo)
{
    if (!memo)
        return;
    for (size_t i = 0; i < NUM_BUCKETS; i++) {
        struct slot *next = NULL;
        for (struct slot *slot = memo->buckets[i]; slot; slot = next) {
            assert(slot->is_done); /* no call may be running */
            next = slot->next;
            memo->free_value(slot->value, memo->data);
            free_slot(slot);
        }
    }
    pthread_cond_destroy(&memo->done);
    pthread_mutex_destroy(&memo->mutex);
    free(memo);
}

static struct slot **bucket_of(struct ftj_memo *memo, const struct ftj_key *key)
{
    const char prefix[3] = {key->hex[0], key->hex[1], '\0'};
    return &memo->buckets[strtoul(prefix, NULL, 16) % NUM_BUCKETS];
}

static struct slot *find(struct slot *slot, const struct ftj_key *key)
{
    while (slot && (slot->manifest.size != key->manifest.size ||
                    memcmp(slot->manifest.data, key->manifest.data, key->manifest.size) != 0))
        slot = slot->next;
    return slot;
}

static void unlink_slot(struct slot **bucket, const struct slot *slot)
{
    while (*bucket != slot)
        bucket = &(*bucket)->next;
    *bucket = slot->next;
}

/* With the mutex held: wait for another thread's slot, and answer what it came to. */
static ftj_status wait_for(struct ftj_memo *memo, struct slot *slot, void **value)
{
    slot->num_waiting++;
    while (!slot->is_done)
        pthread_cond_wait(&memo->done, &memo->mutex);
    slot->num_waiting--;

    const ftj_status status = slot->status;
    if (!status) {
        *value = slot->value;
        return FTJ_OK;
    }
    ftj_fail(NULL, status, "%s",
             slot->sentence.data ? slot->sentence.data : ftj_status_text(status));
    if (slot->num_waiting == 0)
        free_slot(slot);
    return status;
}

/* With the mutex held: a slot of our own, which others will wait for. */
static ftj_status add_slot(struct slot **bucket, const struct ftj_key *key, struct slot **out)
{
    struct slot *slot = calloc(1, sizeof(*slot));
    if (!slot)
        return ftj_fail(NULL, FTJ_E_NO_MEMORY, "no memory for kernel %s", key->hex);
    const ftj_status status =
        ftj_bytes_copy(&slot->manifest, key->manifest.data, key->manifest.size);
    if (status) {
        free(slot);
        return status;
    }
    slot->next = *bucket;
    *bucket = slot;
    *out = slot;
    return FTJ_OK;
}

/* With the mutex held: publish the end of our build. */
static ftj_status end_build(struct slot **bucket, struct slot *slot, ftj_status status,
                            void **value)
{
    slot->is_done = true;
    slot->status = status;
    if (!status) {
        *value = slot->value;
        return FTJ_OK;
    }
    unlink_slot(bucket, slot);
    if (slot->num_waiting == 0)
        free_slot(slot);
    else
        ftj_text_printf(&slot->sentence, "%s", ftj_last_error());
    return status;
}

ftj_status ftj_memo_get(struct ftj_memo *memo, const struct ftj_key *key,
                        ftj_status (*build)(void *data, void **value), void *data, void **value)
{
    struct slot **bucket = bucket_of(memo, key);
    ftj_status status = FTJ_OK;

    pthread_mutex_lock(&memo->mutex);
    struct slot *slot = find(*bucket, key);
    if (slot) {
        status = wait_for(memo, slot, value);
        goto unlock;
    }
    status = add_slot(bucket, key, &slot);
    if (status)
        goto unlock;

    pthread_mutex_unlock(&memo->mutex);
    void *built = NULL;
    status = build(data, &built);
    pthread_mutex_lock(&memo->mutex);
    slot->value = built;
    status = end_build(bucket, slot, status, value);
    pthread_mutex_unlock(&memo->mutex);
    /* Not before: who is woken wants the mutex. */
    pthread_cond_broadcast(&memo->done);
    return status;

unlock:
    pthread_mutex_unlock(&memo->mutex);
    return status;
}
