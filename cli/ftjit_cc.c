/* SPDX-License-Identifier: MIT */
/*
 * ftjit-cc: NVRTC in a process of its own, started by the library and by nobody else.
 *
 * Standard input is a socket: a request is read from it and an answer written to it, until its
 * other end is closed (codegen/helper_message.h). It has no options and prints nothing.
 */
#define _GNU_SOURCE /* SYS_close_range */
#include <errno.h>
#include <limits.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "codegen/helper_message.h"
#include "codegen/nvrtc.h"
#include "codegen/template_set.h"

/* The parent ends a helper that is late; this ends one whose parent has died. */
#define GRACE_S 5u

/* NVRTC allocates a hundred megabytes and gives them back with each compile. Here they are kept for
 * the next, instead of being asked of the system, page by page, again: a hundredth of the time. */
static void keep_memory(void)
{
#ifdef __GLIBC__
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_TRIM_THRESHOLD, INT_MAX);
    mallopt(M_TOP_PAD, 64 << 20);
#endif
}

/* Files that the host forgot to close on exec are not for us. */
static void close_strangers(void)
{
#ifdef SYS_close_range
    if (syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, 0) == 0)
        return;
#endif
    const long most = sysconf(_SC_OPEN_MAX);
    for (int file = STDERR_FILENO + 1; file < (most > 0 && most < 65536 ? most : 65536); file++)
        close(file);
}

/* How much came before the end. */
static size_t read_all(void *data, size_t size)
{
    size_t done = 0;
    while (done < size) {
        const ssize_t part = read(STDIN_FILENO, (char *)data + done, size - done);
        if (part < 0 && errno == EINTR)
            continue;
        if (part <= 0)
            break;
        done += (size_t)part;
    }
    return done;
}

static bool write_all(const struct ftj_text *message)
{
    size_t written = 0;
    while (written < message->size) {
        const ssize_t part = write(STDIN_FILENO, message->data + written, message->size - written);
        if (part < 0 && errno == EINTR)
            continue;
        if (part <= 0)
            return false;
        written += (size_t)part;
    }
    return true;
}

/* The whole request, to be freed; NULL when there is none, which is no failure at the end of all.
 */
static char *read_request(struct ftj_helper_request *request, bool *is_end)
{
    char header[FTJ_HELPER_HEADER_BYTES];
    const size_t got = read_all(header, sizeof(header));
    *is_end = got == 0;
    const size_t size = got == sizeof(header) ? ftj_helper_message_bytes(header) : 0;
    char *message = size >= sizeof(header) ? malloc(size) : NULL;
    if (!message)
        return NULL;
    memcpy(message, header, sizeof(header));
    const size_t rest = size - sizeof(header);
    if (read_all(message + sizeof(header), rest) != rest ||
        !ftj_helper_read_request(message, size, request)) {
        free(message);
        return NULL;
    }
    return message;
}

/* NVRTC, loaded by the first compile. */
struct loaded {
    struct ftj_nvrtc nvrtc;
    char *path; /* owned; NULL: not loaded */
};

static void unload(struct loaded *loaded)
{
    if (loaded->path)
        ftj_nvrtc_unload(&loaded->nvrtc);
    free(loaded->path);
    *loaded = (struct loaded){0};
}

static ftj_status load(struct loaded *loaded, const char *path)
{
    if (loaded->path && strcmp(loaded->path, path) == 0)
        return FTJ_OK;
    unload(loaded);
    const ftj_status status = ftj_nvrtc_load(&loaded->nvrtc, path, NULL);
    if (status)
        return status;
    loaded->path = strdup(path);
    if (loaded->path)
        return FTJ_OK;
    ftj_nvrtc_unload(&loaded->nvrtc);
    return ftj_fail(NULL, FTJ_E_NO_MEMORY, "no memory for the path of NVRTC");
}

static ftj_status compile(struct loaded *loaded, const struct ftj_helper_request *request,
                          struct ftj_binary *binary)
{
    if (strcmp(request->templates, ftj_templates_digest) != 0)
        return ftj_fail(NULL, FTJ_E_COMPILER,
                        "ftjit-cc is of another build than the library that started it; install "
                        "both together");
    const ftj_status status = load(loaded, request->nvrtc);
    return status ? status
                  : ftj_nvrtc_compile(&loaded->nvrtc, &request->source, request->options,
                                      request->num_options, NULL, binary);
}

static bool answer(struct loaded *loaded, const struct ftj_helper_request *request)
{
    struct ftj_helper_answer answer = {.sentence = ""};
    answer.status = compile(loaded, request, &answer.binary);
    if (answer.status && answer.status != FTJ_E_COMPILE)
        answer.sentence = ftj_last_error();
    struct ftj_text reply = {0};
    ftj_helper_write_answer(&reply, &answer);
    const bool is_written = !reply.failed && write_all(&reply);
    ftj_text_finish(&reply);
    ftj_binary_finish(&answer.binary);
    return is_written;
}

int main(void)
{
    struct loaded loaded = {0};
    struct ftj_helper_request request;
    bool is_end = false;
    bool is_written = true;
    char *message;
    close_strangers();
    keep_memory();
    while (is_written && (message = read_request(&request, &is_end)) != NULL) {
        alarm(request.timeout_s + GRACE_S);
        is_written = answer(&loaded, &request);
        alarm(0);
        free(message);
    }
    unload(&loaded);
    return !is_written ? 1 : is_end ? 0 : 2;
}
