/* SPDX-License-Identifier: MIT */
/*
 * One socket carries the request and the answer: a socket, because writing to a child that has died
 * must be an error here and not a SIGPIPE in the host.
 */
#define _GNU_SOURCE /* nftw */
#include "codegen/helper_process.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BLOCK_BYTES 65536

extern char **environ;

/* A helper under way. */
struct helper {
    const char *path;
    const struct ftj_helper_request *request;
    const struct ftj_log *log;
    uint64_t deadline_ms;
    pid_t pid;
    int socket;
    char folder[256]; /* its TMPDIR, removed at the end; "": none could be made */
    struct ftj_text answer;
    bool is_late;
};

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

/* ---- its folder and its environment ---- */

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *where)
{
    (void)about;
    (void)kind;
    (void)where;
    (void)remove(path); /* what cannot be removed is left */
    return 0;
}

static void make_folder(struct helper *helper)
{
    const char *parent = getenv("TMPDIR");
    const int length = snprintf(helper->folder, sizeof(helper->folder), "%s/ftjit-cc-XXXXXX",
                                parent && *parent ? parent : "/tmp");
    if (length >= (int)sizeof(helper->folder) || !mkdtemp(helper->folder))
        helper->folder[0] = '\0';
}

/* The environment with another TMPDIR; the list is the caller's to free, its strings are not. */
static char **make_environment(char *tmpdir)
{
    size_t count = 0;
    while (environ && environ[count])
        count++;
    char **copy = calloc(count + 2, sizeof(*copy));
    if (!copy)
        return NULL;
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        if (strncmp(environ[i], "TMPDIR=", strlen("TMPDIR=")) != 0)
            copy[used++] = environ[i];
    }
    copy[used] = tmpdir;
    return copy;
}

/* ---- talking ---- */

/* False when the time is over, which is_late then says, or the socket is of no more use. */
static bool wait_for(struct helper *helper, short events)
{
    for (;;) {
        const uint64_t now = now_ms();
        const uint64_t left = helper->deadline_ms > now ? helper->deadline_ms - now : 0;
        struct pollfd poll_file = {.fd = helper->socket, .events = events};
        const int ready = poll(&poll_file, 1, (int)left);
        if (ready > 0)
            return true;
        if (ready < 0 && errno == EINTR)
            continue;
        helper->is_late = ready == 0;
        return false;
    }
}

static bool is_temporary(int error)
{
    return error == EINTR || error == EAGAIN || error == EWOULDBLOCK;
}

static void send_request(struct helper *helper, const struct ftj_text *message)
{
    size_t sent = 0;
    while (sent < message->size && wait_for(helper, POLLOUT)) {
        const ssize_t part =
            send(helper->socket, message->data + sent, message->size - sent, MSG_NOSIGNAL);
        if (part < 0 && !is_temporary(errno))
            return; /* it has ended: there will be no answer, which says so */
        if (part > 0)
            sent += (size_t)part;
    }
}

/* Until the answer is whole, or the helper has closed its end. */
static void receive_answer(struct helper *helper)
{
    struct ftj_text *answer = &helper->answer;
    char *block = malloc(BLOCK_BYTES);
    size_t size = FTJ_HELPER_HEADER_BYTES;
    while (block && answer->size < size && wait_for(helper, POLLIN)) {
        const size_t missing = size - answer->size;
        const ssize_t part =
            recv(helper->socket, block, missing < BLOCK_BYTES ? missing : BLOCK_BYTES, 0);
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

static bool is_answered(const struct helper *helper)
{
    const struct ftj_text *answer = &helper->answer;
    return answer->size >= FTJ_HELPER_HEADER_BYTES &&
           answer->size == ftj_helper_message_bytes(answer->data);
}

/* How it ended; false where the host has thrown that away (it ignores SIGCHLD, or waits for every
 * child). One that has answered, or whose time is over, is not waited for. */
static bool wait_for_end(struct helper *helper, int *fate)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    bool is_killed = false;
    for (;;) {
        helper->is_late |= now_ms() >= helper->deadline_ms && !is_answered(helper);
        if (!is_killed && (helper->is_late || is_answered(helper)))
            is_killed = kill(helper->pid, SIGKILL) == 0;
        const pid_t ended = waitpid(helper->pid, fate, is_killed ? 0 : WNOHANG);
        if (ended == helper->pid)
            return true;
        if (ended < 0 && errno != EINTR)
            return false;
        if (ended == 0)
            nanosleep(&pause, NULL);
    }
}

static bool end(struct helper *helper, int *fate)
{
    const bool is_known = helper->pid > 0 && wait_for_end(helper, fate);
    close(helper->socket);
    if (*helper->folder)
        nftw(helper->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return is_known;
}

/* ---- starting it ---- */

/* The socket is its standard input; what a crash prints is nobody's business. No signal is blocked,
 * and the host's way with SIGCHLD and SIGPIPE is not the child's. */
static int spawn(struct helper *helper, int child_socket, char *const *environment)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int error = posix_spawn_file_actions_init(&actions);
    if (error)
        return error;
    error = posix_spawnattr_init(&attributes);
    if (error) {
        posix_spawn_file_actions_destroy(&actions);
        return error;
    }
    sigset_t signals;
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&attributes, &signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGPIPE);
    sigaddset(&signals, SIGALRM);
    posix_spawnattr_setsigdefault(&attributes, &signals);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

    char *path = strdup(helper->path);
    char *const argv[] = {path, NULL};
    error = path ? posix_spawn_file_actions_adddup2(&actions, child_socket, STDIN_FILENO) : ENOMEM;
    if (!error)
        error = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    if (!error)
        error = posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    if (!error)
        error = posix_spawn(&helper->pid, path, &actions, &attributes, argv, environment);
    free(path);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

static ftj_status start(struct helper *helper)
{
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets))
        return ftj_fail(helper->log, FTJ_E_COMPILER, "no socket to talk to %s with: %s",
                        helper->path, strerror(errno));
    helper->socket = sockets[0];
    /* The child's end blocks: it has nothing else to do. */
    fcntl(sockets[1], F_SETFL, fcntl(sockets[1], F_GETFL) & ~O_NONBLOCK);

    make_folder(helper);
    char tmpdir[sizeof(helper->folder) + sizeof("TMPDIR=")];
    snprintf(tmpdir, sizeof(tmpdir), "TMPDIR=%s", helper->folder);
    char **environment = *helper->folder ? make_environment(tmpdir) : NULL;
    const int error = spawn(helper, sockets[1], environment ? environment : environ);
    free(environment);
    close(sockets[1]);
    if (error) {
        int fate = 0;
        helper->pid = 0;
        end(helper, &fate);
        return ftj_fail(helper->log, FTJ_E_COMPILER, "%s cannot be run: %s", helper->path,
                        strerror(error));
    }
    return FTJ_OK;
}

/* ---- judging ---- */

/* Why there is no answer, as the log of a compile that failed. */
static ftj_status explain_silence(const struct helper *helper, bool is_known, int fate,
                                  struct ftj_binary *binary)
{
    struct ftj_text text = {0};
    if (helper->is_late)
        ftj_text_printf(&text,
                        "error: %s had not ended after %u seconds (FTJIT_COMPILE_TIMEOUT) and was "
                        "killed",
                        helper->path, helper->request->timeout_s);
    else if (is_known && WIFSIGNALED(fate))
        ftj_text_printf(&text, "error: %s was ended by signal %d, %s%s", helper->path,
                        WTERMSIG(fate), strsignal(WTERMSIG(fate)),
                        WTERMSIG(fate) == SIGKILL ? " (by somebody, or for want of memory)" : "");
    else if (is_known)
        ftj_text_printf(&text, "error: %s ended with code %d and without an answer", helper->path,
                        WEXITSTATUS(fate));
    else
        ftj_text_printf(&text, "error: %s ended without an answer", helper->path);
    if (!text.failed) {
        ftj_bytes_finish(&binary->log);
        binary->log = (struct ftj_bytes){(uint8_t *)text.data, text.size};
    }
    return FTJ_E_COMPILE;
}

static ftj_status judge(struct helper *helper, bool is_known, int fate, struct ftj_binary *binary)
{
    struct ftj_helper_answer answer = {0};
    if (helper->answer.failed)
        return ftj_fail(helper->log, FTJ_E_NO_MEMORY, "no memory for the answer of %s",
                        helper->path);
    if (!ftj_helper_read_answer(helper->answer.data, helper->answer.size, &answer)) {
        if (helper->answer.size >= FTJ_HELPER_HEADER_BYTES &&
            ftj_helper_message_bytes(helper->answer.data) == 0)
            return ftj_fail(helper->log, FTJ_E_COMPILER,
                            "%s is no ftjit-cc: it answered something "
                            "else",
                            helper->path);
        return explain_silence(helper, is_known, fate, binary);
    }
    ftj_binary_finish(binary);
    *binary = answer.binary;
    if (answer.status && answer.status != FTJ_E_COMPILE)
        return ftj_fail(helper->log, answer.status, "%s", answer.sentence);
    return answer.status;
}

ftj_status ftj_helper_compile(const char *path, const struct ftj_helper_request *request,
                              const struct ftj_log *log, struct ftj_binary *binary)
{
    struct helper helper = {.path = path, .request = request, .log = log};
    struct ftj_text message = {0};
    ftj_helper_write_request(&message, request);
    if (message.failed) {
        ftj_text_finish(&message);
        return ftj_fail(log, FTJ_E_NO_MEMORY, "no memory to write to %s", path);
    }
    helper.deadline_ms = now_ms() + (uint64_t)request->timeout_s * 1000u;
    ftj_status status = start(&helper);
    if (status)
        goto cleanup;
    send_request(&helper, &message);
    receive_answer(&helper);
    int fate = 0;
    const bool is_known = end(&helper, &fate);
    status = judge(&helper, is_known, fate, binary);

cleanup:
    ftj_text_finish(&helper.answer);
    ftj_text_finish(&message);
    return status;
}
