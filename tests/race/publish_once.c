/* SPDX-License-Identifier: MIT */
/*
 * One kernel's way through the cache, for kill_publication.py, which kills it at every system call.
 *
 *   publish_once CACHE
 *
 * Gets a kernel from the cache, or publishes it under its lock, and says which. Exit code 0: the
 * bytes are right, and the cache has them. getppid() marks where publication begins and ends.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cache/lock.h"
#include "cache/store.h"

enum { CODE_BYTES = 20000 };

struct job {
    struct ftj_store *store;
    struct ftj_key key;
    struct ftj_entry entry;
};

static int fail(const char *what, int status)
{
    fprintf(stderr, "publish_once: %s (%s)\n", what, ftj_status_name((ftj_status)status));
    return 1;
}

/* Not the C library's, which may have no system call in it. */
static void mark(void)
{
    syscall(SYS_getppid);
}

static uint8_t byte_of(size_t at)
{
    return (uint8_t)(at * 7 + at / 251);
}

static bool is_right(const struct ftj_entry *entry)
{
    if (entry->code.size != CODE_BYTES)
        return false;
    for (size_t at = 0; at < CODE_BYTES; at++) {
        if (entry->code.data[at] != byte_of(at))
            return false;
    }
    return true;
}

static ftj_status look(void *data)
{
    struct job *job = data;
    return ftj_store_get(job->store, &job->key, &job->entry);
}

static ftj_status build(struct job *job)
{
    uint8_t code[CODE_BYTES];
    for (size_t at = 0; at < CODE_BYTES; at++)
        code[at] = byte_of(at);
    const ftj_status status = ftj_bytes_copy(&job->entry.code, code, sizeof(code));
    return status ? status : ftj_store_put(job->store, &job->key, &job->entry);
}

static ftj_status open_job(struct job *job, const char *cache, struct ftj_locks **locks)
{
    static const char source[] = "a kernel";
    const struct ftj_key_input input = {.template_id = "publication",
                                        .source = source,
                                        .source_bytes = sizeof(source) - 1,
                                        .templates = "00",
                                        .target = "sm_90a",
                                        .output = "cubin",
                                        .compiler = "c"};
    ftj_status status = ftj_key_init(&job->key, &input);
    if (!status)
        status = ftj_store_create(cache, false, NULL, &job->store);
    return status ? status : ftj_locks_create(NULL, locks);
}

int main(int argc, char **argv)
{
    struct job job = {0};
    struct ftj_locks *locks = NULL;
    struct ftj_flight flight = {0};
    if (argc != 2)
        return 2;
    ftj_status status = open_job(&job, argv[1], &locks);
    if (status)
        return fail("cannot begin", status);

    mark();
    bool is_built = false;
    status = look(&job);
    if (status == FTJ_E_NOT_FOUND || status == FTJ_E_DAMAGED) {
        status = ftj_flight_begin(locks, &job.key, look, &job, &flight);
        is_built = status == FTJ_E_NOT_FOUND;
        if (is_built)
            status = build(&job);
        ftj_flight_end(&flight, &job.key, 1000);
    }
    mark();
    if (status || !is_right(&job.entry))
        return fail("the kernel is not there or not right", status);
    ftj_entry_finish(&job.entry);
    status = look(&job);
    if (status || !is_right(&job.entry))
        return fail("the cache does not have it", status);
    puts(is_built ? "built" : "found");

    ftj_entry_finish(&job.entry);
    ftj_key_finish(&job.key);
    ftj_locks_destroy(locks);
    ftj_store_destroy(job.store);
    return 0;
}
