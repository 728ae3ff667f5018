/* SPDX-License-Identifier: MIT */
#include "codegen/helper_compile.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/fork.h"

#define BLOCK_BYTES 65536

/* A request under way. */
struct talk {
    const char *path;
    const struct ftj_helper_request *request;
    const struct ftj_log *log;
    uint64_t deadline_us;
    struct ftj_helper *helper;
    struct ftj_text answer;
    bool is_late;
};

/* ---- helpers between two compiles ---- */

/* One that has died meanwhile, or speaks without being asked, is of no use. */
static bool is_usable(const struct ftj_helper *helper)
{
    struct pollfd poll_file = {.fd = helper->socket, .events = POLLIN};
    return helper->fork_generation == ftj_fork_generation() && poll(&poll_file, 1, 0) == 0;
}

static struct ftj_helper *take_idle(struct ftj_helpers *helpers)
{
    for (size_t i = 0; helpers && i < FTJ_MAX_IDLE_HELPERS; i++) {
        struct ftj_helper *helper = atomic_exchange(&helpers->idle[i], NULL);
        if (helper && is_usable(helper))
            return helper;
        ftj_helper_end(helper, 0);
    }
    return NULL;
}

static void put_idle(struct ftj_helpers *helpers, struct ftj_helper *helper)
{
    for (size_t i = 0; helpers && i < FTJ_MAX_IDLE_HELPERS; i++) {
        struct ftj_helper *none = NULL;
        if (atomic_compare_exchange_strong(&helpers->idle[i], &none, helper))
            return;
    }
    ftj_helper_end(helper, 0);
}

void ftj_helpers_finish(struct ftj_helpers *helpers)
{
    for (size_t i = 0; i < FTJ_MAX_IDLE_HELPERS; i++)
        ftj_helper_end(atomic_exchange(&helpers->idle[i], NULL), 0);
}

/* ---- talking ---- */

/* False when the time is over, which is_late then says, or the socket is of no more use. */
static bool wait_for(struct talk *talk, short events)
{
    for (;;) {
        const uint64_t now = ftj_now_us();
        const uint64_t left_ms =
            talk->deadline_us > now ? (talk->deadline_us - now + 999) / 1000 : 0;
        struct pollfd poll_file = {.fd = talk->helper->socket, .events = events};
        const int ready = poll(&poll_file, 1, (int)left_ms);
        if (ready > 0)
            return true;
        if (ready < 0 && errno == EINTR)
            continue;
        talk->is_late = ready == 0;
        return false;
    }
}

static bool is_temporary(int error)
{
    return error == EINTR || error == EAGAIN || error == EWOULDBLOCK;
}

static void send_request(struct talk *talk, const struct ftj_text *message)
{
    size_t sent = 0;
    while (sent < message->size && wait_for(talk, POLLOUT)) {
        const ssize_t part =
            send(talk->helper->socket, message->data + sent, message->size - sent, MSG_NOSIGNAL);
        if (part < 0 && !is_temporary(errno))
            return; /* it has ended: there will be no answer, which says so */
        if (part > 0)
            sent += (size_t)part;
    }
}

/* Until the answer is whole, or the helper has closed its end. */
static void receive_answer(struct talk *talk)
{
    struct ftj_text *answer = &talk->answer;
    char *block = malloc(BLOCK_BYTES);
    size_t size = FTJ_HELPER_HEADER_BYTES;
    answer->failed = !block;
    while (block && answer->size < size && wait_for(talk, POLLIN)) {
        const size_t missing = size - answer->size;
        const ssize_t part =
            recv(talk->helper->socket, block, missing < BLOCK_BYTES ? missing : BLOCK_BYTES, 0);
        if (part == 0 || (part < 0 && !is_temporary(errno)))
            break;
        if (part > 0)
            ftj_text_append(answer, block, (size_t)part);
        if (answer->failed)
            break;
        if (answer->size == FTJ_HELPER_HEADER_BYTES)
            size = ftj_helper_message_bytes(answer->data);
    }
    free(block);
}

static bool is_whole(const struct ftj_text *answer)
{
    return answer->size >= FTJ_HELPER_HEADER_BYTES &&
           answer->size == ftj_helper_message_bytes(answer->data);
}

/* ---- judging ---- */

static ftj_status take_answer(const struct talk *talk, const struct ftj_helper_answer *answer,
                              struct ftj_binary *binary)
{
    ftj_binary_finish(binary);
    *binary = answer->binary;
    if (answer->status && answer->status != FTJ_E_COMPILE)
        return ftj_fail(talk->log, answer->status, "%s", answer->sentence);
    return answer->status;
}

/* Why there is no answer, as the log of a compile that failed. */
static ftj_status explain_silence(const struct talk *talk, const struct ftj_helper_end *end,
                                  struct ftj_binary *binary)
{
    struct ftj_text text = {0};
    if (talk->is_late || end->is_late)
        ftj_text_printf(&text,
                        "error: %s had not ended after %u seconds (FTJIT_COMPILE_TIMEOUT) and was "
                        "killed",
                        talk->path, talk->request->timeout_s);
    else if (end->is_known && WIFSIGNALED(end->fate))
        ftj_text_printf(&text, "error: %s was ended by signal %d, %s%s", talk->path,
                        WTERMSIG(end->fate), strsignal(WTERMSIG(end->fate)),
                        WTERMSIG(end->fate) == SIGKILL ? " (by somebody, or for want of memory)"
                                                       : "");
    else if (end->is_known)
        ftj_text_printf(&text, "error: %s ended with code %d and without an answer", talk->path,
                        WEXITSTATUS(end->fate));
    else
        ftj_text_printf(&text, "error: %s ended without an answer", talk->path);
    if (!text.failed) {
        ftj_bytes_finish(&binary->log);
        binary->log = (struct ftj_bytes){(uint8_t *)text.data, text.size};
    }
    return FTJ_E_COMPILE;
}

/* What came is no answer. */
static ftj_status refuse(const struct talk *talk, const struct ftj_helper_end *end,
                         struct ftj_binary *binary)
{
    const struct ftj_text *answer = &talk->answer;
    if (answer->failed)
        return ftj_fail(talk->log, FTJ_E_NO_MEMORY, "no memory for the answer of %s", talk->path);
    if (is_whole(answer) ||
        (answer->size >= FTJ_HELPER_HEADER_BYTES && ftj_helper_message_bytes(answer->data) == 0))
        return ftj_fail(talk->log, FTJ_E_COMPILER, "%s is no ftjit-cc: it answered something else",
                        talk->path);
    return explain_silence(talk, end, binary);
}

ftj_status ftj_helper_compile(struct ftj_helpers *helpers, const char *path,
                              const struct ftj_helper_request *request, const struct ftj_log *log,
                              struct ftj_binary *binary)
{
    struct talk talk = {.path = path, .request = request, .log = log};
    struct ftj_helper_answer answer = {0};
    struct ftj_text message = {0};
    ftj_helper_write_request(&message, request);
    if (message.failed) {
        ftj_text_finish(&message);
        return ftj_fail(log, FTJ_E_NO_MEMORY, "no memory to write to %s", path);
    }
    ftj_status status = FTJ_OK;
    talk.deadline_us = ftj_now_us() + (uint64_t)request->timeout_s * 1000000u;
    talk.helper = take_idle(helpers);
    if (!talk.helper)
        status = ftj_helper_start(path, log, &talk.helper);
    if (status)
        goto cleanup;
    send_request(&talk, &message);
    receive_answer(&talk);
    if (ftj_helper_read_answer(talk.answer.data, talk.answer.size, &answer)) {
        put_idle(helpers, talk.helper);
        status = take_answer(&talk, &answer, binary);
    } else {
        const bool is_over = talk.is_late || is_whole(&talk.answer);
        const struct ftj_helper_end end =
            ftj_helper_end(talk.helper, is_over ? 0 : talk.deadline_us);
        status = refuse(&talk, &end, binary);
    }

cleanup:
    ftj_text_finish(&talk.answer);
    ftj_text_finish(&message);
    return status;
}
