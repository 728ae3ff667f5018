/* SPDX-License-Identifier: MIT */
/*
 * One socket carries requests and answers: a socket, because writing to a child that has died must
 * be an error here and not a SIGPIPE in the host.
 */
#define _GNU_SOURCE /* nftw */
#include "codegen/helper_process.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/environment.h"
#include "base/fork.h"
#include "base/program.h"

extern char **environ;

/* ---- its folder and its environment ---- */

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *where)
{
    (void)about;
    (void)kind;
    (void)where;
    (void)remove(path); /* what cannot be removed is left */
    return 0;
}

static void make_folder(struct ftj_helper *helper)
{
    const int length =
        snprintf(helper->folder, sizeof(helper->folder), "%s/ftjit-cc-XXXXXX", ftj_temp_folder());
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

/* ---- its end ---- */

static struct ftj_helper_end wait_for_end(pid_t pid, uint64_t deadline_us)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    struct ftj_helper_end end = {0};
    for (;;) {
        if (!end.is_late && ftj_now_us() >= deadline_us)
            end.is_late = kill(pid, SIGKILL) == 0;
        const pid_t ended = waitpid(pid, &end.fate, end.is_late ? 0 : WNOHANG);
        end.is_known = ended == pid;
        if (end.is_known || (ended < 0 && errno != EINTR))
            return end;
        if (ended == 0)
            nanosleep(&pause, NULL);
    }
}

struct ftj_helper_end ftj_helper_end(struct ftj_helper *helper, uint64_t deadline_us)
{
    struct ftj_helper_end end = {0};
    if (!helper)
        return end;
    close(helper->socket);
    if (helper->fork_generation == ftj_fork_generation()) {
        if (helper->pid > 0)
            end = wait_for_end(helper->pid, deadline_us);
        if (*helper->folder)
            nftw(helper->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    }
    free(helper);
    return end;
}

/* ---- its start ---- */

ftj_status ftj_helper_start(const char *path, const struct ftj_log *log, struct ftj_helper **out)
{
    int sockets[2];
    struct ftj_helper *helper = calloc(1, sizeof(*helper));
    if (!helper)
        return ftj_fail(log, FTJ_E_NO_MEMORY, "no memory to start %s", path);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets)) {
        free(helper);
        return ftj_fail(log, FTJ_E_COMPILER, "no socket to talk to %s with: %s", path,
                        strerror(errno));
    }
    helper->socket = sockets[0];
    helper->fork_generation = ftj_fork_generation();
    /* The child's end blocks: it has nothing else to do. */
    fcntl(sockets[1], F_SETFL, fcntl(sockets[1], F_GETFL) & ~O_NONBLOCK);

    make_folder(helper);
    char tmpdir[sizeof(helper->folder) + sizeof("TMPDIR=")];
    snprintf(tmpdir, sizeof(tmpdir), "TMPDIR=%s", helper->folder);
    char **environment = *helper->folder ? make_environment(tmpdir) : NULL;
    /* The socket is its standard input; what a crash prints is nobody's business. */
    const char *const argv[] = {path, NULL};
    const int error = ftj_program_start(
        &(struct ftj_program){
            .argv = argv, .input = sockets[1], .output = -1, .environment = environment},
        &helper->pid);
    free(environment);
    close(sockets[1]);
    if (error) {
        helper->pid = 0;
        ftj_helper_end(helper, 0);
        return ftj_fail(log, error == ENOMEM ? FTJ_E_NO_MEMORY : FTJ_E_COMPILER,
                        "%s cannot be run: %s", path, strerror(error));
    }
    *out = helper;
    return FTJ_OK;
}
