/* SPDX-License-Identifier: MIT */
/*
 * ftjit-cc: NVRTC in a process of its own, started by the library and by nobody else.
 *
 * Standard input is a socket: one request is read from it, one answer written to it
 * (codegen/helper_message.h). It has no options and prints nothing.
 */
#define _GNU_SOURCE /* SYS_close_range */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "codegen/helper_message.h"
#include "codegen/nvrtc.h"
#include "codegen/template_set.h"

/* The parent ends a helper that is late; this ends one whose parent has died. */
#define GRACE_S 5u

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

static bool read_all(void *data, size_t size)
{
    char *at = data;
    while (size > 0) {
        const ssize_t part = read(STDIN_FILENO, at, size);
        if (part < 0 && errno == EINTR)
            continue;
        if (part <= 0)
            return false;
        at += part;
        size -= (size_t)part;
    }
    return true;
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

/* The whole request, to be freed; NULL when what came is none. */
static char *read_request(struct ftj_helper_request *request)
{
    char header[FTJ_HELPER_HEADER_BYTES];
    if (!read_all(header, sizeof(header)))
        return NULL;
    const size_t size = ftj_helper_message_bytes(header);
    char *message = size >= sizeof(header) ? malloc(size) : NULL;
    if (!message)
        return NULL;
    memcpy(message, header, sizeof(header));
    if (!read_all(message + sizeof(header), size - sizeof(header)) ||
        !ftj_helper_read_request(message, size, request)) {
        free(message);
        return NULL;
    }
    return message;
}

static ftj_status compile(const struct ftj_helper_request *request, struct ftj_binary *binary)
{
    if (strcmp(request->templates, ftj_templates_digest) != 0)
        return ftj_fail(NULL, FTJ_E_COMPILER,
                        "ftjit-cc is of another build than the library that started it; install "
                        "both together");
    struct ftj_nvrtc nvrtc = {0};
    ftj_status status = ftj_nvrtc_load(&nvrtc, request->nvrtc, NULL);
    if (status)
        return status;
    status = ftj_nvrtc_compile(&nvrtc, &request->source, request->options, request->num_options,
                               NULL, binary);
    ftj_nvrtc_unload(&nvrtc);
    return status;
}

int main(void)
{
    close_strangers();
    struct ftj_helper_request request;
    char *message = read_request(&request);
    if (!message)
        return 2;
    alarm(request.timeout_s + GRACE_S);

    struct ftj_helper_answer answer = {.sentence = ""};
    answer.status = compile(&request, &answer.binary);
    if (answer.status && answer.status != FTJ_E_COMPILE)
        answer.sentence = ftj_last_error();
    struct ftj_text reply = {0};
    ftj_helper_write_answer(&reply, &answer);
    const bool is_written = !reply.failed && write_all(&reply);
    ftj_text_finish(&reply);
    ftj_binary_finish(&answer.binary);
    free(message);
    return is_written ? 0 : 1;
}
